"""The quick tests, which run without --all, cover every row of the failure matrix."""

import os
import pathlib
import unittest

from check_pages import CITED, MATRIX

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rows_with_slow_tests_only(page, slow):
    """The events of the page's rows whose tests are all slow."""
    rows = [line.strip(" |").split("|") for line in page.splitlines() if line.startswith("| ")]
    cited = {row[0].strip(): CITED.findall(row[-1]) for row in rows}
    return [event for event, tests in cited.items() if tests and slow.issuperset(tests)]


class Tiers(unittest.TestCase):
    def test_every_row_of_the_failure_matrix_has_a_quick_test(self):
        slow = set(pathlib.Path(os.environ["OFFRAMP_BUILD"], "slow_tests.txt").read_text().split())
        self.assertIn("boundary.tidy", slow)
        self.assertEqual([], rows_with_slow_tests_only((ROOT / MATRIX).read_text(), slow))

    def test_a_row_with_slow_tests_only_is_found(self):
        page = "| event | test |\n| --- | --- |\n| dies | `e2e.tiles`, `Suite` |\n| stops | `e2e.tiles`, `e2e.gpus` |\n"
        self.assertEqual(["stops"], rows_with_slow_tests_only(page, {"e2e.tiles", "e2e.gpus"}))


if __name__ == "__main__":
    unittest.main()
