"""What the control group of this process allows, whichever of the groups above it is the tightest: as common/shm/memory_room.cpp, but of processor time too."""

import math
import pathlib

MOUNT = pathlib.Path("/sys/fs/cgroup")
MEMBERSHIP = pathlib.Path("/proc/self/cgroup")
NO_LIMIT = 1 << 60      # version 1 says so with the largest number of whole pages
CACHE = ("active_file", "inactive_file")


def groups_of_memory():
    """[(folder, whether it is of version 1)], from this process's own upwards."""
    return list(_groups("memory"))


def memory_limit():
    """Bytes that the tightest of them allows; None where nothing bounds them."""
    limits = (_number(folder / ("memory.limit_in_bytes" if is_first else "memory.max")) for folder, is_first in _groups("memory"))
    return min((limit for limit in limits if limit is not None and limit < NO_LIMIT), default=None)


def memory_room():
    """Bytes that it may still take, the page cache not counted; endless where nothing bounds them."""
    rooms = [math.inf]
    for folder, is_first in _groups("memory"):
        limit, usage, prefix = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_") if is_first else ("memory.max", "memory.current", "")
        limit, usage = _number(folder / limit), _number(folder / usage)
        if None not in (limit, usage) and limit < NO_LIMIT:
            cache = sum(int(value) for key, value in _pairs(folder / "memory.stat") if key in {prefix + each for each in CACHE})
            rooms.append(max(0, limit - max(0, usage - cache)))
    return min(rooms)


def cores():
    """So many may be at work in the mean; endless where nothing bounds them."""
    quotas = [math.inf]
    for folder, is_first in _groups("cpu"):
        quota, period = (_number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")) if is_first else map(_as_number, (*_words(folder / "cpu.max"), "", "")[:2])
        if quota and period:
            quotas.append(quota / period)
    return min(quotas)


def value_of(path, key):
    """In a file of names and numbers; None where it is not told."""
    return next((_as_number(value) for name, value in _pairs(path) if name == key), None)


def _memberships():
    """(controllers, path) of each hierarchy; the one of version 2 has none."""
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return []
    return [(controllers, path) for controllers, path in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2)]


def _groups(controller):
    """(folder, whether it is of version 1), upwards. A container may see its own part as the mount, and be told the host's path: what is not there is passed over."""
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
    """None of what is none, as `max` and -1."""
    return int(word) if word.isdigit() else None
