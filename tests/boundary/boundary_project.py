"""A small project in which a rule is broken once, and the real checker."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CXX = os.environ.get("OFFRAMP_TEST_CXX") or "c++"
NINJA = os.environ.get("OFFRAMP_TEST_NINJA") or "ninja"


def rows(table):
    """The rows of a table in a text: two spaces end a column, and an indented line continues its row."""
    return [tuple(re.split(r"\s\s+", row)) for row in re.split(r"\n(?=\S)", textwrap.dedent(table).strip())]


class Project(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="offramp-boundary-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def check(self, *arguments):
        """Exit status and standard error of the checker."""
        command = [sys.executable, HERE / "check_boundaries.py", "--source", self.folder, *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stderr

    def assert_clean(self, *arguments):
        self.assertEqual(self.check(*arguments), (0, ""))

    def assert_crossed(self, arguments, *words):
        status, printed = self.check(*arguments)
        self.assertEqual(status, 1, printed)
        for word in words:
            self.assertIn(word, printed)
