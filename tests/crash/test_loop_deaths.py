"""A Python loop and its consumers killed at each step, and resumed: outputs equal an undisturbed run."""

import importlib.util
import os
import unittest

from tests.crash import loop_deaths, matrix
from tests.crash.crash_run import failpoints_of_the_sources
from tests.crash.loop_deaths import LoopCell, LoopCrashRun


needs_numpy = unittest.skipIf(
    os.environ.get("OFFRAMP_TEST_SANITIZER") or importlib.util.find_spec("numpy") is None,
    "skipped: needs NumPy, and a build without sanitizers",
)


@needs_numpy
class LoopDeaths(unittest.TestCase):
    maxDiff = None

    def test_a_loop_that_catches_what_submit_raises(self):
        wanted = [
            LoopCell(name, "producer", "kill")
            for name in ("egress.slab_taken", "egress.published", "checkpoint.add", "checkpoint.added")
        ]
        results = loop_deaths.check_all(wanted, loop_deaths.CatchingCrashRun)
        self.assertEqual({}, {f"{cell.failpoint} {cell.action}": wrong for cell, wrong in results.items() if wrong})

    def test_a_loop_that_continues_with_other_values_is_found(self):
        [wrong] = loop_deaths.check_all([LoopCell("egress.published", "producer", "kill")], KnowsItsPast).values()
        self.assertIn("outputs differ from the undisturbed run's", wrong)

    def test_exceptions_are_failpoints_of_the_sources(self):
        self.assertEqual([], [name for name in loop_deaths.OF_THE_PROGRAMS if name not in failpoints_of_the_sources()])
        seen = loop_deaths.seen_by_a_loop()
        self.assertIn("egress.published", seen)
        self.assertEqual([], [name for name in loop_deaths.OF_THE_PROGRAMS if name in seen])
        self.assertEqual(
            [], [name for name in loop_deaths.LAUNCHER_DIES_AT if name not in loop_deaths.failpoints_of_a_loop()]
        )


@needs_numpy
class EveryDeath(unittest.TestCase):
    maxDiff = None

    def test_killed_at_each_step(self):
        results = loop_deaths.check_all(loop_deaths.cells())
        print("\n" + matrix.table(results), flush=True)
        self.assertEqual({}, {f"{cell.failpoint} {cell.action}": wrong for cell, wrong in results.items() if wrong})


class KnowsItsPast(LoopCrashRun):
    LOOP = LoopCrashRun.LOOP.replace("+ number", "+ number + (os.environ['OFFRAMP_RESUME'] == 'true')").replace(
        "import numpy", "import os, numpy"
    )
