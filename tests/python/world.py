"""Shared by the package's tests: a run directory, other Python processes with a watchdog, and a check for leftovers in memory."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

from tests.support.waiting import WATCHDOG_SECONDS, put_away, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]

needs_numpy = unittest.skipUnless(importlib.util.find_spec("numpy"), "skipped: no NumPy")


class World(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="offramp-python-", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_dir = self.folder / "run"
        # Where another's command looks for no run.
        kept = unittest.mock.patch.dict(os.environ, OFFRAMP_TEST_RUNS=str(self.folder / "runs"))
        kept.start()
        self.addCleanup(kept.stop)
        self.addCleanup(self.nothing_is_left_in_memory, [os.getpid()])

    def nothing_is_left_in_memory(self, pids):
        def left():
            return [name for name in os.listdir("/dev/shm") for pid in pids if name.startswith(f"offramp-egress-{pid}-")]
        wait_for(lambda: not left(), f"that {left()} goes")

    def text_of(self, name):
        """Of a file of the run directory; empty before it is there, and between two runs."""
        try:
            return (self.run_dir / name).read_text()
        except FileNotFoundError:
            return ""

    def python(self, program, *arguments, **options):
        """Another interpreter with this program; killed at the test's end if it still is there."""
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, bufsize=0, **options)      # what is not heard is left for end()
        self.addCleanup(put_away, process)
        return process

    def end(self, process, code=0):
        """The process's output. The test fails if it ends in another way."""
        said, problems = (text.decode() for text in process.communicate(timeout=WATCHDOG_SECONDS))
        self.assertEqual(code, process.returncode, said + problems)
        return said if code == 0 else said + problems

    def hear(self, process):
        """Its next line."""
        line = process.stdout.readline().decode().strip()
        if not line:
            self.fail(f"it ended: {process.communicate(timeout=WATCHDOG_SECONDS)[1].decode()}")
        return line
