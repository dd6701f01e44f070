"""
CPU time, page faults and private memory of processes, from /proc, and signals to stop and continue them. Linux only.
"""

import collections
import contextlib
import ctypes
import dataclasses
import os
import pathlib
import signal
import time

TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1
GONE_SECONDS = 10  # for killed processes to disappear
LIBC = ctypes.CDLL(None)


def end_on_sigterm():
    """Raise SystemExit on SIGTERM, so that every started program is ended on the way out. Thread: main."""

    def leave(number, frame):
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


@dataclasses.dataclass(frozen=True)
class Usage:
    """Sums over processes since their start; private_kib is their resident, unshared memory now."""

    cpu_seconds: float = 0.0
    faults: int = 0
    private_kib: int = 0

    def __add__(self, other):
        return Usage(
            self.cpu_seconds + other.cpu_seconds, self.faults + other.faults, self.private_kib + other.private_kib
        )


def die_with_parent():
    """
    Kill the calling process when its parent ends, even while it is stopped, so that no contestant outlives the driver.
    """
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# /proc/PID/stat behind the name: ticks, page faults
OWN, WITH_ENDED_CHILDREN = (
    ((11, 12), (7, 9)),
    ((11, 12, 13, 14), (7, 8, 9, 10)),
)


def usage_of(pid, fields=OWN):
    """Usage of one process with all its threads; zero if it has ended."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        private = 0
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                private = int(line.split()[1])
        ticks, faults = fields
        return Usage(
            sum(int(stat[field]) for field in ticks) / TICKS, sum(int(stat[field]) for field in faults), private
        )
    except (OSError, IndexError, ValueError):
        return Usage()


def cpu_by_thread(pid):
    """
    CPU seconds of a process by its threads' names; threads that differ in a number at the name's end count together.
    """
    seconds = collections.Counter()
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            name = (task / "comm").read_text().strip().rstrip("0123456789").rstrip("-#/:")
            seconds[name] += int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def usage_of_all(pids):
    return sum((usage_of(pid) for pid in pids), Usage())


def usage_of_servers(pids):
    """Usage of each server with all its children, such as a database server's one per connection."""
    return sum((usage_of(pid, WITH_ENDED_CHILDREN) + usage_of_all(children_of(pid)) for pid in pids), Usage())


def children_of(pid):
    """The live children of a process."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError, ValueError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def members_of(groups):
    """The processes of these process groups, without zombies."""
    wanted, found = set(groups), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if int(stat[2]) in wanted and stat[0] != "Z":
                found.append(int(entry))
    return sorted(found)


def trackers_among(pids):
    """
    The resource trackers of Python's multiprocessing among these processes. They end after all others, and only if they
    may run.
    """

    def is_tracker(pid):
        try:
            return b"multiprocessing.resource_tracker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    return [pid for pid in pids if is_tracker(pid)]


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def signal_groups(groups, number):
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def kill_group(group):
    """Kill a process group and wait until its processes are gone."""
    signal_groups([group], signal.SIGKILL)
    deadline = time.monotonic() + GONE_SECONDS
    while members_of([group]) and time.monotonic() < deadline:
        time.sleep(0.005)
