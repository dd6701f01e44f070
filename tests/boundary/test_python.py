"""Python sources have nothing that pyflakes finds: no name that is not there, no import or variable that nobody uses. Twin: a file that has is found."""

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
    """The line says itself why it stands: `# noqa`, as for an import that only shows that the package is there."""
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

    def test_a_name_that_is_not_there_and_an_import_that_no_one_uses_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "other.py")
            file.write_text("import os\nimport json  # noqa: F401\nprint(nowhere)\n")
            found = [line.partition(": ")[2] or line for line in findings([file])]
            self.assertEqual(len(found), 2, found)
            self.assertTrue(any("nowhere" in line for line in found) and any("'os'" in line for line in found), found)


if __name__ == "__main__":
    unittest.main()
