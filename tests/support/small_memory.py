"""A control group with little memory, in which the kernel kills only the test's program."""

import contextlib
import os
import pathlib

MOUNT = pathlib.Path("/sys/fs/cgroup")
# Of version 2, and of version 1 with its memory alone: of what it swaps some kernels keep no count.
LIMITS = (("memory.max", "memory.swap.max"), ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"))


def own_group():
    lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
    first = next((path for _, controllers, path in lines if "memory" in controllers.split(",")), None)
    second = next((path for _, controllers, path in lines if not controllers), "/")
    return MOUNT / "memory" / first.lstrip("/") if first else MOUNT / second.lstrip("/")


@contextlib.contextmanager
def small_memory(test, limit):
    """The path to write a process's number to, while the context lasts; `test` is skipped where no group can be made."""
    group = own_group() / f"offramp-test-{os.getpid()}-{id(test):x}"
    try:
        group.mkdir()
    except OSError as problem:
        test.skipTest(f"no control group can be made here: {problem}")
    try:
        bounded = False
        for memory, swap in LIMITS:
            with contextlib.suppress(OSError):
                (group / memory).write_text(str(limit))
                bounded = True
                (group / swap).write_text("0" if memory == "memory.max" else str(limit))
        if not bounded:
            test.skipTest(f"{group} bounds no memory: its controller is not given on")
        yield group / "cgroup.procs"
    finally:
        group.rmdir()
