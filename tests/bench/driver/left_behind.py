"""Finds leftovers of a benchmark in /dev/shm."""

import fcntl
import os
import time

OURS = ("offramp-bench-", "offramp-message-bench-")
PEERS = ("sem.mp-", "torch_")
PATIENCE_SECONDS = 60


def objects_of_dead_runs():
    """Objects of runs without a live process, because another benchmark may be running on this machine."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(OURS) and not is_held(name)}


def objects_of_all():
    return objects_of_dead_runs() | objects_of_peers()


def left_since(before, objects=objects_of_dead_runs):
    """New objects that stay. Another benchmark sweeps its own killed runs, and its peers remove their objects."""
    left, end = objects() - before, time.monotonic() + PATIENCE_SECONDS
    while left and time.monotonic() < end:
        time.sleep(0.2)
        left &= objects()
    return left


def is_held(name):
    """Each process of a run holds a shared lock on the run's lock object, and a sweep an exclusive one."""
    try:
        with open(f"/dev/shm/{name.rpartition('.')[0]}.lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def objects_of_peers():
    return {name for name in os.listdir("/dev/shm") if name.startswith(PEERS)}
