"""Whether the kernel killed processes for lack of memory, a death that no log records."""

import pathlib

from offramp_launch.supervision import control_groups

MACHINE = pathlib.Path("/proc/vmstat")


def count():
    """(kills in this control group, on the whole machine) so far; None where the kernel reports none."""
    own = (control_groups.value_of(folder / ("memory.oom_control" if is_first else "memory.events"), "oom_kill")
           for folder, is_first in control_groups.groups_of_memory())
    return next((kills for kills in own if kills is not None), None), control_groups.value_of(MACHINE, "oom_kill")


def kills_since(before):
    """A message about kills since count() returned `before`; empty: none known."""
    group, machine = count()
    if None not in (before[0], group) and group > before[0]:
        return f"the kernel killed a process of this control group for lack of memory; its limit is {limit()}"
    if None not in (before[1], machine) and machine > before[1]:
        return "the kernel killed a process of this machine for lack of memory meanwhile"
    return ""


def limit():
    """The tightest limit of this control group and its ancestors."""
    found = control_groups.memory_limit()
    return f"{found / 2**30:.1f} GiB" if found else "unknown"
