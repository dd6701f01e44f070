"""pyflakes finds nothing in Python sources: no undefined name, no unused import or variable. Twin: a faulty file is found."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("common", "producer", "consumer", "launch", "tests")
CHECKER = shutil.which("pyflakes3") or shutil.which("pyflakes")
FINDING = re.compile(r"^(.*?):(\d+):")


def excused(finding):
    """Whether the line has `# noqa`, such as an import that only checks that the package exists."""
    match = FINDING.match(finding)
    lines = pathlib.Path(match[1]).read_text().splitlines()
    return "# noqa" in lines[int(match[2]) - 1]


def findings(files):
    done = subprocess.run([CHECKER, *map(str, files)], capture_output=True, text=True, check=False)
    return [line for line in (done.stdout + done.stderr).splitlines() if FINDING.match(line) and not excused(line)]


@unittest.skipIf(CHECKER is None, "needs pyflakes: apt-get install pyflakes3")
class Python(unittest.TestCase):
    def test_every_source_is_clean(self):
        files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
        self.assertGreater(len(files), 200)
        self.assertEqual([], findings(files))

    def test_an_undefined_name_and_an_unused_import_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "other.py")
            file.write_text("import os\nimport json  # noqa: F401\nprint(nowhere)\n")
            found = [line.partition(": ")[2] or line for line in findings([file])]
            self.assertEqual(len(found), 2, found)
            self.assertTrue(any("nowhere" in line for line in found) and any("'os'" in line for line in found), found)


if __name__ == "__main__":
    unittest.main()
