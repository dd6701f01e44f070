"""What the kernel says of this machine's memory."""

import pathlib

ABOUT = pathlib.Path("/proc/meminfo")


def available():
    """Bytes that programs may still take; None where it does not say."""
    return _told("MemAvailable:")


def total():
    """Bytes of the whole machine; None where it does not say."""
    return _told("MemTotal:")


def _told(name):
    try:
        lines = ABOUT.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
