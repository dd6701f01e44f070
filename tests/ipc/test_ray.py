"""A job on a Ray cluster of real processes: kills and stops do not change its results, and a failed job reports its reason."""

import signal
import subprocess
import unittest

from tests.support.launched_resume import WATCHDOG_SECONDS, World
from tests.support.launched_run import ROOT
from tests.support.real_run import left_behind
from tests.support.ray_world import PYTHON, Cluster, RayWorld, are_gone, descendants_of, send, stop, store_grows_by

COPY = ("--device", "cpu", "--model", "copy", "--consumers", "1", "--slabs", "4", "--status-seconds", "0.05", "--batch", "8", "--batches", "13", "--limit", "101")
FLAGS = (*COPY, "--processor", "npy,records,checksum", "--copy-outputs", "48")
SHARDS = 4


@unittest.skipUnless(PYTHON, "skipped: no Ray in this Python, and OFFRAMP_TEST_RAY_PYTHON names none")
class OnRay(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        started = cls.enterClassContext(RayWorld(*FLAGS))
        cls.one = cls.enterClassContext(World(*FLAGS))
        assert cls.one.start().wait() == 0, cls.one.said()
        cls.cluster = Cluster(started.environment)
        cls.addClassCleanup(cls.cluster.close)
        for name in ("left", "right"):
            cls.cluster.add(name)

    def begun(self, *flags):
        world = self.enterContext(RayWorld(*FLAGS)).on(self.cluster)
        code, said = world.init(SHARDS, *flags)
        self.assertEqual(code, 0, said)
        self.addCleanup(lambda: self.assertEqual(left_behind(world.memory), set(), "something was left in /dev/shm"))
        return world

    def at_work(self, world, gate, shards=2):
        """Until so many shards have done something, on a node each. Returns the nodes, by shard."""
        gate.let(shards)
        gate.entered_by(shards)
        found = {}

        def all_found():
            found.update({index: node for index in range(SHARDS) if (node := world.node_of(index))})
            return len(set(found.values())) == shards
        world.until(all_found, f"{shards} shards at work")
        return found

    def test_an_actor_that_is_killed_takes_its_shard_along_and_another_one_continues(self):
        world = self.begun()
        with self.cluster.gate() as gate:
            world.drive()
            index, node = min(self.at_work(world, gate).items())
            empty = {name: store_grows_by(raylet) for name, raylet in self.cluster.raylets.items()}
            self.assertGreater(empty[node], 0, "Ray's object store is seen")
            self.lost_with(world, index, lambda: send(self.cluster.workers(node), signal.SIGKILL), gate)
            self.assertEqual(world.wait(), 0, world.said())
        self.assertIn(f"shard {index}, attempt 1 of 5: its worker was lost (Actor", world.said())
        self.assertEqual({name: store_grows_by(raylet) for name, raylet in self.cluster.raylets.items()}, empty, "nothing went into it")
        self.merged(world)

    def lost_with(self, world, index, kill, gate):
        """The shard's command is gone while its consumer still waits at the gate, and all that it had started ends."""
        programs, command = world.programs(index), world.commands(index)
        self.assertGreaterEqual(len(programs), 3, "launcher, producer, consumer")
        kill()
        are_gone(command)
        gate.open()
        are_gone(programs)

    def test_a_node_that_is_killed_costs_its_shard_nothing_but_a_try(self):
        world = self.begun()
        self.cluster.add("third")
        with self.cluster.gate() as gate:
            world.drive()
            self.at_work(world, gate, 3)
            index, = (index for index in range(SHARDS) if world.node_of(index) == "third")
            self.lost_with(world, index, lambda: send([self.cluster.raylets.pop("third")], signal.SIGKILL), gate)
            self.assertEqual(world.wait(), 0, world.said())
        self.assertIn(f"shard {index}, attempt 1 of 5: its worker was lost", world.said())
        self.merged(world)

    def test_a_driver_that_is_killed_or_interrupted_is_started_again(self):
        world = self.begun()
        for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130), (signal.SIGTERM, 130)):
            with self.cluster.gate() as gate:
                world.drive()
                shards = self.at_work(world, gate)
                programs, commands = world.programs(), {pid for index in shards for pid in world.commands(index)}
                send([world.launcher.pid], number)
                self.assertEqual(world.wait(), code, world.said())
                are_gone(commands)
                gate.open()
                are_gone(programs)
        with self.cluster.gate() as gate:
            gate.open()
            self.assertEqual(world.drive().wait(), 0, world.said())
            self.assertIn("all shards are done", world.said())
        self.assertEqual(world.drive().wait(), 0, world.said())
        self.assertIn("all shards are done, 0 of them now", world.said())
        self.merged(world)

    def test_a_run_on_ray_is_begun_done_and_merged_in_one(self):
        world = self.enterContext(RayWorld(*FLAGS)).on(self.cluster)
        with self.cluster.gate() as gate:
            gate.open()
            for _ in range(2):      # the second time nothing is left to do
                code, said = world.call("run", "--on", "ray", "--job", world.job, "--shards", SHARDS, "--output", world.output, "--ray-python", PYTHON, "--address",
                                        self.cluster.address, "--num-gpus=0", *FLAGS)
                self.assertEqual(code, 0, said)
                self.assertEqual(world.results(), self.one.results())
        code, said = world.call("run", "--on", "slurm", *FLAGS)
        self.assertEqual((code, "only ray is supported" in said), (64, True), said)

    def test_a_node_that_was_stopped_wakes_after_its_shard_was_done_elsewhere(self):
        """The locks of a host that does not answer end by themselves on a server; here the file goes instead."""
        world = self.begun()
        self.cluster.add("sleeper")
        with self.cluster.gate() as gate:
            world.drive()
            self.at_work(world, gate, 3)
            index, = (index for index in range(SHARDS) if world.node_of(index) == "sleeper")
            raylet = self.cluster.raylets.pop("sleeper")
            stopped = {raylet, *descendants_of(raylet), *world.programs(index)}
            self.addCleanup(send, stopped, signal.SIGCONT)
            stop(stopped)
            (world.output / ".offramp-shards" / str(index) / ".offramp-lock").unlink()
            gate.open()
            self.assertEqual(world.wait(), 0, world.said())
            self.assertIn(f"shard {index}, attempt 1 of 5: its worker was lost", world.said())
            send(stopped, signal.SIGCONT)
            are_gone(stopped)
        self.merged(world)

    def test_what_no_other_try_mends_ends_the_job_with_its_reason(self):
        world = self.begun()
        self.assertEqual(world.drive("--flags", "--seed=3").wait(), 65, world.said())
        self.assertIn("which a retry cannot fix: the input or the model differs from", world.said())
        self.assertIn("--seed was 0 and is 3", world.said())
        self.assertEqual(world.drive("--attempts", "1", "--offramp", "/nowhere/offramp").wait(), 75, world.said())
        self.assertIn("'/nowhere/offramp' cannot be started on", world.said())
        self.assertEqual(world.drive("--attempts", "2", "--flags=--run-dir /proc/none").wait(), 75, world.said())
        self.assertIn("were tried 2 times and are not done", world.said())
        for flags, said in ((("--attempts", "0"), "attempts is 0"), (("--attempts", "x"), "invalid int value: 'x'"), (("--most", "3"), "unrecognized arguments: --most 3"),
                            (("--num-cpus", "0", "--num-gpus", "0"), "a worker takes nothing")):
            self.assertEqual(world.drive(*flags).wait(), 64, world.said())
            self.assertIn(said, world.said())
        self.assertEqual(world.drive("--job", world.folder).wait(), 66, world.said())
        self.assertIn("holds no job", world.said())

    def test_rows_of_shards_flow_through_ray_data(self):
        if subprocess.run([PYTHON, "-c", "import ray.data"], capture_output=True, check=False).returncode != 0:
            self.skipTest("Ray has no ray.data here: pip install 'ray[data]'")
        world = self.begun()
        with self.cluster.gate() as gate:
            gate.open()
            done = subprocess.run([PYTHON, ROOT / "tests/examples/ray_rows.py", world.job, "--cpu"], capture_output=True, text=True, check=False, timeout=WATCHDOG_SECONDS,
                                  env={**world.environment, "PYTHONPATH": f"{ROOT}/launch/python", "RAY_ADDRESS": self.cluster.address})
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines() if line.count(" ") == 2]
        self.assertEqual(sorted(int(key) for _, key, _ in rows), list(range(101)), done.stdout)
        self.assertEqual({int(shard) for shard, _, _ in rows}, set(range(SHARDS)))
        self.merged(world)

    def merged(self, world):
        code, said = world.merge()
        self.assertEqual(code, 0, said)
        self.assertEqual(world.results(), self.one.results())
        self.assertEqual((world.job_summary()["done"], world.job_summary()["conserved"]), (101, True))


if __name__ == "__main__":
    unittest.main()
