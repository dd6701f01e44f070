"""ruff finds nothing in Python sources: no undefined name, no unused import or variable, one format. Twin: a faulty file is found."""

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


if __name__ == "__main__":
    unittest.main()
