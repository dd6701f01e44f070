"""Finds a test's processes by an environment variable that they inherit."""

import contextlib
import os
import pathlib


def processes_marked(variable, value):
    """Every living process whose environment holds VARIABLE=VALUE. The kernel hides a dead one's environment."""
    wanted = f"{variable}={value}".encode()
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and wanted in pathlib.Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                found.append(int(entry))
    return found
