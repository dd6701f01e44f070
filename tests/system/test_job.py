"""
A job's shards, killed, stopped and retried, merge to the results of one run; unsuitable work is refused with a reason.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from tests.support.launched_job import JobWorld
from tests.support.launched_resume import World
from tests.support.launched_run import programs_with_faulty_consumer
from tests.support.real_run import BIN, SANITIZER, require_nothing_left
from tests.support.small_disk import small_disk

COPY = ("--device", "cpu", "--model", "copy", "--consumers", "2", "--slabs", "4", "--status-seconds", "0.05")
# Shards begin in the middle of a batch.
FEW = (*COPY, "--batch", "8", "--batches", "13", "--limit", "101")
# About 150 batches each, more than a stopped run has in flight.
MANY = (*COPY, "--batch", "2", "--batches", "450", "--limit", "895")
PARQUET = (
    ",embeddings-parquet"
    if (pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).parent / "lib/libofframp_parquet.so").exists()
    else ""
)
ROWS = (*MANY, "--processor", "checksum,embeddings-sqlite" + PARQUET, "--copy-outputs", "48")
ONE = (*FEW, "--processor", "checksum", "--copy-outputs", "48", "--samples-per-slab", "4")

# Groups of consumers, which have their own numbers.
ALONE = tuple(word for word in COPY if word not in ("--consumers", "2"))
IN_GROUPS = (
    *(*ALONE, "--batch", "2", "--batches", "450", "--limit", "895", "--copy-outputs", "48"),
    *("--group", "sums=checksum:2", "--group", "rows=embeddings-sqlite:1", "--group", "arrays=npy:1"),
)

# Item 10 is in batch 1, with the items 8 to 15.
POISON = {"OFFRAMP_TEST_CRASH_ITEM": "10", "OFFRAMP_TEST_CRASH_HOW": "fail", "OFFRAMP_TEST_THEN": "checksum"}


class Jobs(unittest.TestCase):
    maxDiff = 2000

    def world(self, kind, *flags):
        world = kind(*flags)
        self.addCleanup(world.__exit__, None, None, None)
        self.addCleanup(require_nothing_left, self, lambda: self.memory_of(world))
        return world

    @staticmethod
    def memory_of(world):
        job = world.job / "job.json" if isinstance(world, JobWorld) else None
        return (
            {name for name in os.listdir("/dev/shm") if json.loads(job.read_text())["id"] in name}
            if job and job.exists()
            else set()
        )

    def begun(self, flags, shards, *more):
        world = self.world(JobWorld, *flags)
        code, printed = world.init(shards, *more)
        self.assertEqual(code, 0, printed)
        return world

    def done(self, world, index, *flags):
        self.assertEqual(world.shard(index, *flags).wait(), 0, world.logs())

    def break_off(self, world, index, how, slabs=4):
        """Ends a shard's run by `how` once some of its samples are done. `slabs`: that consumers may finish."""
        with world.gate() as gate:
            world.shard(index)
            gate.let(slabs)
            world.until(lambda: world.status().get("done_samples", 0) > 0, "the first samples")
            how(gate)

    def kill(self, world):
        self.assertGreaterEqual(world.kill_everything(), 4, "launcher, producer, two consumers")

    def merged(self, world, one, items):
        """Merges, and compares with the results of one run."""
        code, printed = world.merge()
        self.assertEqual(code, 0, printed)
        self.assertEqual(world.results(), one.results())
        summary = world.job_summary()
        self.assertEqual((summary["done"], summary["conserved"], summary["partial"]), (items, True, False))
        self.assertEqual(world.merge()[0], 0, "once more")

    def test_rows_merge_to_one_run_after_shards_were_killed_and_stopped(self):
        one = self.world(World, *ROWS)
        self.assertEqual(one.start().wait(), 0, one.logs())
        world = self.begun(ROWS, 3)
        self.break_off(world, 1, lambda _: self.kill(world))
        self.done(world, 0)
        self.assertEqual(world.call("job", "status", "--job", world.job, "--missing"), (0, "1-2\n"))
        self.assertEqual(world.merge()[0], 66)
        self.done(world, 1)
        self.break_off(world, 2, lambda gate: self.stop(world, gate))
        self.assertEqual(world.wait(), 75, world.logs())
        self.assertIn(f"offramp shard --job {world.job} --index 2", world.logs())
        self.done(world, 2)
        self.done(world, 2)  # no work is left
        self.assertIn("shard 2 of 3 is done: 298 of 298 items, by attempt 1", world.logs())
        self.merged(world, one, 895)

    def stop(self, world, gate):
        world.launcher.send_signal(signal.SIGTERM)
        world.until(lambda: world.status().get("state") == "draining", "the signal taken")
        gate.open()

    def test_groups_merge_to_one_run_after_shards_were_killed_and_stopped(self):
        one = self.world(World, *IN_GROUPS)
        self.assertEqual(one.start().wait(), 0, one.logs())
        world = self.begun(IN_GROUPS, 3)
        slabs = 24  # more than the four slabs of three groups: each group finishes one
        self.break_off(world, 1, lambda _: self.kill(world), slabs)
        others = ("--group", "sums=checksum:3", "--group", "rows=embeddings-sqlite:2", "--group", "arrays=npy")
        self.done(world, 0, *others)  # the numbers of consumers are the host's choice
        self.assertEqual(world.shard(2, *others[:4]).wait(), 65, world.logs())
        self.assertIn("--group was ", world.logs())
        self.done(world, 1)
        self.break_off(world, 2, lambda gate: self.stop(world, gate), slabs)
        self.assertEqual(world.wait(), 75, world.logs())
        self.done(world, 2)
        code, printed = world.call("job", "status", "--job", world.job)
        self.assertEqual((code, "  group      rows: 895 items done\n" in printed), (0, True), printed)
        self.merged(world, one, 895)
        groups = {each["name"]: each["released_samples"] for each in world.job_summary()["groups"]}
        self.assertEqual({"sums": 895, "rows": 895, "arrays": 895}, groups)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())

    def test_a_groups_failed_merge_leaves_the_others_merged(self):
        """Of an optional group it does not fail the merge, and another merge completes it."""
        flags = (*ALONE, *"--batch 8 --batches 13 --limit 101 --copy-outputs 48 --group sums=checksum:1".split())
        flags = (*flags, "--group", "rows=records:1", "--group", "extra=embeddings-sqlite:1,optional")
        world = self.begun(flags, 2)
        for index in range(2):
            self.done(world, index)
        (world.output / "sums/checksums.tsv/of another").mkdir(parents=True)
        (world.output / "extra/embeddings.sqlite/of another").mkdir(parents=True)
        code, printed = world.merge()
        self.assertEqual((code, "offramp: merging group sums: " in printed), (64, True), printed)
        self.assertTrue((world.output / "rows/records.sqlite").is_file())
        shutil.rmtree(world.output / "sums/checksums.tsv")
        code, printed = world.merge()
        self.assertEqual((code, "group extra is not merged: " in printed), (0, True), printed)
        self.assertTrue((world.output / "sums/checksums.tsv").is_file())
        # a shard's optional group may have lost every slab
        self.assertTrue(any((world.output / f".offramp-shards/{index}/extra").is_dir() for index in range(2)))
        shutil.rmtree(world.output / "extra/embeddings.sqlite")
        code, printed = world.merge()
        self.assertEqual((code, "is not merged" in printed), (0, False), printed)
        self.assertFalse((world.output / ".offramp-shards").exists())
        released = next(each["released_samples"] for each in world.job_summary()["groups"] if each["name"] == "extra")
        self.assertEqual(released, len(world.results()["extra/embeddings.sqlite"]["embeddings"]))

    def test_a_shards_unmerged_optional_group_is_merged_with_the_job(self):
        flags = (*ALONE, *"--batch 8 --batches 13 --limit 101 --copy-outputs 48 --group rows=records:1".split())
        world = self.begun((*flags, "--group", "extra=checksum:1,optional"), 2)
        blocked = world.output / ".offramp-shards/0/extra/checksums.tsv"
        with world.gate() as gate:
            world.shard(0)
            world.until(
                lambda: (
                    {each["group"] for each in world.status().get("consumers") or [] if each["holding"]}
                    == {"rows", "extra"}
                ),
                "both groups at work",
            )
            (blocked / "of another").mkdir(parents=True)
            gate.open()
            self.assertEqual(world.wait(), 0, world.logs())
        self.assertEqual(["extra"], world.record(0)["not_merged"])
        self.done(world, 1)
        code, printed = world.merge()
        self.assertEqual((code, "group extra is not merged: " in printed), (0, True), printed)
        shutil.rmtree(blocked)
        code, printed = world.merge()
        self.assertEqual((code, "is not merged" in printed), (0, False), printed)
        released = next(each["released_samples"] for each in world.job_summary()["groups"] if each["name"] == "extra")
        lines = (world.output / "extra/checksums.tsv").read_text().splitlines()
        self.assertEqual(released, sum(line[:1].isdigit() for line in lines))

    def merged_in_part(self):
        """(the world of one run, the world of a job with one of two shards merged, the merge's output)."""
        one = self.world(World, *ONE)
        self.assertEqual(one.start().wait(), 0, one.logs())
        world = self.begun(ONE, 2)
        self.done(world, 1)
        code, printed = world.merge("--partial")
        self.assertEqual(code, 0, printed)
        return one, world, printed

    def test_a_part_is_merged_with_partial_and_the_whole_later(self):
        one, world, printed = self.merged_in_part()
        self.assertIn("PARTIAL    shards 0 are not in it", printed)
        self.assertEqual((world.job_summary()["done"], world.job_summary()["missing"]), (50, [0]))
        lines = (one.output / "checksums.tsv").read_text().splitlines()
        self.assertEqual((world.output / "checksums.tsv").read_text().splitlines(), lines[51:])
        self.assertEqual(world.start("--resume").wait(), 64, world.logs())
        self.assertIn("in use by the shards of job-", world.logs())
        self.done(world, 0)
        self.assertEqual(world.merge()[0], 0)
        self.assertEqual(world.results(), one.results())
        code, printed = world.init(2)
        self.assertEqual((code, "is merged already" in printed), (0, True), printed)
        self.assertFalse((world.output / ".offramp-shards").exists())
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())

    def test_a_run_continues_a_job_that_is_merged_in_part(self):
        one, world, printed = self.merged_in_part()
        self.assertIn(
            f"remove {world.output / '.offramp-shards'} and start a run with --resume, which makes the rest", printed
        )
        shutil.rmtree(world.output / ".offramp-shards")
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.results(), one.results())
        self.assertEqual(world.shard(0).wait(), 75, world.logs())
        self.assertEqual(world.results(), one.results())

    @unittest.skipIf(SANITIZER, "preloads a library, and a sanitizer's must come first")
    def test_a_shard_whose_lines_cannot_be_joined_is_not_done(self):
        world = self.world(JobWorld, *FEW, "--processor", "crash-on-item", "--copy-outputs", "48")
        world.environment.update(POISON, OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(world.folder)))
        code, printed = world.init(2)
        self.assertEqual(code, 0, printed)
        usual = world.environment
        world.environment = {
            **usual,
            "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
            "OFFRAMP_FAILPOINT": "merge.write#1:kill",
            "OFFRAMP_FAILPOINT_ONCE": str(world.folder),
        }
        self.assertEqual(world.shard(0).wait(), 75, world.logs())
        self.assertIn("merging the outputs was killed by SIGKILL", world.logs())
        self.assertEqual(world.call("job", "status", "--job", world.job, "--missing"), (0, "0-1\n"))
        world.environment = usual
        self.done(world, 0)
        self.assertEqual(
            (world.record(0)["done"], world.record(0)["dead_letters"]), (50, 1), "only the sample that fails"
        )
        self.retried_into_another_folder(world)
        self.done(world, 1)
        world.environment = {
            **usual,
            "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
            "OFFRAMP_FAILPOINT": "parts.join#1:kill",
        }
        self.assertNotEqual(world.merge()[0], 0)
        self.assertFalse((world.output / "checksums.tsv").exists())
        world.environment = usual
        self.assertEqual(world.merge()[0], 0)
        lines = (world.output / "checksums.tsv").read_text().splitlines()
        self.assertEqual([int(line.split("\t")[0]) for line in lines], [item for item in range(101) if item != 10])

    def retried_into_another_folder(self, world):
        """A retried dead letter of a shard goes to its run's folder, not to the job's results."""
        run = world.run_of_shard()
        code, printed = world.call("dead-letters", "retry", "--all", "--processor", "npy", "--run-dir", run)
        self.assertEqual(code, 0, printed)
        self.assertEqual(len(list((run / "dead-letters" / "output").glob("*.npy"))), 8, printed)
        self.assertEqual([path.name for path in world.output.iterdir() if not path.name.startswith(".")], [])

    def test_unsuitable_work_is_refused_with_the_reason(self):
        """What needs the programs; launch.test_job has the other reasons."""
        world = self.world(JobWorld, *ONE)
        for shards, flags, reason in (
            (102, (), "the input has 101 items"),
            (2, ("--shard", "1/2"), "does not accept --shard"),
            (2, ("--consumer-user", "nobody"), "does not accept --consumer-user"),
        ):
            code, printed = world.init(shards, *flags)
            self.assertEqual((code, reason in printed), (64, True), printed)
        for began, flags in (
            ("begins", ("--durable", "--max-errors", "0")),
            ("exists already", ("--durable=true", "--max-errors=0")),
        ):
            code, printed = world.init(2, *flags)
            self.assertEqual((code, began in printed), (0, True), printed)
        for index, flags, code, reason in (
            (2, (), 64, "from 0 to 1"),
            (0, ("--seed", "3"), 65, "--seed was 0 and is 3"),
            (0, ("--resume",), 64, "does not accept --resume"),
        ):
            self.assertEqual(world.shard(index, *flags).wait(), code, world.logs())
            self.assertIn(reason, world.logs())
        world.environment.update(OFFRAMP_SHARD_INDEX="1", OFFRAMP_OVERWRITE="true")
        code, printed = world.call("shard", "--job", world.job)
        self.assertEqual((code, "does not accept --overwrite" in printed), (64, True), printed)
        del world.environment["OFFRAMP_OVERWRITE"]
        code, printed = world.call("shard", "--job", world.job, "--durable")
        self.assertEqual((code, "shard 1 of 2 is done" in printed), (0, True), printed)

    def test_a_full_or_read_only_folder_is_reported_and_the_shard_tried_again(self):
        world = self.world(JobWorld, *ONE)
        disk = world.folder / "shared"
        disk.mkdir()
        with small_disk(self, disk, "size=256k"):
            world.job = disk / "job"
            code, printed = world.init(2)
            self.assertEqual(code, 0, printed)
            (disk / "full").write_bytes(bytes(free_bytes(disk)))
            self.assertEqual(world.shard(0).wait(), 75, world.logs())
            self.assertIn("done/0.json cannot be written: No space left", world.logs())
            self.assertFalse((world.job / "done" / "0.json").exists())
            (disk / "full").unlink()
            self.done(world, 0)
            self.assertEqual(world.record(0)["done"], 51)
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            self.assertEqual(world.shard(1).wait(), 75, world.logs())
            self.assertIn("1.json cannot be written: Read-only file system", world.logs())


def free_bytes(folder):
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_bsize
