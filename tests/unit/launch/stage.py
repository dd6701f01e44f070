"""A stage for tests: the real launch script, with puppets for the programs that it starts."""

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

HERE = pathlib.Path(__file__).resolve().parent
OFFRAMP = HERE.parents[2] / "launch" / "offramp"
WATCHDOG_SECONDS = 40


class Puppet:
    """The test's end of a started puppet."""

    def __init__(self, connection):
        self._connection = connection
        connection.settimeout(WATCHDOG_SECONDS)
        self._file = connection.makefile("rb", buffering=0)     # unbuffered, so that select() sees unread bytes
        self._kept = []     # heard by order(), and not by the test
        hello = self.hear()
        self.role, self.program, self.pid, self.argv, self.uid, self.groups = (
            hello[name] for name in ("role", "program", "pid", "argv", "uid", "groups"))
        assert self.hear() == {"ready": True}

    def hear(self):
        """The next thing it says; nothing once it is gone."""
        return self._kept.pop(0) if self._kept else self._read()

    def _read(self):
        line = self._file.readline()
        return json.loads(line) if line else None

    def has_said_something(self):
        """That was not heard yet."""
        return bool(self._kept or select.select([self._connection], [], [], 0)[0])

    def order(self, **what):
        self._connection.sendall(json.dumps(what).encode() + b"\n")
        while (told := self._read()) != {"obeyed": True}:      # the launcher's signal may come first
            assert told and "signal" in told, told
            self._kept.append(told)

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
            program.write_text(f"#!/bin/sh\nPUPPET_PROGRAM={program.name} exec '{sys.executable}' -E -s '{HERE / 'puppet.py'}' {role} \"$@\"\n")
            program.chmod(0o755)
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(str(self.folder / "door"))
        self._door.listen(64)
        self._door.settimeout(WATCHDOG_SECONDS)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OFFRAMP_")},
            "OFFRAMP_BIN_DIR": str(programs), "OFFRAMP_BUILD_DIR": str(self.folder / "build"), "OFFRAMP_SKIP_PACKAGES": "1",
            "OFFRAMP_TEST_RUNS": str(self.folder / "runs"),
            "PUPPET_SOCKET": str(self.folder / "door"), "PUPPET_ERRANDS": str(self.folder / "errands"),
        }
        # What a producer's run has in shared memory: the lock by which it lives, and what consumers join, under the name that a puppet
        # gives as its run's.
        self._lock_path = pathlib.Path(f"/dev/shm/offramp-{self.folder.name}-00000000000000aa.lock")
        self._cells_path = self._lock_path.with_suffix(".cells")
        self._cells_path.touch(0o600)
        self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self.working_folder = None      # in which commands are typed; the test's own
        self._launchers = []
        self._puppets = []

    def remove_memory(self):
        """As a producer does that fails while it sets up. The lock, which the launcher holds, stays."""
        self._cells_path.unlink(missing_ok=True)

    def sweep(self):
        """Sweeps unlocked leftovers, as the start of another run does."""
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
        """Starts a command in the background; `redirected` as a shell has it."""
        return self.launch_shell(shlex.join(["exec", str(OFFRAMP), *arguments]) + " " + redirected)

    def launch_shell(self, line):
        launcher = subprocess.Popen(["sh", "-c", line], env=self.environment, cwd=self.working_folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._launchers.append(launcher)
        return launcher

    def call(self, *arguments):
        """Runs a command to its end: (exit code, what it said)."""
        done = subprocess.run([OFFRAMP, *arguments], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=WATCHDOG_SECONDS, check=False)
        return done.returncode, done.stdout

    def enter(self):
        """The next puppet that starts. When the launcher ends instead, its words are the failure's text."""
        launcher = self._launchers[-1]
        with selectors.DefaultSelector() as selector:
            selector.register(self._door, selectors.EVENT_READ)
            ending = os.pidfd_open(launcher.pid)
            selector.register(ending, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(WATCHDOG_SECONDS)]
            os.close(ending)
        assert self._door in ready, f"nobody enters; the launcher said: {launcher.stdout.read() if ready else '(it still runs)'}"
        connection, _ = self._door.accept()
        puppet = Puppet(connection)
        self._puppets.append(puppet)
        return puppet

    def nobody_enters_before(self, launcher):
        """Waits for the launcher's end. True when no further puppet had started by then."""
        launcher.wait(WATCHDOG_SECONDS)
        with selectors.DefaultSelector() as selector:
            selector.register(self._door, selectors.EVENT_READ)
            return not selector.select(0)

    def start_run(self, consumers, *arguments, redirected=""):
        """(launcher, producer, consumers) of a run whose producer says that it runs."""
        launcher = self.launch("run", "--consumers", str(consumers), *arguments, redirected=redirected)
        entered = [self.enter() for _ in range(consumers + 1)]
        producer = next(puppet for puppet in entered if puppet.role == "producer")
        producer.order(status={"state": "running", "done_samples": 0, "total_samples": 8})
        return launcher, producer, [puppet for puppet in entered if puppet.role == "consumer"]

    def end(self, launcher, producer, consumers, code=0, **orders):
        """The producer ends its run, the consumers as they would then; returns what the launcher said."""
        producer.order(exit=code, **orders)
        for consumer in consumers:
            consumer.order(exit=0)
        said, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        return said

    def errands(self):
        file = self.folder / "errands"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def summary(self):
        return self.told("summary.json")

    def told(self, name):
        """The file `name` of this stage's only run. A stage that holds several runs is a mistake in the test."""
        [path] = (self.folder / "build" / "runs").glob(f"*/{name}")
        return json.loads(path.read_text())


def wait_until_gone(pid):
    """True once the process is no more. Its parent may be long gone, so its pidfd is the witness."""
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
    """Asks again until it holds; a watchdog, no time that is asserted."""
    end = time.monotonic() + WATCHDOG_SECONDS
    while not condition():
        assert time.monotonic() < end, "the watchdog's time is up"
        os.sched_yield()


def reachable_as(user, path):
    """Tried, not guessed: every folder above the file counts."""
    return subprocess.run(["cat", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user.pw_uid, group=user.pw_gid,
                          extra_groups=[], cwd="/", check=False).returncode == 0
