"""Locks of names against other processes of this user and machine."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from typing import Iterable, Iterator

from offramp._errors import NotPermitted, Retry

LONGEST_SECONDS = 20  # less than the visibility timeout's default

_of_this_process = threading.Lock()  # the file's locks exclude only other processes
_lock_file: tuple[int, int] | None = None  # process and descriptor; closing any descriptor of the file drops its locks


@contextlib.contextmanager
def locked(names: Iterable[str]) -> Iterator[None]:
    """
    Holds a lock for each name against every process of this user and machine: a byte of a file, at the name's hash. A
    process that dies releases its locks. Errors: Retry after 20 s, for example if the holder is stopped.
    """
    places = sorted({int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 2 for name in names})
    deadline, held = time.monotonic() + LONGEST_SECONDS, []
    with _of_this_process:
        file = _opened_lock_file()
        try:
            for place in places:
                while not _lock(file, place):
                    if time.monotonic() >= deadline:
                        raise Retry(
                            f"another process has kept the lock of a shard for {LONGEST_SECONDS} s. Is it stopped?"
                        )
                    time.sleep(0.002)
                held.append(place)
            yield
        finally:
            for place in held:
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def _lock(file: int, place: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        return True
    except (BlockingIOError, PermissionError):
        return False


def _opened_lock_file() -> int:
    global _lock_file
    if _lock_file is None or _lock_file[0] != os.getpid():
        path = f"/tmp/offramp-zarr-{os.getuid()}.lock"
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise NotPermitted(f"the lock file {path} cannot be opened: {problem.strerror}. Remove it") from problem
        if os.fstat(file).st_uid != os.getuid():
            os.close(file)
            raise NotPermitted(f"the lock file {path} belongs to another user. Remove it")
        _lock_file = (os.getpid(), file)
    return _lock_file[1]
