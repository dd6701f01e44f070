"""Every source is formatted by clang-format. Twin: an unformatted file is found."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("common", "producer", "consumer", "tests")
SUFFIXES = {".cpp", ".hpp", ".h", ".c", ".cu", ".cuh", ".inl"}
FORMATTER = os.environ.get("OFFRAMP_TEST_CLANG_FORMAT") or shutil.which("clang-format")
STYLE = 14  # other versions format some lines differently


def version():
    """The formatter's major version; None without a formatter."""
    if FORMATTER is None:
        return None
    printed = subprocess.run([FORMATTER, "--version"], capture_output=True, text=True, check=True).stdout
    return int(printed.split("version ")[1].split(".")[0])


def unformatted(files):
    """clang-format's warnings about unformatted files."""
    done = subprocess.run(
        [
            "xargs",
            "-0",
            "-P",
            str(os.cpu_count()),
            "-n",
            "40",
            FORMATTER,
            "--dry-run",
            "--Werror",
            f"--style=file:{ROOT}/.clang-format",
        ],
        input="\0".join(map(str, files)),
        capture_output=True,
        text=True,
    )
    return [line for line in done.stderr.splitlines() if "error:" in line]


@unittest.skipUnless(version() == STYLE, f"needs clang-format {STYLE}, as Debian 12 has it")
class Format(unittest.TestCase):
    def test_every_source_is_as_the_formatter_writes_it(self):
        files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
        self.assertGreater(len(files), 500)
        wrong = unformatted(files)
        self.assertEqual(wrong, [], "clang-format -i FILE mends it:\n" + "\n".join(wrong[:20]))

    def test_a_file_in_another_form_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "other.cpp")
            file.write_text("int  answer( ){return 42;}\n")
            self.assertNotEqual(unformatted([file]), [])
