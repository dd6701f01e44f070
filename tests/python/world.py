"""
Shared by the package's tests: a run directory, other Python processes with a watchdog, and a check for leftovers in
memory.
"""

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
# NumPy's and PyTorch's names of the types that a tensor may have, but for bfloat16.
DTYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bool".split()

needs_numpy = unittest.skipUnless(importlib.util.find_spec("numpy"), "skipped: no NumPy")


class World(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="offramp-python-", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_dir = self.folder / "run"
        # Other tests' commands do not look for runs there.
        kept = unittest.mock.patch.dict(os.environ, OFFRAMP_TEST_RUNS=str(self.folder / "runs"))
        kept.start()
        self.addCleanup(kept.stop)
        self.addCleanup(self.require_no_memory_left, [os.getpid()])

    def require_no_memory_left(self, pids):
        def left():
            return [
                name for name in os.listdir("/dev/shm") for pid in pids if name.startswith(f"offramp-egress-{pid}-")
            ]

        wait_for(lambda: not left(), f"that {left()} disappears")

    def text_of(self, name):
        """The text of a file in the run directory; empty if there is none."""
        try:
            return (self.run_dir / name).read_text()
        except FileNotFoundError:
            return ""

    def python(self, program, *arguments, **options):
        """Starts another interpreter with this program; the test's end kills it if it still runs."""
        # end() reads what read_line() leaves
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            **options,
        )
        self.addCleanup(put_away, process)
        return process

    def end(self, process, code=0):
        """The process's output after its exit. The test fails for another exit code."""
        output, errors = (text.decode() for text in process.communicate(timeout=WATCHDOG_SECONDS))
        self.assertEqual(code, process.returncode, output + errors)
        return output if code == 0 else output + errors

    def read_line(self, process):
        """The process's next line."""
        line = process.stdout.readline().decode().strip()
        if not line:
            self.fail(f"the process ended: {process.communicate(timeout=WATCHDOG_SECONDS)[1].decode()}")
        return line
