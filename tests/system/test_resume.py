"""A run resumes an interrupted one: nothing is duplicated or lost, and other work is refused."""

import contextlib
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
import unittest

from tests.support.launched_resume import World
from tests.support.real_run import require_nothing_left
from tests.support.small_disk import small_disk
from tests.system.resume_cycles import KINDS, Cycles

CYCLES = 4  # per kind
COPY = (
    *"--device cpu --model copy --consumers 2 --slabs 4 --copy-bytes 1MiB --batch 8".split(),
    *"--samples-per-slab 4 --processor checksum --status-seconds 0.05".split(),
)
SHORT = (*COPY, "--batches", "40")
ROWS = (
    *"--device cpu --model copy --consumers 2 --slabs 4 --copy-outputs 384 --batch 8".split(),
    *"--batches-per-slab 1 --processor embeddings-sqlite --status-seconds 0.05".split(),
)
LONG = (*COPY, "--batches", "100000")


class InWorlds(unittest.TestCase):
    """Test cases whose worlds are checked for leftovers and removed at the end."""

    maxDiff = 2000

    def world(self, *flags, **more):
        world = self.enterContext(World(*flags, **more))
        self.addCleanup(require_nothing_left, self, world.shared_memory)
        return world

    def enterContext(self, context):  # of a Python before 3.11
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def undisturbed(self, *flags):
        world = self.world(*flags)
        self.assertEqual(world.start().wait(), 0, world.logs())
        return world.results()

    def break_off(self, world, *flags, samples=40, slabs=None):
        self.assertGreaterEqual(
            world.break_off(*flags, samples=samples, slabs=slabs), 4, "launcher, producer, two consumers"
        )


class Resume(InWorlds):
    def test_a_run_killed_again_and_again_gives_the_same_results(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                seed = random.SystemRandom().randrange(1 << 32)
                tally = Cycles(kind, seed).run(CYCLES, wanted_ends=1)
                self.assertEqual(tally.failures, [], f"seed {seed}")
                self.assertGreaterEqual(tally.kills, CYCLES)
                self.assertGreaterEqual(tally.ends, 1)

    def test_only_missing_items_are_done(self):
        wanted = self.undisturbed(*COPY, "--batches", "400")
        world = self.world(*COPY, "--batches", "400")
        self.break_off(world)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        samples = world.summary()["samples"]
        self.assertGreaterEqual(samples["done_before"], 4)
        self.assertEqual(samples["done_before"] + samples["released"], 3200)
        self.assertEqual(samples["sourced"], samples["released"])
        self.assertIn(f"{samples['done_before']} samples were done by earlier runs", world.logs())
        self.assertEqual(world.results(), wanted)

    def test_a_stopped_run_continues_and_a_finished_one_does_nothing(self):
        world = self.world(*COPY, "--batches", "400")
        with world.gate() as gate:
            world.start()
            world.interrupt_behind(gate, slabs=8, samples=8)
            self.assertEqual(world.wait(), 130, world.logs())
        self.assertLess(world.summary()["samples"]["released"], 3200)
        for released in (3200 - world.summary()["samples"]["released"], 0, 0):
            self.assertEqual(world.start("--resume").wait(), 0, world.logs())
            self.assertEqual(world.summary()["samples"]["released"], released)
        self.assertEqual(world.results(), self.undisturbed(*COPY, "--batches", "400"))

    def test_consumers_that_find_their_producer_at_its_end_end_well(self):
        """They may find its lock, its memory, its socket, or nothing."""
        world = self.world(*SHORT)
        self.assertEqual(world.start().wait(), 0, world.logs())
        for _ in range(3):
            self.assertEqual(world.start("--resume", "--consumers", "8").wait(), 0, world.logs())
            self.assertEqual([consumer["exit"] for consumer in world.summary()["consumers"]], [0] * 8, world.logs())
            self.assertNotIn("consumer-", (world.folder / "launcher.log").read_text())

    def test_the_command_at_the_end_of_a_stopped_run_finishes_it(self):
        world = self.world(*SHORT)
        with world.gate() as gate:
            world.start()
            world.interrupt_behind(gate, slabs=8, samples=8)
            self.assertEqual(world.wait(), 130, world.logs())
        before = world.summary()["samples"]["released"]
        command = next(line for line in world.logs().splitlines() if line.startswith("  continue ")).removeprefix(
            "  continue "
        )
        done = subprocess.run(
            command,
            shell=True,
            cwd="/",
            env=world.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{before} samples were done by earlier runs", done.stdout)
        self.assertNotIn("  continue ", done.stdout)
        self.assertEqual(world.results(), self.undisturbed(*SHORT))

    def test_every_way_out_of_the_device_notes_what_it_did(self):
        for rung in ("sequential", "workers", "pool", "async"):
            with self.subTest(rung=rung):
                world = self.world(*SHORT, "--strategy", rung)
                self.assertEqual(world.start().wait(), 0, world.logs())
                self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertEqual(world.summary()["samples"]["done_before"], 320)

    def test_a_power_cut_is_provided_for_without_other_results(self):
        world = self.world(*SHORT, "--durable")
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assertEqual(world.results(), self.undisturbed(*SHORT))

    def test_other_work_is_not_continued(self):
        world = self.world(*SHORT)
        self.assertEqual(world.start().wait(), 0, world.logs())
        before = world.results()
        for flags, reason in (
            (("--batch", "4", "--batches", "80"), "--batch was 8 and is 4"),
            (("--batches", "41"), "items was 320 and is 328"),
            (("--seed", "7"), "--seed was 0 and is 7"),
            (("--limit", "100"), "items was 320 and is 100"),
            (("--shard", "2/2"), "--shard was none and is 2/2"),
        ):
            world.flags = (*SHORT, *flags)
            self.assertEqual(world.start("--resume").wait(), 64, world.logs())
            self.assertIn(reason, world.logs())
            self.assertIn("--overwrite instead of --resume", world.logs())
        self.assertEqual(world.results(), before)

    def test_a_higher_limit_takes_more_of_the_same(self):
        world = self.world(*SHORT, "--limit", "100")
        self.break_off(world, samples=8)
        for limit, before in ((("--limit", "203"), None), ((), 203)):
            world.flags = (*SHORT, *limit)
            self.assertEqual(world.start("--resume").wait(), 0, world.logs())
            done = world.summary()["samples"]["done_before"]
            self.assertEqual(done, before) if before else self.assertLessEqual(done, 100)
        self.assertEqual(world.results(), self.undisturbed(*SHORT))

    def test_a_shard_is_continued_and_merged_shards_equal_the_whole(self):
        """Shards number items, batches and rows like a single run, so each line has the same bytes."""
        lines = []
        for shard, items in (("1/3", 54), ("2/3", 54), ("3/3", 53)):
            world = self.world(*COPY, "--batches", "21", "--limit", "161", "--shard", shard)
            self.break_off(world, samples=8)
            self.assertEqual(world.start("--resume").wait(), 0, world.logs())
            samples = world.summary()["samples"]
            self.assertEqual(samples["done_before"] + samples["released"], items)
            lines.append((world.output / "checksums.tsv").read_text())
        whole = self.world(*COPY, "--batches", "21", "--limit", "161")
        self.assertEqual(whole.start().wait(), 0, whole.logs())
        self.assertEqual("".join(lines), (whole.output / "checksums.tsv").read_text())

    def test_a_shard_of_unreadable_items_reports_what_a_whole_run_reports(self):
        world = self.world(
            *"--device cpu --model copy --consumers 1 --slabs 4 --copy-outputs 1x24x32 --batch 8 --batches 20".split(),
            *"--processor mask-png --max-errors 5 --shard 2/2".split(),
        )
        self.assertEqual(world.start().wait(), 64, world.logs())
        self.assertRegex(world.logs(), r"the item '80': .*; this affects 8 of 8 items")

    def test_a_torn_checkpoint_costs_work_and_a_strange_one_is_refused(self):
        world = self.world(*SHORT)
        self.assertEqual(world.start().wait(), 0, world.logs())
        before = world.results()
        checkpoint = world.output / ".offramp-checkpoint"
        *lines, ended = checkpoint.read_bytes().splitlines(keepends=True)
        self.assertIn(b'"ended":true', ended)
        checkpoint.write_bytes(b"".join(lines)[:-9])
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertLess(world.summary()["samples"]["done_before"], 320)
        self.assertIn("were incomplete", world.logs())
        self.assertEqual(world.results(), before)
        checkpoint.write_text("something else\n")
        self.assertEqual(world.start("--resume").wait(), 65, world.logs())
        self.assertIn(str(checkpoint), world.logs())

    def test_a_database_that_goes_away_in_mid_run_is_waited_for(self):
        flags = (*ROWS, "--batches", "300")
        world = self.world(*flags)
        database, away = world.output / "embeddings.sqlite", world.output / "away"
        with world.gate() as gate:
            world.start()
            gate.let(10)
            world.until(lambda: world.status().get("done_samples", 0) >= 80, "some rows")
            database.rename(away)
            gate.open()
            world.until(
                lambda: "with results that are recorded as done" in world.logs(), "a consumer without its database"
            )
            self.assertFalse(database.exists(), "a new database was created")
            away.rename(database)
            self.assertEqual(world.wait(), 0, world.logs())
        self.assertEqual(world.results(), self.undisturbed(*flags))

    def test_an_older_copy_of_the_database_in_its_place_is_refused(self):
        """A backup from mid-run replaces the database by rename, without its log, like a closed database."""
        flags = (*ROWS, "--batches", "120")
        world = self.world(*flags)
        database, away, older = world.output / "embeddings.sqlite", world.folder / "away", world.folder / "older"

        def move(here, there):
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    here.with_name(here.name + end).rename(there.with_name(there.name + end))

        with world.gate() as gate:
            world.start()
            gate.let(12)
            world.until(lambda: world.status().get("done_samples", 0) >= 64, "some rows")
            with (
                contextlib.closing(sqlite3.connect(database)) as source,
                contextlib.closing(sqlite3.connect(older)) as copy,
            ):
                source.backup(copy)
            gate.let(12)
            world.until(lambda: world.status().get("done_samples", 0) >= 160, "more rows")
            move(database, away)
            move(older, database)
            gate.open()
            self.assertEqual(world.wait(), 64, world.logs())
        self.assertIn("is an older copy of the one that this run wrote to", world.logs())
        self.assertEqual(world.start("--resume").wait(), 64, "the old copy is still there")
        move(database, older)
        move(away, database)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreaterEqual(world.summary()["samples"]["done_before"], 160)
        self.assertEqual(world.results(), self.undisturbed(*flags))

    def test_a_database_begins_anew_when_its_run_does(self):
        world = self.world(*ROWS, "--batches", "40", "--consumers", "3")
        self.assertEqual(world.start().wait(), 0, world.logs())
        world.flags = (*ROWS, "--batches", "20", "--truncate-dim", "16")
        self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
        self.assertEqual(world.results(), self.undisturbed(*world.flags))

    def test_with_nothing_there_everything_is_done(self):
        world = self.world(*SHORT)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.summary()["samples"]["released"], 320)

    def test_a_half_finished_run_is_kept_and_can_be_continued(self):
        world = self.world(*SHORT)
        self.break_off(world, samples=80, slabs=20)
        unfinished = world.run_id()
        world.flags = (*COPY, "--batches", "20")
        self.assertEqual(world.start().wait(), 64, world.logs())
        self.assertRegex(world.logs(), rf"holds \d+ of \d+ items of run {unfinished}, which has not finished")
        self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
        self.assertEqual(world.summary()["samples"]["done_before"], 0)
        self.assertEqual(world.results(), self.undisturbed(*world.flags))
        aside = world.output.with_name(f"{world.output.name}.before-{world.run_id()}")
        self.assertIn(str(aside), world.logs())
        world.output, world.flags = aside, SHORT
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreaterEqual(world.summary()["samples"]["done_before"], 80 - 32)
        self.assertEqual(world.results(), self.undisturbed(*SHORT))

    def test_two_runs_into_one_folder_are_kept_apart(self):
        first = self.world(*LONG)
        first.start()
        first.until(lambda: first.status().get("done_samples", 0) > 0, "the first sample done")
        for flags in ((), ("--resume",)):
            second = self.world(*LONG, output=first.output)
            self.assertEqual(second.start(*flags).wait(), 85, second.logs())
            self.assertIn(f"run {first.run_id()} (process {first.launcher.pid}", second.logs())
        producer = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"], "offramp-producer")
        by_hand = subprocess.run(
            [
                producer,
                *LONG,
                "--run-dir",
                second.folder / "r",
                "--run-id",
                f"test-{second.mark[:12]}-hand",
                "--output",
                first.output,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(by_hand.returncode, 85, by_hand.stderr)
        self.assertIn(f"run {first.run_id()}", by_hand.stderr)
        self.assertIsNone(first.launcher.poll())
        first.kill_everything()
        self.assertEqual(second.start("--overwrite", "--limit", "8").wait(), 0, second.logs())

    def test_programs_whose_launcher_died_are_waited_for(self):
        world = self.world(*SHORT)
        with world.gate() as gate:
            world.start()
            gate.let(8)
            world.until(lambda: world.status().get("done_samples", 0) > 0, "the first sample done")
            world.launcher.kill()
            world.launcher.wait()
            world.start("--resume")
            gate.open()
            self.assertEqual(world.wait(), 0, world.logs())
        self.assertEqual(world.results(), self.undisturbed(*SHORT))

    def test_resume_needs_to_know_what(self):
        launch = pathlib.Path(__file__).resolve().parents[2] / "launch/offramp"
        world = self.world()
        answer = subprocess.run(
            [launch, "run", *SHORT, "--resume"],
            capture_output=True,
            text=True,
            timeout=60,
            env=world.environment,
            check=False,
        )
        self.assertEqual(answer.returncode, 64, answer.stderr)
        self.assertIn("--output", answer.stderr)


class HostileFolders(InWorlds):
    """Results on a full or read-only file system: a clear error, nothing is lost, and --resume continues."""

    BATCHES, BATCH = 400, 8
    FILES = (
        *"--device cpu --model copy --consumers 2 --copy-bytes 16KiB --batch".split(),
        str(BATCH),
        "--batches-per-slab",
        "1",
        "--batches",
        str(BATCHES),
        *"--processor write --status-seconds 0.05".split(),
    )

    def setUp(self):
        self.disk = pathlib.Path(tempfile.mkdtemp(prefix="offramp-disk-", dir="/tmp"))
        self.addCleanup(self.disk.rmdir)
        self.enterContext(small_disk(self, self.disk, "size=4m,mode=0755"))

    def try_remount(self, options):
        return (
            subprocess.run(
                ["mount", "-o", f"remount,{options}", self.disk], capture_output=True, check=False
            ).returncode
            == 0
        )

    def remount_when_no_file_is_open(self, options):
        """Retries, because a killed process keeps its files open until the kernel has removed it."""
        deadline = time.monotonic() + 30
        while not self.try_remount(options):
            self.assertLess(time.monotonic(), deadline, "the file system stays busy")
            time.sleep(0.01)

    def world_on_disk(self, folder):
        return self.world(*self.FILES, "--write-path", str(self.disk / "files"), output=folder)

    def assert_continues_to_the_same_end(self, world):
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        samples = world.summary()["samples"]
        self.assertGreater(samples["done_before"], 0)
        self.assertEqual(samples["done_before"] + samples["released"], self.BATCHES * self.BATCH)
        elsewhere = self.world()
        elsewhere.flags = (*self.FILES, "--write-path", str(elsewhere.output / "files"))
        self.assertEqual(elsewhere.start().wait(), 0, elsewhere.logs())
        self.assertEqual(world.results(self.disk / "files"), elsewhere.results(elsewhere.output / "files"))

    def test_a_full_disk(self):
        for output in (self.disk, None):
            with self.subTest(checkpoint="there as well" if output else "elsewhere"):
                self.assertTrue(self.try_remount("size=4m"))
                world = self.world_on_disk(output)
                self.assertEqual(world.start().wait(), 73, world.logs())
                self.assertIn("No space left on device", world.logs())
                self.assertIn("Free space on that file system", world.logs())
                self.assertTrue(self.try_remount("size=160m"))
                self.assert_continues_to_the_same_end(world)
                for entry in self.disk.iterdir():
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def test_a_full_disk_under_a_database(self):
        flags = (*ROWS, "--batches", "500", "--vector-dtype", "fp32")
        world = self.world(*flags, output=self.disk)
        self.assertEqual(world.start().wait(), 73, world.logs())
        self.assertIn("No space left on device", world.logs())
        self.assertTrue(self.try_remount("size=160m"))
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreater(world.summary()["samples"]["done_before"], 0)
        self.assertEqual(world.results(), self.undisturbed(*flags))

    def test_a_disk_that_becomes_read_only_in_mid_run(self):
        self.assertTrue(self.try_remount("size=160m"))
        world = self.world_on_disk(None)
        with world.gate() as gate:
            world.start()
            gate.let(2)
            world.until(lambda: world.status().get("done_samples", 0) == 16, "two slabs' files")
            self.remount_when_no_file_is_open("ro")
            gate.open()
            self.assertEqual(world.wait(), 73, world.logs())
        self.assertIn("Read-only file system", world.logs())
        self.assertTrue(self.try_remount("rw"))
        self.assert_continues_to_the_same_end(world)

    def test_a_read_only_output_folder_is_refused_immediately(self):
        self.assertTrue(self.try_remount("size=160m"))
        world = self.world_on_disk(self.disk)
        self.break_off(world, samples=8)
        self.remount_when_no_file_is_open("ro")
        self.assertEqual(world.start("--resume").wait(), 73, world.logs())
        self.assertIn(f"--output {self.disk} cannot be written: Read-only file system", world.logs())
        self.assertTrue(self.try_remount("rw"))
        self.assert_continues_to_the_same_end(world)


class LimitedFiles(InWorlds):
    """
    Under `ulimit -f`: the error names the file and the limit, nothing is lost, and --resume works without the limit.
    """

    def assert_ends_and_goes_on(self, limit, *flags, done_before):
        world = self.world(*flags)
        world.through = ("prlimit", f"--fsize={limit}:{limit}")
        self.assertEqual(world.start().wait(), 73, world.logs())
        failure = world.summary()["failure"]
        self.assertIn("File too large", failure)
        self.assertIn("ulimit -f", failure)
        self.assertNotIn("Traceback", world.logs())
        self.assertEqual(world.start("--resume").wait(), 73, "the limit is still in place")
        world.through = ()
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.summary()["samples"]["done_before"] > 0, done_before)
        self.assertEqual(world.results(), self.undisturbed(*flags))

    def test_a_result_that_grows_too_large(self):
        self.assert_ends_and_goes_on(256 << 10, *ROWS, "--batches", "500", "--vector-dtype", "fp32", done_before=True)

    def test_merged_results(self):
        self.assert_ends_and_goes_on(64 << 10, *COPY, "--copy-bytes", "1KiB", "--batches", "400", done_before=True)

    def test_a_slab_that_is_too_large(self):
        self.assert_ends_and_goes_on(256 << 10, *SHORT, done_before=False)
