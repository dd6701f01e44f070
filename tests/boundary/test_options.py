"""Few files name an option of the egress. The sample is kill_stalled. Twin: one more file is counted."""

import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("common", "producer", "consumer", "launch")
SOURCES = {".h", ".hpp", ".cpp", ".inl", ".py"}  # no pages
SETTINGS = "common/app/settings/"  # the runner's flag is declared there
SAMPLE = re.compile(r"kill[-_]stalled", re.IGNORECASE)
MOST = 13  # the target is 6: lower this number with the count


def files_naming(sample, root):
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SOURCES]
    names = {path.relative_to(root).as_posix() for path in paths if sample.search(path.read_text())}
    return sorted(name for name in names if not name.startswith(SETTINGS))


class Options(unittest.TestCase):
    def test_few_files_name_the_sample(self):
        found = files_naming(SAMPLE, ROOT)
        self.assertIn("producer/broker/broker_options.hpp", found, "choose another option as the sample")
        self.assertLessEqual(len(found), MOST, found)

    def test_one_more_file_is_counted_and_pages_and_settings_are_not(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in (
                "producer/egress/copy.hpp",
                "launch/command.py",
                "launch/guide/python.md",
                f"{SETTINGS}delivery.cpp",
            ):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("--kill-stalled" if name.startswith("launch") else "bool kill_stalled;")
            self.assertEqual(["launch/command.py", "producer/egress/copy.hpp"], files_naming(SAMPLE, root))
