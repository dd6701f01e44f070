"""
Several producers of one command give the results of one producer, even if they or the launcher are killed, stopped or
fail.
"""

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
from tests.support.real_run import require_nothing_left
from tests.support.waiting import wait_for

COPY = ("--device", "cpu", "--model", "copy", "--consumers", "3", "--slabs", "12", "--status-seconds", "0.05")
# Shards begin in the middle of a batch.
FEW = (*COPY, "--batch", "8", "--batches", "13", "--limit", "101")
# About 50 batches each, more than a stopped run has in flight.
MANY = (*COPY, "--batch", "2", "--batches", "300", "--limit", "597")
PARQUET = (
    ",embeddings-parquet"
    if (pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).parent / "lib/libofframp_parquet.so").exists()
    else ""
)
FILES = (*FEW, "--processor", "npy,mask-png,mask-rle,records", "--copy-outputs", "5x24x32")
ROWS = (*MANY, "--processor", "checksum,embeddings-sqlite" + PARQUET, "--copy-outputs", "48")
# Groups of consumers, which have their own numbers.
ALONE = tuple(word for word in COPY if word not in ("--consumers", "3"))
IN_GROUPS = (*"--group sums=checksum:3 --group rows=embeddings-sqlite:1 --copy-outputs 48".split(),)
FEW_IN_GROUPS = (
    *ALONE,
    *"--batch 8 --batches 13 --limit 101 --copy-outputs 5x24x32 --group arrays=npy:3 --group rle=mask-rle:2".split(),
    *"--group masks=mask-png:1 --group rows=records:1".split(),
)
MANY_IN_GROUPS = (*ALONE, "--batch", "2", "--batches", "300", "--limit", "597", *IN_GROUPS)
# Batches so large that few are computed ahead of their slabs.
LARGE = (
    *COPY,
    *"--batch 2 --batches 200 --limit 397 --processor checksum --copy-outputs 64x64x64".split(),
)


class GpusTest(unittest.TestCase):
    maxDiff = 2000
    made = {}  # results of one producer, by flags

    def world(self, *flags, kind=GpusWorld, **more):
        world = kind(*flags, **more)
        self.addCleanup(world.__exit__, None, None, None)
        self.addCleanup(require_nothing_left, self, world.shared_memory)
        return world

    def results_of_one(self, *flags):
        if flags not in self.made:
            one = self.world(*flags, kind=World)
            self.assertEqual(one.start().wait(), 0, one.logs())
            self.made[flags] = one.results()
        return self.made[flags]

    def ends_as(self, world, results, items):
        """The output and the summary are those of one run."""
        self.assertEqual(world.results(), results)
        summary = world.summary()
        samples = summary["samples"]
        self.assertEqual(
            (samples["done_before"] + samples["released"], summary["conserved"], summary["exit"]), (items, True, 0)
        )
        status = world.status()
        self.assertEqual((status["state"], status["done_samples"], status["total_samples"]), ("ended", items, items))

    def command(self, world, *words):
        done = subprocess.run(
            [ROOT / "launch/offramp", *words],
            env=world.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


class Gpus(GpusTest):
    def test_files_and_rows_of_three_producers_are_those_of_one(self):
        world, one = self.world(*FILES, shards=5), self.results_of_one(*FILES)
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.ends_as(world, one, 101)
        self.assertEqual(
            {worker["name"] for worker in world.summary()["workers"]}, {"producer 1", "producer 2", "producer 3"}
        )
        (world.folder / "settings.toml").write_text("resume = true\n")
        self.assertEqual(world.start("--config", str(world.folder / "settings.toml")).wait(), 0, world.logs())
        self.assertIn("nothing was left to do", world.logs())
        self.assertEqual(world.results(), one)
        self.assertEqual(world.start().wait(), 64, world.logs())
        self.assertIn("is not empty", world.logs())
        self.assertEqual(world.results(), one)

    def test_overwrite_renames_finished_results_once(self):
        world, one = self.world(*FILES, shards=5), self.results_of_one(*FILES)
        self.assertEqual(world.start().wait(), 0, world.logs())
        world.flags = tuple("7x24x32" if flag == "5x24x32" else flag for flag in FILES)
        self.assertEqual(world.start("--overwrite", "--resume").wait(), 64, world.logs())
        self.assertIn("contradict each other", world.logs())
        self.assertEqual(world.start("--overwrite", "--shards=102").wait(), 64, world.logs())
        self.assertEqual(world.results(), one, "no shard began: the results have their name again")
        with world.gate() as gate:
            world.start("--overwrite")
            gate.let(2)
            world.until(lambda: world.status().get("done_samples", 0) >= 1, "the first samples")
            aside = world.output.with_name(f"{world.output.name}.before-{world.run_id()}")
            world.kill_everything()
        self.assertEqual(world.results(aside), one)
        self.assertEqual(world.start("--overwrite").wait(), 64, world.logs())
        self.assertIn("Pass --resume to continue it", world.logs())
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.ends_as(world, self.results_of_one(*world.flags), 101)
        self.assertEqual(world.results(aside), one)
        self.assertEqual(
            sorted(path.name for path in world.output.parent.glob(f"{world.output.name}*")),
            sorted((world.output.name, aside.name)),
        )

    def test_fewer_producers_continue_the_run_of_a_killed_launcher(self):
        world, one = self.world(*ROWS, shards=6), self.results_of_one(*ROWS)
        with world.gate() as gate:
            world.start()
            gate.let(12)
            world.until(lambda: world.status().get("done_samples", 0) >= 10, "the first samples")
            world.launcher.kill()  # only the launcher: the others exit by themselves
            world.launcher.wait()
            gate.open()
            wait_for(lambda: not world.processes(), "the other processes' exit")
        self.assertEqual(world.start().wait(), 64, world.logs())
        self.assertIn("Pass --resume to continue it", world.logs())
        code, printed = self.command(world, "job", "merge", "--job", str(world.output / ".offramp-shards/job"))
        self.assertEqual((code, "run --gpus N --resume" in printed), (64, True), printed)
        self.assertEqual(world.start("--resume", "--seed", "3").wait(), 65, world.logs())
        self.assertIn("--seed was 0 and is 3", world.logs())
        world.shards = 5
        self.assertEqual(world.start("--resume").wait(), 64, world.logs())
        self.assertIn("begun with 6", world.logs())
        world.workers, world.shards = 2, None
        note = world.output / ".offramp-checkpoint"  # of a run without --gpus
        note.write_text(json.dumps({"run": "another", "identity": {"items": "597"}}) + "\n")
        self.assertEqual(world.start("--resume").wait(), 64, world.logs())
        self.assertIn("holds results of run another", world.logs())
        note.unlink()
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreater(world.summary()["samples"]["done_before"], 0)
        self.ends_as(world, one, 597)

    def test_the_shards_of_a_worker_that_keeps_dying_go_to_the_others(self):
        world, one = self.world(*ROWS, shards=6), self.results_of_one(*ROWS)
        with world.gate() as gate:
            world.start()
            gate.let(6)
            for deaths in range(2):
                pid = world.until(lambda: world.status_of("producer 2").get("pid"), "the worker")
                os.kill(pid, signal.SIGKILL)
                world.until(lambda: world.status_of("producer 2").get("pid") != pid, "its death")
            world.until(lambda: world.status_of("producer 2").get("state") == "lost", "the worker given up")
            gate.open()
            self.assertEqual(world.wait(), 0, world.logs())
        self.assertIn("producer 2 is given up after 2 failures in a row", world.logs())
        self.assertIn("the other 2 take over its share", world.logs())
        self.ends_as(world, one, 597)
        lost = [worker["name"] for worker in world.summary()["workers"] if worker["why_lost"]]
        self.assertEqual(
            (lost, sum(worker["shards_done"] for worker in world.summary()["workers"])), (["producer 2"], 6)
        )

    def test_a_stopped_run_drains_all_workers_and_is_continued(self):
        world, one = self.world(*ROWS, shards=6), self.results_of_one(*ROWS)
        with world.gate() as gate:
            world.start()
            gate.let(12)
            world.until(lambda: world.status().get("done_samples", 0) >= 10, "the first samples")
            world.launcher.send_signal(signal.SIGTERM)
            world.until(lambda: world.status().get("state") == "draining", "the signal taken")
            gate.open()
            self.assertEqual(world.wait(), 130, world.logs())
        self.assertIn("  continue   ", world.logs())
        summary = world.summary()
        self.assertEqual(
            (summary["exit"], summary["failure"]), (130, "the run was stopped before its input was used up")
        )
        self.assertEqual(summary["samples"]["released"], sum(shard["done"] for shard in summary["shards"]))
        self.assertEqual(world.status()["state"], "abandoned")
        (world.folder / "settings.toml").write_text("resume = true\n")
        self.assertEqual(
            world.start("--config", str(world.folder / "settings.toml"), "--resume=true").wait(), 0, world.logs()
        )
        self.assertEqual(world.summary()["samples"]["done_before"], summary["samples"]["released"])
        self.ends_as(world, one, 597)

    def test_commands_apply_to_the_whole_run_or_to_one_worker(self):
        world = self.world(*ROWS, shards=3)
        with world.gate() as gate:
            world.start()
            gate.let(2)
            world.until(lambda: len(world.status().get("consumers") or []) == 3, "three consumers")
            code, printed = self.command(world, "status")  # finds the whole run, not its workers' runs
            self.assertEqual(code, 0, printed)
            self.assertRegex(printed, rf"run {world.run_id()} \(running\) in {world.run_dir}\n  \d/597 samples")
            self.assertEqual(printed.count(f"--run-dir {world.run_dir}/s"), 3, printed)
            self.assertIn("3 alive, 3 wanted", printed)
            code, printed = self.command(world, "scale", "7")
            self.assertEqual((code, "3 -> 7 consumers" in printed), (0, True), printed)
            world.until(lambda: len(world.status().get("consumers") or []) == 7, "seven consumers")
            self.assertEqual([worker["consumers"] for worker in world.status()["workers"]], [3, 2, 2])
            self.assertEqual(self.command(world, "scale", "2")[0], 64)
            self.assertRegex(self.command(world, "scale", "6..193")[1], r"consumers 6\.\.193 is out of bounds")
            code, printed = self.command(world, "scale", "6..100")  # more than a single run may have
            self.assertEqual(
                (code, "autoscaled for each worker from now on, within 6..100 in all" in printed), (0, True), printed
            )
            one = world.status_of("producer 3")["run_dir"]
            code, printed = self.command(world, "scale", "3", "--run-dir", one)
            self.assertEqual((code, "2 -> 3 consumers" in printed), (0, True), printed)
            code, printed = self.command(world, "reload")
            self.assertEqual((code, f"reload --run-dir {world.run_dir}/s" in printed), (64, True), printed)
            stopping = subprocess.Popen(
                [ROOT / "launch/offramp", "stop"],
                env=world.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            world.until(lambda: world.status().get("state") == "draining", "the stop request")
            gate.open()
            self.assertEqual(world.wait(), 130, world.logs())
            self.assertIn("ended; ", stopping.communicate(timeout=WATCHDOG_SECONDS)[0])

    def test_dead_letters_are_in_the_whole_runs_directory(self):
        world = self.world(*FEW, "--processor", "crash-on-item", "--copy-outputs", "48", shards=4)
        world.environment.update(
            OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(world.folder)),
            OFFRAMP_TEST_CRASH_ITEM="60",
            OFFRAMP_TEST_CRASH_HOW="segv",
            OFFRAMP_TEST_THEN="checksum",
        )
        self.assertEqual(world.start().wait(), 84, world.logs())
        summary = world.summary()
        lost = summary["samples"]["dead_letters"]
        self.assertEqual((summary["samples"]["released"] + lost, summary["conserved"]), (101, True))
        (slab,) = summary["dead_letters"]
        self.assertEqual(pathlib.Path(slab["payload"]), world.run_dir / "dead-letters/s2-batch-7-row-0.safetensors")
        code, printed = self.command(world, "dead-letters", "list", "--run-dir", str(world.run_dir))
        self.assertRegex(printed, "s2-batch-7-row-0 .* 3 +3 SIGSEGV +dead-lettered")
        code, printed = self.command(
            world, "dead-letters", "retry", "--all", "--processor", "checksum", "--run-dir", str(world.run_dir)
        )
        self.assertEqual(code, 0, printed)
        done = (world.output / "checksums.tsv").read_text().splitlines()
        items = sorted(int(line.split("\t")[0]) for line in done if line[:1].isdigit())
        self.assertEqual(items, list(range(101)))
        world.environment["OFFRAMP_TEST_CRASH_ITEM"] = "1000"
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(
            (world.summary()["samples"]["done_before"], world.summary()["samples"]["released"]), (101 - lost, lost)
        )

    def test_a_run_is_continued_after_slab_after_slab_failed(self):
        # Each slab is tried three times: the gate passes too few for all hundred batches of the second shard to become
        # dead letters before it ends.
        world = self.world(
            *MANY,
            *"--processor crash-on-item --copy-outputs 64x64x64 --batches-per-slab 1".split(),
            workers=1,
            shards=3,
        )
        well = world.folder / "as long as this has bytes"
        well.write_bytes(bytes(1000))
        world.environment.update(
            OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(world.folder)),
            OFFRAMP_TEST_CRASH_ITEM="any",
            OFFRAMP_TEST_CRASH_HOW="fail",
            OFFRAMP_TEST_CRASH_TIMES="1000",
            OFFRAMP_TEST_CRASH_FILE=str(well),
            OFFRAMP_TEST_THEN="checksum",
        )
        with world.gate() as gate:
            world.start()
            gate.let(100)  # all of the first shard
            world.until(lambda: world.status_of("producer 1").get("shards_done"), "the first shard done")
            well.write_bytes(b"")
            gate.let(60)
            world.until(lambda: "slabs failed 20 times in a row" in world.logs(), "the end of the second shard")
            world.until(
                lambda: (read(world.run_dir / "s1/status.json") or {}).get("state") == "draining", "its producer drains"
            )
            gate.open()
            self.assertEqual(world.wait(), 84, world.logs())
        self.assertIn("  continue   ", world.logs())
        well.write_bytes(bytes(1000))
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        samples = world.summary()["samples"]
        self.assertGreaterEqual(samples["done_before"], 199)
        self.assertEqual(samples["done_before"] + samples["released"], 597)
        lines = (world.output / "checksums.tsv").read_text().splitlines()
        self.assertEqual(sorted(int(line.split("\t")[0]) for line in lines if line[:1].isdigit()), list(range(597)))

    def test_unsuitable_flags_are_refused_with_the_reason(self):
        world = self.world(*FEW, "--processor", "checksum")
        cpu = {
            "--gpus=0": "'0' is not valid",
            "--gpus=x": "names GPUs",
            "--gpus=all": "names GPUs",
            "--gpus=0,1": "names GPUs",
            "--gpus=65": "asks for 65 workers",
            "--shards=0": "--shards is 0",
            "--shards=102": "the input has 101 items",
            "--shards=x": "is not a whole number",
            "--shard=1/2": "it runs all shards",
            "--producer=x": "chooses its GPU itself",
            "--consumer-user=nobody": "another user",
            "--http-header=A: b": "not in a file",
            "--turn=x": "an internal flag",
        }
        for flag, reason in cpu.items():
            with self.subTest(flag):
                code, printed = self.command(
                    world, "run", "--gpus", "2", *world.flags, "--output", str(world.output), flag
                )
                self.assertEqual((code, reason in printed), (64, True), printed)
                self.assertFalse(world.output.exists())
        code, printed = self.command(world, "run", *world.flags, "--shards", "2")
        self.assertEqual((code, "needs --gpus" in printed), (64, True), printed)
        code, printed = self.command(world, "run", *world.flags, "--start-ahead")
        self.assertEqual((code, "--start-ahead needs --gpus" in printed), (64, True), printed)
        code, printed = self.command(world, "run", "--gpus", "2", "--device", "cpu")
        self.assertEqual((code, "needs an input" in printed), (64, True), printed)


class Groups(GpusTest):
    """Each group's results are those of one producer, and a group's failure is its own."""

    def group(self, report, name):
        return next((each for each in report.get("groups") or [] if each["name"] == name), {})

    def ends_as(self, world, results, items):
        super().ends_as(world, results, items)
        for report in (world.summary(), world.status()):
            self.assertEqual({items}, {each["released_samples"] for each in report["groups"]}, report["groups"])

    def test_results_of_each_group_are_those_of_one_producer(self):
        world, one = self.world(*FEW_IN_GROUPS, shards=5), self.results_of_one(*FEW_IN_GROUPS)
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.ends_as(world, one, 101)
        self.assertEqual({"arrays", "masks", "rle", "rows"}, {name.partition("/")[0] for name in one})
        self.assertIn("  group      rle: 101 samples done\n", world.logs())
        self.assertIn('group="arrays",state="completed"', (world.run_dir / "metrics.prom").read_text())
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.results(), one)

    def test_a_killed_worker_and_a_killed_launcher_cost_no_group_a_sample(self):
        world, one = self.world(*MANY_IN_GROUPS, shards=6), self.results_of_one(*MANY_IN_GROUPS)
        with world.gate() as gate:
            world.start()
            gate.entered_by(6)  # three workers' consumers of two groups
            gate.let(24)  # a shard has 50 slabs, so none ends
            world.until(lambda: world.status_of("producer 2").get("done_samples"), "samples of the worker")
            pid = world.status_of("producer 2")["pid"]
            os.kill(pid, signal.SIGKILL)
            world.until(lambda: world.status_of("producer 2").get("pid") != pid, "its death")
            self.assertGreaterEqual(world.kill_everything(), 2)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreater(world.summary()["samples"]["done_before"], 0)
        self.ends_as(world, one, 597)

    def test_commands_show_and_scale_a_group_over_all_workers(self):
        world = self.world(*MANY_IN_GROUPS, shards=3)
        with world.gate() as gate:
            world.start()
            world.until(lambda: len(world.status().get("consumers") or []) == 6, "a consumer of each group and worker")
            self.assertEqual([2, 2, 2], [worker["consumers"] for worker in world.status()["workers"]])
            code, printed = self.command(world, "scale", "sums=6")
            self.assertEqual((code, "sums: 3 -> 6 consumers" in printed), (0, True), printed)
            world.until(lambda: self.group(world.status(), "sums").get("consumers") == 6, "six consumers of sums")
            code, printed = self.command(world, "scale", "rows=0")
            self.assertEqual((code, "rows: 3 -> 0 consumers; the run waits" in printed), (0, True), printed)
            code, printed = self.command(world, "status")
            self.assertRegex(printed, r"  group sums: 6 of 6 consumers, \d+ samples done")
            self.assertRegex(printed, r"  group rows: \d of 0 consumers, ")
            self.assertEqual(self.command(world, "scale", "7")[0], 64)
            gate.open()
            world.until(lambda: self.group(world.status(), "rows").get("consumers") == 0, "no consumer of rows")
            self.assertEqual(self.command(world, "scale", "rows=3")[0], 0)
            self.assertEqual(world.wait(), 0, world.logs())
        self.ends_as(world, self.results_of_one(*MANY_IN_GROUPS), 597)

    def blocked(self, world, obstacle):
        """Runs with a folder in the place of a group's merged file. Returns the exit code."""
        with world.gate() as gate:
            world.start()
            named = {word.partition("=")[0] for flag, word in zip(world.flags, world.flags[1:]) if flag == "--group"}
            world.until(
                lambda: named == {each["group"] for each in world.status().get("consumers") or [] if each["holding"]},
                "all groups at work",
            )
            (world.output / obstacle / "of another").mkdir(parents=True)
            gate.open()
            return world.wait()

    def unblock(self, world, obstacle):
        (world.output / obstacle / "of another").rmdir()
        (world.output / obstacle).rmdir()

    def test_a_groups_failed_merge_leaves_the_others_merged(self):
        world, one = self.world(*FEW_IN_GROUPS, shards=4), self.results_of_one(*FEW_IN_GROUPS)
        self.assertEqual(self.blocked(world, "rle/masks.jsonl"), 64, world.logs())
        self.assertIn("merging group rle: ", world.logs())
        self.assertEqual(
            {name for name in world.results() if not name.startswith((".", "rle/"))},
            {name for name in one if not name.startswith("rle/")},
        )
        self.unblock(world, "rle/masks.jsonl")
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.ends_as(world, one, 101)

    def test_an_optional_groups_failed_merge_does_not_fail_the_run(self):
        optional = ("--group", "extra=checksum:3,optional")
        world, one = self.world(*FEW_IN_GROUPS, *optional, shards=4), self.results_of_one(*FEW_IN_GROUPS)
        self.assertEqual(self.blocked(world, "extra/checksums.tsv"), 0, world.logs())
        self.assertRegex(world.logs(), "merging group extra: (.*\n)+.*The merge succeeds without it, because")
        self.assertRegex(world.logs(), "  group extra is not merged: .*Fix it, then continue the run with --resume")
        self.assertEqual(["extra"], list(world.summary()["not_merged"]))
        extra = self.group(world.summary(), "extra")
        results = world.results()
        self.assertEqual({name: results.get(name) for name in one}, one)
        self.unblock(world, "extra/checksums.tsv")
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        results = world.results()
        rows = [line for line in results["extra/checksums.tsv"].splitlines() if line[:1].isdigit()]
        self.assertEqual(
            (101, extra["released_samples"]), (extra["released_samples"] + extra["dropped_samples"], len(rows))
        )
        self.assertEqual({name for name in results if not name.startswith("extra/")}, set(one))
        self.assertFalse((world.output / ".offramp-shards").exists())

    def test_dead_letters_name_worker_and_group(self):
        groups = (
            "--group rows=records:3 --group bad=crash-on-item:3 --copy-outputs 48 --batch 8 --batches 13 --limit 101"
        )
        world = self.world(*ALONE, *groups.split(), shards=4)
        world.environment.update(
            OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(world.folder)),
            OFFRAMP_TEST_CRASH_ITEM="60",
            OFFRAMP_TEST_CRASH_HOW="segv",
            OFFRAMP_TEST_THEN="npy",
        )
        self.assertEqual(world.start().wait(), 84, world.logs())
        summary, folder = world.summary(), world.run_dir / "groups/bad"
        (slab,) = summary["dead_letters"]
        self.assertEqual(slab["payload"], str(folder / "dead-letters/s2-batch-7-row-0.safetensors"))
        self.assertEqual(([str(folder)], "bad"), (summary["dead_letters_in"], slab["group"]))
        bad, rows = self.group(summary, "bad"), self.group(summary, "rows")
        self.assertEqual(101, bad["released_samples"] + bad["dead_lettered_samples"])
        self.assertEqual((101, 0), (rows["released_samples"], rows["dead_lettered_samples"]))
        code, printed = self.command(world, "dead-letters", "list", "--run-dir", str(world.run_dir))
        self.assertRegex(printed, "s2-batch-7-row-0 .* 3 +3 SIGSEGV +dead-lettered")
        world.environment["OFFRAMP_TEST_CRASH_ITEM"] = "1000"
        code, printed = self.command(world, "dead-letters", "retry", "--all", "--run-dir", str(world.run_dir))
        self.assertEqual(code, 0, printed)
        self.assertEqual(101, len(list((world.output / "bad").rglob("*.npy"))), "beside the others' results")

    def test_an_optional_groups_dead_letters_do_not_change_the_exit_code(self):
        groups = "--group rows=records:3 --group bad=crash-on-item:3,optional --copy-outputs 48"
        world = self.world(*ALONE, "--batch", "8", "--batches", "13", "--limit", "101", *groups.split(), shards=4)
        world.environment.update(
            OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(world.folder)),
            OFFRAMP_TEST_CRASH_ITEM="any",
            OFFRAMP_TEST_CRASH_HOW="fail",
            OFFRAMP_TEST_CRASH_TIMES="1000",
            OFFRAMP_TEST_THEN="npy",
        )
        self.assertEqual(world.start().wait(), 0, world.logs())
        bad = self.group(world.summary(), "bad")
        self.assertEqual((True, 0), (bad["optional"], bad["released_samples"]))
        self.assertEqual(101, self.group(world.summary(), "rows")["released_samples"])


class Ahead(GpusTest):
    """
    --start-ahead. The gate holds the first shard's slabs, so that its producer runs out of slabs and keeps its turn.
    """

    SLABS = 12

    def status_of(self, world, shard):
        return read(world.run_dir / f"s{shard}/status.json") or {}

    def published(self, world, shard):
        return self.status_of(world, shard).get("totals", {}).get("published", {}).get("slabs", 0)

    def is_taken(self, world):
        with open(world.run_dir / "live/turn-1", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def until_it_waits(self, world, shard, not_process=None):
        """Waits until the shard's producer has loaded and waits for its turn. Returns its process."""
        world.until(
            lambda: (
                self.status_of(world, shard).get("limiting_stage") == "turn"
                and self.status_of(world, shard)["pid"] != not_process
            ),
            f"shard {shard} waits",
        )
        self.assertTrue(self.is_taken(world))
        return self.status_of(world, shard)["pid"]

    def begun(self):
        """A run whose second shard waits, and whose first has no free slab."""
        world = self.world(*LARGE, workers=1, shards=4)
        gate = world.gate()
        self.addCleanup(gate.__exit__, None, None, None)
        opened = gate.__enter__()
        world.start("--start-ahead")
        world.until(lambda: self.published(world, 0) == self.SLABS, "the first shard's slabs all published")
        waits = self.until_it_waits(world, 1)
        world.until(lambda: len(self.status_of(world, 1).get("consumers") or []) == 3, "its consumers")
        self.assertEqual((self.published(world, 0), self.published(world, 1)), (self.SLABS, 0))
        return world, opened, waits

    def test_the_next_shard_computes_before_the_first_one_has_ended(self):
        world, gate, _ = self.begun()
        one = self.results_of_one(*LARGE)
        world.until(
            lambda: [worker["waits_for_turn"] for worker in world.status()["workers"]] == [False, True],
            "the second worker waiting",
        )
        self.assertEqual(
            [(worker["name"], worker["consumers"]) for worker in world.status()["workers"]],
            [("producer 1, worker 1", 3), ("producer 1, worker 2", 3)],
        )
        self.assertNotEqual(world.status()["limiting_stage"], "turn")
        code, printed = self.command(world, "status")
        self.assertEqual(
            (code, "shard 1, waits for its turn" in printed, "3 alive, 3 wanted" in printed), (0, True, True), printed
        )
        code, printed = self.command(world, "scale", "2")
        self.assertEqual((code, "3 -> 2 consumers" in printed), (0, True), printed)
        world.until(lambda: [worker["consumers"] for worker in world.status()["workers"]] == [2, 2], "two for each")
        gate.let(30)  # of the first shard's 50 batches: fewer than 20 are in slabs or wait for one
        world.until(lambda: self.published(world, 1) > 0, "the second shard computes")
        self.assertLessEqual(self.status_of(world, 0)["released_batches"], 30)
        self.assertEqual(world.status()["workers"][0]["shards_done"], 0)
        gate.open()
        self.assertEqual(world.wait(), 0, world.logs())
        self.ends_as(world, one, 397)
        done = [worker["shards_done"] for worker in world.summary()["workers"]]
        self.assertEqual((sum(done), min(done) > 0), (4, True), done)
        self.assertGreater(read(world.run_dir / "s1/summary.json")["turn_wait_seconds"], 0)

    def test_after_a_producers_death_nothing_is_lost_and_the_turn_moves_on(self):
        world, gate, waits = self.begun()
        one = self.results_of_one(*LARGE)
        os.kill(waits, signal.SIGKILL)
        self.until_it_waits(world, 1, not_process=waits)
        holds = self.status_of(world, 0)["pid"]
        os.kill(holds, signal.SIGKILL)
        world.until(lambda: self.published(world, 1) == self.SLABS, "the second shard computes")
        # the first shard's next producer, which adopts the published slabs
        self.until_it_waits(world, 0, not_process=holds)
        gate.open()
        self.assertEqual(world.wait(), 0, world.logs())
        self.ends_as(world, one, 397)
        self.assertEqual(world.summary()["producer_restarts"], 2)

    def test_a_waiting_worker_stops_immediately_and_has_done_no_work(self):
        world, gate, _ = self.begun()
        one = self.results_of_one(*LARGE)
        world.launcher.send_signal(signal.SIGTERM)
        world.until(lambda: read(world.run_dir / "s1/summary.json"), "its end, while the first shard's slabs are held")
        summary = read(world.run_dir / "s1/summary.json")
        self.assertEqual((summary["exit"], summary["samples"]["sourced"], summary["samples"]["released"]), (130, 0, 0))
        gate.open()
        self.assertEqual(world.wait(), 130, world.logs())
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.ends_as(world, one, 397)


class OnGpus(unittest.TestCase):
    """Uses a fake nvidia-smi; the tests that need a GPU check the real one."""

    def test_without_a_gpu_there_is_no_run_on_gpus(self):
        with contextlib.ExitStack() as stack:
            world = stack.enter_context(World("--model", "copy", "--batches", "2"))
            if os.path.exists("/dev/nvidia0"):
                self.skipTest("there is a GPU here")
            for wanted in ("all", "2", "0,2"):
                self.assertEqual(world.start("--gpus", wanted).wait(), 83, world.logs())
                self.assertIn("no GPU was found on this machine", world.logs())
                self.assertIn("--device cpu with --gpus N", world.logs())
