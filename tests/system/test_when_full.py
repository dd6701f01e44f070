"""
A run without a free slab waits, drops and lists the newest or oldest batches, or spills the oldest to disk. Without
consumers a pool fills up once and stays full, so nothing here depends on timing.
"""

import json
import os
import signal
import subprocess
import unittest

from tests.support.done_items import items_of_checkpoint, items_of_checksums, led_by_the_checkpoint
from tests.support.gate import Gate
from tests.support.real_run import BIN, SANITIZER, LeavesNothing, RealRun, is_stopped, kill, undisturbed
from tests.support.small_disk import small_disk

COPY = (
    *"--device cpu --model copy --copy-bytes 1MiB --batch 4 --batches 40 --slabs 4".split(),
    *"--batches-per-slab 1 --status-seconds 0.02 --processor checksum".split(),
)
SAMPLES, IN_THE_POOL = 160, 16
# Item 10 kills its consumer; its slab has the items 8 to 11.
POISON = {"OFFRAMP_TEST_CRASH_ITEM": "10", "OFFRAMP_TEST_CRASH_HOW": "segv", "OFFRAMP_TEST_THEN": "checksum"}
POISONED = range(8, 12)


class WhenFull(LeavesNothing):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.wanted = undisturbed(*COPY)

    def until_status(self, run, what, holds):
        return run.until(lambda: (status := run.status()) and holds(status) and status, what)

    def deliver(self, run):
        """Starts a consumer at last. Returns the producer's exit code and summary."""
        run.start_consumer()
        code = run.wait(run.producer)
        self.assertEqual(run.wait_for_consumers(), [0] * len(run.consumers), run.logs())
        run.finish_outputs()
        summary = run.summary()
        self.assertTrue(summary["conserved"])
        return code, summary

    def lines_of(self, run):
        return run.files()["checksums.tsv"].splitlines()

    def test_batches_without_a_free_slab_are_dropped_and_listed(self):
        with RealRun(*COPY, "--when-full", "drop") as run:
            run.start_producer()
            self.until_status(
                run, "everything else dropped", lambda status: status["dropped_samples"] == SAMPLES - IN_THE_POOL
            )
            code, summary = self.deliver(run)
            self.assertEqual(code, 0, run.logs())
            samples = summary["samples"]
            self.assertEqual(
                (samples["sourced"], samples["dropped"], samples["dropped_when_full"], samples["released"]),
                (SAMPLES, SAMPLES - IN_THE_POOL, SAMPLES - IN_THE_POOL, IN_THE_POOL),
            )
            listed = [json.loads(line) for line in (run.run_dir / "dropped.jsonl").read_text().splitlines()]
            self.assertEqual(
                [sample["item"] for part in listed for sample in part["samples"]], list(range(IN_THE_POOL, SAMPLES))
            )
            self.assertEqual([part["batch"] for part in listed], list(range(4, 40)))
            # Delivered results are unchanged.
            wanted = self.wanted["checksums.tsv"].splitlines()
            self.assertTrue(set(self.lines_of(run)) < set(wanted))

    def test_the_oldest_waiting_batches_are_dropped_and_listed(self):
        """A new producer continues with the counts and the newest batches. A resumed run does the others."""
        for dies in (False, True):
            with self.subTest(dies=dies), RealRun(*COPY, "--when-full", "drop-oldest") as run:
                run.start_producer()
                self.until_status(
                    run, "all others dropped", lambda status: status["dropped_samples"] == SAMPLES - IN_THE_POOL
                )
                if dies:
                    self.take_over(run)
                code, summary = self.deliver(run)
                self.assertEqual(code, 0, run.logs())
                samples = summary["samples"]
                self.assertEqual(
                    (samples["sourced"], samples["dropped"], samples["dropped_when_full"], samples["released"]),
                    (SAMPLES, SAMPLES - IN_THE_POOL, SAMPLES - IN_THE_POOL, IN_THE_POOL),
                )
                self.assertEqual(samples["dropped_waiting"], 0 if dies else SAMPLES - IN_THE_POOL)
                listed = [json.loads(line) for line in (run.run_dir / "dropped.jsonl").read_text().splitlines()]
                self.assertEqual([part["batch"] for part in listed], list(range(36)))
                self.assertEqual(
                    [sample["item"] for part in listed for sample in part["samples"]],
                    list(range(SAMPLES - IN_THE_POOL)),
                )
                self.assertEqual(items_of_checksums(run.output), set(range(SAMPLES - IN_THE_POOL, SAMPLES)))
                self.assertEqual(items_of_checkpoint(run.output), set(range(SAMPLES - IN_THE_POOL, SAMPLES)))
                self.resume(run, self.wanted)

    def test_a_measured_run_does_not_wait_for_dropped_batches(self):
        """It measures from when the batches of its warm-up are done."""
        for when_full in ("drop", "drop-oldest"):
            flags = (*COPY, "--warmup-batches", "20", "--drain-warmup", "--when-full", when_full)
            with self.subTest(when_full), RealRun(*flags) as run:
                run.start_producer()
                self.until_status(
                    run, "the warm-up's losses", lambda status: status["dropped_samples"] == 20 * 4 - IN_THE_POOL
                )
                code, summary = self.deliver(run)
                self.assertEqual(code, 0, run.logs())
                self.assertEqual(SAMPLES, summary["samples"]["dropped"] + summary["samples"]["released"])

    def test_a_resumed_run_does_the_dropped_batches(self):
        with RealRun(*COPY, "--when-full", "drop") as run:
            run.start_producer()
            self.until_status(
                run, "everything else dropped", lambda status: status["dropped_samples"] == SAMPLES - IN_THE_POOL
            )
            self.assertEqual(self.deliver(run)[0], 0, run.logs())
            run.consumers.clear()
            run.flags += ["--resume", "--when-full", "wait"]
            run.start_producer()
            code, summary = self.deliver(run)
            self.assertEqual(code, 0, run.logs())
            self.assertEqual(
                (summary["samples"]["done_before"], summary["samples"]["released"]),
                (IN_THE_POOL, SAMPLES - IN_THE_POOL),
            )
            self.assertEqual(run.files(), self.wanted)

    @unittest.skipIf(SANITIZER, "preloads a library, and a sanitizer's must come first")
    def test_dropped_batches_are_not_done_after_a_takeover(self):
        """
        The first producer drops batches, publishes later ones and dies, so the dropped ones are before the place where
        the next producer continues. It lists drops in a pipe without a reader, so it blocks at the first drop and at
        some later one.
        """
        flags = (*COPY, "--batches", "2000", "--copy-bytes", "16KiB")  # more lines than a pipe holds
        with RealRun(*flags, "--when-full", "drop", "--log-level", "info") as run, Gate(run.folder) as gate:
            self.start_producer_that_lists_in_a_pipe(run)
            run.environment |= gate.environment
            run.start_consumer(faulty=True)
            gate.entered()
            self.until_status(run, "a drop", lambda status: status["dropped_samples"] > 0)
            gate.let(1)
            gate.entered()
            self.until_status(run, "a released slab", lambda status: status["released_samples"] > 0)
            self.addCleanup(os.close, os.open(run.run_dir / "dropped.jsonl", os.O_RDONLY | os.O_NONBLOCK))
            gate.let(5)
            self.until_status(
                run, "slabs published after the drops", lambda status: status["released_samples"] > IN_THE_POOL
            )
            (run.run_dir / "dropped.jsonl").unlink()  # the next producer lists in a file
            self.take_over(run)
            gate.open()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            run.finish_outputs()
            self.assertGreater(run.summary()["samples"]["dropped"], 0)
            self.assertEqual(led_by_the_checkpoint(run.output), [], "the checkpoint has items that were never made")
            self.resume(run, undisturbed(*flags))

    def start_producer_that_lists_in_a_pipe(self, run):
        """
        A producer first removes an earlier run's list of drops, so the pipe is created when the producer stops at its
        first slab.
        """
        run.environment |= (
            preloaded := {
                "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
                "OFFRAMP_FAILPOINT": "egress.slab_taken#1:stop",
            }
        )
        run.start_producer()
        for name in preloaded:
            run.environment.pop(name)
        run.until(lambda: is_stopped(run.producer), "its first slab")
        os.mkfifo(run.run_dir / "dropped.jsonl")
        kill(run.producer, signal.SIGCONT)

    def test_spilled_batches_are_not_done_when_everything_dies(self):
        with RealRun(*COPY, "--when-full", "spill", "--log-level", "info") as run:
            self.spill_everything(run)
            self.take_over(run)
            self.until_status(
                run,
                "the spilled slabs in the new producer's status",
                lambda status: status["producers"] == 2 and status["spilled_samples"] >= SAMPLES - IN_THE_POOL,
            )
            kill(run.producer)
            self.assertEqual(run.wait(run.producer), -signal.SIGKILL, run.logs())
            run.sweep()
            self.assertEqual(items_of_checkpoint(run.output), set())
            self.resume(run, self.wanted)

    def take_over(self, run):
        with run.kept_from_sweeps():
            kill(run.producer)
            self.assertEqual(run.wait(run.producer), -signal.SIGKILL, run.logs())
            run.start_producer(command="recover")
            self.until_status(run, "the new producer's status", lambda status: status.get("producers") == 2)

    def resume(self, run, wanted):
        """Resumes the run, which makes all missing items."""
        run.consumers.clear()
        run.flags += ["--resume", "--when-full", "wait"]
        run.start_producer()
        self.assertEqual(self.deliver(run)[0], 0, run.logs())
        self.assertEqual(run.files(), wanted)

    def spill_everything(self, run):
        run.start_producer()
        return self.until_status(
            run, "all other batches on disk", lambda status: status["spilled_samples"] >= SAMPLES - IN_THE_POOL
        )

    def test_the_oldest_batch_is_spilled_and_comes_back(self):
        with RealRun(*COPY, "--when-full", "spill") as run:
            self.spill_everything(run)
            self.assertGreaterEqual(len(list((run.run_dir / "live/spill").glob("slab-*.spill"))), 36)
            code, summary = self.deliver(run)
            self.assertEqual(code, 0, run.logs())
            samples = summary["samples"]
            self.assertEqual((samples["released"], samples["spilled"], samples["dropped"]), (SAMPLES, 0, 0))
            self.assertGreaterEqual(samples["ever_spilled"], SAMPLES - IN_THE_POOL)
            self.assertEqual(run.files(), self.wanted)
            self.assertFalse((run.run_dir / "live/spill").exists(), "spill files are left")

    def test_a_batch_from_disk_that_kills_consumers_becomes_a_dead_letter(self):
        """Like a slab that was never spilled: counted once, kept with its data, not done, and done by the next run."""
        with RealRun(*COPY, "--when-full", "spill", "--log-level", "info") as run:
            self.spill_everything(run)
            on_the_disk = {path.name for path in (run.run_dir / "live/spill").iterdir()}
            self.assertLessEqual(
                {f"slab-{slab}-1.spill" for slab in range(4)}, on_the_disk, "each slab's first batch, the items 0 to 15"
            )
            for _ in range(5):
                run.start_consumer("--processor", "crash-on-item", faulty=True, environment=POISON)
            self.assertEqual(run.wait(run.producer), 84, run.logs())
            self.assertEqual(run.wait_for_consumers().count(-signal.SIGSEGV), 3, run.logs())
            run.finish_outputs()
            summary = run.summary()
            self.assertTrue(summary["conserved"])
            samples = summary["samples"]
            self.assertEqual(
                (
                    samples["released"],
                    samples["dead_letters"],
                    samples["spilled"],
                    samples["in_flight"],
                    samples["dropped"],
                ),
                (SAMPLES - 4, 4, 0, 0, 0),
            )
            self.assertEqual([slab["deaths"] for slab in summary["dead_letters"]], [3])
            self.assertFalse((run.run_dir / "live/spill").exists(), "spill files are left")
            rest = set(range(SAMPLES)) - set(POISONED)
            self.assertEqual(items_of_checksums(run.output), rest)
            self.assertEqual(items_of_checkpoint(run.output), rest)
            wanted = self.wanted["checksums.tsv"].splitlines()
            self.assertTrue(set(self.lines_of(run)) < set(wanted))
            self.assertEqual(
                self.lines_of_a_retry(run, summary["dead_letters"][0]["payload"]),
                set(wanted) - set(self.lines_of(run)),
                "the payload has the batch's bytes",
            )
            self.resume(run, self.wanted)
            self.assertEqual(run.summary()["samples"]["released"], 4, "only this batch was left")

    def lines_of_a_retry(self, run, payload):
        """The results of the dead-lettered samples from a working processor."""
        again = run.folder / "again"
        command = [str(BIN / "offramp-consumer"), "--processor", "checksum", "--output", str(again)]
        subprocess.run([command[0], "retry", payload, *command[1:]], check=True, timeout=60)
        subprocess.run([command[0], "finish", *command[1:]], check=True, timeout=60)
        return {line for line in (again / "checksums.tsv").read_bytes().splitlines() if line[:1].isdigit()}

    def test_another_producer_continues_with_a_dead_ones_spilled_batches(self):
        with RealRun(*COPY, "--when-full", "spill", "--spill-dir", "/tmp/placeholder") as run:
            disk = run.folder / "disk"
            run.flags[run.flags.index("/tmp/placeholder")] = str(disk)
            self.spill_everything(run)
            with run.kept_from_sweeps():
                kill(run.producer)
                self.assertEqual(run.wait(run.producer), -signal.SIGKILL)
                (folder,) = disk.iterdir()
                self.assertIn(run.run_id, folder.name)
                (folder / "slab-1-77.spill.new").write_bytes(b"half")  # as a death in mid-write leaves it
                run.start_producer(command="recover")
                self.until_status(run, "the new producer's status", lambda status: status.get("producers") == 2)
            self.assertGreaterEqual(run.status()["spilled_samples"], SAMPLES - IN_THE_POOL)
            code, summary = self.deliver(run)
            self.assertEqual(code, 0, run.logs())
            self.assertEqual(
                (summary["samples"]["released"], summary["samples"]["published"], summary["samples"]["sourced"]),
                (SAMPLES, SAMPLES, SAMPLES),
            )
            self.assertEqual(run.files(), self.wanted)
            self.assertEqual(list(disk.iterdir()), [], "spill files are left")

    @unittest.skipIf(SANITIZER, "preloads a library, and a sanitizer's must come first")
    def test_the_producer_dies_at_each_step_of_a_spill(self):
        for point in ("spill.written", "ledger.vacate", "spill.read_back"):
            with self.subTest(point=point):
                self.dies_at(point, "spill")

    @unittest.skipIf(SANITIZER, "preloads a library, and a sanitizer's must come first")
    def test_the_producer_dies_at_each_step_of_a_drop(self):
        for point in ("broker.drop", "ledger.vacate"):
            with self.subTest(point=point):
                self.dies_at(point, "drop-oldest")

    def dies_at(self, point, when_full):
        with RealRun(*COPY, "--when-full", when_full) as run:
            environment = {
                "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
                "OFFRAMP_FAILPOINT": f"{point}#3:stop",
            }
            run.environment |= environment
            run.start_producer()
            for name in environment:
                run.environment.pop(name)
            if point == "spill.read_back":
                self.until_status(
                    run, "all other batches on disk", lambda status: status["spilled_samples"] >= SAMPLES - IN_THE_POOL
                )
                run.start_consumer()
            with run.kept_from_sweeps():  # from before its death on
                run.until(lambda: is_stopped(run.producer), point)
                kill(run.producer)
                self.assertEqual(run.wait(run.producer), -signal.SIGKILL, run.logs())
                run.start_producer(command="recover")
                self.until_status(run, "the new producer's status", lambda status: status.get("producers") == 2)
            run.start_consumer()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            run.finish_outputs()
            self.assertTrue(run.summary()["conserved"])
            if when_full == "drop-oldest":
                samples = run.summary()["samples"]
                self.assertEqual(samples["sourced"], samples["dropped"] + samples["released"])
                self.resume(run, self.wanted)
            self.assertEqual(run.files(), self.wanted)

    def test_a_full_disk_means_waiting_and_nothing_is_lost(self):
        with RealRun(*COPY, "--when-full", "spill", "--spill-dir", "/tmp/placeholder") as run:
            disk = run.folder / "disk"
            disk.mkdir()
            with small_disk(self, disk, "size=3m"):
                run.flags[run.flags.index("/tmp/placeholder")] = str(disk)
                run.start_producer()
                status = self.until_status(run, "a full disk", lambda status: "spill" in status["message"])
                self.assertIn("No space left on device", status["message"])
                self.assertIn("--spill-dir", status["message"])
                code, summary = self.deliver(run)
                self.assertEqual(code, 0, run.logs())
                self.assertEqual(summary["samples"]["released"], SAMPLES)
                self.assertEqual(run.files(), self.wanted)
