"""Every cell of the kill-point matrix once, and random histories."""

import concurrent.futures
import os
import unittest

from tests.crash import histories, matrix
from tests.crash.crash_run import failpoints_of_the_sources, undisturbed
from tests.support.turn import TURN, describe_share, share

JOBS = 3  # concurrent runs; each keeps a third of a core busy
HISTORIES = int(os.environ.get("OFFRAMP_CRASH_HISTORIES", "150"))
# Of the cells that `block` has, too, a day checks this share for each other --when-full. Cells of a spill run every day.
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

    def test_a_failpoint_that_no_one_passes_is_a_failed_cell(self):
        cell = matrix.Cell("nowhere.at_all", "producer", "kill")
        self.assertIn("not reached", matrix.check(cell, undisturbed()))

    def test_exceptions_are_failpoints_of_the_sources(self):
        names = failpoints_of_the_sources()
        for name in (*matrix.SETTING_UP, *matrix.ONCE_A_PROCESS, *matrix.ELSEWHERE, *matrix.OF_A_SPILL):
            self.assertIn(name, names)


class WhenFull(MatrixCase):
    def test_some_cells_of_a_run_that_drops(self):
        self.check(self.some("drop", TURN))

    def test_some_cells_of_a_run_that_spills(self):
        self.check(self.some("spill", TURN))

    def test_each_cell_has_its_turn(self):
        for when_full in ("drop", "spill"):
            shares = [self.some(when_full, turn) for turn in range(TURN, TURN + ONE_IN)]
            self.assertEqual(set(self.all(when_full)), set().union(*shares))
            self.assertLess(max(map(len, shares)), len(self.all(when_full)) / 2)

    @staticmethod
    def all(when_full):
        return matrix.cells(when_full=when_full, actions=matrix.FEWER_ACTIONS)

    def some(self, when_full, turn):
        print(f"\n{when_full}: {describe_share(turn, ONE_IN)}", flush=True)
        cells = self.all(when_full)
        has_its_turn = set(share(cells, ONE_IN, turn))
        return [cell for cell in cells if cell.failpoint in matrix.OF_A_SPILL or cell in has_its_turn]


class WhenFullWhole(MatrixCase):
    def test_every_cell_of_a_run_that_drops(self):
        self.check(WhenFull.all("drop"))

    def test_every_cell_of_a_run_that_spills(self):
        self.check(WhenFull.all("spill"))


class Histories(unittest.TestCase):
    maxDiff = None

    def test_random_histories(self):
        self.assertEqual({}, histories.check_all(HISTORIES, first_seed=1, jobs=JOBS))


if __name__ == "__main__":
    unittest.main()
