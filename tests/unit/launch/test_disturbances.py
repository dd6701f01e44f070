"""How `chaos` compares results, where it writes them, and which ends of a disturbed run it continues."""

import contextlib
import pathlib
import random
import sqlite3
import tempfile
import unittest

from offramp_launch.chaos.command import parent_of_scratch
from offramp_launch.chaos.results import confirmed, differences
from offramp_launch.chaos.runs import ALL, CONSUMER, PRODUCER, is_continued


class ResultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.wanted, self.found = pathlib.Path(folder.name, "wanted"), pathlib.Path(folder.name, "found")
        self.wanted.mkdir()
        self.found.mkdir()

    def write(self, name, wanted, found):
        (self.wanted / name).write_text(wanted)
        (self.found / name).write_text(found)

    def test_each_difference_is_named(self):
        self.write("same", "1", "1")
        self.write("other", "1", "2")
        (self.wanted / "lost").write_text("1")
        (self.found / "more").write_text("1")
        self.assertEqual(
            {"lost": "is missing", "more": "is too many", "other": "has other bytes"},
            differences(self.wanted, self.found),
        )

    def test_rows_are_compared_in_any_order(self):
        rows = [(number, f"row {number}") for number in range(20)]
        for name, more in (("same", []), ("other", [(20, "row 20")])):
            for folder, written in ((self.wanted, rows), (self.found, random.sample(rows, len(rows)) + more)):
                with contextlib.closing(sqlite3.connect(folder / f"{name}.sqlite")) as database, database:
                    database.execute("CREATE TABLE results (number, text)")
                    database.executemany("INSERT INTO results VALUES (?, ?)", written)
        self.assertEqual({"other.sqlite": "has other rows"}, differences(self.wanted, self.found))

    def test_a_file_that_is_not_a_database_is_compared_by_bytes(self):
        self.write("same.sqlite", "not a database, but text", "not a database, but text")
        self.write("other.sqlite", "not a database, but text", "not a database, but more")
        self.assertEqual({"other.sqlite": "has other bytes"}, differences(self.wanted, self.found))

    def test_a_lost_file_is_found_among_those_that_change(self):
        unstable = {"changes": "has other bytes", "lost": "has other bytes"}
        self.assertEqual(
            {"lost": "is missing", "other": "has other bytes"},
            confirmed({"changes": "has other bytes", "lost": "is missing", "other": "has other bytes"}, unstable),
        )

    def test_results_are_written_beside_the_folder_behind_a_link(self):
        (self.wanted / "results").mkdir()
        (link := self.found / "link").symlink_to(self.wanted / "results")
        self.assertEqual(self.wanted.resolve(), parent_of_scratch(None, {"output": str(link)}, None))


class EndTest(unittest.TestCase):
    def test_a_run_is_continued_only_after_a_kill(self):
        for code, killed, expected in (
            (84, {CONSUMER}, True),
            (137, {ALL}, True),
            (1, {CONSUMER}, False),
            (1, {PRODUCER}, True),  # a script's code after its loop was killed
            (84, set(), False),  # only paused or scaled
            (137, set(), False),
        ):
            with self.subTest(code=code, killed=killed):
                self.assertEqual(expected, is_continued(code, killed))


if __name__ == "__main__":
    unittest.main()
