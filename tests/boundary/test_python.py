"""
ruff and mypy find nothing in Python sources: no undefined name, no unused import or variable, one format, no wrong
type. Twins: faulty files are found.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / folder) for folder in ("common", "producer", "consumer", "launch", "tests")]


def ruff(*words):
    command = [
        sys.executable,
        "-m",
        "ruff",
        words[0],
        "--no-cache",
        "--config",
        str(ROOT / "pyproject.toml"),
        *words[1:],
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@unittest.skipUnless(importlib.util.find_spec("ruff"), "needs ruff: pip install -r launch/requirements-test.txt")
class Python(unittest.TestCase):
    def test_every_source_is_clean(self):
        self.assertGreater(len(ruff("check", "--show-files", *FOLDERS).stdout.splitlines()), 200)
        done = ruff("check", *FOLDERS)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_every_source_is_formatted(self):
        done = ruff("format", "--check", *FOLDERS)
        self.assertEqual(
            0, done.returncode, f"format with: ruff format {' '.join(FOLDERS)}\n{done.stdout}{done.stderr}"
        )

    def test_a_faulty_file_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "other.py")
            file.write_text("import os\nimport json  # noqa: F401\nprint( nowhere )\n")
            findings = json.loads(ruff("check", "--output-format", "json", str(file)).stdout)
            self.assertEqual(["F401", "F821"], sorted(finding["code"] for finding in findings))
            self.assertEqual(1, ruff("format", "--check", str(file)).returncode)


@unittest.skipUnless(importlib.util.find_spec("mypy"), "needs mypy: pip install -r launch/requirements-test.txt")
class Types(unittest.TestCase):
    """Bodies of functions without annotations are checked, too (pyproject.toml)."""

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())

    def mypy(self, *words):
        command = [sys.executable, "-m", "mypy", "--cache-dir", f"{self.folder}/cache", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    def test_every_type_fits(self):
        done = self.mypy()
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_a_wrong_use_is_found(self):
        file = pathlib.Path(self.folder, "other.py")
        file.write_text(
            "from offramp_launch.exit_code import LaunchError\n\n\ndef fail(code):\n    return LaunchError(code).gone\n"
        )
        found = self.mypy(str(file)).stdout
        self.assertEqual((1, True), (found.count("error:"), "[attr-defined]" in found), found)
