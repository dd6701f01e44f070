"""`offramp demo`: the commands that it suggests work."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from tests.support.launched_run import ROOT, LaunchedRun


class NumpyDemo(unittest.TestCase):
    def test_a_copied_function_runs_as_documented(self):
        with LaunchedRun() as run, tempfile.TemporaryDirectory(prefix="offramp-demo-", dir="/tmp") as folder:
            (run.folder / "build" / "venv").symlink_to(sys.prefix)  # the demo uses its NumPy

            def typed(words):
                done = subprocess.run(
                    [ROOT / "launch" / "offramp", *words],
                    cwd=folder,
                    env=run.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=300,
                    check=False,
                )
                self.assertEqual(0, done.returncode, done.stdout + done.stderr)
                return done.stdout

            printed = typed(["demo"])
            original = re.search(r"copy (.*/post\.py), change it", printed)[1]
            [command] = re.findall(r"^ +\S*offramp (demo .*)$", printed, re.MULTILINE)
            shutil.copy(original, folder)
            typed(shlex.split(command))
            self.assertEqual(
                {f"picture-{number:02}.png" for number in range(12)},
                {path.name for path in pathlib.Path(folder, "MINE").glob("*.png")},
            )
