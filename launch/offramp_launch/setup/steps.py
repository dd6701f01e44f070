"""Runs the steps of a set-up: one line per step with its seconds; the tool's progress on a terminal, else in a log."""

import contextlib
import fcntl
import os
import subprocess
import sys
import time

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.places import is_writable

HEARTBEAT_SECONDS = 30
TAIL_LINES = 40


def say(text):
    print(f"[setup] {text}", flush=True)


def tail(path, lines=TAIL_LINES):
    with contextlib.suppress(OSError):
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    return ""


def run_step(title, argv, log, *, environment=None, quiet_when=None):
    """
    Runs a tool to its end. Its output goes to the terminal if there is one, else into the file `log`, whose end becomes
    the error's text on failure. A tool whose log contains `quiet_when` had nothing to do and gets no line.
    """
    began = time.monotonic()
    if sys.stdout.isatty():
        say(f"{title} ...")
        code = subprocess.run(argv, env=environment, check=False).returncode
        output = ""
    else:
        code = _run_into(log, title, argv, environment)
        output = tail(log)
    if code != 0:
        raise LaunchError(
            f"{title}: failed with exit code {code}",
            f"{output}\n\n    command: {' '.join(map(str, argv))}\n    log: {log}"
            if output
            else f"command: {' '.join(map(str, argv))}",
        )
    if quiet_when is None or quiet_when not in output:
        say(f"{title}: {time.monotonic() - began:.0f} s")


def _run_into(log, title, argv, environment):
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as sink:
        process = subprocess.Popen(
            argv, env=environment, stdout=sink, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        try:
            while True:
                try:
                    return process.wait(timeout=HEARTBEAT_SECONDS)
                except subprocess.TimeoutExpired:
                    say(f"{title}: {tail(log, 1)[:100]}")
        except BaseException:
            process.kill()
            process.wait()
            raise


def can_be_set_up(places):
    """False for another user's build, which this user may only read."""
    lock = places.build / "setup.lock"
    return is_writable(places.build) and (not lock.exists() or os.access(lock, os.W_OK))


def require_own_build(places):
    if not can_be_set_up(places):
        raise LaunchError(
            f"{places.build} belongs to another user, and only that user may set up and build there",
            "Ask that user to run ./launch/offramp setup, or name your own folder: OFFRAMP_BUILD_DIR=FOLDER",
            ExitCode.NOT_PERMITTED,
        )


@contextlib.contextmanager
def one_at_a_time(places):
    """A second set-up of this build folder waits for the first. Errors: LaunchError (NOT_PERMITTED)."""
    require_own_build(places)
    places.build.mkdir(parents=True, exist_ok=True)
    with open(places.build / "setup.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is running in this folder; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
