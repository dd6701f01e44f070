"""Measurements that start runs of their own and get SIGTERM in the midst: their programs and folders end with them. The run that is ended has worked before."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from test_bench import left_processes

BENCH = pathlib.Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 240
GONE_SECONDS = 30


def within(seconds, holds):
    deadline = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def working(runs):
    """The id of one of these runs' directories that has worked, and has something in /dev/shm; None where there is none."""
    for run in runs:
        with contextlib.suppress(OSError, ValueError):
            status = json.loads((run / "status.json").read_text())
            if status.get("released_samples") and objects_of(status["run_id"]):
                return status["run_id"]
    return None


def objects_of(run_id):
    return [name for name in os.listdir("/dev/shm") if name.startswith(f"offramp-{run_id}-")]


def kill_all(mark):
    """What a failure has left."""
    for pid, _ in left_processes(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


class Ended(unittest.TestCase):
    def ended(self, program, *arguments, runs):
        """`runs`: a pattern of its runs' directories."""
        mark = f"OFFRAMP_BENCH_TEST={os.getpid()}-{self.id()}"
        with tempfile.TemporaryDirectory(prefix="offramp-ended-") as place, open(pathlib.Path(place, "said"), "w+") as said:
            temporary = pathlib.Path(place, "t")
            temporary.mkdir()
            variable, value = mark.split("=")
            measuring = subprocess.Popen([sys.executable, str(BENCH / program), *arguments], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                         env={**os.environ, variable: value, "TMPDIR": str(temporary), "OFFRAMP_BIN_DIR": os.environ["OFFRAMP_TEST_BIN"]})
            self.addCleanup(measuring.wait)
            self.addCleanup(measuring.kill)
            self.addCleanup(kill_all, mark)

            def told():
                return pathlib.Path(place, "said").read_text()

            run_id = within(PATIENCE_SECONDS, lambda: working(temporary.glob(runs)) or measuring.poll() is not None)
            self.assertIsNone(measuring.poll(), told())
            self.assertTrue(run_id, told())
            measuring.send_signal(signal.SIGTERM)
            self.assertEqual(128 + signal.SIGTERM, measuring.wait(PATIENCE_SECONDS), told())
            within(GONE_SECONDS, lambda: not left_processes(mark))      # a program's own one may end a moment after it
            self.assertEqual([], left_processes(mark), told())
            self.assertEqual([], [path.name for path in temporary.iterdir()], told())
            within(GONE_SECONDS, lambda: not objects_of(run_id))
            self.assertEqual([], objects_of(run_id))

    def test_consumers_that_follow_the_work(self):
        self.ended("following.py", runs="offramp-following-*/run")

    def test_what_tune_tries(self):
        self.ended("tuning.py", runs="offramp-tune-*/*")


if __name__ == "__main__":
    unittest.main()
