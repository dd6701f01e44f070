"""Programs that answer and end, and the kernel's facts about processes."""

import os
import pathlib
import subprocess
import typing

from offramp_launch.exit_code import LaunchError, cannot_be_started, shell_code
from offramp_launch.supervision.log_follower import last_error, warnings_in


class Stat(typing.NamedTuple):
    state: str  # Z: a zombie; T, t: stopped; D: it waits for a disk or a device
    parent: int
    ticks: int  # CPU time used


def stat_of(pid):
    """From /proc; None if the process does not exist."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return Stat(fields[0], int(fields[1]), int(fields[11]) + int(fields[12]))
    except (OSError, ValueError, IndexError):
        return None


def is_alive(pid):
    """Whether the process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    stat = stat_of(pid)
    return stat is None or stat.state != "Z"


def answer_of(command, text="", warned=None, **more):
    """The output of a program with `text` as its input. `warned`: called with each warning. Errors: LaunchError."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, **more)
    except OSError as problem:
        raise cannot_be_started(command[0], problem) from problem
    if done.returncode != 0:
        raise error_of(command, done)
    for message in warnings_in(done.stderr.splitlines() if warned else ()):
        warned(message)
    return done.stdout


def error_of(command, done):
    """The error of a program that failed. `done`: a CompletedProcess with its error output."""
    nothing = f"'{command[0]} {command[1]}' ended with exit code {done.returncode} and wrote nothing"
    return LaunchError(last_error(done.stderr) or done.stderr.strip() or nothing, "", shell_code(done.returncode))
