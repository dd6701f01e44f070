"""What Ray's workers do: a shard's command, under their eyes. Nothing of Ray is imported, and nothing of the package: it is sent to nodes as it is."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
from typing import Any, Sequence

FIRST_SIGNAL = 128                      # a command that a signal killed has no code of its own
SHARED_MEMORY_FULL, NOT_FOUND = 80, 127
LOOK_SECONDS = 1.0
SHARED_MEMORY = "/dev/shm"
STORE = f"{SHARED_MEMORY}/plasma"       # Ray's object store, a file without a name that its raylet holds open


class Worker:
    """An actor. Owns, while it does a shard, the write end of its command's lifeline."""

    def __init__(self, folder: pathlib.Path, command: str, flags: Sequence[str]):
        beside = pathlib.Path(sys.executable).parent / command
        self._command = str(beside) if os.sep not in command and beside.is_file() else command
        self._folder = folder
        self._flags = flags

    def ready(self) -> int:
        """Where this is answered, there is a place."""
        return 0

    def do(self, index: int) -> int:
        """The command's exit code. Why it is so stands in the job's folder."""
        lifeline, held = os.pipe()
        try:
            with self._log(index) as log:
                return self._watched([self._command, "shard", "--job", str(self._folder), "--index", str(index), "--lifeline-fd", str(lifeline), *self._flags],
                                     lifeline, log)
        finally:
            os.close(held)
            os.close(lifeline)

    def _watched(self, command: Sequence[str], lifeline: int, log: Any) -> int:
        if problem := no_room_for_both():
            return self._refuse(log, problem, SHARED_MEMORY_FULL)
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(lifeline,), start_new_session=True)
        except OSError as failure:
            return self._refuse(log, f"'{command[0]}' cannot be started on {socket.gethostname()}: {failure.strerror}. Install Offramp on every node, or name "
                                "its command there (offramp=)", NOT_FOUND)
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(LOOK_SECONDS)
                return code if code >= 0 else FIRST_SIGNAL - code
            if problem := no_room_for_both():       # the slabs are there by now
                process.send_signal(signal.SIGKILL)
                process.wait()
                return self._refuse(log, problem, SHARED_MEMORY_FULL)

    def _refuse(self, log: Any, why: str, code: int) -> int:
        with contextlib.suppress(OSError):
            log.write(f"offramp: {why}\n".encode())
        return code

    def _log(self, index: int) -> Any:
        """The job's folder may take nothing now: what the command does there then says its exit code."""
        path = log_path(self._folder, index)
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            return open(path, "ab", buffering=0)
        return open(os.devnull, "ab", buffering=0)


def log_path(folder: pathlib.Path, index: int) -> pathlib.Path:
    return folder / "ray" / f"{index}.log"


def no_room_for_both() -> str:
    """Why Ray's object store, were it full, and what lies in /dev/shm by now have no room there together; nothing where they have."""
    room = os.statvfs(SHARED_MEMORY)
    free = room.f_bavail * room.f_frsize
    growing = store_grows_by(os.getppid())
    if room.f_blocks == 0 or growing <= free:
        return ""
    return (f"Ray's object store and the slabs do not fit into /dev/shm of {socket.gethostname()} together: the store may still grow by {growing >> 20} MiB, and "
            f"{free >> 20} MiB are free. Start Ray there with a smaller --object-store-memory, which Offramp does not use, or give /dev/shm more room "
            "(docker: --shm-size), or the shard fewer --slabs")


def store_grows_by(raylet: int) -> int:
    """How much of the object store's file in /dev/shm has no pages yet: the kernel gives them as objects come. 0 where it lies elsewhere."""
    growing = 0
    with contextlib.suppress(OSError):
        for fd in os.scandir(f"/proc/{raylet}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(fd.path).startswith(STORE):
                    facts = os.stat(fd.path)
                    growing += max(0, facts.st_size - 512 * facts.st_blocks)
    return growing
