"""
Jobs under Slurm and Kubernetes: the script of `job sbatch` with fake Slurm commands, and a shard as a container's first
process.
"""

import os
import pathlib
import signal
import subprocess
import unittest

from tests.support.launched_job import JobWorld
from tests.support.launched_resume import World
from tests.support.waiting import wait_for

COPY = (
    *"--device cpu --model copy --consumers 2 --slabs 4 --status-seconds 0.05 --processor checksum".split(),
    *"--copy-outputs 48".split(),
)
# About 150 batches each, more than a stopped shard has in flight.
MANY = (*COPY, "--batch", "2", "--batches", "300", "--limit", "600")
FEW = (*COPY, "--batch", "8", "--batches", "4", "--limit", "32")
# A separate pid namespace with a pod's shared memory; the command is its first process.
IN_A_CONTAINER = (
    *"unshare --pid --fork --kill-child --mount-proc sh -c".split(),
    'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"',
)


def namespaces_are_here():
    try:
        return subprocess.run([*IN_A_CONTAINER, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def children_of(pid):
    """Includes unreaped processes."""
    try:
        return [
            int(word)
            for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
            for word in path.read_text().split()
        ]
    except OSError:
        return []


class Engines(unittest.TestCase):
    def begun(self, flags, shards):
        """In a folder `here`."""
        world = JobWorld(*flags)
        self.addCleanup(world.__exit__, None, None, None)
        (world.folder / "here").mkdir()
        code, printed = world.call(
            "job",
            "init",
            "--job",
            world.job,
            "--shards",
            shards,
            "--output",
            world.output,
            *flags,
            cwd=world.folder / "here",
        )
        self.assertEqual(code, 0, printed)
        return world

    def one_run(self, flags):
        one = World(*flags)
        self.addCleanup(one.__exit__, None, None, None)
        self.assertEqual(one.start().wait(), 0, one.logs())
        return one.results()

    def at_work(self, world, gate):
        gate.let(4)
        world.until(lambda: world.status().get("done_samples", 0) > 0, "the first samples")

    def draining(self, world, gate):
        world.until(lambda: world.status().get("state") == "draining", "the signal taken")
        gate.open()


class Sbatch(Engines):
    def with_stand_ins(self, world):
        """Fake Slurm commands that write their calls to world.folder/asked."""
        tools = world.folder / "tools"
        tools.mkdir()
        for name in ("scontrol", "squeue"):
            (tools / name).write_text(
                f'#!/bin/sh\necho "{name} $*" >> {world.folder}/asked\n[ {name} = scontrol ] || cat {world.folder}/state\n'
            )
            (tools / name).chmod(0o755)
        (world.folder / "state").write_text("RUNNING\n")
        world.environment["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
        return world

    def task(self, world, index, restarts=""):
        (world.folder / "asked").write_text("")
        code, printed = world.call("job", "sbatch", "--job", world.job)
        self.assertEqual(code, 0, printed)
        (world.folder / "script").write_text(printed)
        return world.begin(
            ["bash", world.folder / "script"],
            SLURM_ARRAY_JOB_ID="7",
            SLURM_ARRAY_TASK_ID=str(index),
            OFFRAMP_SHARD_INDEX="0",
            **({"SLURM_RESTART_COUNT": restarts} if restarts else {}),
        )

    def requeued(self, world):
        return [line for line in (world.folder / "asked").read_text().splitlines() if line.startswith("scontrol")]

    def test_a_stopped_or_killed_task_is_requeued_and_does_the_rest(self):
        results = self.one_run(MANY)
        world = self.with_stand_ins(self.begun(MANY, 2))
        with world.gate() as gate:
            self.task(world, 1)
            self.at_work(world, gate)
            world.launcher.send_signal(signal.SIGTERM)
            self.draining(world, gate)
            self.assertEqual(world.wait(), 0, world.logs())
        self.assertIn("offramp shard --job", world.logs())  # how to continue
        self.assertEqual(self.requeued(world), ["scontrol requeue 7_1"])
        with world.gate() as gate:
            self.task(world, 1, restarts="1")
            self.at_work(world, gate)
            (shard,) = children_of(world.launcher.pid)
            os.kill(shard, signal.SIGKILL)
            self.assertEqual(world.wait(), 0, world.logs())
            gate.open()
        self.assertEqual(self.requeued(world), ["scontrol requeue 7_1"])
        for index in (1, 0):
            wait_for(
                lambda index=index: self.task(world, index, restarts="2").wait() == 0 and self.requeued(world) == [],
                "the killed task's lock",
            )
        self.assertEqual(world.call("job", "sbatch", "--job", world.job)[0], 66)
        self.assertEqual(world.merge()[0], 0)
        self.assertEqual(world.results(), results)

    def test_cancelled_exhausted_and_permanently_failed_tasks_stay_ended(self):
        world = self.with_stand_ins(self.begun(FEW, 2))
        self.assertEqual((self.task(world, 2).wait(), self.requeued(world)), (64, []), world.logs())
        (world.folder / "here").rename(world.folder / "away")  # as where a mount is missing
        self.assertEqual(
            (self.task(world, 1, restarts="9").wait(), self.requeued(world)),
            (0, ["scontrol requeue 7_1"]),
            world.logs(),
        )
        self.assertEqual((self.task(world, 1, restarts="10").wait(), self.requeued(world)), (75, []), world.logs())
        self.assertIn("after 10 requeues", world.logs())
        (world.folder / "state").write_text("COMPLETING\n")
        self.assertEqual((self.task(world, 1).wait(), self.requeued(world)), (75, []), world.logs())


@unittest.skipUnless(namespaces_are_here(), "cannot create pid namespaces here")
class FirstProcess(Engines):
    def in_a_container(self, world):
        world.through = IN_A_CONTAINER
        return world

    def first_process(self, world):
        """The first process's pid outside the namespace."""
        return world.until(lambda: children_of(world.launcher.pid), "a first process")[0]

    def test_it_reaps_orphans_drains_on_request_and_exits_like_the_shard(self):
        world = self.in_a_container(self.begun(MANY, 1))
        with world.gate() as gate:
            world.shard(0)
            self.at_work(world, gate)
            first = self.first_process(world)
            orphan = self.orphan_of(first)
            os.kill(orphan, signal.SIGKILL)
            wait_for(lambda: not os.path.exists(f"/proc/{orphan}"), "a reaped orphan")
            os.kill(first, signal.SIGTERM)
            self.draining(world, gate)
            self.assertEqual(world.wait(), 75, world.logs())
        self.assertEqual(world.shard(0).wait(), 0, world.logs())
        self.assertEqual((world.record(0)["done"], world.record(0)["attempt"]), (600, 1))
        self.assertEqual(world.shard(1).wait(), 64, world.logs())

    def orphan_of(self, first):
        """A process whose parent has ended, so that the first process adopted it."""
        before = set(children_of(first))
        subprocess.run(["nsenter", "--target", str(first), "--pid", "sh", "-c", "sleep 600 & exit"], check=True)
        return wait_for(lambda: set(children_of(first)) - before, "an orphan").pop()

    def test_when_the_command_is_killed_it_reports_it(self):
        world = self.in_a_container(self.begun(FEW, 1))
        with world.gate() as gate:
            world.shard(0)
            gate.entered()
            os.kill(children_of(self.first_process(world))[0], signal.SIGKILL)
            self.assertEqual(world.wait(), 137, world.logs())
