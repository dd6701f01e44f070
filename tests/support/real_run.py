"""Starts the real programs of a build: a producer and any number of consumers, all with a watchdog."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

WATCHDOG_SECONDS = 120
# The programs' bookkeeping files in an output folder. The launch script, if any, holds the lock.
OWN = {".offramp-checkpoint", ".offramp-items", ".offramp-lock"}
BIN = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).absolute()
SANITIZER = os.environ.get("OFFRAMP_TEST_SANITIZER", "")  # of the build; empty: none


def shared_memory():
    """Names of this test process's runs in /dev/shm, without other runs on the machine."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(f"offramp-test-{os.getpid()}-")}


def left_behind(names):
    """What names() returns after a grace period, because another run's sweep may still be removing files."""
    end = time.monotonic() + 10
    while (left := names()) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def require_nothing_left(case, names=shared_memory):
    case.assertEqual(left_behind(names), set(), "something was left in /dev/shm")


class LeavesNothing(unittest.TestCase):
    """Requires of each test that its runs leave nothing in /dev/shm."""

    def setUp(self):
        super().setUp()
        self.addCleanup(require_nothing_left, self)


def producer_for(flags):
    """The program that the launch script starts for these flags."""
    named = [flags[at + 1] for at, flag in enumerate(flags) if flag == "--strategy"]
    return BIN / ("offramp-ladder" if named and named[-1] != "streams" else "offramp-producer")


class RealRun:
    """One run of real processes in its own directory. Use as a context, whose end kills live processes."""

    def __init__(self, *flags, environment=None, pass_fds=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-test-"))
        self.run_dir = self.folder / "run"
        self.output = self.folder / "output"
        self.run_id = f"test-{os.getpid()}-{self.folder.name[-8:]}".replace("_", "-")
        self.flags = [*flags, "--run-dir", str(self.run_dir), "--output", str(self.output)]
        self.environment = {**os.environ, **(environment or {})}
        self.pass_fds = pass_fds
        self.through = ()  # a command that executes the program, such as prlimit with its flags
        self.producer = None
        self.consumers = []
        self.deadline = time.monotonic() + WATCHDOG_SECONDS

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for child in [self.producer, *self.consumers]:
            if child and child.poll() is None:
                child.kill()
            if child:
                child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_producer(self, *flags, program=None, command=None):
        if command != "recover":  # an earlier run's status stays until this run has begun
            (self.run_dir / "status.json").unlink(missing_ok=True)
        self.producer = self._start(
            "producer",
            program or producer_for([*self.flags, *flags]),
            *flags,
            "--run-id",
            self.run_id,
            command=[command] if command else [],
        )
        return self.producer

    def start_consumer(self, *flags, faulty=False, environment=None, program=None):
        program = program or (BIN / "tests" / "offramp-consumer-faulty" if faulty else BIN / "offramp-consumer")
        if faulty:  # its processor may differ from the producer's but counts as the run's
            environment = {"OFFRAMP_TEST_STANDS_FOR": self._processor(), **(environment or {})}
        child = self._start(f"consumer-{len(self.consumers) + 1}", program, *flags, environment=environment)
        self.consumers.append(child)
        return child

    def start_consumer_by_hand(self, *flags, folder=None):
        """Starts a consumer in `folder` with only these flags."""
        with open(self.folder / f"consumer-{len(self.consumers) + 1}.log", "wb") as log:
            self.consumers.append(
                subprocess.Popen(
                    [str(BIN / "offramp-consumer"), *flags],
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    env=self.environment,
                    cwd=folder,
                )
            )
        return self.consumers[-1]

    def _start(self, name, program, *flags, environment=None, command=()):
        with open(self.folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(
                [*self.through, str(program), *command, *self.flags, *flags],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                pass_fds=self.pass_fds,
                env={**self.environment, **(environment or {})},
            )

    def _processor(self):
        """The producer's processor; by default that of `--model copy`."""
        named = [self.flags[at + 1] for at, flag in enumerate(self.flags) if flag == "--processor"]
        return named[-1] if named else "checksum"

    @contextlib.contextmanager
    def kept_from_sweeps(self):
        """Holds the run as a launcher does between producers, so that other runs on this machine do not sweep it."""
        (lock,) = self.until(
            lambda: list(pathlib.Path("/dev/shm").glob(f"offramp-{self.run_id}-*.lock")), "the run's lock"
        )
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def wait(self, child):
        """The exit code; the negative number of a deadly signal."""
        return child.wait(timeout=max(1, self.deadline - time.monotonic()))

    def wait_for_consumers(self):
        """Consumers' exit codes after the producer's end. Terminates consumers that were too late to connect."""
        for consumer in self.consumers:
            kill(consumer, signal.SIGTERM)
        return [self.wait(consumer) for consumer in self.consumers]

    def codes_of_those_let_in(self):
        """The same for admitted consumers only. Later ones find no run, or are terminated before they look for it."""
        codes = self.wait_for_consumers()
        return [code for consumer, code in zip(self.consumers, codes) if self.was_let_in(consumer)]

    def was_let_in(self, consumer):
        return (
            " has consumer index " in (self.folder / f"consumer-{self.consumers.index(consumer) + 1}.log").read_text()
        )

    def until(self, holds, what):
        """Returns the first true value of `holds`; fails when the watchdog's time is up."""
        while time.monotonic() < self.deadline:
            value = holds()
            if value:
                return value
            time.sleep(0.01)
        raise AssertionError(f"never seen: {what}\n{self.logs()}")

    def status(self):
        try:
            return json.loads((self.run_dir / "status.json").read_text())
        except (OSError, ValueError):
            return {}

    def summary(self):
        return json.loads((self.run_dir / "summary.json").read_text())

    def sweep(self):
        """Removes a dead producer's slabs from /dev/shm, like the launch script at a run's end."""
        subprocess.run(
            [str(BIN / "offramp-producer"), "sweep", "--log-level", "warning"],
            check=True,
            timeout=60,
            env=self.environment,
        )

    def finish_outputs(self):
        """Merges the consumers' segments, like the launch script at a run's end."""
        subprocess.run(
            [str(BIN / "offramp-consumer"), "finish", *self.flags, "--processor", self._processor()],
            check=True,
            timeout=60,
            env=self.environment,
        )

    def files(self):
        """{relative name: bytes} of the results."""
        return {
            str(path.relative_to(self.output)): path.read_bytes()
            for path in sorted(self.output.rglob("*"))
            if path.is_file() and path.name not in OWN
        }

    def logs(self):
        return "".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}\n"
            for path in sorted(self.folder.glob("*.log"))
        )


def undisturbed(*flags):
    """{name: bytes} of the output files of an undisturbed run with these flags and one consumer."""
    with RealRun(*flags) as run:
        run.start_producer()
        run.start_consumer()
        assert run.wait(run.producer) == 0, run.logs()
        run.wait_for_consumers()
        run.finish_outputs()
        return run.files()


def kill(child, how=signal.SIGKILL):
    if child.poll() is None:
        os.kill(child.pid, how)


def is_stopped(child):
    with open(f"/proc/{child.pid}/stat", encoding="utf-8") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"
