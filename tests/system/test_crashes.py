"""Consumers that die in mid-batch, in any way, change no result."""

import signal
import unittest

from tests.support.gate import Gate
from tests.support.launched_run import LaunchedRun, programs_with_faulty_consumer
from tests.support.real_run import LeavesNothing, RealRun, kill, undisturbed

COPY = tuple("--device cpu --model copy --copy-bytes 1MiB --batch 4 --batches 24 --slabs 4 --log-level info".split())


def start_crashing(run, consumers, **crash):
    """Starts consumers that crash as told, together `times` times, and otherwise write checksums."""
    environment = {"OFFRAMP_TEST_THEN": "checksum"}
    environment.update({f"OFFRAMP_TEST_CRASH_{name.upper()}": str(value) for name, value in crash.items()})
    if "times" in crash:
        environment["OFFRAMP_TEST_CRASH_FILE"] = str(run.folder / "deaths")
    for _ in range(consumers):
        run.start_consumer("--processor", "crash-on-item", faulty=True, environment=environment)


class Crashes(LeavesNothing):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.wanted = undisturbed(*COPY, "--processor", "checksum")

    def test_the_undisturbed_run_has_every_sample_once(self):
        lines = self.wanted["checksums.tsv"].decode().splitlines()
        items = [line.split("\t")[0] for line in lines if line[0].isdigit()]
        self.assertEqual(sorted(map(int, items)), list(range(96)))
        self.assertGreater(len({line.split("\t")[-1] for line in lines}), 90, "the samples' bytes differ")

    def test_every_kind_of_death_in_mid_batch(self):
        for how in ("kill", "segv", "abort", "exit", "throw"):
            for when in ("before", "after"):
                with self.subTest(how=how, when=when):
                    self.crash_once(how, when)

    def crash_once(self, how, when):
        with RealRun(*COPY) as run:
            start_crashing(run, 2, item=21, how=how, when=when, times=1)
            run.start_producer()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            codes = run.wait_for_consumers()
            self.assertEqual(sorted(code == 0 for code in codes), [False, True], f"one died: {codes}\n{run.logs()}")
            summary = run.summary()
            self.assertEqual(summary["samples"]["released"], 96)
            self.assertEqual(summary["samples"]["in_flight"], 0)
            self.assertTrue(summary["conserved"])
            run.finish_outputs()
            self.assertEqual(run.files(), self.wanted, f"{how} {when}\n{run.logs()}")

    def test_a_death_beside_releases_that_were_held_back_loses_nothing(self):
        small = (
            *"--device cpu --model copy --copy-bytes 4KiB --batch 1 --batches 600 --slabs 64 --window 32".split(),
            *"--log-level info".split(),
        )
        files = []
        for times in (0, 1):
            with RealRun(*small) as run:
                start_crashing(run, 2, item=300, how="kill", times=times)
                run.start_producer()
                self.assertEqual(run.wait(run.producer), 0, run.logs())
                codes = run.codes_of_those_let_in()
                self.assertEqual(sum(code != 0 for code in codes), times, f"{codes}\n{run.logs()}")
                summary = run.summary()
                self.assertEqual(summary["samples"]["released"], 600)
                self.assertTrue(summary["conserved"])
                run.finish_outputs()
                files.append(run.files())
        self.assertEqual(files[0], files[1])

    def test_a_batch_that_kills_three_consumers_becomes_a_dead_letter(self):
        with RealRun(*COPY) as run:
            run.start_producer()
            start_crashing(run, 5, item=10, how="segv")
            self.assertEqual(run.wait(run.producer), 84, run.logs())
            codes = run.wait_for_consumers()
            self.assertEqual(codes.count(-signal.SIGSEGV), 3, codes)
            summary = run.summary()
            self.assertEqual(summary["samples"]["dead_letters"], 4)
            self.assertEqual(summary["samples"]["released"], 92)
            self.assertEqual([slab["batch"] for slab in summary["dead_letters"]], [2])
            self.assertEqual(len(set(summary["dead_letters"][0]["pids"])), 3)

    def test_a_sink_that_is_away_counts_no_failure(self):
        with RealRun(*COPY) as run:
            run.start_producer()
            start_crashing(run, 5, item=10, how="sink", times=4)
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            self.assertEqual(run.wait_for_consumers().count(75), 4)
            self.assertEqual(run.summary()["dead_letters"], [])
            run.finish_outputs()
            self.assertEqual(run.files(), self.wanted)

    def test_a_stopped_consumer_loses_its_lease_and_changes_nothing_later(self):
        with RealRun(*COPY, "--visibility-timeout", "1") as run:
            run.start_producer()
            with Gate(run.folder) as gate:
                sleeper = run.start_consumer("--processor", "checksum", faulty=True, environment=gate.environment)
                gate.entered()
                kill(sleeper, signal.SIGSTOP)
                run.start_consumer("--processor", "checksum")
                run.until(
                    lambda: run.status().get("done_samples") == 96, "every sample done without the stopped consumer"
                )
                gate.open()
                kill(sleeper, signal.SIGCONT)
                self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            summary = run.summary()
            self.assertEqual(summary["samples"]["released"], 96)
            self.assertGreaterEqual(summary["samples"]["redelivered"], 4)
            run.finish_outputs()
            self.assertEqual(run.files(), self.wanted)


class EveryBatchKills(unittest.TestCase):
    def test_a_fault_that_hits_every_batch_stops_the_run(self):
        """A dead letter is not progress; otherwise every batch would become one, after three deaths each."""
        flags = [*COPY, "--batches", "400", "--processor", "crash-on-item", "--consumers", "16"]
        with LaunchedRun(*flags) as run:
            run.environment |= {
                "OFFRAMP_TEST_CRASH_ITEM": "any",
                "OFFRAMP_TEST_CRASH_HOW": "exit",
                "OFFRAMP_BIN_DIR": str(programs_with_faulty_consumer(run.folder)),
            }
            self.assertEqual(run.start().wait(), 3, run.logs())
            self.assertIn(
                "consumers died 20 times in a row and nothing was completed in between",
                (run.folder / "launcher.log").read_text(),
            )
            samples = run.summary()["samples"]
            self.assertEqual(samples["released"], 0)
            self.assertLess(samples["dead_letters"], 400)
