"""
The script of `job sbatch` in a real Slurm: a controller and two node daemons on this machine. Skipped without Debian's
slurm-wlm and munge. With them:

    OFFRAMP_TEST_BIN=$PWD/build/release/bin PYTHONPATH=. python3 -m unittest -v tests/system/test_slurm.py
"""

import json
import unittest

from tests.support.launched_job import JobWorld
from tests.support.launched_resume import World
from tests.support.slurm_cluster import SlurmCluster, missing_requirement
from tests.support.waiting import wait_for

FLAGS = (
    *"--device cpu --model copy --consumers 1 --slabs 4 --status-seconds 0.05 --batch 2 --batches 600".split(),
    *"--limit 1199 --processor npy,checksum --copy-outputs 48".split(),
)
SHARDS = 4


@unittest.skipIf(missing_requirement(), f"no Slurm here: {missing_requirement()}")
class Slurm(unittest.TestCase):
    def setUp(self):
        self.world = JobWorld(*FLAGS)
        self.addCleanup(self.world.__exit__, None, None, None)
        code, printed = self.world.init(SHARDS)
        self.assertEqual(code, 0, printed)
        self.slurm = self.enterContext(SlurmCluster(self.world.folder / "slurm", ("first", "second")))

    def submit(self):
        """Submits the array, whose tasks wait at the gate. Returns its number."""
        code, printed = self.world.call(
            "job", "sbatch", "--job", self.world.job, "--gpus-per-shard", "1", "--time", "60"
        )
        self.assertEqual(code, 0, printed)
        script = self.world.folder / "script"
        script.write_text(printed)
        return self.slurm.ask("sbatch", "--parsable", script, environment=self.world.environment).strip()

    def status(self, index):
        """The status of the shard's latest run."""
        ident = json.loads((self.world.job / "job.json").read_text())["id"]
        found = sorted(
            (self.world.folder / "build/runs").glob(f"{ident}-{index}-*/status.json"),
            key=lambda path: path.parent.stat().st_mtime,
        )
        try:
            return json.loads(found[-1].read_text()) if found else {}
        except (OSError, ValueError):
            return {}

    def until(self, holds, what):
        try:
            return wait_for(holds, what)
        except AssertionError as problem:
            logs = "\n".join(
                f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
                for path in sorted(self.world.job.glob("slurm-*.log"))
            )
            raise AssertionError(f"{problem}; {self.slurm.tasks()}\n{self.slurm.logs()}\n{logs}") from problem

    def at_work(self, gate, indices):
        """Passes one slab after another until all these shards have completed some."""
        gate.entered_by(len(indices))
        while not all(done := self.done_by(indices)):
            gate.let(1)
            self.until(lambda done=done: sum(self.done_by(indices)) > sum(done), "a slab that passes")

    def done_by(self, indices):
        return [self.status(index).get("done_samples", 0) for index in indices]

    def test_an_array_survives_a_lost_node_and_a_time_limit(self):
        one = World(*FLAGS)
        self.addCleanup(one.__exit__, None, None, None)
        self.assertEqual(one.start().wait(), 0, one.logs())
        with self.world.gate() as gate:
            array = self.submit()
            nodes = self.until(lambda: len(found := self.slurm.nodes_of_tasks()) == 2 and found, "two tasks that run")
            self.at_work(gate, nodes.values())
            self.slurm.kill_node("second")
            # The new limit ends within the 120 s before which the signal comes.
            self.slurm.ask("scontrol", "update", f"JobId={array}_{nodes['first']}", "TimeLimit=2")
            self.until(lambda: self.status(nodes["first"]).get("state") == "draining", "the signal taken")
            gate.open()
            self.until(lambda: self.slurm.tasks() == {}, "the end of the array")
        for index in range(SHARDS):
            self.assertEqual(
                self.world.record(index)["attempt"] > 0,
                index in nodes.values(),
                (self.world.job / f"slurm-{index}.log").read_text(),
            )
        self.assertEqual(self.world.merge()[0], 0)
        self.assertEqual(self.world.results(), one.results())
        self.assertEqual(self.world.job_summary()["done"], 1199)

    def test_cancelled_tasks_are_left_to_a_later_array(self):
        with self.world.gate() as gate:
            array = self.submit()
            nodes = self.until(lambda: len(found := self.slurm.nodes_of_tasks()) == 2 and found, "two tasks that run")
            self.at_work(gate, nodes.values())
            self.slurm.ask("scancel", array)
            self.until(
                lambda: all(self.status(index).get("state") != "running" for index in nodes.values()),
                "the signal taken",
            )
            gate.open()
            self.until(lambda: self.slurm.tasks() == {}, "the end of the array")
        self.assertEqual(self.world.call("job", "status", "--job", self.world.job, "--missing"), (0, "0-3\n"))
        code, printed = self.world.call("shard", "--job", self.world.job, "--index", "2")
        self.assertEqual(code, 0, printed)
        self.submit()
        self.assertIn("--array=0-1,3\n", (self.world.folder / "script").read_text())
        self.until(lambda: self.slurm.tasks() == {}, "the end of the second array")
        self.assertEqual(self.world.merge()[0], 0)
        self.assertEqual(self.world.job_summary()["done"], 1199)
