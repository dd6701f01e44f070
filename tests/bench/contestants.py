"""
The programs that a benchmark row compares. A contestant is started, warmed up and stopped (SIGSTOP); from then on it
runs only in its own windows. Whatever happens, close() leaves no process and nothing in /dev/shm.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

from contest import between
from given import Given
from peers.progress import ProgressReader, make_progress_file
from processes import (
    Usage,
    children_of,
    cpu_by_thread,
    die_with_parent,
    members_of,
    signal_all,
    signal_groups,
    trackers_among,
    usage_of,
    usage_of_all,
    usage_of_servers,
)

HERE = pathlib.Path(__file__).resolve().parent
PYTHON_FOLDERS = (HERE / "peers", HERE, HERE.parents[1] / "launch/python")
STALL_SECONDS = 90  # without a finished sample
DRAIN_SECONDS, ABANDON_SECONDS = 0.2, 10  # between the two requests to end, and from the second to SIGKILL
TRACKER_SECONDS = 10  # for the cleanup by Python's multiprocessing
SWEEP_SECONDS = 60
BATCHES = 1_000_000_000
TOKENIZER_PYTHON = "OFFRAMP_TOKENIZER_PYTHON"


@dataclasses.dataclass
class SharedSettings:
    """Settings that all contestants share."""

    binaries: pathlib.Path
    row: str = ""  # prefix of the logs' names
    logs: pathlib.Path | None = None  # folder that keeps the logs
    start_seconds: float = 300  # until the end of the warm-up, which autotunes large models
    environment: dict = dataclasses.field(default_factory=dict)  # in addition to this process's
    given: Given = Given()  # materials that the user provides
    shared: pathlib.Path | None = None  # folder for materials that several rows share
    gpu: bool = False
    small: bool = True
    # processes that serve the running contestant; counted as its readers
    servers: list = dataclasses.field(default_factory=list)

    def native_reader(self):
        """The library of our consumers' hash loop, for peers; None if it was not built."""
        return self.library("libofframp_native_reader.so")

    def library(self, pattern):
        """A library of the build: in lib/, or all in one folder."""
        found = (path for folder in (self.binaries.parent / "lib", self.binaries) for path in folder.glob(pattern))
        return next(found, None)


class ContestantError(Exception):
    """A contestant did not start, died or stalled; the text ends with the end of its log."""


class Progress(typing.NamedTuple):
    """A contestant's report of its progress."""

    samples: int = 0
    release_ns: int = 0
    payload_bytes: int = 0
    stage: str = ""
    compute: tuple | None = None


@dataclasses.dataclass(frozen=True)
class Look:
    """A reading: what a contestant had done at one moment."""

    samples: int
    release_ns: int  # CLOCK_MONOTONIC of the newest release, which completed `samples`
    payload_bytes: int  # released so far; 0 if the program does not report it
    at_ns: int  # of this look: usages belong to this moment
    producer: Usage
    readers: Usage
    stage: str = ""  # the limiting stage that the program reports
    producer_threads: dict = dataclasses.field(default_factory=dict)  # CPU seconds by name
    compute: tuple | None = None  # (seconds of device time, their batches); None if the program does not report them


class Program:
    """
    One contestant's processes, logs and temporary folder. Thread: one. Blocks: until its processes reach the awaited
    state.
    """

    def __init__(self, name, settings):
        self.name = name
        self._settings = settings
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-bench-"))
        self._children = []
        self._readers = []
        self._killed_readers = Usage()
        self._ended = False

    # Subclasses implement the start and the Progress.
    def start(self):
        raise NotImplementedError

    def progress(self):
        raise NotImplementedError

    def wait_until_warm(self, samples):
        self._until(
            lambda: self.progress().samples >= samples, self._settings.start_seconds, f"{samples} samples of warm-up"
        )
        self._readers = [pid for pid in members_of(self._groups()) if pid != self._children[0].pid]

    def run_on(self, seconds):
        time.sleep(seconds)

    def pause(self):
        signal_groups(self._groups(), signal.SIGSTOP)

    def resume(self):
        signal_groups(self._groups(), signal.SIGCONT)

    def look_after(self, release_ns, more_than):
        """The first reading with a release at `release_ns` or later and more than `more_than` samples."""
        seen = self._until(lambda: self._progress_if(release_ns, more_than), STALL_SECONDS, "progress")
        producer = self._children[0].pid
        return Look(
            seen.samples,
            seen.release_ns,
            seen.payload_bytes,
            time.monotonic_ns(),
            usage_of_all([producer, *self._producers_own()]),
            usage_of_all(self._readers) + self._killed_readers + usage_of_servers(self._settings.servers),
            seen.stage,
            cpu_by_thread(producer),
            seen.compute,
        )

    def window(self, batch, pace):
        """Run for one window, then stop again; `batch`: samples in a batch of the row."""
        settled_ns = time.monotonic_ns() + int(pace.settle_seconds * 1e9)
        self.resume()
        try:
            first = self.look_after(settled_ns, 0)
            last = self.look_after(first.release_ns + int(pace.seconds * 1e9), first.samples)
        finally:
            self.pause()
        return between(first, last, batch)

    def end(self):
        """End all processes, even if an orderly end fails. Their files stay for facts()."""
        if self._ended:
            return
        self._ended = True
        try:
            self._end()
        finally:
            signal_groups(self._groups(), signal.SIGKILL)
            for child in self._children:
                child.wait()

    def close(self):
        """End it if needed, keep the logs if asked to, remove the folder."""
        try:
            self.end()
            if self._settings.logs:
                for log in self._folder.glob("*.log"):
                    shutil.copy(
                        log,
                        self._settings.logs
                        / f"{self._settings.row}-{self.name.replace(' ', '-').replace('/', '-')}-{log.name}",
                    )
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def facts(self):
        """Facts to keep beside the figures."""
        return {}

    def logs(self):
        return "".join(
            f"--- {self.name}, {log.name}\n{text}\n"
            for log in sorted(self._folder.glob("*.log"))
            if (text := log.read_text(errors="replace")[-3000:].strip())
        )

    def _end(self):
        pass

    def _groups(self):
        return [child.pid for child in self._children]

    def _producers_own(self):
        """Processes that work for the producer alone."""
        return []

    def _spawn(self, log, command, environment=None):
        """
        Each child leads its own session and process group, dies with this process, and keeps its temporary files in the
        folder.
        """
        with open(self._folder / f"{log}.log", "ab") as sink:
            child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                preexec_fn=die_with_parent,
                env={**os.environ, **self._settings.environment, "TMPDIR": str(self._folder), **(environment or {})},
            )
        self._children.append(child)
        return child

    def _progress_if(self, release_ns, more_than):
        seen = self.progress()
        return seen if seen.release_ns >= release_ns and seen.samples > more_than else None

    def _until(self, holds, seconds, what):
        deadline = time.monotonic() + seconds
        while not (value := holds()):
            for child in self._children:
                if child.poll() is not None:
                    raise ContestantError(f"{self.name} ended with {child.returncode}\n{self.logs()}")
            if time.monotonic() > deadline:
                raise ContestantError(f"{self.name}: no {what} in {seconds} s\n{self.logs()}")
            time.sleep(0.005)
        return value


class OfframpRun(Program):
    """Our producer and consumers, started with the launcher's flags but without the launcher."""

    def __init__(self, name, settings, flags, consumers, consumer_flags, program, adapt=None, cores=0):
        """`adapt(program, flags)`: the flags as an older program knows them. `cores`: all processes run on so many."""
        super().__init__(name, settings)
        self._program = program
        self._consumers = consumers
        self._cores = sorted(os.sched_getaffinity(0))[:cores]
        self._environment = {TOKENIZER_PYTHON: os.environ.get(TOKENIZER_PYTHON) or sys.executable}
        self._run_dir = self._folder / "run"
        self._run_id = f"bench-{os.getpid()}-{self._folder.name[-8:]}".replace("_", "-")
        flags = {
            "batches": BATCHES,
            "warmup-batches": 0,
            **flags,
            "run-dir": self._run_dir,
            "log-level": "warning",
            "log-format": "text",
            "status-seconds": 0.1,
            "visibility-timeout": 3600,
        }
        flags = {name: value for name, value in flags.items() if value is not None}
        self._command = self._command_line(program, {**flags, "run-id": self._run_id}, adapt)
        self._consumer_command = (
            self._command_line("offramp-consumer", {**flags, **consumer_flags}, adapt) if consumers else []
        )

    def _command_line(self, program, flags, adapt):
        path = self._settings.binaries / program
        pinned = ["taskset", "--cpu-list", ",".join(map(str, self._cores))] if self._cores else []
        return [*pinned, path, *flag_list(adapt(path, flags) if adapt else flags)]

    def start(self):
        self._spawn("producer", self._command, self._environment)
        self.scale(self._consumers)

    def scale(self, consumers):
        """Start consumers until there are this many."""
        for number in range(len(self._children), consumers + 1):
            self._spawn(f"consumer-{number}", self._consumer_command)
        self._readers = [child.pid for child in self._children[1:]]

    def status(self):
        try:
            with open(self._run_dir / "status.json", encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError):
            return None

    def connected(self):
        status = self.status()
        return len(status["consumers"]) if status else 0

    def wait_until_connected(self, consumers):
        self._until(lambda: self.connected() >= consumers, self._settings.start_seconds, f"{consumers} consumers")

    def wait_until_warm(self, samples):
        self.wait_until_connected(self._consumers)
        super().wait_until_warm(samples)

    def progress(self):
        status = self.status()
        if status is None:
            return Progress()
        return Progress(
            status["released_samples"],
            status["last_release_ns"],
            status["released_bytes"],
            status["limiting_stage"],
            (status["compute_busy_seconds"], status["compute_busy_batches"])
            if "compute_busy_batches" in status
            else None,
        )

    def facts(self):
        with contextlib.suppress(OSError, ValueError):
            file = self._run_dir / "summary.json"
            # the name in builds before 0.1.0 (--beside)
            file = file if file.exists() else self._run_dir / "producer-summary.json"
            summary = json.loads(file.read_text())
            kept = (
                "state",
                "failure",
                "conserved",
                "device",
                "model",
                "precision",
                "memory_format",
                "transform",
                "strategy",
                "pinned",
                "pinned_copy_gigabytes_per_second",
                "first_batch_seconds",
                "first_slab_seconds",
                "all_slabs_seconds",
                "input_wait_seconds",
                "slab_wait_seconds",
                "output_wait_seconds",
                "samples_per_slab",
                "batches_per_slab",
            )
            facts = {key: summary[key] for key in kept if key in summary}
            # without folders of this machine
            return facts | {"model": re.sub(r"/\S*/", "", facts["model"])} if "model" in facts else facts
        return {}

    def _producers_own(self):
        return children_of(self._children[0].pid)  # tokenizers

    def _end(self):
        """Abandon the run, which cleans up after itself; kill and sweep a run that does not."""
        if not self._children:
            return
        self.resume()
        producer = self._children[0]
        for seconds in (DRAIN_SECONDS, ABANDON_SECONDS):
            if producer.poll() is None:
                producer.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    producer.wait(timeout=seconds)
        signal_groups(self._groups(), signal.SIGKILL)
        for child in self._children:
            child.wait()  # a sweep leaves objects that a dying consumer still holds
        sweep_dead_runs(self._settings.binaries)


class LoopRun(OfframpRun):
    """
    A Python loop with an Egress, and our consumers. Kills and replaces a consumer every `kill_seconds` of its windows.
    """

    def __init__(self, name, settings, program, flags, consumers, consumer_flags, kill_seconds):
        super().__init__(name, settings, {}, consumers, consumer_flags, "offramp-producer")
        flags = {**flags, "run-dir": self._run_dir, "run-id": self._run_id}
        self._command = [*python_command(program), *flag_list(flags)]
        self._environment = {**python_environment(), "OFFRAMP_LIBRARY": str(settings.library("libofframp.so*"))}
        self._kill_seconds, self._kill_at, self._kills = kill_seconds, 0, 0

    def facts(self):
        with contextlib.suppress(OSError, ValueError, KeyError):
            facts = json.loads((self._run_dir / "summary.json").read_text(encoding="utf-8"))
            lost = facts["samples_submitted"] - facts["samples_completed"]
            redelivered = self.status()["redelivered"]
            return {**facts, "conserved": lost == 0, "killed_consumers": self._kills, "redelivered_slabs": redelivered}
        return {}

    def _progress_if(self, release_ns, more_than):
        if self._kill_seconds and time.monotonic() >= self._kill_at:
            self._kill_at = time.monotonic() + self._kill_seconds
            self._kill_oldest_consumer()
        return super()._progress_if(release_ns, more_than)

    def _kill_oldest_consumer(self):
        consumer = self._children.pop(1)
        self._killed_readers += dataclasses.replace(usage_of(consumer.pid), private_kib=0)
        consumer.kill()
        consumer.wait()
        self._kills += 1
        self.scale(self._consumers)


class Peer(Program):
    """One Python program of peers/, which counts finished samples in a file of cells."""

    def __init__(self, name, settings, program, flags, readers):
        super().__init__(name, settings)
        self._program = program
        self._flags = flag_list(flags)
        self._progress_file = self._folder / "progress"
        make_progress_file(self._progress_file, readers + 1)
        self._progress = ProgressReader(self._progress_file)

    def start(self):
        self._spawn(
            "peer",
            [*python_command(self._program), *self._flags, "--progress", self._progress_file],
            python_environment(),
        )

    def progress(self):
        return Progress(*self._progress.read())

    def pause(self):
        super().pause()
        # otherwise a killed driver would leave them stopped forever
        signal_all(trackers_among(members_of(self._groups())), signal.SIGCONT)

    def _end(self):
        """Kill all but multiprocessing's tracker, which removes the queues' semaphores and ends."""
        members = members_of(self._groups())
        trackers = trackers_among(members)
        signal_all(trackers, signal.SIGCONT)
        signal_all(set(members) - set(trackers), signal.SIGKILL)
        for child in self._children:
            child.wait()
        deadline = time.monotonic() + TRACKER_SECONDS
        while trackers_among(trackers) and time.monotonic() < deadline:
            time.sleep(0.005)


def sweep_dead_runs(binaries):
    """Remove the objects of killed runs from /dev/shm. Live runs keep theirs."""
    try:
        subprocess.run(
            [str(binaries / "offramp-producer"), "sweep", "--log-level", "error"], check=False, timeout=SWEEP_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise ContestantError(f"cannot remove what killed runs left in /dev/shm: {problem}") from problem


def flag_list(flags):
    """{"batch": 4, "write-copy": True, "finish": False} as a command line."""
    line = []
    for name, value in flags.items():
        if value is True:
            line.append(f"--{name}")
        elif value is not False:
            line += [f"--{name}", str(value)]
    return line


def python_command(program):
    return [sys.executable, HERE / "peers" / program]


def python_environment():
    """Peers and their processes find the same modules; compiled files go only to the driver's cache."""
    compiled = {"PYTHONPYCACHEPREFIX": sys.pycache_prefix} if sys.pycache_prefix else {"PYTHONDONTWRITEBYTECODE": "1"}
    # As in our producer, because spinning threads would take cores from the loaders and writers.
    return {
        "OMP_WAIT_POLICY": "passive",
        "PYTHONPATH": os.pathsep.join([*map(str, PYTHON_FOLDERS), *filter(None, [os.environ.get("PYTHONPATH")])]),
        **compiled,
    }
