"""A Ray cluster of real processes on this machine, and a job for its workers."""

import contextlib
import importlib.util
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile

from tests.support.gate import Gate
from tests.support.launched_job import JobWorld
from tests.support.launched_resume import WATCHDOG_SECONDS
from tests.support.launched_run import ROOT, programs_with_faulty_consumer
from tests.support.waiting import wait_for

# A Python with Ray: this one, unless the variable names another.
PYTHON = os.environ.get("OFFRAMP_TEST_RAY_PYTHON") or (sys.executable if importlib.util.find_spec("ray") else None)


class Cluster:
    """A head and added nodes. Consumers of their workers wait at `gate`. close() leaves nothing behind."""

    def __init__(self, environment):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="oray-", dir="/tmp"))  # short, because sockets are in it
        self.log = open(self.folder / "cluster.log", "wb")
        with Gate(self.folder) as gate:
            self.environment = {
                **environment,
                **gate.environment,
                "OFFRAMP_BIN_DIR": str(programs_with_faulty_consumer(self.folder)),
                "RAY_TMPDIR": str(self.folder),
                "RAY_USAGE_STATS_ENABLED": "0",
            }
        self.process = subprocess.Popen(
            [PYTHON, ROOT / "tests/support/ray_cluster.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=self.environment,
            text=True,
        )
        self.address = self._next_line()
        self.raylets = {}

    def add(self, name):
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        self.raylets[name] = int(self._next_line())

    def _next_line(self):
        if not select.select([self.process.stdout], [], [], WATCHDOG_SECONDS)[0] or not (
            line := self.process.stdout.readline()
        ):
            raise AssertionError(f"the cluster printed nothing:\n{(self.folder / 'cluster.log').read_text()[-3000:]}")
        return line.strip()

    def gate(self):
        return Gate(self.folder)

    def workers(self, name):
        """The node's actors."""
        return [pid for pid in children_of(self.raylets[name]) if "ray::Worker" in command_of(pid)]

    def close(self):
        self.process.stdin.close()
        self.process.wait(WATCHDOG_SECONDS)
        self.process.stdout.close()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class RayWorld(JobWorld):
    """A job and its drivers on a given cluster."""

    def __init__(self, *flags):
        super().__init__(*flags)
        self.cluster = None

    def on(self, cluster):
        """Also finds the job's processes by the cluster's mark."""
        self.cluster = cluster
        self.environment = {**self.environment, "RAY_TMPDIR": str(cluster.folder)}
        return self

    def drive(self, *flags):
        """Starts the driver; wait() returns its exit code."""
        with open(self.folder / "launcher.log", "wb") as log:
            self.launcher = subprocess.Popen(
                [
                    ROOT / "launch/offramp",
                    "job",
                    "ray",
                    "--ray-python",
                    PYTHON,
                    "--job",
                    self.job,
                    "--address",
                    self.cluster.address,
                    "--pause",
                    "0.2",
                    *flags,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment,
            )
        return self

    def commands(self, index=None):
        """Pids of a shard's commands on any node; of all shards without an index."""
        mine = [pid for pid in all_pids() if f"\0--job\0{self.job}\0--index\0" in command_of(pid)]
        return {pid for pid in mine if index is None or f"\0--index\0{index}\0" in command_of(pid)}

    def memory(self):
        """Names of the job's runs in /dev/shm."""
        own = json.loads((self.job / "job.json").read_text())["id"]
        return {name for name in os.listdir("/dev/shm") if own in name}

    def wait(self):
        try:
            return super().wait()
        except subprocess.TimeoutExpired as problem:
            raise AssertionError(f"the driver does not end:\n{self.logs()}") from problem

    def programs(self, index=None):
        """Pids of the commands and of all their descendants."""
        return {pid for command in self.commands(index) for pid in (command, *descendants_of(command))}

    def node_of(self, index):
        """The node whose worker started this shard's command; None without one."""
        for name in self.cluster.raylets:
            for worker in self.cluster.workers(name):
                if self.commands(index).intersection(descendants_of(worker)):
                    return name
        return None


def store_grows_by(raylet):
    sys.path.insert(0, str(ROOT / "launch/python"))
    try:
        from offramp import _ray_worker
    finally:
        sys.path.remove(str(ROOT / "launch/python"))
    return _ray_worker.store_grows_by(raylet)


def all_pids():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def command_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc", str(pid), "cmdline").read_bytes().decode(errors="replace")
    return ""


def children_of(pid):
    with contextlib.suppress(OSError):
        return [
            int(child)
            for task in pathlib.Path("/proc", str(pid), "task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    return []


def descendants_of(pid):
    return {pid_below for child in children_of(pid) for pid_below in (child, *descendants_of(child))}


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def stop(pids):
    """Stops the processes and waits until all are stopped, so that none takes another consumer's release at a gate."""
    send(pids, signal.SIGSTOP)
    wait_for(lambda: all(state_of(pid) in "TtZX" for pid in pids), f"the stop of {pids}")


def are_gone(pids):
    """Waits for the end of all these processes."""
    wait_for(lambda: all(state_of(pid) in "ZX" for pid in pids), f"the end of {pids}")


def state_of(pid):
    """The state's letter as in ps; X for a missing process."""
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
    return "X"
