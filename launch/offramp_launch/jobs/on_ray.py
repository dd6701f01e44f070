"""The commands `job ray`, which continues in the Python that has Ray, and `run --on ray`: init, ray, merge in one."""

import os
import subprocess
import sys

from offramp_launch import interrupts, sink
from offramp_launch.jobs import command as job_command
from offramp_launch.supervision import lifeline
from offramp_launch.arguments import hide_query, take_all, take_values
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError, cannot_be_started, code_of_command
from offramp_launch.places import LAUNCHER

FLAG = "--ray-python"
FLAGS = tuple("--address --num-gpus --num-cpus --resource --workers --attempts --pause --flags --offramp".split())
ON = "--on"
# A folder named "ray", such as a job's logs in the working folder, is not the package.
HAS_RAY = """
import importlib.util, sys
sys.path[:] = filter(None, sys.path)
found = importlib.util.find_spec("ray")
sys.exit(found is None or found.origin is None)
"""

# What that Python does: its packages come before the working folder and before packages installed beside the launcher.
START = """
import sys
folders = sys.argv[1:3]
sys.path[:] = [*folders, *filter(None, sys.path)]
import offramp
from offramp_launch.jobs import on_ray
del sys.path[:2], sys.argv[1:3]
on_ray.continue_with_ray()
"""


def start(places, argv):
    """Errors: LaunchError (CONFIG), if that Python has no Ray."""
    given, argv = take_values(argv, (FLAG, lifeline.FLAG))
    python = given.get(FLAG) or (str(places.venv_python) if places.venv_python.exists() else sys.executable)
    try:
        has_ray = subprocess.run([python, "-c", HAS_RAY], check=False).returncode == 0
    except OSError as problem:
        raise cannot_be_started(python, problem, f"Name a Python that has Ray: {FLAG} PYTHON") from problem
    if not has_ray:
        raise LaunchError(
            f"Ray is not installed in {python}",
            f"Install it there ({python} -m pip install ray), or name a Python that has it: {FLAG} PYTHON",
            ExitCode.CONFIG,
        )
    named, rest = take_all(argv, FLAGS)  # a value may begin with a dash
    words = [given.get(lifeline.FLAG, ""), *rest, *as_words(named)]
    sys.stdout.flush()
    with interrupts.blocked():
        os.execvp(python, [python, "-c", START, str(places.package), str(LAUNCHER.parent), *words])


def continue_with_ray():
    interrupts.begin()
    sys.exit(interrupts.carry_out(drive, sys.argv[1:]))


def drive(argv):
    """`argv`: the lifeline, or an empty text; then the command's arguments."""
    interrupts.handle_all_signals()
    if argv[0]:
        lifeline.hold(argv[0])
    from offramp.ray import main

    return main(argv[1:])


def as_words(named):
    return [f"{name}={value}" for name, value in named]


def run(argv):
    """If the job exists, `init` does nothing: the same command continues a run. Errors: LaunchError (USAGE)."""
    given, argv = take_values(argv, (ON,))
    if given[ON] != "ray":
        raise UsageError(f"{ON} is '{given[ON]}', and only ray is supported", "Give --on ray, or leave it out")
    of_ray, of_init = take_all(argv, (FLAG, *FLAGS))
    of_init = hide_query(sink.hide_password(of_init, os.environ), os.environ)
    folder = ["--job", str(job_command.job_of(take_values(of_init, ("--job",))[0]))]
    for words in (["init", *of_init], ["ray", *folder, *as_words(of_ray)], ["merge", *folder]):
        code = step(words)
        if code != ExitCode.OK:
            break
    return code


def step(words):
    """Runs one of the job's commands, which ends if this process does. Returns its exit code. Errors: LaunchError."""
    read, held = os.pipe()
    ends = [f"{lifeline.FLAG}={read}"] if words[0] == "ray" else []  # the other commands are short
    try:
        command = [sys.executable, "-E", "-s", "-B", str(LAUNCHER), "job", *words, *ends]
        return code_of_command(f"job {words[0]}", interrupts.run_python(command, pass_fds=(read,)))
    finally:
        os.close(held)
        os.close(read)
