"""A producer that died is followed by another one, which takes over what it left: when, how often, and what is held until then."""

import contextlib
import fcntl
import os

from offramp_launch.backoff import Backoff
from offramp_launch.exit_code import ExitCode


class Succession:
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
        return (status not in Succession.MEANT or status == ExitCode.DEVICE_BROKEN
                or (status == ExitCode.DEVICE_OUT_OF_MEMORY and run_began))

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

    def take(self):
        """Once the producer has said where the run is met; harmless before, and when repeated."""
        if self._fd is not None:
            return
        met = self._read()
        if "run_id" not in met or "nonce" not in met:
            return
        with contextlib.suppress(OSError):
            fd = os.open(f"/dev/shm/offramp-{met['run_id']}-{met['nonce']}.lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)   # it is being removed
                return
            if os.fstat(fd).st_nlink == 0:
                os.close(fd)   # it was removed in between
                return
            self._fd = fd

    def is_held_by_others(self):
        """Whether a program of the run lives. Call it where take() was not."""
        met = self._read()
        try:
            fd = os.open(f"/dev/shm/offramp-{met['run_id']}-{met['nonce']}.lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (OSError, KeyError, ValueError):
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
            self._fd = None

    def is_met_at(self, pids):
        """Whether one of these producers has come so far that consumers could join."""
        return self._read().get("producer_pid") in {str(pid) for pid in pids}

    def _read(self):
        try:
            lines = self._endpoint.read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return {}
        return dict(line.split("=", 1) for line in lines if "=" in line)
