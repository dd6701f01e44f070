"""
A job on a Ray cluster of real processes: kills and stops do not change its results, and a failed job reports its
reason.
"""

import signal
import subprocess
import unittest

from tests.support.launched_resume import WATCHDOG_SECONDS, World
from tests.support.launched_run import ROOT
from tests.support.ray_world import PYTHON, Cluster, RayWorld, are_gone, descendants_of, send, stop, store_grows_by
from tests.support.real_run import require_nothing_left

COPY = (
    *"--device cpu --model copy --consumers 1 --slabs 4 --status-seconds 0.05 --batch 8 --batches 13".split(),
    *"--limit 101".split(),
)
FLAGS = (*COPY, "--processor", "npy,records,checksum", "--copy-outputs", "48")
SHARDS = 4


@unittest.skipUnless(PYTHON, "skipped: no Ray in this Python, and OFFRAMP_TEST_RAY_PYTHON names none")
class OnRay(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        started = cls.enterClassContext(RayWorld(*FLAGS))
        cls.one = cls.enterClassContext(World(*FLAGS))
        assert cls.one.start().wait() == 0, cls.one.logs()
        cls.cluster = Cluster(started.environment)
        cls.addClassCleanup(cls.cluster.close)
        for name in ("left", "right"):
            cls.cluster.add(name)

    def begun(self, *flags):
        world = self.enterContext(RayWorld(*FLAGS)).on(self.cluster)
        code, printed = world.init(SHARDS, *flags)
        self.assertEqual(code, 0, printed)
        self.addCleanup(require_nothing_left, self, world.memory)
        return world

    def at_work(self, world, gate, shards=2):
        """Waits until `shards` shards work on separate nodes. Returns {shard: node}."""
        gate.let(shards)
        gate.entered_by(shards)
        found = {}

        def all_found():
            found.update({index: node for index in range(SHARDS) if (node := world.node_of(index))})
            return len(set(found.values())) == shards

        world.until(all_found, f"{shards} shards at work")
        return found

    def test_a_killed_actors_shard_ends_and_another_actor_continues_it(self):
        world = self.begun()
        with self.cluster.gate() as gate:
            world.drive()
            index, node = min(self.at_work(world, gate).items())
            empty = {name: store_grows_by(raylet) for name, raylet in self.cluster.raylets.items()}
            self.assertGreater(empty[node], 0, "Ray's object store is visible")
            self.lost_with(world, index, lambda: send(self.cluster.workers(node), signal.SIGKILL), gate)
            self.assertEqual(world.wait(), 0, world.logs())
        self.assertIn(f"shard {index}, attempt 1 of 5: its worker was lost (Actor", world.logs())
        self.assertEqual(
            {name: store_grows_by(raylet) for name, raylet in self.cluster.raylets.items()},
            empty,
            "the object store is unchanged",
        )
        self.merged(world)

    def lost_with(self, world, index, kill, gate):
        """Kills the shard's command while its consumer waits at the gate; all its descendants end."""
        programs, command = world.programs(index), world.commands(index)
        self.assertGreaterEqual(len(programs), 3, "launcher, producer, consumer")
        kill()
        are_gone(command)
        gate.open()
        are_gone(programs)

    def test_a_killed_node_costs_its_shard_one_attempt(self):
        world = self.begun()
        self.cluster.add("third")
        with self.cluster.gate() as gate:
            world.drive()
            self.at_work(world, gate, 3)
            (index,) = (index for index in range(SHARDS) if world.node_of(index) == "third")
            self.lost_with(world, index, lambda: send([self.cluster.raylets.pop("third")], signal.SIGKILL), gate)
            self.assertEqual(world.wait(), 0, world.logs())
        self.assertIn(f"shard {index}, attempt 1 of 5: its worker was lost", world.logs())
        self.merged(world)

    def test_a_driver_that_is_killed_or_interrupted_is_started_again(self):
        world = self.begun()
        for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130), (signal.SIGTERM, 130)):
            with self.cluster.gate() as gate:
                world.drive()
                shards = self.at_work(world, gate)
                programs, commands = world.programs(), {pid for index in shards for pid in world.commands(index)}
                send([world.launcher.pid], number)
                self.assertEqual(world.wait(), code, world.logs())
                are_gone(commands)
                gate.open()
                are_gone(programs)
        with self.cluster.gate() as gate:
            gate.open()
            self.assertEqual(world.drive().wait(), 0, world.logs())
            self.assertIn("all shards are done", world.logs())
        self.assertEqual(world.drive().wait(), 0, world.logs())
        self.assertIn("all shards are done, 0 of them now", world.logs())
        self.merged(world)

    def test_a_run_on_ray_is_begun_done_and_merged_in_one(self):
        world = self.enterContext(RayWorld(*FLAGS)).on(self.cluster)
        with self.cluster.gate() as gate:
            gate.open()
            for _ in range(2):  # the second call has nothing to do
                code, printed = world.call(
                    *"run --on ray --job".split(),
                    world.job,
                    "--shards",
                    SHARDS,
                    "--output",
                    world.output,
                    "--ray-python",
                    PYTHON,
                    "--address",
                    self.cluster.address,
                    "--num-gpus=0",
                    *FLAGS,
                )
                self.assertEqual(code, 0, printed)
                self.assertEqual(world.results(), self.one.results())
        code, said = world.call("run", "--on", "slurm", *FLAGS)
        self.assertEqual((code, "only ray is supported" in said), (64, True), said)

    def test_a_node_that_was_stopped_wakes_after_its_shard_was_done_elsewhere(self):
        """A file server releases the locks of a lost host; this test removes the lock file instead."""
        world = self.begun()
        self.cluster.add("sleeper")
        with self.cluster.gate() as gate:
            world.drive()
            self.at_work(world, gate, 3)
            (index,) = (index for index in range(SHARDS) if world.node_of(index) == "sleeper")
            raylet = self.cluster.raylets.pop("sleeper")
            stopped = {raylet, *descendants_of(raylet), *world.programs(index)}
            self.addCleanup(send, stopped, signal.SIGCONT)
            stop(stopped)
            (world.output / ".offramp-shards" / str(index) / ".offramp-lock").unlink()
            gate.open()
            self.assertEqual(world.wait(), 0, world.logs())
            self.assertIn(f"shard {index}, attempt 1 of 5: its worker was lost", world.logs())
            send(stopped, signal.SIGCONT)
            are_gone(stopped)
        self.merged(world)

    def test_a_permanent_failure_ends_the_job_with_its_reason(self):
        world = self.begun()
        self.assertEqual(world.drive("--flags", "--seed=3").wait(), 65, world.logs())
        self.assertIn("which a retry cannot fix: the input or the model differs from", world.logs())
        self.assertIn("--seed was 0 and is 3", world.logs())
        self.assertEqual(world.drive("--attempts", "1", "--offramp", "/nowhere/offramp").wait(), 75, world.logs())
        self.assertIn("'/nowhere/offramp' cannot be started on", world.logs())
        self.assertEqual(world.drive("--attempts", "2", "--flags=--run-dir /proc/none").wait(), 75, world.logs())
        self.assertIn("were tried 2 times and are not done", world.logs())
        for flags, reason in (
            (("--attempts", "0"), "attempts is 0"),
            (("--attempts", "x"), "invalid int value: 'x'"),
            (("--most", "3"), "unrecognized arguments: --most 3"),
            (("--num-cpus", "0", "--num-gpus", "0"), "a worker requests no resources"),
        ):
            self.assertEqual(world.drive(*flags).wait(), 64, world.logs())
            self.assertIn(reason, world.logs())
        self.assertEqual(world.drive("--job", world.folder).wait(), 66, world.logs())
        self.assertIn("is not a job's folder", world.logs())

    def test_rows_of_shards_flow_through_ray_data(self):
        if subprocess.run([PYTHON, "-c", "import ray.data"], capture_output=True, check=False).returncode != 0:
            self.skipTest("Ray has no ray.data here: pip install 'ray[data]'")
        world = self.begun()
        with self.cluster.gate() as gate:
            gate.open()
            done = subprocess.run(
                [PYTHON, ROOT / "tests/examples/ray_rows.py", world.job, "--cpu"],
                capture_output=True,
                text=True,
                check=False,
                timeout=WATCHDOG_SECONDS,
                env={**world.environment, "PYTHONPATH": f"{ROOT}/launch/python", "RAY_ADDRESS": self.cluster.address},
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines() if line.count(" ") == 2]
        self.assertEqual(sorted(int(key) for _, key, _ in rows), list(range(101)), done.stdout)
        self.assertEqual({int(shard) for shard, _, _ in rows}, set(range(SHARDS)))
        self.merged(world)

    def merged(self, world):
        code, printed = world.merge()
        self.assertEqual(code, 0, printed)
        self.assertEqual(world.results(), self.one.results())
        self.assertEqual((world.job_summary()["done"], world.job_summary()["conserved"]), (101, True))
