"""A control group with little memory, in which the kernel kills only the test's program."""

import contextlib
import os
import pathlib

MOUNT = pathlib.Path("/sys/fs/cgroup")
# Version 2, or version 1 with memory alone, because some kernels do not count swap.
LIMITS = (("memory.max", "memory.swap.max"), ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"))


def own_group():
    lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
    first = next((path for _, controllers, path in lines if "memory" in controllers.split(",")), None)
    second = next((path for _, controllers, path in lines if not controllers), "/")
    return MOUNT / "memory" / first.lstrip("/") if first else MOUNT / second.lstrip("/")


@contextlib.contextmanager
def small_memory(test, limit):
    """Yields the file to which to write a pid; skips `test` if no group can be created."""
    group = own_group() / f"offramp-test-{os.getpid()}-{id(test):x}"
    try:
        group.mkdir()
    except OSError as problem:
        test.skipTest(f"cannot create a control group here: {problem}")
    try:
        bounded = False
        for memory, swap in LIMITS:
            with contextlib.suppress(OSError):
                (group / memory).write_text(str(limit))
                bounded = True
                (group / swap).write_text("0" if memory == "memory.max" else str(limit))
        if not bounded:
            test.skipTest(f"{group} does not limit memory: its controller is not delegated")
        yield group / "cgroup.procs"
    finally:
        group.rmdir()
