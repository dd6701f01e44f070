"""No power cut takes what is promised to stay, and no failed operation of the disk goes unnoticed."""

import contextlib
import dataclasses
import pathlib
import tempfile
import unittest
import unittest.mock

from tests.crash.power_cuts import Cut, CutPartialJob, Cuts, Tally, examine, examine_end, fail_all, kinds, resume_all
from tests.support.recorded_disk import Kind

# How many states of each kind are resumed, with --durable and without.
STATES = {"samples": (4, 3), "rows": (4, 3), "job": (2, 1), "loop": (2, 1), "tiles": (2, 1), "parquet": (2, 1)}
EXAMINED = 120  # states of each
# Flushes without which a run with --durable loses results: of the files, and of the names in their folder. "last": only
# the last flush of a path.
FLUSHES = {
    "the checkpoint": ("samples", "output/.offramp-checkpoint"),
    "files": ("samples", "output/npy/.offramp-tmp-*"),
    "names of files": ("samples", "output/npy"),
    "names of folders": ("samples", "output"),
    "segments": ("samples", "output/mask-rle/.offramp-segments/*"),
    "the database's log": ("rows", "*.sqlite-wal"),
    "a removed journal": ("rows", "last output/embeddings-sqlite"),
    "removed segments": ("samples", "last output/mask-rle"),
    "the loop's checkpoint": ("loop", "output/.offramp-egress"),
    "a job's records": ("job", "job/done*"),
    "joined files": ("job", "output/checksum"),
    "a joined database": ("job", "output/records"),
    "rows of a Parquet file": ("parquet", "output/.offramp-segments/embeddings-parquet/*"),
    "a Parquet file": ("parquet", "output/.offramp-tmp-*"),
}


class PowerCuts(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.seed = 1
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
            if kind not in self.kinds:
                continue
            with self.subTest(flush=what):
                self.assertTrue(self.lost_without(self.recorded[kind, True].recorded, paths), "nothing was lost")

    def lost_without(self, recorded, paths):
        recorded = recorded.forgetting(paths)
        return examine_end(recorded) or any(
            examine(recorded, recorded.state(Cut(at, "nothing"))) for at in recorded.recording.cuts()
        )

    def test_a_partly_merged_job_is_on_the_disk(self):
        kind = dataclasses.replace(self.kinds["job"], world=CutPartialJob, items=8)
        tally = Tally()
        with Cuts(kind, True, self.seed) as cuts:
            cuts.examine(tally, EXAMINED)
            self.assertEqual(tally.failures, [], f"seed {self.seed}")
            for what in ("joined files", "a joined database"):
                self.assertTrue(self.lost_without(cuts.recorded, FLUSHES[what][1]), what)

    def test_a_checkpoint_line_that_is_there_in_part_is_among_the_states(self):
        for kind, name in (("samples", ".offramp-checkpoint"), ("loop", ".offramp-egress")):
            if kind not in self.kinds:
                continue
            recorded = self.recorded[kind, True].recorded
            states = [
                recorded.state(Cut(at, "names and sizes without bytes"))
                for at in recorded.recording.cuts_before_flushes()
            ]
            checkpoints = {state.get(f"output/{name}") for state in states}
            with self.subTest(kind=kind):
                self.assertTrue(any(text and not text.endswith(b"\n") for text in checkpoints), checkpoints)

    def test_a_failed_operation_is_reported_and_counts_nothing_as_done(self):
        outcomes = fail_all(cuts.recorded for (_, durable), cuts in self.recorded.items() if durable)
        for order, (code, wrong, log) in outcomes.items():
            with self.subTest(order=order):
                self.assertIsNotNone(code, "no such operation")
                self.assertEqual(wrong, [], log)


if __name__ == "__main__":
    unittest.main()
