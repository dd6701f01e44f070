"""What the kernel says of this machine's memory."""

import pathlib

ABOUT = pathlib.Path("/proc/meminfo")


def available():
    """Bytes that programs may still take; None where it does not say."""
    try:
        lines = ABOUT.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
