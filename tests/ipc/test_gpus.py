"""Several producers of one command give the results of one producer, even if they or the launcher are killed, stopped or fail."""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import unittest

from tests.support.launched_gpus import GpusWorld, read
from tests.support.launched_resume import WATCHDOG_SECONDS, World
from tests.support.launched_run import ROOT, programs_with_faulty_consumer
from tests.support.real_run import left_behind
from tests.support.waiting import wait_for

COPY = ("--device", "cpu", "--model", "copy", "--consumers", "3", "--slabs", "12", "--status-seconds", "0.05")
# Shards begin in the middle of a batch.
FEW = (*COPY, "--batch", "8", "--batches", "13", "--limit", "101")
# About 50 batches each, more than a stopped run has in flight.
MANY = (*COPY, "--batch", "2", "--batches", "300", "--limit", "597")
PARQUET = ",embeddings-parquet" if (pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).parent / "lib/libofframp_parquet.so").exists() else ""
FILES = (*FEW, "--processor", "npy,mask-png,mask-rle,records", "--copy-outputs", "5x24x32")
ROWS = (*MANY, "--processor", "checksum,embeddings-sqlite" + PARQUET, "--copy-outputs", "48")
# Batches so large that few are computed ahead of their slabs.
LARGE = (*COPY, "--batch", "2", "--batches", "200", "--limit", "397", "--processor", "checksum", "--copy-outputs", "64x64x64")


class OfGpus(unittest.TestCase):
    maxDiff = 2000
    made = {}       # by one producer, by flags

    def world(self, *flags, kind=GpusWorld, **more):
        world = kind(*flags, **more)
        self.addCleanup(world.__exit__, None, None, None)
        self.addCleanup(lambda: self.assertEqual(left_behind(world.shared_memory), set(), "something was left in /dev/shm"))
        return world

    def results_of_one(self, *flags):
        if flags not in self.made:
            one = self.world(*flags, kind=World)
            self.assertEqual(one.start().wait(), 0, one.said())
            self.made[flags] = one.results()
        return self.made[flags]

    def ends_as(self, world, results, items):
        """It has left what one run leaves."""
        self.assertEqual(world.results(), results)
        summary = world.summary()
        samples = summary["samples"]
        self.assertEqual((samples["done_before"] + samples["released"], summary["conserved"], summary["exit"]), (items, True, 0))
        status = world.status()
        self.assertEqual((status["state"], status["done_samples"], status["total_samples"]), ("ended", items, items))

    def command(self, world, *words):
        done = subprocess.run([ROOT / "launch/offramp", *words], env=world.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=WATCHDOG_SECONDS, check=False)
        return done.returncode, done.stdout + done.stderr


class Gpus(OfGpus):
    def test_files_and_rows_of_three_producers_are_those_of_one(self):
        world, one = self.world(*FILES, shards=5), self.results_of_one(*FILES)
        self.assertEqual(world.start().wait(), 0, world.said())
        self.ends_as(world, one, 101)
        self.assertEqual({worker["name"] for worker in world.summary()["workers"]}, {"producer 1", "producer 2", "producer 3"})
        (world.folder / "settings.toml").write_text("resume = true\n")
        self.assertEqual(world.start("--config", str(world.folder / "settings.toml")).wait(), 0, world.said())
        self.assertIn("nothing was left to do", world.said())
        self.assertEqual(world.results(), one)
        self.assertEqual(world.start().wait(), 64, world.said())
        self.assertIn("holds something already", world.said())
        self.assertEqual(world.results(), one)

    def test_what_a_killed_launcher_left_is_continued_by_fewer_producers(self):
        world, one = self.world(*ROWS, shards=6), self.results_of_one(*ROWS)
        with world.gate() as gate:
            world.start()
            gate.let(12)
            world.until(lambda: world.status().get("done_samples", 0) >= 10, "the first samples")
            world.launcher.kill()       # alone: all others end by themselves
            world.launcher.wait()
            gate.open()
            wait_for(lambda: not world.processes(), "the end of all others")
        self.assertEqual(world.start().wait(), 64, world.said())
        self.assertIn("--resume goes on with it", world.said())
        code, said = self.command(world, "job", "merge", "--job", str(world.output / ".offramp-shards/job"))
        self.assertEqual((code, "run --gpus N --resume" in said), (64, True), said)
        self.assertEqual(world.start("--resume", "--seed", "3").wait(), 65, world.said())
        self.assertIn("--seed was 0 and is 3", world.said())
        world.shards = 5
        self.assertEqual(world.start("--resume").wait(), 64, world.said())
        self.assertIn("begun with 6", world.said())
        world.workers, world.shards = 2, None
        note = world.output / ".offramp-checkpoint"       # as a run without --gpus leaves it there
        note.write_text(json.dumps({"run": "another", "identity": {"items": "597"}}) + "\n")
        self.assertEqual(world.start("--resume").wait(), 64, world.said())
        self.assertIn("holds results of run another", world.said())
        note.unlink()
        self.assertEqual(world.start("--resume").wait(), 0, world.said())
        self.assertGreater(world.summary()["samples"]["done_before"], 0)
        self.ends_as(world, one, 597)

    def test_the_share_of_a_worker_that_dies_again_and_again_is_done_by_the_others(self):
        world, one = self.world(*ROWS, shards=6), self.results_of_one(*ROWS)
        with world.gate() as gate:
            world.start()
            gate.let(6)
            for deaths in range(2):
                pid = world.until(lambda: world.told_of("producer 2").get("pid"), "the worker")
                os.kill(pid, signal.SIGKILL)
                world.until(lambda: world.told_of("producer 2").get("pid") != pid, "its death")
            world.until(lambda: world.told_of("producer 2").get("state") == "lost", "the worker given up")
            gate.open()
            self.assertEqual(world.wait(), 0, world.said())
        self.assertIn("producer 2 is given up, as it failed 2 times in a row", world.said())
        self.assertIn("its share goes to the 2 that are left", world.said())
        self.ends_as(world, one, 597)
        lost = [worker["name"] for worker in world.summary()["workers"] if worker["why_lost"]]
        self.assertEqual((lost, sum(worker["shards_done"] for worker in world.summary()["workers"])), (["producer 2"], 6))

    def test_a_worker_that_is_stopped_is_named_and_a_run_that_is_given_up_does_not_wait_for_it(self):
        world, one = self.world(*ROWS, shards=6), self.results_of_one(*ROWS)
        with world.gate() as gate:
            world.start()
            gate.let(12)
            world.until(lambda: world.status().get("done_samples", 0) >= 10, "the first samples")
            pid = world.until(lambda: world.told_of("producer 2").get("pid"), "the worker")
            os.kill(pid, signal.SIGSTOP)
            world.until(lambda: world.told_of("producer 2").get("silent"), "the worker's silence")
            self.assertIn(f"producer 2: process {pid}", world.said())
            code, said = self.command(world, "status", "--run-dir", str(world.run_dir))
            self.assertEqual((code, "no answer for" in said), (0, True), said)
            gate.open()
            code, said = self.command(world, "stop", "--now", "--run-dir", str(world.run_dir))
            self.assertEqual(world.wait(), 130, world.said())
        self.assertIn(f"process {pid} is killed", world.said())
        wait_for(lambda: not world.processes(), "the end of all that it began")
        self.assertEqual(world.start("--resume").wait(), 0, world.said())
        self.ends_as(world, one, 597)

    def test_one_that_is_stopped_drains_all_its_workers_and_is_continued(self):
        world, one = self.world(*ROWS, shards=6), self.results_of_one(*ROWS)
        with world.gate() as gate:
            world.start()
            gate.let(12)
            world.until(lambda: world.status().get("done_samples", 0) >= 10, "the first samples")
            world.launcher.send_signal(signal.SIGTERM)
            world.until(lambda: world.status().get("state") == "draining", "the signal taken")
            gate.open()
            self.assertEqual(world.wait(), 130, world.said())
        self.assertIn("  go on      ", world.said())
        summary = world.summary()
        self.assertEqual((summary["exit"], summary["failure"]), (130, "the run was stopped before its input was used up"))
        self.assertEqual(summary["samples"]["released"], sum(shard["done"] for shard in summary["shards"]))
        self.assertEqual(world.status()["state"], "abandoned")
        (world.folder / "settings.toml").write_text("resume = true\n")
        self.assertEqual(world.start("--config", str(world.folder / "settings.toml"), "--resume=true").wait(), 0, world.said())
        self.assertEqual(world.summary()["samples"]["done_before"], summary["samples"]["released"])
        self.ends_as(world, one, 597)

    def test_it_is_seen_scaled_and_stopped_as_one_and_each_worker_by_itself(self):
        world = self.world(*ROWS, shards=3)
        with world.gate() as gate:
            world.start()
            gate.let(2)
            world.until(lambda: len(world.status().get("consumers") or []) == 3, "three consumers")
            code, said = self.command(world, "status")      # its workers' runs are not in its way
            self.assertEqual(code, 0, said)
            self.assertRegex(said, rf"run {world.run_id()} \(running\) in {world.run_dir}\n  \d/597 samples")
            self.assertEqual(said.count(f"--run-dir {world.run_dir}/s"), 3, said)
            self.assertIn("3 alive, 3 wanted", said)
            code, said = self.command(world, "scale", "7")
            self.assertEqual((code, "3 -> 7 consumers" in said), (0, True), said)
            world.until(lambda: len(world.status().get("consumers") or []) == 7, "seven consumers")
            self.assertEqual([worker["consumers"] for worker in world.status()["workers"]], [3, 2, 2])
            self.assertEqual(self.command(world, "scale", "2")[0], 64)
            self.assertRegex(self.command(world, "scale", "6..193")[1], r"consumers 6\.\.193 is out of bounds")
            code, said = self.command(world, "scale", "6..100")      # more than a single run may have
            self.assertEqual((code, "follow the work of each worker from now on, within 6..100 in all" in said), (0, True), said)
            one = world.told_of("producer 3")["run_dir"]
            code, said = self.command(world, "scale", "3", "--run-dir", one)
            self.assertEqual((code, "2 -> 3 consumers" in said), (0, True), said)
            code, said = self.command(world, "reload")
            self.assertEqual((code, f"reload --run-dir {world.run_dir}/s" in said), (64, True), said)
            stopping = subprocess.Popen([ROOT / "launch/offramp", "stop"], env=world.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            world.until(lambda: world.status().get("state") == "draining", "the end asked for")
            gate.open()
            self.assertEqual(world.wait(), 130, world.said())
            self.assertIn("ended; ", stopping.communicate(timeout=WATCHDOG_SECONDS)[0])

    def test_what_kills_its_consumers_is_set_aside_in_the_directory_of_the_whole_run(self):
        world = self.world(*FEW, "--processor", "crash-on-item", "--copy-outputs", "48", shards=4)
        world.environment.update(OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(world.folder)), OFFRAMP_TEST_CRASH_ITEM="60", OFFRAMP_TEST_CRASH_HOW="segv",
                                 OFFRAMP_TEST_THEN="checksum")
        self.assertEqual(world.start().wait(), 84, world.said())
        summary = world.summary()
        lost = summary["samples"]["dead_letters"]
        self.assertEqual((summary["samples"]["released"] + lost, summary["conserved"]), (101, True))
        (slab,) = summary["dead_letters"]
        self.assertEqual(pathlib.Path(slab["payload"]), world.run_dir / "dead-letters/s2-batch-7-row-0.safetensors")
        code, said = self.command(world, "dead-letters", "list", "--run-dir", str(world.run_dir))
        self.assertRegex(said, "s2-batch-7-row-0 .* 3 +3 SIGSEGV +dead-lettered")
        code, said = self.command(world, "dead-letters", "retry", "--all", "--processor", "checksum", "--run-dir", str(world.run_dir))
        self.assertEqual(code, 0, said)
        done = (world.output / "checksums.tsv").read_text().splitlines()
        items = sorted(int(line.split("\t")[0]) for line in done if line[:1].isdigit())
        self.assertEqual(items, list(range(101)))
        world.environment["OFFRAMP_TEST_CRASH_ITEM"] = "1000"
        self.assertEqual(world.start("--resume").wait(), 0, world.said())
        self.assertEqual((world.summary()["samples"]["done_before"], world.summary()["samples"]["released"]), (101 - lost, lost))

    def test_what_is_done_when_slab_after_slab_fails_is_continued(self):
        # Each slab is tried three times: the gate lets too few pass for all of the second shard's hundred batches to be given up before it ends.
        world = self.world(*MANY, "--processor", "crash-on-item", "--copy-outputs", "64x64x64", "--batches-per-slab", "1", workers=1, shards=3)
        well = world.folder / "as long as this has bytes"
        well.write_bytes(bytes(1000))
        world.environment.update(OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(world.folder)), OFFRAMP_TEST_CRASH_ITEM="any", OFFRAMP_TEST_CRASH_HOW="fail",
                                 OFFRAMP_TEST_CRASH_TIMES="1000", OFFRAMP_TEST_CRASH_FILE=str(well), OFFRAMP_TEST_THEN="checksum")
        with world.gate() as gate:
            world.start()
            gate.let(100)       # all of the first shard
            world.until(lambda: world.told_of("producer 1").get("shards_done"), "the first shard done")
            well.write_bytes(b"")
            gate.let(60)
            world.until(lambda: "slabs failed 20 times in a row" in world.said(), "the end of the second shard")
            world.until(lambda: (read(world.run_dir / "s1/status.json") or {}).get("state") == "draining", "its producer drains")
            gate.open()
            self.assertEqual(world.wait(), 84, world.said())
        self.assertIn("  go on      ", world.said())
        well.write_bytes(bytes(1000))
        self.assertEqual(world.start("--resume").wait(), 0, world.said())
        samples = world.summary()["samples"]
        self.assertGreaterEqual(samples["done_before"], 199)
        self.assertEqual(samples["done_before"] + samples["released"], 597)
        lines = (world.output / "checksums.tsv").read_text().splitlines()
        self.assertEqual(sorted(int(line.split("\t")[0]) for line in lines if line[:1].isdigit()), list(range(597)))

    def test_what_cannot_be_is_refused_with_its_reason(self):
        world = self.world(*FEW, "--processor", "checksum")
        cpu = {"--gpus=0": "'0' is not one of the ways", "--gpus=x": "names GPUs", "--gpus=all": "names GPUs", "--gpus=0,1": "names GPUs", "--gpus=65": "asks for 65 workers",
               "--shards=0": "--shards is 0", "--shards=102": "the input has 101 items", "--shards=x": "is not a whole number", "--shard=1/2": "all shards are its own",
               "--overwrite": "give another --output", "--producer=x": "chooses its GPU itself", "--consumer-user=nobody": "another user", "--http-header=A: b": "in the clear",
               "--turn=x": "a program's own flags"}
        for flag, reason in cpu.items():
            with self.subTest(flag):
                code, said = self.command(world, "run", "--gpus", "2", *world.flags, "--output", str(world.output), flag)
                self.assertEqual((code, reason in said), (64, True), said)
                self.assertFalse(world.output.exists())
        code, said = self.command(world, "run", *world.flags, "--shards", "2")
        self.assertEqual((code, "without --gpus" in said), (64, True), said)
        code, said = self.command(world, "run", *world.flags, "--start-ahead")
        self.assertEqual((code, "--start-ahead without --gpus" in said), (64, True), said)
        code, said = self.command(world, "run", "--gpus", "2", "--device", "cpu")
        self.assertEqual((code, "wants an input" in said), (64, True), said)


class Ahead(OfGpus):
    """--start-ahead. The gate holds up the first one's slabs, so that it computes no further than it has some, and keeps its turn."""

    SLABS = 12

    def told(self, world, shard):
        return read(world.run_dir / f"s{shard}/status.json") or {}

    def published(self, world, shard):
        return self.told(world, shard).get("totals", {}).get("published", {}).get("slabs", 0)

    def is_taken(self, world):
        with open(world.run_dir / "turn-1", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def until_it_waits(self, world, shard, not_process=None):
        """Loaded, with nothing computed. Returns its producer's process."""
        world.until(lambda: self.told(world, shard).get("limiting_stage") == "turn" and self.told(world, shard)["pid"] != not_process, f"shard {shard} waits")
        self.assertTrue(self.is_taken(world))
        return self.told(world, shard)["pid"]

    def begun(self):
        """The second one waits, and the first one has no slab left to compute into."""
        world = self.world(*LARGE, workers=1, shards=4)
        gate = world.gate()
        self.addCleanup(gate.__exit__, None, None, None)
        opened = gate.__enter__()
        world.start("--start-ahead")
        world.until(lambda: self.published(world, 0) == self.SLABS, "the first one's slabs all published")
        waits = self.until_it_waits(world, 1)
        world.until(lambda: len(self.told(world, 1).get("consumers") or []) == 3, "its consumers")
        self.assertEqual((self.published(world, 0), self.published(world, 1)), (self.SLABS, 0))
        return world, opened, waits

    def test_the_next_shard_is_computed_when_the_first_is_and_before_that_has_ended(self):
        world, gate, _ = self.begun()
        one = self.results_of_one(*LARGE)
        world.until(lambda: [worker["waits_for_turn"] for worker in world.status()["workers"]] == [False, True], "what each does")
        self.assertEqual([(worker["name"], worker["consumers"]) for worker in world.status()["workers"]], [("producer 1, worker 1", 3), ("producer 1, worker 2", 3)])
        self.assertNotEqual(world.status()["limiting_stage"], "turn")
        code, said = self.command(world, "status")
        self.assertEqual((code, "shard 1, waits for its turn" in said, "3 alive, 3 wanted" in said), (0, True, True), said)
        code, said = self.command(world, "scale", "2")
        self.assertEqual((code, "3 -> 2 consumers" in said), (0, True), said)
        world.until(lambda: [worker["consumers"] for worker in world.status()["workers"]] == [2, 2], "two for each")
        gate.let(30)        # of the first one's 50 batches: slabs and those that wait for one are fewer than the other 20
        world.until(lambda: self.published(world, 1) > 0, "the second one computes")
        self.assertLessEqual(self.told(world, 0)["released_batches"], 30)
        self.assertEqual(world.status()["workers"][0]["shards_done"], 0)
        gate.open()
        self.assertEqual(world.wait(), 0, world.said())
        self.ends_as(world, one, 397)
        done = [worker["shards_done"] for worker in world.summary()["workers"]]
        self.assertEqual((sum(done), min(done) > 0), (4, True), done)
        self.assertGreater(read(world.run_dir / "s1/summary.json")["turn_wait_seconds"], 0)

    def test_anyone_who_dies_nothing_is_lost_and_the_turn_continues(self):
        world, gate, waits = self.begun()
        one = self.results_of_one(*LARGE)
        os.kill(waits, signal.SIGKILL)
        self.until_it_waits(world, 1, not_process=waits)
        holds = self.told(world, 0)["pid"]
        os.kill(holds, signal.SIGKILL)
        world.until(lambda: self.published(world, 1) == self.SLABS, "the second one computes")
        self.until_it_waits(world, 0, not_process=holds)      # the next producer of the first shard, which goes on with what is published
        gate.open()
        self.assertEqual(world.wait(), 0, world.said())
        self.ends_as(world, one, 397)
        self.assertEqual(world.summary()["producer_restarts"], 2)

    def test_a_worker_that_is_killed_leaves_its_turn(self):
        world, gate, _ = self.begun()
        one = self.results_of_one(*LARGE)
        pid = world.told_of("producer 1, worker 1")["pid"]
        os.kill(pid, signal.SIGKILL)
        world.until(lambda: world.told_of("producer 1, worker 1").get("pid") != pid, "its death")
        gate.open()     # its producer drains, and then gives its turn to the other one
        self.assertEqual(world.wait(), 0, world.said())
        self.ends_as(world, one, 397)

    def test_one_that_waits_is_stopped_at_once_and_has_done_nothing(self):
        world, gate, _ = self.begun()
        one = self.results_of_one(*LARGE)
        world.launcher.send_signal(signal.SIGTERM)
        world.until(lambda: read(world.run_dir / "s1/summary.json"), "its end, while the first one's slabs are held up")
        summary = read(world.run_dir / "s1/summary.json")
        self.assertEqual((summary["exit"], summary["samples"]["sourced"], summary["samples"]["released"]), (130, 0, 0))
        gate.open()
        self.assertEqual(world.wait(), 130, world.said())
        self.assertEqual(world.start("--resume").wait(), 0, world.said())
        self.ends_as(world, one, 397)


class OnGpus(unittest.TestCase):
    """Uses a fake nvidia-smi; the tests that need a GPU check the real one."""

    def test_without_a_gpu_there_is_no_run_on_gpus(self):
        with contextlib.ExitStack() as stack:
            world = stack.enter_context(World("--model", "copy", "--batches", "2"))
            if os.path.exists("/dev/nvidia0"):
                self.skipTest("there is a GPU here")
            for wanted in ("all", "2", "0,2"):
                self.assertEqual(world.start("--gpus", wanted).wait(), 83, world.said())
                self.assertIn("this machine has no GPU", world.said())
                self.assertIn("--device cpu with --gpus N", world.said())


if __name__ == "__main__":
    unittest.main()
