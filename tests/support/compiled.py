"""
Compiled Python files, which all tests share. A Python that limits the size of its files must not write them (-B): it
would leave truncated ones.
"""

import os
import pathlib
import sys


def build_folder(folder):
    """A folder in `folder` for OFFRAMP_BUILD_DIR: a launcher keeps compiled files there, and would make them anew."""
    build = pathlib.Path(folder, "build")
    build.mkdir(exist_ok=True)
    shared, here = os.environ.get("PYTHONPYCACHEPREFIX") or sys.pycache_prefix, build / "pycache"
    if shared and not here.exists():
        pathlib.Path(shared).mkdir(parents=True, exist_ok=True)
        here.symlink_to(shared)
    return str(build)
