"""Whether the kernel ended processes for want of memory: the one death of which a log can say nothing."""

import pathlib

from offramp_launch.supervision import control_groups

MACHINE = pathlib.Path("/proc/vmstat")


def count():
    """(of this control group, of the whole machine) so far; None where the kernel does not say."""
    own = (control_groups.value_of(folder / ("memory.oom_control" if is_first else "memory.events"), "oom_kill")
           for folder, is_first in control_groups.groups_of_memory())
    return next((kills for kills in own if kills is not None), None), control_groups.value_of(MACHINE, "oom_kill")


def kills_since(before):
    """What has happened since count() gave `before`, in words; empty: nothing that is known."""
    group, machine = count()
    if None not in (before[0], group) and group > before[0]:
        return f"the kernel ended a process of this control group for want of memory; its limit is {limit()}"
    if None not in (before[1], machine) and machine > before[1]:
        return "the kernel ended a process of this machine for want of memory meanwhile"
    return ""


def limit():
    """The tightest of this control group and those above it."""
    found = control_groups.memory_limit()
    return f"{found / 2**30:.1f} GiB" if found else "unknown"
