"""What a benchmark must not leave in /dev/shm."""

import fcntl
import os
import time

OURS = ("offramp-bench-", "offramp-message-bench-", "offramp-pool-bench-")
PEERS = ("sem.mp-", "torch_")
ENDING_SECONDS = 0.2


def objects_of_dead_runs():
    """Objects of our programs whose run nobody lives in: another benchmark may be running on this machine. A run that is about to sweep
    itself is nobody's for a moment, so what is dead is so at two looks."""
    first = unheld_objects()
    if first:
        time.sleep(ENDING_SECONDS)
    return first & unheld_objects()


def unheld_objects():
    return {name for name in os.listdir("/dev/shm") if name.startswith(OURS) and not is_held(name)}


def is_held(name):
    """Each process of a run holds a shared lock on the run's lock object, and who sweeps it an exclusive one."""
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
