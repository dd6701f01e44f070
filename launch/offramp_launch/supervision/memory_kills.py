"""Whether the kernel ended processes for want of memory: the one death of which a log can say nothing."""

import pathlib

from offramp_launch.supervision import control_groups

MACHINE = pathlib.Path("/proc/vmstat")


def count():
    """(of this control group, of the whole machine) so far; None where the kernel does not say."""
    folder = control_groups.own_group()
    return control_groups.value_of(folder / "memory.events", "oom_kill") if folder else None, control_groups.value_of(MACHINE, "oom_kill")


def told_since(before):
    """What has happened since count() gave `before`, in words; empty: nothing that is known."""
    group, machine = count()
    if None not in (before[0], group) and group > before[0]:
        return f"the kernel ended a process of this control group for want of memory; its limit is {limit()}"
    if None not in (before[1], machine) and machine > before[1]:
        return "the kernel ended a process of this machine for want of memory meanwhile"
    return ""


def limit():
    try:
        text = (control_groups.own_group() / "memory.max").read_text().strip()
    except (OSError, TypeError):
        return "unknown"
    return f"{int(text) / 2**30:.1f} GiB" if text.isdigit() else "that of a group above it"
