"""
A batch that crashes every consumer becomes a dead letter with its data and an incident report; all others are done.
"""

import json
import signal
import struct
import subprocess
import time
import unittest

from tests.support.done_items import items_of_checksums
from tests.support.gate import Gate
from tests.support.launched_run import LaunchedRun, programs_with_faulty_consumer
from tests.support.real_run import BIN, SANITIZER, LeavesNothing, RealRun, is_stopped, kill, undisturbed
from tests.support.small_disk import small_disk

COPY = tuple("--device cpu --model copy --copy-bytes 1MiB --batch 4 --batches 24 --slabs 4 --log-level info".split())
# Item 10 is in batch 2, with the items 8 to 11.
POISON = {"OFFRAMP_TEST_CRASH_ITEM": "10", "OFFRAMP_TEST_CRASH_HOW": "segv", "OFFRAMP_TEST_THEN": "checksum"}
POISONED = range(8, 12)
NAME = "batch-2-row-0"


def checksums(text):
    """{item: line}"""
    return {int(line.split("\t")[0]): line for line in text.splitlines() if line[:1].isdigit()}


def undisturbed_checksums():
    return checksums(undisturbed(*COPY, "--processor", "checksum")["checksums.tsv"].decode())


class DeadLetter(LeavesNothing):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.wanted = undisturbed_checksums()
        cls.neighbours = {item: line for item, line in cls.wanted.items() if item not in POISONED}
        cls.all_but_poison = {item: line for item, line in cls.wanted.items() if item != 10}

    def poisoned_run(self, run, consumers=5):
        run.start_producer()
        for _ in range(consumers):
            run.start_consumer("--processor", "crash-on-item", faulty=True, environment=POISON)
        self.assertEqual(run.wait(run.producer), 84, run.logs())
        self.assertEqual(run.wait_for_consumers().count(-signal.SIGSEGV), 3, run.logs())
        run.finish_outputs()
        self.assertEqual(checksums((run.output / "checksums.tsv").read_text()), self.neighbours)
        summary = run.summary()
        self.assertEqual((summary["samples"]["released"], summary["samples"]["dead_letters"]), (92, 4))
        self.assertTrue(summary["conserved"])
        return summary

    def retry(self, payload, output):
        command = [str(BIN / "offramp-consumer"), "--processor", "checksum", "--output", str(output)]
        subprocess.run([command[0], "retry", str(payload), *command[1:]], check=True, timeout=60)
        subprocess.run([command[0], "finish", *command[1:]], check=True, timeout=60)
        return checksums((output / "checksums.tsv").read_text())

    def test_its_neighbours_complete_and_its_payload_has_the_undisturbed_bytes(self):
        for rung in ("streams", "workers"):
            with self.subTest(rung=rung), RealRun(*COPY, "--strategy", rung) as run:
                summary = self.poisoned_run(run)
                payload = run.run_dir / "dead-letters" / f"{NAME}.safetensors"
                self.assertEqual([slab["payload"] for slab in summary["dead_letters"]], [str(payload)])
                self.assertEqual(
                    self.retry(payload, run.folder / "again"), {item: self.wanted[item] for item in POISONED}
                )
                incident = json.loads(payload.with_suffix(".json").read_text())
                self.assertEqual([sample["key"] for sample in incident["samples"]], [str(item) for item in POISONED])
                self.assertEqual(
                    [delivery["end"] for delivery in incident["deliveries"] if delivery["counted"]], ["died"] * 3
                )
                self.assertEqual(
                    {delivery["pid"] for delivery in incident["deliveries"] if delivery["counted"]},
                    set(summary["dead_letters"][0]["pids"]),
                )
                with open(payload, "rb") as file:
                    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
                self.assertEqual(header["payload"]["shape"], [4, 1 << 18], "any reader of the format finds the tensor")
                self.assertEqual(
                    sorted(path.name for path in payload.parent.iterdir()), [f"{NAME}.json", f"{NAME}.safetensors"]
                )

    def test_a_full_disk_is_reported_and_the_run_continues(self):
        with RealRun(*COPY) as run:
            folder = run.run_dir / "dead-letters"
            (run.run_dir / "live").mkdir(mode=0o700, parents=True)
            (run.run_dir / "live/producer.lock").touch()  # like an earlier run's
            folder.mkdir()
            with small_disk(self, folder, "size=512k"):  # a payload is 1 MiB
                summary = self.poisoned_run(run)
                self.assertEqual(summary["payloads_lost"], 1)
                self.assertEqual(summary["dead_letters"][0]["payload"], "")
                self.assertIn("No space left on device", summary["dead_letters"][0]["error"])
                self.assertIn(str(folder), summary["dead_letters"][0]["error"])
                self.assertEqual([path.name for path in folder.iterdir()], [f"{NAME}.json"])
                incident = json.loads((folder / f"{NAME}.json").read_text())
                self.assertEqual(
                    [sample["item"] for sample in incident["samples"]],
                    list(POISONED),
                    "the report lists the lost samples",
                )

    def test_a_consumer_that_reports_it_itself_is_believed_and_lives(self):
        for how, why, failures in (
            ("fail", "it failed 3 times: TheTestWantsThis: it failed", 3),
            ("reject", "a consumer rejected it: no consumer can do this", 1),
        ):
            with self.subTest(how=how), LaunchedRun(*COPY, "--processor", "crash-on-item", "--consumers", "2") as run:
                run.environment.update(
                    POISON, OFFRAMP_TEST_CRASH_HOW=how, OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(run.folder))
                )
                self.assertEqual(run.start().wait(), 84, run.logs())
                self.assertEqual(
                    checksums((run.output / "checksums.tsv").read_text()),
                    self.all_but_poison,
                    "its neighbours in the batch are done",
                )
                summary = run.summary()
                self.assertEqual(
                    (summary["samples"]["released"], summary["samples"]["dead_letters"], summary["conserved"]),
                    (95, 1, True),
                )
                self.assertEqual(summary["samples"]["recovered"], 3)
                self.assertIn("sample '10' failed: ", summary["failure"])
                self.assertEqual([consumer["exit"] for consumer in summary["consumers"]], [0, 0], "no consumer died")
                self.assertIn(why, run.logs())
                incident = json.loads((run.run_dir / "dead-letters" / f"{NAME}.json").read_text())
                self.assertEqual((incident["deaths"], incident["failures"], incident["reason"]), (0, failures, why))
                reasons = [delivery["why"] for delivery in incident["deliveries"] if delivery["counted"]]
                self.assertEqual(
                    reasons,
                    ["Traceback of the test\nTheTestWantsThis: it failed"] * 3
                    if how == "fail"
                    else ["no consumer can do this"],
                )
                self.assertIn(reasons[0].splitlines()[0], run.command("dead-letters", "show", NAME).stdout)
                mended = run.command(
                    "dead-letters", "retry", NAME, "--processor", "checksum", "--output", str(run.folder / "again")
                )
                self.assertEqual(mended.returncode, 0, mended.stdout + mended.stderr)

    @unittest.skipIf(SANITIZER, "preloads a library, and a sanitizer's must come first")
    def test_a_death_at_each_step_of_a_failure_loses_nothing(self):
        # Before the consumer's message; after the producer counted the failure, while the holder is alive.
        for moment in ("consumer.failed", "ledger.fail.counted"):
            with (
                self.subTest(moment=moment),
                LaunchedRun(
                    *COPY, "--processor", "crash-on-item", "--consumers", "2", "--producer-restarts", "2"
                ) as run,
            ):
                once = run.folder / "once"
                once.mkdir()
                run.environment.update(
                    POISON,
                    OFFRAMP_TEST_CRASH_HOW="fail",
                    OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(run.folder)),
                    LD_PRELOAD=str(BIN / "tests" / "libofframp_failpoints.so"),
                    OFFRAMP_FAILPOINT=f"{moment}#1:kill",
                    OFFRAMP_FAILPOINT_ONCE=str(once),
                )
                self.assertEqual(run.start().wait(), 84, run.logs())
                self.assertTrue(any(once.iterdir()), "the failpoint was not reached")
                done = checksums((run.output / "checksums.tsv").read_text())
                # If a consumer also died, nothing of the batch is retried.
                self.assertIn(done, (self.all_but_poison, self.neighbours))
                self.assertTrue(run.summary()["conserved"])

    def test_through_the_launch_script(self):
        with LaunchedRun(*COPY, "--processor", "crash-on-item", "--consumers", "2") as run:
            programs = run.folder / "bin"
            programs.mkdir()
            (programs / "offramp-producer").symlink_to(BIN / "offramp-producer")
            (programs / "offramp-consumer").symlink_to(BIN / "tests" / "offramp-consumer-faulty")
            run.environment.update(POISON, OFFRAMP_BIN_DIR=str(programs))
            self.assertEqual(run.start().wait(), 84, run.logs())
            self.assertEqual(checksums((run.output / "checksums.tsv").read_text()), self.neighbours)
            self.assertIn(f"{NAME}.safetensors", run.logs())

            incident = json.loads((run.run_dir / "dead-letters" / f"{NAME}.json").read_text())
            counted = [delivery for delivery in incident["deliveries"] if delivery["counted"]]
            self.assertEqual([delivery["signal"] for delivery in counted], ["SIGSEGV"] * 3)
            self.assertEqual([delivery["exit"] for delivery in counted], [-signal.SIGSEGV] * 3)
            for delivery in counted:
                self.assertIn("session", "\n".join(delivery["last_log_lines"]), "its consumer's last log lines")

            listed = run.command("dead-letters", "list")
            self.assertEqual(listed.returncode, 0, listed.stderr)
            self.assertRegex(listed.stdout, rf"{NAME} +4 +1\.0 +3 +3 SIGSEGV +dead-lettered")
            shown = run.command("dead-letters", "show", NAME)
            self.assertIn("took down 3 consumers", shown.stdout)
            self.assertIn("while processing it", shown.stdout)

            # With the run's processor one sample kills again. The other samples join the run's results, and the payload
            # stays.
            again = run.command("dead-letters", "retry", NAME)
            self.assertEqual(again.returncode, 84, again.stdout + again.stderr)
            self.assertIn("sample '10' failed: the consumer was killed by SIGSEGV", again.stdout + again.stderr)
            self.assertRegex(run.command("dead-letters", "list").stdout, rf"{NAME} +1 .*1 of 4 samples failed")
            self.assertIn(
                "10 failed: the consumer was killed by SIGSEGV", run.command("dead-letters", "show", NAME).stdout
            )
            self.assertEqual(checksums((run.output / "checksums.tsv").read_text()), self.all_but_poison)
            mended = run.command(
                "dead-letters", "retry", "--all", "--processor", "checksum", "--output", str(run.folder / "again")
            )
            self.assertEqual(mended.returncode, 0, mended.stdout + mended.stderr)
            self.assertEqual(
                checksums((run.folder / "again" / "checksums.tsv").read_text()),
                {item: self.wanted[item] for item in POISONED},
            )
            self.assertRegex(run.command("dead-letters", "list").stdout, rf"{NAME} .*recovered")

            unknown = run.command("dead-letters", "show", "batch-9-row-0")
            self.assertEqual(unknown.returncode, 66)
            self.assertIn(NAME, unknown.stderr)

    @unittest.skipIf(SANITIZER, "preloads a library, and a sanitizer's must come first")
    def test_the_next_producer_finishes_a_dead_letter_that_a_dead_one_began(self):
        # Between the count and the dead letter; between the dead letter and its file.
        for moment in ("ledger.dead_letter", "dead_letter.write"):
            with (
                self.subTest(moment=moment),
                LaunchedRun(*COPY, "--processor", "crash-on-item", "--consumers", "2") as run,
            ):
                programs = run.folder / "bin"
                programs.mkdir()
                (programs / "offramp-producer").symlink_to(BIN / "offramp-producer")
                (programs / "offramp-consumer").symlink_to(BIN / "tests" / "offramp-consumer-faulty")
                (run.folder / "once").mkdir()
                run.environment.update(
                    POISON,
                    OFFRAMP_BIN_DIR=str(programs),
                    OFFRAMP_FAILPOINT=f"{moment}#1:kill",
                    OFFRAMP_FAILPOINT_ONCE=str(run.folder / "once"),
                    LD_PRELOAD=str(BIN / "tests" / "libofframp_failpoints.so"),
                )
                self.assertEqual(run.start().wait(), 84, run.logs())
                self.assertTrue((run.folder / "once" / moment).exists(), "the producer passed the failpoint")
                summary = run.summary()
                self.assertEqual(summary["producer_restarts"], 1, run.logs())
                self.assertEqual((summary["samples"]["released"], summary["samples"]["dead_letters"]), (92, 4))
                self.assertTrue(summary["conserved"])
                self.assertEqual([slab["deaths"] for slab in summary["dead_letters"]], [3])
                self.assertEqual(checksums((run.output / "checksums.tsv").read_text()), self.neighbours)
                payload = run.run_dir / "dead-letters" / f"{NAME}.safetensors"
                self.assertEqual(
                    self.retry(payload, run.folder / "again"), {item: self.wanted[item] for item in POISONED}
                )

    def test_a_retry_of_no_payload_is_refused_by_name(self):
        with RealRun(*COPY) as run:
            file = run.folder / "weights.safetensors"
            file.write_bytes(struct.pack("<Q", 2) + b"{}" + b"")
            refused = subprocess.run(
                [str(BIN / "offramp-consumer"), "retry", str(file), "--processor", "none"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(refused.returncode, 76, refused.stderr)
            self.assertIn(str(file), refused.stderr)


class Leases(LeavesNothing):
    @classmethod
    def setUpClass(cls):
        cls.wanted = undisturbed_checksums()

    def assert_everything_done(self, run):
        run.finish_outputs()
        self.assertEqual(checksums((run.output / "checksums.tsv").read_text()), self.wanted)
        self.assertTrue(run.summary()["conserved"])
        self.assertEqual(run.summary()["dead_letters"], [])

    def test_a_holder_commits_its_slab_after_the_visibility_timeout(self):
        with RealRun(*COPY, "--visibility-timeout", "0.3", "--status-seconds", "0.05") as run:
            run.start_producer()
            with Gate(run.folder) as gate:
                run.start_consumer("--processor", "checksum", faulty=True, environment=gate.environment)
                gate.entered()
                run.until(lambda: run.status().get("visibility_timeouts"), "an expired lease")
                gate.open()
                self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            self.assert_everything_done(run)

    def test_the_first_holder_to_finish_completes_a_slow_slab(self):
        """
        Both consumers hold the slab after their leases expired. The work of the first to finish counts, and the slab is
        not redelivered.
        """
        with RealRun(*COPY, "--batches", "1", "--visibility-timeout", "0.3", "--status-seconds", "0.05") as run:
            run.start_producer()
            with Gate(run.folder) as gate:
                run.start_consumer("--processor", "checksum", faulty=True, environment=gate.environment)
                _, item = gate.entered()
                other = run.start_consumer("--processor", "checksum", faulty=True, environment=gate.environment)
                self.assertEqual(gate.entered(), (other.pid, item))
                run.until(lambda: run.status()["visibility_timeouts"] == 2, "two expired leases")
                kill(other, signal.SIGSTOP)
                run.until(lambda: is_stopped(other), "a stopped consumer at the gate")
                gate.let(1)
                run.until(lambda: run.status()["released_samples"] > 0, "the first consumer's work completed")
                kill(other, signal.SIGCONT)
                gate.open()
                self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            run.finish_outputs()
            self.assertEqual(items_of_checksums(run.output), {0, 1, 2, 3})
            self.assertTrue(run.summary()["conserved"])

    def test_kill_stalled_kills_a_stalled_consumer(self):
        # Long enough that a pause of the machine does not stall the second consumer.
        with RealRun(*COPY, "--visibility-timeout", "8", "--kill-stalled") as run:
            run.start_producer()
            with Gate(run.folder) as gate:
                hung = run.start_consumer("--processor", "checksum", faulty=True, environment=gate.environment)
                gate.entered()
                kill(hung, signal.SIGSTOP)
                self.assertEqual(run.wait(hung), -signal.SIGKILL, run.logs())
            run.start_consumer("--processor", "checksum")
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            self.assert_everything_done(run)
            summary = run.summary()
            self.assertEqual(summary["stalled_killed"], 1)
            self.assertIn("is killed: it is stalled", run.logs())

    def test_a_pause_of_the_whole_run_expires_and_kills_nothing(self):
        """
        Simulates `docker pause`, a cgroup freezer or a suspended machine for two visibility timeouts. Both consumers
        connect first.
        """
        visibility_timeout = 8
        with RealRun(
            *COPY, "--visibility-timeout", str(visibility_timeout), "--kill-stalled", "--status-seconds", "0.05"
        ) as run:
            run.start_producer()
            with Gate(run.folder) as gate:
                for _ in range(2):
                    run.start_consumer("--processor", "checksum", faulty=True, environment=gate.environment)
                gate.entered_by(2)
                processes = [run.producer, *run.consumers]
                for child in processes:
                    kill(child, signal.SIGSTOP)
                run.until(lambda: all(is_stopped(child) for child in processes), "all processes stopped")
                stopped = time.monotonic()
                gate.open()
                run.until(lambda: time.monotonic() - stopped > 2 * visibility_timeout, "two visibility timeouts")
                for child in processes:
                    kill(child, signal.SIGCONT)
                self.assertEqual(run.wait(run.producer), 0, run.logs())
            self.assertEqual(run.wait_for_consumers(), [0, 0], run.logs())
            self.assert_everything_done(run)
            summary = run.summary()
            self.assertEqual(
                (summary["visibility_timeouts"], summary["stalled_killed"], summary["samples"]["redelivered"]),
                (0, 0, 0),
            )

    def test_the_status_reports_each_holder_while_no_slab_is_free(self):
        with RealRun(*COPY, "--visibility-timeout", "60", "--status-seconds", "0.05") as run:
            run.start_producer()
            with Gate(run.folder) as gate:
                holder = run.start_consumer("--processor", "checksum", faulty=True, environment=gate.environment)
                gate.entered()
                words = f"pid {holder.pid} holds"  # once several slabs exist and none is free
                status = run.until(
                    lambda: (
                        (status := run.status()) and status.get("shortage") and words in status["message"] and status
                    ),
                    words,
                )
                self.assertEqual(status["shortage"], "all-leased")
                self.assertEqual(
                    [consumer["pid"] for consumer in status["consumers"] if consumer["holding"]], [holder.pid]
                )
                gate.open()
                self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            self.assert_everything_done(run)
