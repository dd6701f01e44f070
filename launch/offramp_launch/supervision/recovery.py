"""Recovery from a producer's death: when a successor starts, how often, and how the run's memory is kept until then."""

import fcntl
import glob
import os

from offramp_launch.supervision.backoff import Backoff
from offramp_launch.exit_code import ExitCode
from offramp_launch.run_dir import values_in


class Recovery:
    """
    Counts the producers of a run. A death is a signal, a lost device, or an exit code unknown to the program (a library
    ended it); every other exit code is intended.
    """

    INTENDED = frozenset(int(code) for code in ExitCode)

    def __init__(self, limit):
        self.limit = limit
        self.restarts = 0
        self._backoff = Backoff()

    @staticmethod
    def is_death(status, run_began):
        """Too little device memory is a death only after the run began: another program may be using it for now."""
        return (
            status not in Recovery.INTENDED
            or status == ExitCode.DEVICE_BROKEN
            or (status == ExitCode.DEVICE_OUT_OF_MEMORY and run_began)
        )

    @staticmethod
    def is_too_large(producer, completed):
        """The kernel killed it for lack of memory before any work was done: a successor would need as much."""
        return bool(producer.ended_for_memory) and not completed

    def next_delay(self, lived_seconds):
        """Seconds until the next producer starts; counts that start."""
        self.restarts += 1
        return self._backoff.after_life_of(lived_seconds)


class RunHold:
    """
    Holds the lock that marks a run as live, so that no sweep removes the memory of a run whose producer is dead for
    now. Owns: the descriptor. The kernel releases the lock when the launcher dies.
    """

    def __init__(self, endpoint):
        """`endpoint`: the file in the run directory that names the run's endpoint."""
        self._endpoint = endpoint
        self._fd = None
        self._of = None  # the common prefix of the memory that it keeps

    def take(self):
        """
        Takes the lock once the producer has published the endpoint; harmless before, and when repeated. A producer that
        started anew has another endpoint: then its memory is kept instead of its predecessor's.
        """
        name = self._name()
        if name is None or (self.held and name == self._of):
            return
        self.release()
        fd = open_lock(name)
        # It may be being removed, or have been removed in between.
        if fd is not None and takes(fd, fcntl.LOCK_SH) and os.fstat(fd).st_nlink:
            self._fd, self._of = fd, name
        elif fd is not None:
            os.close(fd)

    def is_held_by_others(self):
        """Whether a program of the run is alive. Call it only without take()."""
        name = self._name()
        fd = None if name is None else open_lock(name)
        if fd is None:
            return False
        try:
            return not takes(fd, fcntl.LOCK_EX)
        finally:
            os.close(fd)

    held = property(lambda self: self._fd is not None)

    def release(self):
        if self._fd is not None:
            os.close(self._fd)
            self._fd = self._of = None

    def keeps_memory_of(self, pids):
        """
        Whether one of these producers opened the run and its memory exists. One that fails early removes it, although
        the lock is held here.
        """
        return (
            values_in(self._endpoint).get("producer_pid") in {str(pid) for pid in pids}
            and self.held
            and self._name() == self._of
            and bool(glob.glob(f"{glob.escape(self._of)}.heartbeats*"))  # with groups .heartbeats-GROUP
        )

    def _name(self):
        """The prefix of the names of the run's memory; None before the endpoint is published."""
        met = values_in(self._endpoint)
        return f"/dev/shm/offramp-{met['run_id']}-{met['nonce']}" if "run_id" in met and "nonce" in met else None


def open_lock(name):
    """The descriptor of the run's lock; None where there is none."""
    try:
        return os.open(f"{name}.lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None


def takes(fd, kind):
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
