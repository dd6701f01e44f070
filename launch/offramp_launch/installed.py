"""The command in a wheel or Debian package: its commands, and the reasons why others are missing."""

import os
import re
import shutil
import sys

from offramp_launch.exit_code import LaunchError, UsageError

# The purpose of the other commands.
NEED_SOURCES = {
    "setup": "builds",
    "test": "builds and tests",
    "bench": "measures",
    "ladder": "measures",
    "tune": "measures",
    "package": "builds packages",
    "export": "compiles a model with PyTorch",
    "query": "encodes words with PyTorch",
}
OLDEST_GLIBC = (2, 34)
# Flags of the demo run.
DEMO_FLAGS = ("--output", "--consumers", "--processor", "--overwrite", "--resume")


def begin(command):
    """Makes this Python that of Python processors. Errors: one-line LaunchError for a command that cannot run here."""
    os.environ.setdefault("OFFRAMP_CONSUMER_PYTHON", sys.executable)
    if (problem := glibc_problem(os.confstr("CS_GNU_LIBC_VERSION"))) and command not in ("version", "doctor"):
        raise LaunchError(problem, "")
    if command in NEED_SOURCES:
        raise UsageError(
            f"{command} {NEED_SOURCES[command]}, which needs the sources of Offramp: in a checkout, `launch/offramp {command}` sets "
            "up its requirements",
            "",
        )


def glibc_problem(library):
    """Why the programs cannot start with a C library of this name and version ("glibc 2.36"); None where they can."""
    version = re.fullmatch(r"glibc (\d+)\.(\d+).*", library or "")
    if version and tuple(map(int, version.groups())) >= OLDEST_GLIBC:
        return None
    return (
        f"the programs need glibc {'.'.join(map(str, OLDEST_GLIBC))} or later, and this machine has {library or 'another C library'}: "
        "use Debian 12, Ubuntu 22.04, Fedora 35, RHEL 9 or later, or a container of one of them"
    )


def numpy_remedy(python):
    """The command that installs NumPy for this interpreter; Debian's refuses pip."""
    if str(python) == "/usr/bin/python3" and shutil.which("dpkg"):
        return "apt-get install python3-numpy"
    return f"{python} -m pip install numpy"


def is_demo(argv):
    """Whether a run has neither an input nor a model."""
    return all(word.partition("=")[0] in DEMO_FLAGS for word in argv if word.startswith("--"))


def no_runner():
    """The error for a run with a model or an input."""
    return UsageError(
        "run with a model or an input needs the runner, which is built on LibTorch and not in this package: in a checkout of Offramp's "
        "sources, `launch/offramp run` sets it up (OFFRAMP_BIN_DIR=FOLDER names a built one). Your own loop needs none: use offramp.Egress "
        "and `offramp consume`",
        "",
    )
