"""This machine's memory, from the kernel."""

import pathlib

ABOUT = pathlib.Path("/proc/meminfo")


def available():
    """Bytes that programs can still allocate; None where unknown."""
    return _field("MemAvailable:")


def total():
    """Bytes of the whole machine; None where unknown."""
    return _field("MemTotal:")


def _field(name):
    try:
        lines = ABOUT.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
