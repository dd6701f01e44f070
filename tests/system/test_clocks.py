"""
The time of day steps by an hour at each reading, in every program of a run. Nothing is lost, nothing is killed, and
durations in reports stay durations.
"""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

from tests.support.launched_run import WATCHDOG_SECONDS, LaunchedRun

CLOCK = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).absolute() / "tests" / "libofframp_stepping_clock.so"
COPY = (
    *"--device cpu --model copy --copy-bytes 256KiB --batch 4 --batches 20 --slabs 4".split(),
    *"--processor checksum --consumers 2 --visibility-timeout 5 --status-seconds 0.05".split(),
)


def durations_of(value, name=""):
    """(name, number) of each number of seconds in a report."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from durations_of(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from durations_of(inner, name)
    elif isinstance(value, (int, float)) and name.endswith("seconds"):
        yield name, value


def insane(report):
    """The durations that no run of this test has."""
    return [(name, value) for name, value in durations_of(report) if not 0 <= value < 2 * WATCHDOG_SECONDS]


class SteppingClock(unittest.TestCase):
    maxDiff = 2000

    def run_of_copies(self):
        run = LaunchedRun(*COPY)
        self.addCleanup(run.__exit__, None, None, None)
        return run

    def test_a_run_and_its_recovery_are_as_ever(self):
        calm, run = self.run_of_copies(), self.run_of_copies()
        calm.start()
        run.environment["LD_PRELOAD"] = str(CLOCK)
        with run.gate() as gate:
            run.start()
            gate.let(4)
            run.until(lambda: run.status().get("done_samples", 0) >= 8, "8 samples done")
            status = run.status()
            self.assertEqual([], insane(status))
            self.assertIn(CLOCK.name, pathlib.Path(f"/proc/{status['pid']}/maps").read_text())
            os.kill(status["pid"], signal.SIGKILL)
            gate.open()
            self.assertEqual(run.wait(), 0, run.logs())
        self.assertTrue(list(durations_of(run.summary())))
        self.assertEqual([], insane(run.summary()))
        self.assertEqual(run.summary()["dead_letters"], [])
        self.assertEqual(calm.wait(), 0, calm.logs())
        self.assertEqual(run.files(), calm.files())

    def test_the_clock_steps(self):
        program = "import time\nfor _ in range(4): print(time.time(), time.monotonic())"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "LD_PRELOAD": str(CLOCK)},
            capture_output=True,
            text=True,
            check=True,
        )
        times, ticks = zip(*[map(float, line.split()) for line in done.stdout.splitlines()])
        self.assertGreater(max(times) - min(times), 3000)
        self.assertLess(ticks[-1] - ticks[0], 3000)
        self.assertEqual([("run_seconds", -3600)], insane({"runs": [{"run_seconds": -3600, "slabs": -1}]}))


if __name__ == "__main__":
    unittest.main()
