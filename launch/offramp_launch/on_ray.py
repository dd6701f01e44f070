"""The command `job ray`: goes on in the Python that has Ray, as the package's offramp.ray."""

import os
import subprocess
import sys

from offramp_launch import interrupts
from offramp_launch.arguments import take_values
from offramp_launch.exit_code import ExitCode, LaunchError, cannot_be_started

FLAG = "--ray-python"
HAS_RAY = "import importlib.util, sys; sys.exit(importlib.util.find_spec('ray') is None)"


def start(places, argv):
    """Errors: LaunchError (CONFIG), where that Python has no Ray."""
    given, argv = take_values(argv, (FLAG,))
    python = given.get(FLAG) or (str(places.venv_python) if places.venv_python.exists() else sys.executable)
    try:
        has_ray = subprocess.run([python, "-c", HAS_RAY], check=False).returncode == 0
    except OSError as problem:
        raise cannot_be_started(python, problem, f"Name a Python that has Ray: {FLAG} PYTHON") from problem
    if not has_ray:
        raise LaunchError(f"{python} has no Ray", f"Install it there ({python} -m pip install ray), or name a Python that has it: {FLAG} PYTHON", ExitCode.CONFIG)
    path = os.pathsep.join(filter(None, (str(places.package), os.environ.get("PYTHONPATH"))))
    sys.stdout.flush()
    with interrupts.blocked():
        os.execve(python, [python, "-m", "offramp.ray", *argv], {**os.environ, "PYTHONPATH": path})
