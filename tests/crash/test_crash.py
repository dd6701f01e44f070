"""Every cell of the kill-point matrix once, and random histories. More of either by one command: README.md."""

import concurrent.futures
import os
import unittest

from tests.crash import histories, matrix
from tests.crash.crash_run import failpoints_of_the_sources, undisturbed

JOBS = 3     # runs at a time; a core waits for a third of one
HISTORIES = int(os.environ.get("OFFRAMP_CRASH_HISTORIES", "150"))
# Of the cells that a run which waits for slabs has, too, the others have this share; those of a spill are all there.
ONE_IN = 4


class MatrixCase(unittest.TestCase):
    maxDiff = None

    def check(self, cells):
        expected = undisturbed()
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            results = dict(zip(cells, pool.map(lambda cell: matrix.check(cell, expected), cells)))
        print("\n" + matrix.table(results), flush=True)
        self.assertEqual({}, {f"{cell.failpoint} {cell.action}": wrong for cell, wrong in results.items() if wrong})


class Matrix(MatrixCase):
    def test_every_cell(self):
        self.check(matrix.cells())

    def test_a_failpoint_that_nobody_passes_is_a_failed_cell(self):
        cell = matrix.Cell("nowhere.at_all", "producer", "kill")
        self.assertIn("not reached", matrix.check(cell, undisturbed()))

    def test_exceptions_are_failpoints_of_the_sources(self):
        names = failpoints_of_the_sources()
        for name in (*matrix.SETTING_UP, *matrix.ONCE_A_PROCESS, *matrix.ELSEWHERE, *matrix.OF_A_SPILL):
            self.assertIn(name, names)


class WhenFull(MatrixCase):
    def test_some_cells_of_a_run_that_drops(self):
        self.check(self.some(matrix.cells(when_full="drop-newest", actions=matrix.FEWER_ACTIONS), begin=0))

    def test_some_cells_of_a_run_that_spills(self):
        self.check(self.some(matrix.cells(when_full="spill", actions=matrix.FEWER_ACTIONS), begin=2))

    @staticmethod
    def some(cells, begin):
        return [cell for i, cell in enumerate(cells) if cell.failpoint in matrix.OF_A_SPILL or i % ONE_IN == begin]


class WhenFullWhole(MatrixCase):
    def test_every_cell_of_a_run_that_drops(self):
        self.check(matrix.cells(when_full="drop-newest", actions=matrix.FEWER_ACTIONS))

    def test_every_cell_of_a_run_that_spills(self):
        self.check(matrix.cells(when_full="spill", actions=matrix.FEWER_ACTIONS))


class Histories(unittest.TestCase):
    maxDiff = None

    def test_random_histories(self):
        self.assertEqual({}, histories.check_all(HISTORIES, first_seed=1, jobs=JOBS))


if __name__ == "__main__":
    unittest.main()
