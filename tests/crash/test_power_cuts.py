"""No power cut takes what is promised to stay, and no failed operation of the disk goes unnoticed."""

import contextlib
import pathlib
import random
import tempfile
import unittest
import unittest.mock

from tests.crash.power_cuts import Cut, Cuts, Tally, examine, examine_end, fail_all, kinds, resume_all
from tests.support.recorded_disk import Kind

# How many states of each kind are resumed, with --durable and without.
STATES = {"samples": (8, 5), "rows": (7, 5), "job": (3, 3), "loop": (4, 2), "tiles": (3, 2)}
EXAMINED = 120  # states of each
# Flushes without which a run with --durable loses results: of the files, and of the names in their folder.
FLUSHES = {
    "the checkpoint": ("samples", "output/.offramp-checkpoint"),
    "files": ("samples", "output/npy/.offramp-tmp-*"),
    "names of files": ("samples", "output/npy"),
    "names of folders": ("samples", "output"),
    "segments": ("samples", "output/mask-rle/.offramp-segments/*"),
    "the database's log": ("rows", "*.sqlite-wal"),
    "a job's records": ("job", "job/done*"),
}


class PowerCuts(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.seed = random.SystemRandom().randrange(1 << 32)
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.kinds = kinds(pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="offramp-cuts-"))))
        cls.recorded = {
            (name, durable): stack.enter_context(Cuts(kind, durable, cls.seed))
            for name, kind in cls.kinds.items()
            for durable in (True, False)
        }

    def test_the_recorder_sees_all_that_the_programs_write(self):
        for cuts in self.recorded.values():
            with self.subTest(kind=cuts.recorded.kind.name, durable=cuts.recorded.durable):
                self.assertEqual(cuts.recorded.differences(), set())

    def test_a_write_that_the_recorder_misses_is_found(self):
        recorded = self.recorded["samples", True].recorded
        steps = recorded.recording.steps
        missed = max(number for number, step in enumerate(steps) if step.kind == Kind.WRITE and "npy/" in step.path)
        with unittest.mock.patch.object(recorded.recording, "steps", steps[:missed] + steps[missed + 1 :]):
            self.assertEqual(len(recorded.differences()), 1)

    def test_durable_results_survive_and_the_run_continues(self):
        tally, chosen = Tally(), []
        for (name, durable), cuts in self.recorded.items():
            if durable:
                chosen += cuts.some(cuts.examine(tally, EXAMINED), STATES[name][0])
        resume_all(chosen, tally)
        self.assertEqual(tally.failures, [], f"seed {self.seed}")

    def test_other_results_may_be_lost_but_the_run_continues_or_is_refused(self):
        tally, chosen = Tally(), []
        for (name, durable), cuts in self.recorded.items():
            if not durable:
                chosen += cuts.some(cuts.examine(tally, EXAMINED), STATES[name][1])
        resume_all(chosen, tally)
        self.assertEqual(tally.failures, [], f"seed {self.seed}")
        self.assertLess(sum(tally.refused.values()), tally.resumed / 2, tally.refused)

    def test_a_forgotten_flush_is_found(self):
        for what, (kind, paths) in FLUSHES.items():
            with self.subTest(flush=what):
                recorded = self.recorded[kind, True].recorded.forgetting(paths)
                found = examine_end(recorded) or any(
                    examine(recorded, recorded.state(Cut(at, "nothing"))) for at in recorded.recording.cuts()
                )
                self.assertTrue(found, "nothing was lost without this flush")

    def test_a_failed_operation_is_reported_and_counts_nothing_as_done(self):
        outcomes = fail_all(cuts.recorded for (_, durable), cuts in self.recorded.items() if durable)
        for order, (code, wrong, log) in outcomes.items():
            with self.subTest(order=order):
                self.assertIsNotNone(code, "no such operation")
                self.assertEqual(wrong, [], log)


if __name__ == "__main__":
    unittest.main()
