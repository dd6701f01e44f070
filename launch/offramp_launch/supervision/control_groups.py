"""
The machine's memory, and the limits of this process's control group, the tightest of it and its ancestors: like
common/shm/shared_region.cpp, and also for CPU time. Whether the kernel killed processes for lack of memory, a death
that no log records.
"""

import math
import pathlib

MOUNT = pathlib.Path("/sys/fs/cgroup")
MEMBERSHIP = pathlib.Path("/proc/self/cgroup")
MACHINE = pathlib.Path("/proc/vmstat")
MEMORY = pathlib.Path("/proc/meminfo")
NO_LIMIT = 1 << 60  # version 1 has the largest number of whole pages for no limit
# Names in version 2 and in version 1.
LIMIT, USAGE = ("memory.max", "memory.limit_in_bytes"), ("memory.current", "memory.usage_in_bytes")
KILLS = "memory.events", "memory.oom_control"
CACHE = ("active_file", "inactive_file"), ("total_active_file", "total_inactive_file")


def available_memory():
    """Bytes that programs can still allocate on this machine; None where unknown."""
    return _memory("MemAvailable:")


def machine_memory():
    """Bytes of the whole machine; None where unknown."""
    return _memory("MemTotal:")


def _memory(key):
    """The key's bytes; the file has kibibytes, each followed by its unit."""
    words = _words(MEMORY)
    return int(words[words.index(key) + 1]) * 1024 if key in words else None


def memory_limit():
    """Bytes that the tightest group allows; None without a limit."""
    limits = (_number(folder / LIMIT[is_first]) for folder, is_first in groups("memory"))
    return min((limit for limit in limits if limit is not None and limit < NO_LIMIT), default=None)


def memory_room():
    """Bytes that it may still allocate, not counting the page cache; infinite without a limit."""
    rooms = [math.inf]
    for folder, is_first in groups("memory"):
        limit, usage = _number(folder / LIMIT[is_first]), _number(folder / USAGE[is_first])
        if None not in (limit, usage) and limit < NO_LIMIT:
            cache = sum(int(value) for key, value in _pairs(folder / "memory.stat") if key in CACHE[is_first])
            rooms.append(max(0, limit - max(0, usage - cache)))
    return min(rooms)


def cores():
    """Cores that may be busy on average; infinite without a limit."""
    quotas = [math.inf]
    for folder, is_first in groups("cpu"):
        quota, period = (
            (_number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us"))
            if is_first
            else map(_as_number, (*_words(folder / "cpu.max"), "", "")[:2])
        )
        if quota and period:
            quotas.append(quota / period)
    return min(quotas)


def memory_kills():
    """(kills in this control group, on the whole machine) so far; None where the kernel reports none."""
    own = (_kills_in(folder / KILLS[is_first]) for folder, is_first in groups("memory"))
    return next((kills for kills in own if kills is not None), None), _kills_in(MACHINE)


def memory_kills_since(before):
    """A message about kills since memory_kills() returned `before`; empty: none known."""
    group, machine = memory_kills()
    if None not in (before[0], group) and group > before[0]:
        limit = memory_limit()
        return f"the kernel killed a process of this control group for lack of memory; its limit is {f'{limit / 2**30:.1f} GiB' if limit else 'unknown'}"
    if None not in (before[1], machine) and machine > before[1]:
        return "the kernel killed a process of this machine for lack of memory meanwhile"
    return ""


def _kills_in(path):
    """Of a file of names and numbers; None where it has none."""
    return next((_as_number(value) for name, value in _pairs(path) if name == "oom_kill"), None)


def _memberships():
    """(controllers, path) of each hierarchy; version 2 has no controllers there."""
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return []
    return [
        (controllers, path) for controllers, path in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2)
    ]


def groups(controller):
    """(folder, whether it is version 1), upwards. A container may see the host's path: callers skip missing files."""
    for controllers, path in _memberships():
        if controllers and controller not in controllers.split(","):
            continue
        mount = MOUNT / controller if controllers else MOUNT
        own = pathlib.PurePosixPath("/" + path.lstrip("/"))
        for each in (own, *own.parents):
            yield mount / each.relative_to("/"), bool(controllers)


def _words(path):
    try:
        return path.read_text().split()
    except OSError:
        return []


def _pairs(path):
    words = _words(path)
    return zip(words[::2], words[1::2])


def _number(path):
    return _as_number("".join(_words(path)[:1]))


def _as_number(word):
    """None for a word that is not a number, such as `max` and -1."""
    return int(word) if word.isdigit() else None
