"""Every cell of the kill-point matrix once, and random histories."""

import concurrent.futures
import os
import unittest

from tests.crash import histories, matrix
from tests.crash.crash_run import failpoints_of_the_sources, undisturbed

JOBS = 3  # concurrent runs; each keeps a third of a core busy
KILL = ("kill",)
HISTORIES = int(os.environ.get("OFFRAMP_CRASH_HISTORIES", "150"))


class MatrixCase(unittest.TestCase):
    maxDiff = None

    def check(self, cells):
        expected = undisturbed()
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            results = dict(zip(cells, pool.map(lambda cell: matrix.check(cell, expected), cells)))
        print("\n" + matrix.table(results), flush=True)
        self.assertEqual({}, {f"{cell.failpoint} {cell.action}": wrong for cell, wrong in results.items() if wrong})


class Matrix(MatrixCase):
    def test_a_kill_at_every_failpoint(self):
        self.check(matrix.cells(actions=KILL))

    def test_a_failpoint_that_no_one_passes_is_a_failed_cell(self):
        cell = matrix.Cell("nowhere.at_all", "producer", "kill")
        self.assertIn("not reached", matrix.check(cell, undisturbed()))

    def test_exceptions_are_failpoints_of_the_sources(self):
        names = failpoints_of_the_sources()
        for name in (*matrix.SETTING_UP, *matrix.ONCE_A_PROCESS, *matrix.ELSEWHERE, *matrix.WITHOUT_A_SLAB):
            self.assertIn(name, names)


class OtherDeaths(MatrixCase):
    def test_every_other_death_at_every_failpoint(self):
        self.check(matrix.cells(actions=[each for each in (*matrix.DEATHS, matrix.LAUNCHER) if each not in KILL]))


class WhenFull(MatrixCase):
    def test_every_cell_of_a_run_that_drops(self):
        self.check(matrix.cells(when_full="drop", actions=matrix.FEWER_ACTIONS))

    def test_every_cell_of_a_run_that_drops_the_oldest(self):
        self.check(matrix.cells(when_full="drop-oldest", actions=matrix.FEWER_ACTIONS))

    def test_every_cell_of_a_run_that_spills(self):
        self.check(matrix.cells(when_full="spill", actions=matrix.FEWER_ACTIONS))


class Histories(unittest.TestCase):
    maxDiff = None

    def test_random_histories(self):
        self.assertEqual({}, histories.check_all(HISTORIES, first_seed=1, jobs=JOBS))
