"""
The process that does one shard of a run with --gpus, and exits with its launcher. It works like the command `shard`,
with this run's flags (after "--") and working folder in place of the job's, which may be an earlier launcher's.
"""

import contextlib
import os
import pathlib

from offramp_launch.supervision import lifeline
from offramp_launch.arguments import take_values
from offramp_launch.gpus.shares import BEGIN_WITH
from offramp_launch.jobs.folder import Job
from offramp_launch.jobs.shard_command import Attempt, do, exit_of_attempt, print_if_done

COMMAND = "worker-of-a-run"


def start(places, argv):
    at = argv.index("--")
    given, flags = take_values(argv[:at], ("--job", "--index", lifeline.FLAG, "--cores", f"--{BEGIN_WITH}"))
    lifeline.hold(given[lifeline.FLAG])
    if "--cores" in given:
        bind_to(map(int, given["--cores"].split(",")))
    job, index = Job.found(pathlib.Path(given["--job"])), int(given["--index"])
    job.facts.update(flags=argv[at + 1 :], folder=os.getcwd())
    # Keep the shard's run within the whole run's directory: `status` without --run-dir means the whole run.
    run_dir = pathlib.Path(take_values(flags, ("--run-dir",))[0]["--run-dir"])
    first = int(given[f"--{BEGIN_WITH}"]) if f"--{BEGIN_WITH}" in given else None

    def attempt():
        return do(Attempt(places.with_runs_in(run_dir.parent), job, index, flags, first=first))

    return exit_of_attempt(attempt, lambda: print_if_done(job, index))


def bind_to(cores):
    """Improves speed only: without permission, or if the cores are gone, the process stays unbound."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cores)
