"""The commands `job ray`, which goes on in the Python that has Ray, as the package's offramp.ray, and `run --on ray`: a job's three commands in one."""

import os
import subprocess
import sys

from offramp_launch import interrupts, job_command
from offramp_launch.arguments import take_values
from offramp_launch.exit_code import ExitCode, LaunchError, cannot_be_started, code_of_command
from offramp_launch.places import LAUNCHER

FLAG = "--ray-python"
FLAGS = (FLAG, "--address", "--num-gpus", "--num-cpus", "--resource", "--workers", "--attempts", "--pause", "--flags", "--offramp")
ON = "--on"
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
    os.execve(python, [python, "-m", "offramp.ray", *argv], {**os.environ, "PYTHONPATH": path})


def is_meant(argv):
    return any(word.partition("=")[0] == ON for word in argv)


def run(argv):
    """Its init does nothing where the job is begun: the same command goes on with what was broken off. Errors: LaunchError (USAGE)."""
    given, argv = take_values(argv, (ON,))
    if given[ON] != "ray":
        raise LaunchError(f"{ON} is '{given[ON]}', and a run goes on ray alone", "Give --on ray, or leave it out", ExitCode.USAGE)
    of_ray, of_init = take_values(argv, FLAGS)
    folder = ["--job", str(job_command.job_of(take_values(of_init, ("--job",))[0]))]
    for words in (["init", *of_init], ["ray", *folder, *(f"{name}={value}" for name, value in of_ray.items())], ["merge", *folder]):
        command = [sys.executable, "-E", "-s", "-B", str(LAUNCHER), "job", *words]
        code = code_of_command(f"job {words[0]}", interrupts.run_python(command))
        if code != ExitCode.OK:
            break
    return code
