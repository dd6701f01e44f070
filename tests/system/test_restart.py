"""A new producer recovers a dead producer's run: nothing is missing, duplicated or left behind."""

import os
import signal

from tests.support.done_items import items_of_checkpoint
from tests.support.gate import Gate
from tests.support.launched_run import LaunchedRun
from tests.support.real_run import LeavesNothing, RealRun, kill, shared_memory, undisturbed

COPY = (
    *"--device cpu --model copy --copy-bytes 1MiB --batch 4 --batches 40 --slabs 4".split(),
    *"--status-seconds 0.02 --log-level info".split(),
)
CHECKSUM = ("--processor", "checksum")
SAMPLES = 160


class GatedRun(RealRun):
    """A run whose consumers wait at a gate before each slab, so that a test controls its progress."""

    def __init__(self, *flags):
        super().__init__(*flags, *CHECKSUM)
        self.gate = Gate(self.folder)
        self.environment |= self.gate.environment

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.gate.__exit__(*exception)

    def start_gated_consumer(self):
        return self.start_consumer(faulty=True)

    def start_two_at_work(self):
        for _ in range(2):
            self.start_gated_consumer()
        self.gate.entered_by(2)


class Restart(LeavesNothing):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.wanted = undisturbed(*COPY, *CHECKSUM)

    def restart(self, run, *flags):
        """Replaces the launcher: reaps the dead producer, then starts the next one."""
        with run.kept_from_sweeps():
            kill(run.producer)
            self.assertEqual(run.wait(run.producer), -signal.SIGKILL, run.logs())
            before = (run.folder / "producer.log").read_text()
            successor = run.start_producer(*flags, command="recover")
            run.until(
                lambda: "taking over" in (run.folder / "producer.log").read_text() or successor.poll() is not None,
                "a successor with the lock",
            )
        return before

    def check_end(self, run, wanted=None, samples=SAMPLES, producers=2):
        self.assertEqual(run.wait(run.producer), 0, run.logs())
        self.assertEqual(run.wait_for_consumers(), [0] * len(run.consumers), run.logs())
        summary = run.summary()
        self.assertEqual(summary["samples"]["released"], samples)
        self.assertEqual(summary["samples"]["published"], samples)
        self.assertEqual(summary["samples"]["sourced"], samples + summary["samples"]["skipped"])
        self.assertEqual(summary["samples"]["in_flight"], 0)
        self.assertEqual(summary["samples"]["dead_letters"], 0)
        self.assertEqual(summary["producers"], producers)
        self.assertTrue(summary["conserved"])
        self.assertEqual(
            len(items_of_checkpoint(run.output)),
            samples,
            "the checkpoint has items that the dead producer had not written",
        )
        run.finish_outputs()
        self.assertEqual(run.files(), self.wanted if wanted is None else wanted, run.logs())
        return summary

    def test_with_ready_slabs_and_no_one_to_take_them(self):
        with GatedRun(*COPY) as run:
            run.start_producer()
            run.until(lambda: run.status().get("slabs", {}).get("ready") == 4, "every slab full")
            self.restart(run)
            run.start_two_at_work()
            run.gate.open()
            self.check_end(run)

    def test_with_leased_slabs_whose_consumers_stay(self):
        with GatedRun(*COPY) as run:
            run.start_producer()
            run.start_two_at_work()
            run.until(lambda: run.status().get("slabs", {}).get("leased", 0) >= 2, "slabs leased")
            self.restart(run)
            run.until(
                lambda: "is back" in (run.folder / "producer.log").read_text() or run.gate.let(1), "a consumer is back"
            )
            run.gate.open()
            summary = self.check_end(run)
            self.assertEqual(
                {entry["pid"] for entry in summary["consumers"]},
                {consumer.pid for consumer in run.consumers},
                "the same consumers, with one session each",
            )

    def test_releases_that_the_dead_never_took_are_taken_by_the_next(self):
        with GatedRun(*COPY) as run:
            run.start_producer()
            consumer = run.start_gated_consumer()
            run.gate.entered()
            run.until(lambda: run.status().get("slabs", {}).get("leased") == 2, "the next slab's ticket was sent")
            then = run.status()["now_ns"]
            # in the socket of a consumer at the gate
            run.until(lambda: run.status().get("now_ns", then) > then + 1_000_000_000, "and has arrived")
            kill(run.producer, signal.SIGSTOP)  # it reads no more messages
            run.gate.let(1)
            run.gate.entered()  # the first slab is committed, and its release is lost
            self.restart(run)
            run.gate.open()
            summary = self.check_end(run)
            self.assertEqual(summary["samples"]["redelivered"], 0, "no sample was done twice")
            self.assertEqual([entry["pid"] for entry in summary["consumers"]], [consumer.pid])

    def test_a_consumer_that_dies_in_between_gives_its_slabs_to_another(self):
        with GatedRun(*COPY) as run:
            run.start_producer()
            victim = run.start_gated_consumer()
            run.gate.entered()
            with run.kept_from_sweeps():
                kill(run.producer)
                run.wait(run.producer)
                kill(victim)
                run.wait(victim)
                run.consumers.clear()
                self.restart(run)
            run.start_gated_consumer()
            run.gate.open()
            summary = self.check_end(run)
            self.assertEqual(summary["dead_letters"], [])

    def test_a_producer_that_dies_while_it_takes_over(self):
        with GatedRun(*COPY) as run:
            run.start_producer()
            run.start_gated_consumer()
            run.gate.entered()
            for _ in range(3):
                self.restart(run)
                run.until(
                    lambda: "taking over run" in (run.folder / "producer.log").read_text(),
                    "the beginning of the takeover",
                )
            self.restart(run)
            run.gate.open()
            # Each attempt uses an epoch; only attempts that got this far count as producers.
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            self.assertIn("as epoch 5", (run.folder / "producer.log").read_text())
            self.check_end(run, producers=5)

    def test_at_the_end_when_everything_is_published(self):
        with GatedRun(*COPY) as run:
            run.start_producer()
            run.start_gated_consumer()
            run.gate.let(37)
            run.until(lambda: run.status().get("released_samples") == 148, "all but the last slabs done")
            run.until(lambda: run.status().get("slabs", {}).get("free") == 1, "and those published")
            self.restart(run)
            run.gate.open()
            self.check_end(run)

    def test_many_times_in_one_run_while_slabs_are_being_filled(self):
        flags = ("--batches", "400", "--max-delay-seconds", "0")
        wanted = undisturbed(*COPY, *CHECKSUM, *flags)
        with GatedRun(*COPY, *flags) as run:
            run.start_producer()
            run.start_two_at_work()
            for deaths in range(8):
                run.gate.let(20)
                run.until(
                    lambda: (
                        run.status().get("producers") == deaths + 1
                        and run.status().get("released_samples", 0) > 60 * deaths
                    ),
                    "progress",
                )
                self.restart(run)
            run.gate.open()
            self.check_end(run, wanted, 1600, producers=9)

    def test_a_batch_of_which_only_a_part_was_published(self):
        flags = ("--samples-per-slab", "1")
        wanted = undisturbed(*COPY, *CHECKSUM, *flags)
        with GatedRun(*COPY, *flags) as run:
            run.start_producer()
            run.start_gated_consumer()
            run.gate.let(2)  # 2 plus the pool's 4 slabs end in mid-batch
            run.until(lambda: run.status().get("released_samples") == 2, "two samples done")
            run.until(
                lambda: (
                    run.status().get("slabs", {}).get("ready", 0) + run.status().get("slabs", {}).get("leased", 0) == 4
                ),
                "every slab full",
            )
            self.restart(run)
            run.gate.open()
            self.check_end(run, wanted)

    def test_small_batches_that_share_slabs(self):
        flags = ("--copy-bytes", "4KiB", "--batches", "3000", "--batches-per-slab", "8")
        wanted = undisturbed(*COPY, *CHECKSUM, *flags)
        with GatedRun(*COPY, *flags) as run:
            run.start_producer()
            run.start_two_at_work()
            run.gate.let(20)
            run.until(lambda: run.status().get("released_samples", 0) > 0, "the first samples done")
            self.restart(run)
            run.gate.open()
            self.check_end(run, wanted, 12000)

    def test_a_run_that_continues_an_earlier_one(self):
        with GatedRun(*COPY) as run:
            run.start_producer()
            consumer = run.start_gated_consumer()
            run.gate.let(10)
            run.until(lambda: run.status().get("released_samples") == 40, "ten slabs done")
            run.until(lambda: len(items_of_checkpoint(run.output)) == 40, "the checkpoint written")
            for child in (run.producer, consumer):
                kill(child)
                run.wait(child)
            run.consumers.clear()
            run.start_producer("--resume")
            run.start_gated_consumer()
            run.gate.let(5)
            run.until(lambda: run.status().get("released_samples") == 20, "five more done")
            self.restart(run)
            run.gate.open()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            summary = run.summary()
            self.assertEqual(summary["samples"]["done_before"], 40, "by the earlier run, for any producer of this one")
            self.assertEqual(
                [summary["samples"][what] for what in ("sourced", "published", "released")], [SAMPLES - 40] * 3
            )
            self.assertTrue(summary["conserved"])
            run.wait_for_consumers()
            run.finish_outputs()
            self.assertEqual(run.files(), self.wanted)

    def test_the_other_rungs_that_keep_their_slabs(self):
        for rung in ("pool", "async"):
            with self.subTest(rung), RealRun(*COPY, "--strategy", rung, "--processor", "checksum") as run:
                run.start_producer()
                run.until(lambda: run.status().get("slabs", {}).get("ready") == 4, "every slab full")
                self.restart(run)
                run.start_consumer()
                self.check_end(run)

    def test_consumers_without_a_launcher_wait_only_so_long(self):
        with RealRun(*COPY, "--batches", "100000", "--processor", "checksum", "--producer-wait-seconds", "0.2") as run:
            run.start_producer()
            consumer = run.start_consumer()
            run.until(lambda: run.status().get("released_samples", 0) > 0, "the first samples done")
            kill(run.producer)
            run.wait(run.producer)
            self.assertEqual(run.wait(consumer), 86, run.logs())

    def refused(self, run, code, *flags):
        """Starts a successor that is refused. Returns its output."""
        run.start_producer(*flags, command="recover")
        self.assertEqual(run.wait(run.producer), code, run.logs())
        return (run.folder / "producer.log").read_text()

    def test_an_impossible_takeover_is_refused_and_changes_nothing(self):
        with GatedRun(*COPY) as run:
            run.start_producer()
            run.start_gated_consumer()
            run.gate.entered()  # it holds a slab and the run's lock
            kill(run.producer)
            self.assertEqual(run.wait(run.producer), -signal.SIGKILL)
            printed = self.refused(run, 64, "--batch", "8")
            self.assertIn("--batch was '4' and is '8'", printed)
            self.assertIn("--seed was '0' and is '5'", self.refused(run, 64, "--seed", "5"))
            self.assertIn("workers", self.refused(run, 64, "--strategy", "workers"))
            self.assertIn("--output was", self.refused(run, 64, "--output", str(run.folder / "elsewhere")))
            run.start_producer(command="recover")
            run.gate.open()
            self.check_end(run, producers=2)

    def test_a_run_that_lives_or_never_was_is_not_taken_over(self):
        with RealRun(*COPY, "--batches", "100000", "--processor", "checksum") as run:
            self.assertIn("there is no run to take over", self.refused(run, 69))
            first = run.start_producer()
            run.until(lambda: run.status().get("slabs", {}).get("ready") == 4, "every slab full")
            self.refused(run, 85)
            run.producer = first
            kill(first, signal.SIGTERM)
            run.until(lambda: run.status().get("state") == "draining", "the first signal handled")
            kill(first, signal.SIGTERM)
            self.assertEqual(run.wait(first), 130)

    def test_two_runs_side_by_side_never_touch_each_others(self):
        with GatedRun(*COPY) as dead, RealRun(*COPY, "--processor", "checksum") as other:
            dead.start_producer()
            dead.start_gated_consumer()
            dead.gate.entered()
            kill(dead.producer)
            self.assertEqual(dead.wait(dead.producer), -signal.SIGKILL)
            left = shared_memory()
            other.start_producer()  # it sweeps first
            other.start_consumer()
            self.check_end(other, producers=1)
            self.assertEqual(shared_memory(), left, "the run with a live consumer is untouched")
            dead.start_producer(command="recover")
            dead.gate.open()
            self.check_end(dead)


class LaunchedRestart(LeavesNothing):
    def test_the_launcher_follows_each_death_with_another_producer(self):
        flags = (*COPY, "--batches", "600", "--processor", "checksum")
        wanted = undisturbed(*COPY, *CHECKSUM, "--batches", "600")
        with LaunchedRun(*flags, "--consumers", "2", "--producer-restarts", "10") as run, run.gate() as gate:
            run.start()
            gate.entered_by(2)
            for producers in (1, 2, 3):
                gate.let(20)
                run.until(
                    lambda: (
                        run.status().get("producers") == producers
                        and run.status()["released_samples"] > 60 * (producers - 1)
                    ),
                    "progress",
                )
                os.kill(run.status()["pid"], signal.SIGKILL)
            gate.open()
            self.assertEqual(run.wait(), 0, run.logs())
            summary = run.summary()
            self.assertEqual(summary["producer_restarts"], 3, run.logs())
            self.assertEqual(summary["samples"]["released"], 2400)
            self.assertEqual(summary["samples"]["sourced"], 2400)
            self.assertTrue(summary["conserved"])
            self.assertEqual(len(summary["consumers"]), 2, "the same two consumers throughout")
            self.assertEqual([consumer["exit"] for consumer in summary["consumers"]], [0, 0])
            self.assertEqual(run.files(), wanted)

    def test_without_restarts_a_death_ends_the_run(self):
        flags = (*COPY, "--batches", "100000", "--processor", "checksum")
        with LaunchedRun(*flags, "--consumers", "2", "--producer-restarts", "0") as run, run.gate() as gate:
            run.start()
            gate.entered_by(2)  # a consumer without a slab ends normally
            run.until(lambda: len(run.status().get("consumers", ())) == 2, "both consumers in the status")
            os.kill(run.status()["pid"], signal.SIGKILL)
            gate.open()
            self.assertEqual(run.wait(), 128 + signal.SIGKILL, run.logs())
            self.assertEqual([consumer["exit"] for consumer in run.summary()["consumers"]], [86, 86], run.logs())
