"""A stage for tests: the real launch script with puppets as its programs."""

import fcntl
import json
import os
import pathlib
import select
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from tests.support.compiled import build_folder

HERE = pathlib.Path(__file__).resolve().parent
OFFRAMP = HERE.parents[2] / "launch" / "offramp"
WATCHDOG_SECONDS = 40


class Puppet:
    """The test's end of a started puppet."""

    def __init__(self, connection):
        self._connection = connection
        connection.settimeout(WATCHDOG_SECONDS)
        self._file = connection.makefile("rb", buffering=0)  # unbuffered, so that select() sees unread bytes
        self._kept = []  # messages that order() received before the test
        hello = self.next_message()
        self.role, self.program, self.pid, self.argv, self.uid, self.groups = (
            hello[name] for name in ("role", "program", "pid", "argv", "uid", "groups")
        )
        assert self.next_message() == {"ready": True}

    def next_message(self):
        """The puppet's next message, or None once it is gone."""
        return self._kept.pop(0) if self._kept else self._read()

    def _read(self):
        line = self._file.readline()
        return json.loads(line) if line else None

    def has_message(self):
        """True if next_message() returns without waiting."""
        return bool(self._kept or select.select([self._connection], [], [], 0)[0])

    def order(self, **what):
        self._connection.sendall(json.dumps(what).encode() + b"\n")
        while (message := self._read()) != {"obeyed": True}:  # a signal of the launcher may come first
            assert message and "signal" in message, message
            self._kept.append(message)

    def close(self):
        self._file.close()
        self._connection.close()

    def flag(self, name):
        return self.argv[self.argv.index(name) + 1]


class Stage:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-stage-", dir="/tmp"))
        programs = self.folder / "bin"
        programs.mkdir()
        for name, role in (("producer", "producer"), ("ladder", "producer"), ("consumer", "consumer")):
            program = programs / f"offramp-{name}"
            program.write_text(
                f"#!/bin/sh\nPUPPET_PROGRAM={program.name} exec '{sys.executable}' -E -s '{HERE / 'puppet.py'}' {role} \"$@\"\n"
            )
            program.chmod(0o755)
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(str(self.folder / "door"))
        self._door.listen(64)
        self._door.settimeout(WATCHDOG_SECONDS)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OFFRAMP_")},
            "OFFRAMP_BIN_DIR": str(programs),
            "OFFRAMP_BUILD_DIR": build_folder(self.folder),
            "OFFRAMP_SKIP_PACKAGES": "1",
            "OFFRAMP_MODEL": "copy",  # else a run without an input is the demo
            "OFFRAMP_TEST_RUNS": str(self.folder / "runs"),
            "PUPPET_SOCKET": str(self.folder / "door"),
            "PUPPET_ERRANDS": str(self.folder / "errands"),
        }
        # A producer's run in shared memory: its lock and the heartbeats that consumers join, under the run name that a
        # puppet publishes.
        self._lock_path = pathlib.Path(f"/dev/shm/offramp-{self.folder.name}-00000000000000aa.lock")
        self._heartbeats_path = self._lock_path.with_suffix(".heartbeats")
        self._heartbeats_path.touch(0o600)
        self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self.working_folder = None  # where commands run; None: the test's folder
        self._launchers = []
        self._puppets = []

    def remove_memory(self):
        """Removes the heartbeats, as a producer that fails at its start does. The launcher's lock stays."""
        self._heartbeats_path.unlink(missing_ok=True)

    def sweep(self):
        """Removes leftovers, as the start of another run does."""
        self.remove_memory()
        self._lock_path.unlink(missing_ok=True)

    def close(self):
        for launcher in self._launchers:
            if launcher.poll() is None:
                launcher.kill()
                launcher.wait()
            launcher.stdout.close()
        for puppet in self._puppets:
            puppet.close()
        self._door.close()
        self.sweep()
        os.close(self._lock)
        shutil.rmtree(self.folder)

    def launch(self, *arguments, redirected=""):
        """Starts a command in the background. `redirected`: redirections in shell syntax."""
        return self.launch_shell(shlex.join(["exec", str(OFFRAMP), *arguments]) + " " + redirected)

    def launch_shell(self, line):
        launcher = subprocess.Popen(
            ["sh", "-c", line],
            env=self.environment,
            cwd=self.working_folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._launchers.append(launcher)
        return launcher

    def call(self, *arguments):
        """Runs a command to its end. Returns (exit code, output)."""
        done = subprocess.run(
            [OFFRAMP, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout

    def enter(self):
        """The next puppet that starts. If the launcher ends first, the failure shows its output."""
        launcher = self._launchers[-1]
        with selectors.DefaultSelector() as selector:
            selector.register(self._door, selectors.EVENT_READ)
            ending = os.pidfd_open(launcher.pid)
            selector.register(ending, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(WATCHDOG_SECONDS)]
            os.close(ending)
        assert self._door in ready, (
            f"no puppet starts; output of the launcher: {launcher.stdout.read() if ready else '(it still runs)'}"
        )
        connection, _ = self._door.accept()
        puppet = Puppet(connection)
        self._puppets.append(puppet)
        return puppet

    def no_puppet_starts_before(self, launcher):
        """Waits for the launcher's end. True if no further puppet has started by then."""
        launcher.wait(WATCHDOG_SECONDS)
        with selectors.DefaultSelector() as selector:
            selector.register(self._door, selectors.EVENT_READ)
            return not selector.select(0)

    def start_run(self, consumers, *arguments, redirected=""):
        """(launcher, producer, consumers) of a run whose producer reports that it runs."""
        launcher = self.launch("run", "--consumers", str(consumers), *arguments, redirected=redirected)
        entered = [self.enter() for _ in range(consumers + 1)]
        producer = next(puppet for puppet in entered if puppet.role == "producer")
        producer.order(status={"state": "running", "done_samples": 0, "total_samples": 8})
        return launcher, producer, [puppet for puppet in entered if puppet.role == "consumer"]

    def end(self, launcher, producer, consumers, code=0, **orders):
        """Ends the producer, then the consumers. Returns the launcher's output."""
        producer.order(exit=code, **orders)
        for consumer in consumers:
            consumer.order(exit=0)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        return output

    def errands(self):
        file = self.folder / "errands"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def summary(self):
        return self.read_json("summary.json")

    def read_json(self, name):
        """The JSON file `name` of this stage's only run. Fails if the stage holds several runs."""
        [path] = (self.folder / "build" / "runs").glob(f"*/{name}")
        return json.loads(path.read_text())


def wait_until_gone(pid):
    """Waits until the process has ended. Uses its pidfd, since its parent may be gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(pidfd, selectors.EVENT_READ)
        ended = bool(selector.select(WATCHDOG_SECONDS))
    os.close(pidfd)
    return ended


def kill(puppet, number=signal.SIGKILL):
    os.kill(puppet.pid, number)


def until(condition):
    """Polls until the condition holds. The watchdog only stops a hanging test."""
    end = time.monotonic() + WATCHDOG_SECONDS
    while not condition():
        assert time.monotonic() < end, f"the condition does not hold after {WATCHDOG_SECONDS} s"
        os.sched_yield()


def reachable_as(user, path):
    """Tries to read the file as `user`, since every folder above it matters."""
    return (
        subprocess.run(
            ["cat", path],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            cwd="/",
            check=False,
        ).returncode
        == 0
    )


class InFolder(unittest.TestCase):
    """Cases with a folder of their own."""

    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="offramp-launch-", dir="/tmp")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)


class OnStage(unittest.TestCase):
    """Cases with a stage of their own."""

    def setUp(self):
        self.new_stage()

    def new_stage(self):
        self.stage = Stage()
        self.addCleanup(self.stage.close)
