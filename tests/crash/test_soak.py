"""The long run with deaths: what it reports, and a short one."""

import unittest

from tests.crash import soak


def series(*values):
    return [(10.0 * at, value) for at, value in enumerate(values)]


class Trends(unittest.TestCase):
    def test_what_grows_after_warming_up_is_found(self):
        grown = soak.trend_of(series(*(10_000 + 100 * at for at in range(100))), "kB")
        self.assertEqual((True, 36_000), (grown.has_grown, round(grown.per_hour)))
        self.assertTrue(soak.trend_of(series(*(10 + at // 10 for at in range(100))), "").has_grown, "descriptors")

    def test_warming_up_and_noise_are_no_growth(self):
        warm = series(*range(0, 10_000, 400), *([10_000, 10_200, 9_900] * 25))
        self.assertFalse(soak.trend_of(warm, "kB").has_grown)
        self.assertFalse(soak.trend_of(series(*([10, 12, 11] * 33)), "").has_grown)

    def test_the_table_names_what_has_grown(self):
        lines, grown = soak.table(
            {"producer rss": series(*range(0, 100_000, 1000)), "producer threads": series(7, 7, 7)}
        )
        self.assertEqual(["producer rss"], grown)
        self.assertIn("has grown", lines[1])


class Short(unittest.TestCase):
    def test_a_minute_loses_nothing(self):
        wrong = soak.soak(1 / 60, kills_producers=True, seed=3, into=None)
        self.assertEqual([], [each for each in wrong if not each.startswith("grown: ")])


if __name__ == "__main__":
    unittest.main()
