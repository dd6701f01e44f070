"""Debian's Slurm on this machine: a controller and node daemons with fake GPUs. Needs root for the node daemons."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess

from tests.support.marked_processes import processes_marked
from tests.support.waiting import WATCHDOG_SECONDS, put_away, wait_for

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "sinfo", "squeue", "scontrol", "scancel")
CONFIG = """
ClusterName=offramp-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
# So long a task that is queued again waits.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SlurmdTimeout=5
ReturnToService=2
GresTypes=gpu
"""


# Debian's daemons are in /usr/sbin, which is not in every PATH.
SEARCHED = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"


def missing_requirement():
    """Why no cluster can run here; empty if one can."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=SEARCHED)]
    if missing:
        return f"without {', '.join(missing)} (apt-get install slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "node daemons need root"


class SlurmCluster:
    """
    Owns: the daemons, their processes and the folder of their files. Use as a context, whose end kills live processes.
    """

    def __init__(self, folder, nodes):
        self.folder = pathlib.Path(folder)
        self.nodes = nodes
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": SEARCHED}
        self.daemons = {}

    def __enter__(self):
        try:
            self._configure()
            self._start_munge()
            self._start("slurmctld", "slurmctld", "-D")
            for node in self.nodes:
                self.start_node(node)
            wait_for(
                lambda: self.states() == {node: "idle" for node in self.nodes}, f"nodes that are idle; {self.logs()}"
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            self.kill_node(node)
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()  # it ends its helpers itself
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(WATCHDOG_SECONDS)
            put_away(daemon)

    def _configure(self):
        self.folder.mkdir()
        (self.folder / "state").mkdir()
        ports = free_ports(1 + len(self.nodes))
        host = socket.gethostname()
        lines = [
            CONFIG.format(folder=self.folder, host=host, port=ports[0]),
            *(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 Gres=gpu:1"
                for node, port in zip(self.nodes, ports[1:])
            ),
            f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP",
        ]
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")

    def _start_munge(self):
        key, sock = self.folder / "munge.key", self.folder / "munge.socket"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        # Only the test uses this folder, but others may write to its parent /tmp.
        self._start(
            *"munged munged --foreground --force --num-threads 2 --key-file".split(),
            key,
            "--socket",
            sock,
            "--pid-file",
            self.folder / "munge.pid",
            "--seed-file",
            self.folder / "munge.seed",
            "--log-file",
            self.folder / "munge.log",
        )
        wait_for(sock.exists, "munge's socket")

    def start_node(self, node):
        self._start(node, "slurmd", "-D", "-N", node)

    def _start(self, name, program, *arguments):
        with open(self.folder / f"{name}.out", "ab") as log:
            self.daemons[name] = subprocess.Popen(
                [shutil.which(program, path=SEARCHED), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
            )

    def kill_node(self, node):
        """
        Simulates a lost machine: kills its daemon, then the step daemons, so that their end is not reported, then all
        their processes.
        """
        if node in self.daemons:
            put_away(self.daemons.pop(node))
        while started := self._started_on(node):
            watchers = {parent for parent in map(parent_of, started) if name_of(parent).startswith("slurmstepd")}
            for pid in [*watchers, *started]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _started_on(self, node):
        """Processes on the node, found by the step that names its folder of scripts."""
        return [
            pid
            for pid in processes_marked("SLURMD_NODENAME", node)
            if environment_of(pid).get("SLURM_CONF") == self.environment["SLURM_CONF"]
        ]

    def states(self):
        """{node: state} as the controller sees it."""
        printed = self.ask("sinfo", "--noheader", "--Node", "--format=%N %T", check=False)
        return dict(line.split() for line in printed.splitlines())

    def tasks(self):
        """{index: state} of unfinished tasks."""
        printed = self.ask("squeue", "--noheader", "--array", "--format=%K %T")
        return {int(index): state for index, state in (line.split() for line in printed.splitlines())}

    def nodes_of_tasks(self):
        """{node: index} of running tasks."""
        printed = self.ask("squeue", "--noheader", "--array", "--states=RUNNING", "--format=%N %K")
        return {node: int(index) for node, index in (line.split() for line in printed.splitlines())}

    def ask(self, program, *arguments, check=True, environment=None):
        done = subprocess.run(
            [shutil.which(program, path=SEARCHED), *map(str, arguments)],
            env={**(environment or {}), **self.environment},
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"{program} {arguments}: {done.stderr}"
        return done.stdout

    def logs(self):
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        )


def free_ports(number):
    """Of this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def environment_of(pid):
    with contextlib.suppress(OSError):
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return dict(word.split("=", 1) for word in words if "=" in word)
    return {}


def parent_of(pid):
    with contextlib.suppress(OSError):
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
