"""Sets up the benchmark's programs and runs it: tests/bench/bench.py, in a Python that has PyTorch."""

import os
import shutil
import subprocess
import sys

from offramp_launch.arguments import take_values
from offramp_launch.exit_code import LaunchError
from offramp_launch.setup import build
from offramp_launch.setup.build import set_up
from offramp_launch.setup.toolchain import FLAGS as TOOLCHAIN_FLAGS


def start(places, argv):
    """Becomes the benchmark; its exit code is the command's."""
    flags, argv = take_values(argv, TOOLCHAIN_FLAGS)
    if not os.environ.get("OFFRAMP_BIN_DIR"):
        set_up(places, flags, ("requirements-test.txt",), {"release": (*build.PROGRAMS, *build.BENCHMARK)})
    python = python_with_torch(places, flags)
    os.execv(
        python,
        [*places.python_command(python, places.root / "tests/bench/bench.py"), "--bin", str(places.programs()), *argv],
    )


def python_with_torch(places, flags):
    """The user's Python, the set-up's or the machine's, whichever first has PyTorch."""
    own = places.venv_python if places.venv_python.exists() else None
    for python in filter(None, (flags.get("--python"), own, shutil.which("python3"), sys.executable)):
        tried = subprocess.run([python, "-c", "import numpy, torch, torchvision"], capture_output=True, check=False)
        if tried.returncode == 0:
            return str(python)
    raise LaunchError(
        "no Python with numpy, torch and torchvision was found for the benchmark's peers",
        "Without OFFRAMP_BIN_DIR the set-up installs them; or name one with --python",
    )
