"""A producer that died is followed by another one, which takes over what it left: when, how often, and what is held until then."""

import contextlib
import fcntl
import os

from offramp_launch.supervision.backoff import Backoff
from offramp_launch.exit_code import ExitCode


class Recovery:
    """
    Counts the producers of a run. A death is a signal, a lost device, or a code that the program does not have (a library ended it);
    whatever else a producer ends with, it meant.
    """

    MEANT = frozenset(int(code) for code in ExitCode)

    def __init__(self, limit):
        self.limit = limit
        self.restarts = 0
        self._backoff = Backoff()

    @staticmethod
    def is_death(status, run_began):
        """A device that is full at the very start is too small; later, or for a successor, somebody else fills it for now."""
        return (status not in Recovery.MEANT or status == ExitCode.DEVICE_BROKEN
                or (status == ExitCode.DEVICE_OUT_OF_MEMORY and run_began))

    @staticmethod
    def is_too_large(producer, completed):
        """The kernel ended it for want of memory before anything was done: the next one would take as much."""
        return bool(producer.ended_for_memory) and not completed

    def used_up(self):
        return self.restarts >= self.limit

    def next_delay(self, lived_seconds):
        """Seconds until the next one starts, which is counted here."""
        self.restarts += 1
        return self._backoff.after_life_of(lived_seconds)


class RunHold:
    """
    Holds the lock that says "a process of this run lives", so that no sweep takes the memory of a run whose producer is dead for now.
    Owns: the descriptor. The lock is the kernel's: should the launcher die, it is given back.
    """

    def __init__(self, endpoint):
        """`endpoint`: the file in the run directory that says where the run is met."""
        self._endpoint = endpoint
        self._fd = None
        self._of = None     # the name in common of what it keeps

    def take(self):
        """
        Once the producer has said where the run is met; harmless before, and when repeated. A producer that began anew has met elsewhere:
        its memory is kept then, and no longer that of the one before.
        """
        name = self._name()
        if name is None or (self.held and name == self._of):
            return
        self.release()
        with contextlib.suppress(OSError):
            fd = os.open(f"{name}.lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)   # it is being removed
                return
            if os.fstat(fd).st_nlink == 0:
                os.close(fd)   # it was removed in between
                return
            self._fd, self._of = fd, name

    def is_held_by_others(self):
        """Whether a program of the run lives. Call it where take() was not."""
        name = self._name()
        if name is None:
            return False
        try:
            fd = os.open(f"{name}.lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (OSError, ValueError):
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    held = property(lambda self: self._fd is not None)

    def release(self):
        if self._fd is not None:
            os.close(self._fd)
            self._fd = self._of = None

    def keeps_memory_of(self, pids):
        """
        Whether one of these producers has come so far that consumers could join, and what they would join is there. A producer that
        fails before its work begins removes it, although the lock is held here.
        """
        return (self._read().get("producer_pid") in {str(pid) for pid in pids} and self.held and self._name() == self._of
                and os.path.exists(f"{self._of}.cells"))

    def _name(self):
        """What the names of all of the run's memory begin with; nothing before it can be met."""
        met = self._read()
        return f"/dev/shm/offramp-{met['run_id']}-{met['nonce']}" if "run_id" in met and "nonce" in met else None

    def _read(self):
        try:
            lines = self._endpoint.read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return {}
        return dict(line.split("=", 1) for line in lines if "=" in line)
