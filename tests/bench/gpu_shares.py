"""
What several_gpus.py measures: shares, the programs of one GPU, which are stopped and continued together; and the runs that they belong to. Whatever
happens, close() leaves no process, and nothing in /dev/shm.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from contestants import ContestantError, OfframpRun, Program, Progress, flag_list, sweep_dead_runs
from processes import children_of, die_with_parent, kill_group, members_of, signal_all

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("offramp-producer", "offramp-consumer")
DRAIN_SECONDS, GONE_SECONDS, STALL_SECONDS = 20, 10, 30
SET_MEMPOLICY, MPOL_BIND = 238, 2        # of x86-64
NODES = pathlib.Path("/sys/devices/system/node")
MPS = "nvidia-cuda-mps-control"
MPS_SECONDS = 15


# Where programs run, and where their memory lies.

def bound(cores=(), node=None):
    """What a child does before its program: what `run --gpus` has its workers do; with `node`, memory that it touches first lies there."""
    def prepare():
        die_with_parent()
        if cores:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, cores)
        if node is not None:
            bind_memory(node)
    return prepare


def bind_memory(node):
    """Errors: OSError, where a container does not let it, too."""
    mask = (ctypes.c_ulong * 16)()
    mask[node // 64] = 1 << (node % 64)
    if ctypes.CDLL(None, use_errno=True).syscall(SET_MEMPOLICY, MPOL_BIND, mask, 16 * 64) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def why_memory_cannot_be_bound(node):
    """Or nothing; tried in a child."""
    child = os.fork()
    if child == 0:
        try:
            bind_memory(node)
            os._exit(0)
        except OSError as problem:
            os._exit(problem.errno or 255)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return os.strerror(code) if code > 0 else ""


def nodes_of_this_machine():
    """{number: its cores}, of those that have memory."""
    found = {}
    for folder in NODES.glob("node[0-9]*"):
        with contextlib.suppress(OSError):
            total = next(line for line in (folder / "meminfo").read_text().splitlines() if "MemTotal" in line)
            if int(total.split()[-2]) > 0:
                found[int(folder.name[4:])] = (folder / "cpulist").read_text().strip()
    return found


def slabs_by_node(pid):
    """GiB of a process's shared memory by node, as the kernel tells it; nothing where it does not."""
    found = {}
    with contextlib.suppress(OSError, ValueError):
        for line in pathlib.Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
            if "file=/dev/shm/" in line:
                words = dict(word.split("=", 1) for word in line.split() if "=" in word)
                page = int(words.get("kernelpagesize_kB", 4))
                for name, count in words.items():
                    if name[0] == "N" and name[1:].isdigit():
                        found[name] = found.get(name, 0) + int(count) * page / (1 << 20)
    return {name: round(gib, 3) for name, gib in found.items()}


# Processes.

def descendants_of(pid):
    found = []
    for child in children_of(pid):
        found += [child, *descendants_of(child)]
    return found


def program_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(os.readlink(f"/proc/{pid}/exe")).name
    return ""


def processes_naming(text):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                if text.encode() in pathlib.Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.append(int(entry))
    return found


def files_written_by(pids):
    """Regular files, and those of /dev/shm, that they have open for writing or mapped as shared and writable."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
                words = line.split(None, 5)
                if len(words) == 6 and words[1][1] == "w" and words[1][3] == "s" and words[5].startswith("/") and is_a_file(words[5]):
                    found.add(words[5])
            for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    path, flags = os.readlink(link), pathlib.Path(f"/proc/{pid}/fdinfo/{link.name}").read_text()
                    mode = int(next(line for line in flags.splitlines() if line.startswith("flags:")).split()[1], 8)
                    if mode & os.O_ACCMODE != os.O_RDONLY and path.startswith("/") and is_a_file(path):
                        found.add(path)
    return found


def is_a_file(path):
    return path.startswith("/dev/shm/") or not path.startswith(("/dev/", "/proc/", "/sys/", "/memfd:", "/anon"))


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


# Shares.

class SharedRun(OfframpRun):
    """A producer with consumers of one GPU, started by the driver."""

    def pids(self):
        return members_of(self._groups())

    def producer(self):
        return self._children[0].pid

    def consumers(self):
        return self._readers

    def stop_consumers(self):
        signal_all(self._readers, signal.SIGSTOP)


class WorkerShare:
    """A producer with consumers of one worker of `run --gpus`. The launchers above them go on."""

    def __init__(self, name, pid, run_dir, alive):
        self.name, self._pid, self._run_dir, self._alive = name, pid, pathlib.Path(run_dir), alive

    def pids(self):
        return [pid for pid in descendants_of(self._pid) if program_of(pid).startswith("offramp-")]

    def progress(self):
        self._alive()
        status = read_json(self._run_dir / "status.json")
        return Progress(status["released_samples"], status["last_release_ns"], status["released_bytes"]) if status else Progress()

    def connected(self):
        return len((read_json(self._run_dir / "status.json") or {}).get("consumers") or [])

    def pause(self):
        signal_all(self.pids(), signal.SIGSTOP)

    def resume(self):
        signal_all(self.pids(), signal.SIGCONT)


class GpusRun(Program):
    """`offramp run --gpus`, as a user starts it: its launchers watch the programs. `flags`: of the whole run. One that is to be watched only has no shares."""

    def __init__(self, name, places, gpus, flags, shards, output):
        super().__init__(name, places)
        self._run_dir, self._run_folder = self._folder / "run", str(self._folder)
        flags = {**{key: value for key, value in flags.items() if value is not None}, "gpus": gpus, "shards": shards, "run-dir": self._run_dir, "output": output,
                 "log-level": "warning", "log-format": "text", "status-seconds": 0.1, "lease-seconds": 3600}
        self._command = [sys.executable, "-E", "-s", ROOT / "launch/offramp_launch", "run", *flag_list(flags)]
        self.told = " ".join(["offramp run", *flag_list({key: value for key, value in flags.items() if key not in ("run-dir", "output", "input", "weights")})])
        self.output = pathlib.Path(output)
        self.shares = []

    def start(self):
        self._spawn("launcher", self._command, {"OFFRAMP_BIN_DIR": str(self._places.binaries), "OFFRAMP_SKIP_PACKAGES": "1",
                                                "OFFRAMP_BUILD_DIR": str(self._folder / "build")})

    def status(self):
        return read_json(self._run_dir / "status.json") or {}

    def workers_told(self):
        """{name: what status.json says of it}, of those that have a process."""
        return {worker["name"]: worker for worker in self.status().get("workers") or [] if worker.get("pid") and worker.get("run_dir")}

    def wait_until_shared(self, workers, samples, consumers):
        """Until so many workers have begun, and each has delivered so many samples to so many consumers."""
        def begun():
            told = self.workers_told()
            return told if len(told) >= workers else None
        told = self._until(begun, self._places.start_seconds, f"{workers} workers")
        self.shares = [WorkerShare(name, worker["pid"], worker["run_dir"], self.require_alive) for name, worker in told.items()]
        for share in self.shares:
            self._until(lambda share=share: share.connected() >= consumers and share.progress().samples >= samples, self._places.start_seconds,
                        f"{samples} samples of warm-up by {consumers} consumers of {share.name}")

    def wait_for_end(self, seconds):
        """The exit code."""
        try:
            return self._children[0].wait(timeout=seconds)
        except subprocess.TimeoutExpired as problem:
            raise ContestantError(f"{self.name}: no end in {seconds} s\n{self.logs()}") from problem

    def is_over(self):
        return self._children[0].poll() is not None

    def require_alive(self):
        if self.is_over():
            raise ContestantError(f"{self.name} ended with {self._children[0].returncode}\n{self.logs()}")

    def summary(self):
        return read_json(self._run_dir / "summary.json") or {}

    def producer_of(self, worker):
        """Its pid, or nothing where there is none for now."""
        told = self.workers_told().get(worker)
        return next((pid for pid in (descendants_of(told["pid"]) if told else []) if program_of(pid) == "offramp-producer"), None)

    def logs(self):
        more = "".join(f"--- {self.name}, {path.relative_to(self._run_dir)}\n{text}\n" for path in sorted(self._run_dir.rglob("logs/*.log"))
                       if (text := path.read_text(errors="replace")[-1500:].strip()))
        return super().logs() + more

    def _end(self):
        """Two signals abandon the run, which clears up behind itself; what is left after that is killed and swept."""
        if not self._children:
            return
        for share in self.shares:
            share.resume()
        launcher = self._children[0]
        for seconds in (0.5, DRAIN_SECONDS):
            if launcher.poll() is None:
                launcher.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    launcher.wait(timeout=seconds)
        kill_group(launcher.pid)
        deadline = time.monotonic() + GONE_SECONDS
        while left := processes_naming(self._run_folder):
            if time.monotonic() > deadline - GONE_SECONDS / 2:
                signal_all(left, signal.SIGCONT)
                signal_all(left, signal.SIGKILL)
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        sweep_dead_runs(self._places.binaries)

    def close(self):
        """Logs of its programs are kept, too."""
        try:
            self.end()
            if self._places.logs:
                for log in self._run_dir.rglob("*.log"):
                    name = "-".join(log.relative_to(self._run_dir).parts)
                    shutil.copy(log, self._places.logs / f"{self._places.row}-{self.name.replace(' ', '-')}-{name}")
        finally:
            super().close()


# Windows in which several shares run at once.

def window_of(shares, pace):
    """{"rate": samples a second of all, "bytes": bytes a second of all, "each": samples a second}: all run, nobody else does."""
    settled = time.monotonic_ns() + int(pace.settle_seconds * 1e9)
    for share in shares:
        share.resume()
    try:
        return looked_at(shares, settled, pace.seconds)
    finally:
        for share in shares:
            share.pause()


def looked_at(shares, from_ns, seconds):
    first = [after(share, from_ns, 0) for share in shares]
    last = [after(share, begun.release_ns + int(seconds * 1e9), begun.samples) for share, begun in zip(shares, first)]
    spans = [(end.release_ns - begin.release_ns) / 1e9 for begin, end in zip(first, last)]
    each = [(end.samples - begin.samples) / span for begin, end, span in zip(first, last, spans)]
    return {"rate": sum(each), "bytes": sum((end.payload_bytes - begin.payload_bytes) / span for begin, end, span in zip(first, last, spans)), "each": each,
            "seconds": max(spans)}


def after(share, release_ns, more_than):
    """The first Progress whose newest release came at `release_ns` or later."""
    deadline = time.monotonic() + STALL_SECONDS
    while True:
        seen = share.progress()
        if seen.release_ns >= release_ns and seen.samples > more_than:
            return seen
        if time.monotonic() > deadline:
            raise ContestantError(f"{share.name}: no progress in {STALL_SECONDS} s")
        time.sleep(0.005)


# MPS.

@contextlib.contextmanager
def mps():
    """The environment of programs that share a GPU through a control daemon of one's own. Errors: ContestantError where there is none, or it does not start."""
    if not shutil.which(MPS):
        raise ContestantError(f"{MPS} is not here")
    with tempfile.TemporaryDirectory(prefix="offramp-mps-") as folder:
        environment = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for place in environment.values():
            os.mkdir(place)
        with open(f"{folder}/log/said.log", "wb") as said:
            child = subprocess.Popen([MPS, "-f"], env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
                                     preexec_fn=die_with_parent)
        try:
            deadline = time.monotonic() + MPS_SECONDS
            while not os.path.exists(f"{folder}/pipe/control"):
                if child.poll() is not None or time.monotonic() > deadline:
                    raise ContestantError(f"{MPS} did not start: {log_of(folder) or 'it wrote nothing'}")
                time.sleep(0.05)
            yield environment
        finally:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run([MPS], input="quit\n", text=True, env={**os.environ, **environment}, timeout=MPS_SECONDS, check=False, capture_output=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=MPS_SECONDS)
            kill_group(child.pid)
            child.wait()
            left = processes_naming("nvidia-cuda-mps-server")
            signal_all([pid for pid in left if f"{folder}/pipe".encode() in environment_of(pid)], signal.SIGKILL)


def environment_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def log_of(folder):
    return " ".join(path.read_text(errors="replace")[-500:].strip() for path in sorted(pathlib.Path(folder, "log").glob("*.log")))
