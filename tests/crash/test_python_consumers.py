"""Python consumers killed at each of their steps: outputs equal an undisturbed run."""

import concurrent.futures
import importlib.util
import os
import pathlib
import sys
import unittest

from tests.crash import consumer_deaths, matrix, python_consumers
from tests.crash.consumer_deaths import SMALL, WITNESSES, ConsumerDeaths
from tests.crash.crash_run import undisturbed
from tests.crash.python_consumers import PythonCrashRun

HOSTED = pathlib.Path(__file__).resolve().parents[1] / "bench" / "hosted"
JOBS = 3  # concurrent runs; each keeps a third of a core busy


@unittest.skipIf(
    os.environ.get("OFFRAMP_TEST_SANITIZER") or importlib.util.find_spec("numpy") is None,
    "skipped: needs NumPy, and a build without sanitizers",
)
class PythonConsumers(unittest.TestCase):
    maxDiff = None

    def test_killed_at_each_step(self):
        expected = undisturbed(PythonCrashRun)
        self.assertTrue(python_consumers.is_whole(expected), list(expected))
        cells = python_consumers.cells()
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            results = dict(zip(cells, pool.map(lambda cell: matrix.check(cell, expected, PythonCrashRun), cells)))
        print("\n" + matrix.table(results), flush=True)
        self.assertEqual({}, {f"{cell.failpoint} {cell.action}": wrong for cell, wrong in results.items() if wrong})

    def test_results_that_depend_on_who_made_them_are_found(self):
        found = matrix.check(
            matrix.Cell("consumer.work_noted", "consumer", "kill"), undisturbed(PythonCrashRun), NamesItsProcess
        )
        self.assertIn("outputs differ from the undisturbed run's", found)

    def test_killed_while_the_run_continues(self):
        processor = f"{HOSTED / 'processors.py'}:Noted"
        run = ConsumerDeaths(
            (*SMALL, "--processor", processor, "--consumer-python", sys.executable),
            consumers=WITNESSES + 2,
            windows=2,
            seconds=2,
            settle=0,
            seed=1,
        ).run()
        print("\n" + consumer_deaths.report(run), flush=True)
        self.assertEqual([], run.wrong)
        self.assertGreater(run.deaths(), 0)
        self.assertGreater(run.looked_at, 0, "items in records.jsonl")


class NamesItsProcess(PythonCrashRun):
    PROCESSOR = PythonCrashRun.PROCESSOR.replace('{"sum": total}', '{"sum": os.getpid()}')
