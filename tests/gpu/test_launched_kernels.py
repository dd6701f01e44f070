"""A kernel that no run launched is found, by name."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "launched_kernels.py"
HELD = """
Fatbin elf code:
================
arch = sm_90

Resource usage:
 Common:
  GLOBAL:0
 Function _Z4castPtPKfm:
  REG:18 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:552 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _Z4packPtPKt:
  REG:24 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:680 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


class LaunchedKernels(unittest.TestCase):
    def checked(self, *launched, held=HELD):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "cuobjdump")
            tool.write_text(f"#!/bin/sh\ncat <<'END'\n{held}\nEND\n")
            tool.chmod(0o755)
            recorded = pathlib.Path(folder, "recorded")
            recorded.mkdir()
            for process, name in enumerate(launched):
                (recorded / f"{process}.jsonl").write_text(json.dumps({"event": "kernel", "name": name}) + "\n" + json.dumps({"event": "pop"}) + "\n")
            return subprocess.run([sys.executable, SCRIPT, recorded, "program"], env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                                  capture_output=True, text=True, check=False)

    def test_all_that_were_launched(self):
        done = self.checked("_Z4castPtPKfm", "_Z4packPtPKt", "_Z6othersv")
        self.assertEqual((0, "2 of 2 kernels were launched\n"), (done.returncode, done.stdout), done.stderr)

    def test_one_that_was_not(self):
        done = self.checked("_Z4castPtPKfm")
        self.assertEqual(1, done.returncode)
        self.assertIn("1 of 2 kernels were launched", done.stdout)
        self.assertIn("pack", done.stdout)

    def test_a_program_without_kernels_proves_nothing(self):
        self.assertEqual(1, self.checked(held="").returncode)


if __name__ == "__main__":
    unittest.main()
