"""`offramp tune` with real runs: what it finds when it is interrupted, that the user's output is not touched, and a run that does not begin."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from tests.support.launched_run import ROOT
from tests.support.real_run import BIN, left_behind, shared_memory
from tests.support.waiting import WATCHDOG_SECONDS, put_away

LAUNCHER = [sys.executable, "-E", "-s", "-B", str(ROOT / "launch" / "offramp_launch"), "tune-set-up"]
WORK = ("--model", "copy", "--copy-bytes", "64KiB", "--device", "cpu", "--batch", "4", "--processor", "checksum")


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="offramp-tune-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tmp").mkdir()
        self.before = shared_memory()

    def tearDown(self):
        self.assertEqual(left_behind(lambda: shared_memory() - self.before), set(), "something was left in /dev/shm")
        self.assertEqual([], list((self.folder / "tmp").iterdir()))

    def start(self, *flags):
        process = subprocess.Popen([*LAUNCHER, *WORK, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env={
            **os.environ, "OFFRAMP_BIN_DIR": BIN, "OFFRAMP_BUILD_DIR": str(self.folder / "build"), "OFFRAMP_TEST_RUNS": str(self.folder / "runs"), "TMPDIR": str(self.folder / "tmp")})
        self.addCleanup(put_away, process)
        return process

    def test_the_best_so_far_is_told_and_nothing_is_left(self):
        output = self.folder / "results"
        output.mkdir()
        (output / "mine").write_text("kept")
        process = self.start("--output", str(output), "--json", "--seconds", "60", "--consumers", "1..2")
        self.assertRegex(process.stderr.readline(), r"^\[tune\] batch 4, decode-workers \d+, slabs \d+: [\d.]+ samples/s with [12] consumers, held back by ")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, process.returncode, said)
        told = json.loads(said)
        first = told["tried"][0]
        self.assertEqual((4, first["slabs"], first["rate"]), tuple(told["best"][name] for name in ("batch", "slabs", "rate")))
        self.assertGreater(first["rate"], 0)
        self.assertEqual(["--batch", "4"], told["flags"][:2])
        self.assertEqual(["run", *WORK[:6], *WORK[8:]], [word for word in told["command"] if word in ("run", *WORK[:6], *WORK[8:])])
        self.assertEqual(["build", "mine", "results", "tmp"], sorted({each.name for each in self.folder.iterdir()} - {"runs"} | {each.name for each in output.iterdir()}))

    def test_a_run_that_does_not_begin_is_told_with_its_reason(self):
        process = self.start("--slabs", "4096", "--copy-bytes", "1024GiB", "--seconds", "60")
        _, said = process.communicate(timeout=WATCHDOG_SECONDS)
        self.assertIn("no trial ran: ", said)
        self.assertGreater(process.returncode, 63, said)


if __name__ == "__main__":
    unittest.main()
