"""
Ray workers, which run and supervise a shard's command. Imports neither Ray nor the package, because Ray sends this
module to nodes by value.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Sequence

FIRST_SIGNAL = 128  # exit codes beyond this: killed by a signal
TRY_AGAIN = 75  # another node, or a later attempt, may succeed
LOOK_SECONDS = 1.0
BEGINNING_SECONDS = 60.0  # a shard that runs longer is not ended for missing room
THREADS = "OMP_NUM_THREADS"  # Ray sets it to the worker's number of CPUs
SHARED_MEMORY = "/dev/shm"
STORE = f"{SHARED_MEMORY}/plasma"  # Ray's object store, an unlinked file that the raylet holds open


class Worker:
    """An actor. Owns, during a shard, the write end of its command's lifeline."""

    def __init__(self, folder: pathlib.Path, command: str, flags: Sequence[str]):
        beside = pathlib.Path(sys.executable).parent / command
        self._command = str(beside) if os.sep not in command and beside.is_file() else command
        self._folder = folder
        self._flags = flags

    def ready(self) -> int:
        """Answers once the worker is scheduled."""
        return 0

    def do(self, index: int, attempt: str = "") -> int:
        """Returns the command's exit code. The reason is in the log, after a line that begins this attempt."""
        lifeline, held = os.pipe()
        try:
            with self._log(index) as log:
                write(log, f"{begin_of(attempt)}{socket.gethostname()}")
                return self._watched(
                    [
                        self._command,
                        "shard",
                        "--job",
                        str(self._folder),
                        "--index",
                        str(index),
                        "--lifeline-fd",
                        str(lifeline),
                        *self._flags,
                    ],
                    lifeline,
                    log,
                )
        finally:
            os.close(held)
            os.close(lifeline)

    def _watched(self, command: Sequence[str], lifeline: int, log: Any) -> int:
        if problem := shared_memory_problem():
            return refuse(log, problem)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lifeline,),
                start_new_session=True,
                env=environment(),
            )
        except OSError as failure:
            return refuse(
                log,
                f"'{command[0]}' cannot be started on {socket.gethostname()}: {failure.strerror}. Install Offramp on every node, or name "
                "its command there (offramp=)",
            )
        begun = time.monotonic()
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(LOOK_SECONDS)
                return code if code >= 0 else FIRST_SIGNAL - code
            # Later, other programs may fill /dev/shm.
            # the slabs exist by now
            if time.monotonic() < begun + BEGINNING_SECONDS and (problem := shared_memory_problem()):
                process.send_signal(signal.SIGKILL)
                process.wait()
                return refuse(log, problem)

    def _log(self, index: int) -> Any:
        """The log, or /dev/null if the job's folder cannot be written."""
        path = log_path(self._folder, index)
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            return open(
                os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666),
                "ab",
                buffering=0,
            )
        return open(os.devnull, "ab", buffering=0)


def log_path(folder: pathlib.Path, index: int) -> pathlib.Path:
    return folder / "ray" / f"{index}.log"


def begin_of(attempt: str) -> str:
    """The start of the log line that precedes this attempt's output; the host name follows."""
    return f"[ray] attempt {attempt} on "


def refuse(log: Any, why: str) -> int:
    write(log, f"offramp: {why}")
    return TRY_AGAIN


def write(log: Any, line: str) -> None:
    with contextlib.suppress(OSError):
        log.write(f"{line}\n".encode())


def environment() -> dict[str, str]:
    """The command's environment: this worker's, but with the thread count of the node's raylet."""
    with contextlib.suppress(OSError):
        if f"{THREADS}=".encode() not in pathlib.Path(f"/proc/{os.getppid()}/environ").read_bytes():
            return {name: value for name, value in os.environ.items() if name != THREADS}
    return dict(os.environ)


def shared_memory_problem() -> str:
    """The error if a full object store of Ray would not fit into /dev/shm beside its present content; else empty."""
    room = os.statvfs(SHARED_MEMORY)
    free = room.f_bavail * room.f_frsize
    growing = store_grows_by(os.getppid())
    if room.f_blocks == 0 or growing <= free:
        return ""
    return (
        f"Ray's object store and the slabs do not fit into /dev/shm of {socket.gethostname()} together: the store may still grow by {growing >> 20} MiB, and "
        f"{free >> 20} MiB are free. Start Ray there with a smaller --object-store-memory, which Offramp does not use, enlarge /dev/shm "
        "(docker: --shm-size), or give the shard fewer --slabs"
    )


def store_grows_by(raylet: int) -> int:
    """
    Bytes of the object store's file in /dev/shm without pages, which the kernel allocates later. 0 if the store is
    elsewhere.
    """
    growing = 0
    with contextlib.suppress(OSError):
        for fd in os.scandir(f"/proc/{raylet}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(fd.path).startswith(STORE):
                    facts = os.stat(fd.path)
                    growing += max(0, facts.st_size - 512 * facts.st_blocks)
    return growing
