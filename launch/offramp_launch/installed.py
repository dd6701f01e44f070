"""The command as a wheel or a Debian package installs it: which commands it has, and what those that it has not would need."""

import os
import re
import shutil
import sys

from offramp_launch.exit_code import ExitCode, LaunchError

COMMANDS = ("run", "demo", "consume", "scale", "reload", "status", "top", "trace", "stop", "dead-letters", "new-processor", "clean", "doctor", "version", "help")
# What the others are for.
OF_THE_SOURCES = {"setup": "builds", "test": "builds and tests", "bench": "measures", "ladder": "measures", "tune": "measures", "package": "builds packages",
                  "export": "compiles a model with PyTorch", "query": "encodes words with PyTorch"}
OLDEST_GLIBC = (2, 34)
# Of a run that has its pictures and its model made by a program of ours.
OF_DEMO = ("--output", "--consumers", "--processor", "--overwrite", "--resume")


def begin(command):
    """Processors in Python run in the Python of this command, unless another is named. Errors: LaunchError, of one line, where it cannot be done here."""
    os.environ.setdefault("OFFRAMP_CONSUMER_PYTHON", sys.executable)
    if (problem := glibc_problem(os.confstr("CS_GNU_LIBC_VERSION"))) and command not in ("version", "--version", "doctor"):
        raise LaunchError(problem, "", ExitCode.SYSTEM)
    if command in OF_THE_SOURCES:
        raise LaunchError(f"{command} {OF_THE_SOURCES[command]}, which needs the sources of Offramp: in a checkout of them, `launch/offramp {command}` sets "
                          "up what it takes", "", ExitCode.USAGE)


def glibc_problem(told):
    """Why the programs would not start with the C library that tells this of itself ("glibc 2.36"); None where they do."""
    version = re.fullmatch(r"glibc (\d+)\.(\d+).*", told or "")
    if version and tuple(map(int, version.groups())) >= OLDEST_GLIBC:
        return None
    return (f"the programs need glibc {'.'.join(map(str, OLDEST_GLIBC))} or later, and this machine has {told or 'another C library'}: "
            "take Debian 12, Ubuntu 22.04, Fedora 35, RHEL 9 or later, or a container of one of them")


def numpy_remedy(python):
    """How this interpreter gets NumPy: Debian's own takes none by pip."""
    return "apt-get install python3-numpy" if str(python) == "/usr/bin/python3" and shutil.which("dpkg") else f"{python} -m pip install numpy"


def is_demo(argv):
    """Whether a run says neither what it works on nor by what model."""
    return all(word.partition("=")[0] in OF_DEMO for word in argv if word.startswith("--"))


def no_runner():
    """What a run with a model of ours would take."""
    return LaunchError("run with a model or an input needs the runner, which is built on LibTorch and not in this package: in a checkout of the sources of "
                       "Offramp, `launch/offramp run` sets it up (OFFRAMP_BIN_DIR=FOLDER names one that is built). A loop of your own needs none: offramp.Egress, "
                       "and `offramp consume`", "", ExitCode.USAGE)
