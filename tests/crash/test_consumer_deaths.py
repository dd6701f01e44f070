"""Kills a few consumers, one per second, and checks that nothing is lost."""

import unittest

from tests.crash import consumer_deaths
from tests.crash.consumer_deaths import SMALL, WITNESSES, ConsumerDeaths


class ConsumerDeathsTest(unittest.TestCase):
    def test_nothing_is_lost_and_all_is_reported(self):
        run = ConsumerDeaths(SMALL, consumers=WITNESSES + 2, windows=3, seconds=2, settle=0, seed=1).run()
        print("\n" + consumer_deaths.report(run), flush=True)
        self.assertEqual([], run.wrong)
        self.assertEqual(2, run.deaths())
        self.assertEqual(1, len(run.ratios()))
        self.assertTrue(run.hand_over[True] and run.hand_over[False])

    def test_a_sample_that_is_lost_is_found(self):
        run = LosesALine(SMALL, consumers=WITNESSES + 1, windows=1, seconds=0.5, settle=0, seed=1).run()
        self.assertIn("of them distinct", "\n".join(run.wrong))


class LosesALine(ConsumerDeaths):
    def _check_outputs(self, run, completed):
        run.finish_outputs()
        lines = (run.output / "checksums.tsv").read_bytes().splitlines(keepends=True)
        (run.output / "checksums.tsv").write_bytes(b"".join(lines[:-1]))
        super()._check_outputs(run, completed)
