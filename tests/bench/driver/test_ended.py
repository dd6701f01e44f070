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

from left_behind import left_since
from test_bench import left_processes

BENCH = pathlib.Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 120
GONE_SECONDS = 30


def within(seconds, holds):
    deadline = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def works(status):
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads(status.read_text()).get("released_samples"))
    return False


def kill_all(mark):
    """What a failure has left."""
    for pid, _ in left_processes(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


class Ended(unittest.TestCase):
    def ended(self, program, *arguments, runs):
        """`runs`: a pattern of its runs' directories."""
        before = left_since(set())
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

            self.assertTrue(within(PATIENCE_SECONDS, lambda: measuring.poll() is not None or any(works(run / "status.json") for run in temporary.glob(runs))), told())
            self.assertIsNone(measuring.poll(), told())
            measuring.send_signal(signal.SIGTERM)
            self.assertEqual(128 + signal.SIGTERM, measuring.wait(PATIENCE_SECONDS), told())
            within(GONE_SECONDS, lambda: not left_processes(mark))      # a program's own one may end a moment after it
            self.assertEqual([], left_processes(mark), told())
            self.assertEqual([], [path.name for path in temporary.iterdir()], told())
            self.assertEqual(set(), left_since(before))

    def test_consumers_that_follow_the_work(self):
        self.ended("following.py", runs="offramp-following-*/run")

    def test_what_tune_tries(self):
        self.ended("tuning.py", runs="offramp-tune-*/*")


if __name__ == "__main__":
    unittest.main()
