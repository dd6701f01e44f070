"""A job's shards, killed, stopped and retried, merge to the results of one run; unsuitable work is refused with a reason."""

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
from tests.support.real_run import BIN, SANITIZER, left_behind
from tests.support.small_disk import small_disk

COPY = ("--device", "cpu", "--model", "copy", "--consumers", "2", "--slabs", "4", "--status-seconds", "0.05")
# Shards begin in the middle of a batch.
FEW = (*COPY, "--batch", "8", "--batches", "13", "--limit", "101")
# About 150 batches each, more than a stopped run has in flight.
MANY = (*COPY, "--batch", "2", "--batches", "450", "--limit", "895")
PARQUET = ",embeddings-parquet" if (pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).parent / "lib/libofframp_parquet.so").exists() else ""
FILES = (*FEW, "--processor", "npy,mask-png,mask-rle,records", "--copy-outputs", "5x24x32")
ROWS = (*MANY, "--processor", "checksum,embeddings-sqlite" + PARQUET, "--copy-outputs", "48")
ONE = (*FEW, "--processor", "checksum", "--copy-outputs", "48", "--samples-per-slab", "4")

# Item 10 is in batch 1, with the items 8 to 15.
POISON = {"OFFRAMP_TEST_CRASH_ITEM": "10", "OFFRAMP_TEST_CRASH_HOW": "fail", "OFFRAMP_TEST_THEN": "checksum"}


class Jobs(unittest.TestCase):
    maxDiff = 2000

    def world(self, kind, *flags):
        world = kind(*flags)
        self.addCleanup(world.__exit__, None, None, None)
        self.addCleanup(lambda: self.assertEqual(left_behind(lambda: self.memory_of(world)), set(), "something was left in /dev/shm"))
        return world

    @staticmethod
    def memory_of(world):
        job = world.job / "job.json" if isinstance(world, JobWorld) else None
        return {name for name in os.listdir("/dev/shm") if json.loads(job.read_text())["id"] in name} if job and job.exists() else set()

    def begun(self, flags, shards, *more):
        world = self.world(JobWorld, *flags)
        code, said = world.init(shards, *more)
        self.assertEqual(code, 0, said)
        return world

    def done(self, world, index, *flags):
        self.assertEqual(world.shard(index, *flags).wait(), 0, world.said())

    def break_off(self, world, index, how):
        """`how`: ends it once some of its samples are done."""
        with world.gate() as gate:
            world.shard(index)
            gate.let(4)
            world.until(lambda: world.status().get("done_samples", 0) > 0, "the first samples")
            how(gate)

    def kill(self, world):
        self.assertGreaterEqual(world.kill_everything(), 4, "launcher, producer, two consumers")

    def merged(self, world, one, items):
        """It is what the one run left."""
        code, said = world.merge()
        self.assertEqual(code, 0, said)
        self.assertEqual(world.results(), one.results())
        summary = world.job_summary()
        self.assertEqual((summary["done"], summary["conserved"], summary["partial"]), (items, True, False))
        self.assertEqual(world.merge()[0], 0, "once more")

    def test_files_and_lines_of_shards_of_which_one_was_killed_merge_to_one_run(self):
        one = self.world(World, *FILES)
        self.assertEqual(one.start().wait(), 0, one.said())
        world = self.begun(FILES, 3)
        self.break_off(world, 1, lambda _: self.kill(world))
        for index in (2, 1, 0):
            self.done(world, index)
        self.merged(world, one, 101)

    def test_rows_of_shards_of_which_one_was_killed_and_one_stopped_merge_to_one_run(self):
        one = self.world(World, *ROWS)
        self.assertEqual(one.start().wait(), 0, one.said())
        world = self.begun(ROWS, 3)
        self.break_off(world, 1, lambda _: self.kill(world))
        self.done(world, 0)
        self.assertEqual(world.call("job", "status", "--job", world.job, "--missing"), (0, "1-2\n"))
        self.assertEqual(world.merge()[0], 66)
        self.done(world, 1)
        self.break_off(world, 2, lambda gate: self.stop(world, gate))
        self.assertEqual(world.wait(), 75, world.said())
        self.assertIn(f"offramp shard --job {world.job} --index 2", world.said())
        self.done(world, 2)
        self.done(world, 2)     # nothing is left to do
        self.assertIn("shard 2 of 3 is done: 298 of 298 items, by attempt 1", world.said())
        self.merged(world, one, 895)

    def test_a_shard_whose_producer_dies_continues_with_another_one(self):
        one = self.world(World, *ONE)
        self.assertEqual(one.start().wait(), 0, one.said())
        world = self.begun(ONE, 2)
        with world.gate() as gate:
            world.shard(1)
            gate.let(4)
            world.until(lambda: world.status().get("done_samples", 0) > 0, "the first samples")
            os.kill(world.status()["pid"], signal.SIGKILL)
            world.until(lambda: world.status().get("producers", 1) == 2, "another producer")
            gate.open()
            self.assertEqual(world.wait(), 0, world.said())
        self.assertEqual((world.record(1)["done"], world.record(1)["attempt"]), (50, 0))
        self.done(world, 0)
        self.assertEqual(world.merge()[0], 0)
        self.assertEqual(world.results(), one.results())

    def stop(self, world, gate):
        world.launcher.send_signal(signal.SIGTERM)
        world.until(lambda: world.status().get("state") == "draining", "the signal taken")
        gate.open()

    def merged_in_part(self):
        """(one run's world, a job's of which one of two shards is merged, what the merge said)."""
        one = self.world(World, *ONE)
        self.assertEqual(one.start().wait(), 0, one.said())
        world = self.begun(ONE, 2)
        self.done(world, 1)
        code, said = world.merge("--partial")
        self.assertEqual(code, 0, said)
        return one, world, said

    def test_a_part_is_merged_when_that_is_asked_for_and_the_whole_later(self):
        one, world, said = self.merged_in_part()
        self.assertIn("PARTIAL    shards 0 are not in it", said)
        self.assertEqual((world.job_summary()["done"], world.job_summary()["missing"]), (50, [0]))
        lines = (one.output / "checksums.tsv").read_text().splitlines()
        self.assertEqual((world.output / "checksums.tsv").read_text().splitlines(), lines[51:])
        self.assertEqual(world.start("--resume").wait(), 64, world.said())
        self.assertIn("where the shards of job-", world.said())
        self.done(world, 0)
        self.without_its_lines_it_is_not_done(world, 0)
        self.assertEqual(world.merge()[0], 0)
        self.assertEqual(world.results(), one.results())
        code, said = world.init(2)
        self.assertEqual((code, "is merged already" in said), (0, True), said)
        self.assertFalse((world.output / ".offramp-shards").exists())
        self.assertEqual(world.start("--resume").wait(), 0, world.said())

    def test_a_job_that_ends_with_a_part_is_continued_by_a_run(self):
        one, world, said = self.merged_in_part()
        self.assertIn(f"remove {world.output / '.offramp-shards'}, and a run with --resume makes the rest", said)
        shutil.rmtree(world.output / ".offramp-shards")
        self.assertEqual(world.start("--resume").wait(), 0, world.said())
        self.assertEqual(world.results(), one.results())
        self.assertEqual(world.shard(0).wait(), 75, world.said())
        self.assertEqual(world.results(), one.results())

    @unittest.skipIf(SANITIZER, "preloads a library, and a sanitizer's must come first")
    def test_a_shard_with_dead_letters_whose_lines_cannot_be_put_together_is_not_done(self):
        world = self.world(JobWorld, *FEW, "--processor", "crash-on-item", "--copy-outputs", "48")
        world.environment.update(POISON, OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(world.folder)))
        code, said = world.init(2)
        self.assertEqual(code, 0, said)
        usual = world.environment
        world.environment = {**usual, "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"), "OFFRAMP_FAILPOINT": "merge.write#1:kill",
                             "OFFRAMP_FAILPOINT_ONCE": str(world.folder)}
        self.assertEqual(world.shard(0).wait(), 75, world.said())
        self.assertIn("putting the outputs together was killed by SIGKILL", world.said())
        self.assertEqual(world.call("job", "status", "--job", world.job, "--missing"), (0, "0-1\n"))
        world.environment = usual
        self.done(world, 0)
        self.assertEqual((world.record(0)["done"], world.record(0)["dead_letters"]), (50, 1), "only the sample that fails")
        self.tried_again_apart(world)
        self.done(world, 1)
        world.environment = {**usual, "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"), "OFFRAMP_FAILPOINT": "parts.join#1:kill"}
        self.assertNotEqual(world.merge()[0], 0)
        self.assertFalse((world.output / "checksums.tsv").exists())
        world.environment = usual
        self.assertEqual(world.merge()[0], 0)
        lines = (world.output / "checksums.tsv").read_text().splitlines()
        self.assertEqual([int(line.split("\t")[0]) for line in lines], [item for item in range(101) if item != 10])

    def tried_again_apart(self, world):
        """A shard's dead letter goes to the given folder, not to the job's results."""
        run = world.run_of_shard()
        code, said = world.call("dead-letters", "retry", "--all", "--processor", "npy", "--run-dir", run)
        self.assertEqual(code, 0, said)
        self.assertEqual(len(list((run / "dead-letters" / "output").glob("*.npy"))), 8, said)
        self.assertEqual([path.name for path in world.output.iterdir() if not path.name.startswith(".")], [])

    def without_its_lines_it_is_not_done(self, world, index):
        place = world.output / ".offramp-shards" / str(index)
        (world.job / "done" / f"{index}.json").unlink()
        (place / "checksums.tsv").unlink()
        self.assertEqual(world.shard(index).wait(), 65, world.said())
        self.assertIn("which tells of them, is gone", world.said())
        shutil.rmtree(place)
        self.done(world, index)

    def test_what_is_no_work_of_the_job_is_refused_with_its_reason(self):
        world = self.world(JobWorld, *ONE)
        for shards, flags, said in ((102, (), "the input has 101 items"), (2, ("--shard", "1/2"), "has no --shard"), (2, ("--consumer-user", "nobody"), "has no --consumer-user")):
            code, told = world.init(shards, *flags)
            self.assertEqual(code, 64, told)
            self.assertIn(said, told)
        written = world.folder / "written"
        written.mkdir()
        (written / "5.bin").write_text("mine")
        code, told = world.init(2, "--processor=write", "--write-path", str(written))
        self.assertEqual((code, f"--write-path {written} holds something already: 5.bin" in told), (64, True), told)
        world.output.mkdir(exist_ok=True)
        (world.output / "mine.txt").write_text("mine")
        code, told = world.init(2)
        self.assertEqual((code, "holds something already: mine.txt" in told), (64, True), told)
        (world.output / "mine.txt").unlink()
        for began, flags in (("begins", ("--durable", "--max-errors", "0")), ("is there already", ("--durable=true", "--max-errors=0"))):
            code, told = world.init(2, *flags)
            self.assertEqual((code, began in told), (0, True), told)
        code, told = world.init(3)
        self.assertEqual((code, "shards was 2 and is 3" in told), (64, True), told)
        shutil.move(world.output / ".offramp-shards", world.folder / "elsewhere")
        self.assertEqual(world.shard(0).wait(), 75, world.said())
        self.assertIn("which job init laid there", world.said())
        self.assertEqual(os.listdir(world.output), [])
        shutil.move(world.folder / "elsewhere", world.output / ".offramp-shards")
        for index, flags, code, said in ((2, (), 64, "from 0 to 1"), (0, ("--seed", "3"), 65, "--seed was 0 and is 3"), (0, ("--resume",), 64, "has no --resume")):
            self.assertEqual(world.shard(index, *flags).wait(), code, world.said())
            self.assertIn(said, world.said())
        code, told = world.call("shard", "--job", world.folder, "--index", 0)
        self.assertEqual((code, "holds no job" in told), (75, True), told)
        world.environment["OFFRAMP_SHARD_INDEX"] = "2"
        code, told = world.call("shard", "--job", world.job)
        self.assertEqual((code, "from 0 to 1" in told), (64, True), told)
        world.environment.update(OFFRAMP_SHARD_INDEX="1", OFFRAMP_OVERWRITE="true")
        code, told = world.call("shard", "--job", world.job)
        self.assertEqual((code, "has no --overwrite" in told), (64, True), told)
        del world.environment["OFFRAMP_OVERWRITE"]
        code, told = world.call("shard", "--job", world.job, "--durable")
        self.assertEqual((code, "shard 1 of 2 is done" in told), (0, True), told)

    def test_a_second_attempt_on_this_host_ends_with_75(self):
        world = self.begun(ONE, 2)
        with world.gate() as gate:
            first = world.shard(0).launcher
            gate.let(2)
            world.until(lambda: world.status().get("done_samples", 0) > 0, "the first samples")
            code, said = world.call("shard", "--job", world.job, "--index", 0)
            self.assertEqual(code, 75, said)
            self.assertIn("writes to", said)
            gate.open()
            self.assertEqual(first.wait(), 0, world.said())
        self.assertEqual(world.record(0)["attempt"], 0)

    def test_a_folder_that_is_full_or_read_only_is_reported_and_with_room_the_next_try_ends_well(self):
        world = self.world(JobWorld, *ONE)
        disk = world.folder / "shared"
        disk.mkdir()
        with small_disk(self, disk, "size=256k"):
            world.job = disk / "job"
            code, said = world.init(2)
            self.assertEqual(code, 0, said)
            (disk / "full").write_bytes(bytes(free_bytes(disk)))
            self.assertEqual(world.shard(0).wait(), 75, world.said())
            self.assertIn("done/0.json cannot be written: No space left", world.said())
            self.assertFalse((world.job / "done" / "0.json").exists())
            (disk / "full").unlink()
            self.done(world, 0)
            self.assertEqual(world.record(0)["done"], 51)
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            self.assertEqual(world.shard(1).wait(), 75, world.said())
            self.assertIn("1.json cannot be written: Read-only file system", world.said())


def free_bytes(folder):
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_bsize


if __name__ == "__main__":
    unittest.main()
