"""A kernel that no run launched under one of the tools is found and named."""

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
 Function _Z4maskPtPKt:
  REG:24 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:680 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


class LaunchedKernels(unittest.TestCase):
    def checked(self, held=HELD, **launched_under):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "cuobjdump")
            tool.write_text(f"#!/bin/sh\ncat <<'END'\n{held}\nEND\n")
            tool.chmod(0o755)
            recorded = pathlib.Path(folder, "recorded")
            recorded.mkdir()
            for under, launched in launched_under.items():
                (recorded / under).mkdir()
                for process, name in enumerate(launched):
                    (recorded / under / f"{process}.jsonl").write_text(
                        json.dumps({"event": "kernel", "name": name}) + "\n" + json.dumps({"event": "pop"}) + "\n"
                    )
            return subprocess.run(
                [sys.executable, SCRIPT, recorded, "program"],
                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                check=False,
            )

    def test_all_kernels_were_launched(self):
        done = self.checked(
            memcheck=("_Z4castPtPKfm", "_Z4maskPtPKt", "_Z6othersv"), racecheck=("_Z4castPtPKfm", "_Z4maskPtPKt")
        )
        self.assertEqual(
            (0, "memcheck: 2 of 2 kernels were launched\nracecheck: 2 of 2 kernels were launched\n"),
            (done.returncode, done.stdout),
            done.stderr,
        )

    def test_a_kernel_missing_under_one_tool(self):
        done = self.checked(memcheck=("_Z4castPtPKfm", "_Z4maskPtPKt"), racecheck=("_Z4castPtPKfm",), synccheck=())
        self.assertEqual(1, done.returncode)
        self.assertIn(
            "memcheck: 2 of 2 kernels were launched\nracecheck: 1 of 2 kernels were launched\n  never launched: mask",
            done.stdout,
        )
        self.assertIn("synccheck: 0 of 2", done.stdout)

    def test_without_a_kernel_or_a_tool_nothing_is_proved(self):
        self.assertEqual(1, self.checked(held="", memcheck=("_Z4castPtPKfm",)).returncode)
        self.assertEqual(1, self.checked().returncode)
