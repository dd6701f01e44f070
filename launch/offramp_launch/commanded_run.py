"""
Runs that another command starts (`tune`, `chaos`). Such a run ends with that command, however that ends, and writes
only to that command's folders.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

from offramp_launch import interrupts
from offramp_launch.arguments import given_among, names_in, take_values
from offramp_launch.exit_code import UsageError
from offramp_launch.jobs.command import folder_written_to
from offramp_launch.places import LAUNCHER
from offramp_launch.run_dir import read_object
from offramp_launch.supervision import lifeline
from offramp_launch.supervision.log_follower import printed_by_command

COMMAND = "run-of-a-command"
REMOVED_SECONDS = 3
AGAIN_SECONDS = 0.05


def begin(places, lifeline_fd, flags, printed, environment=None):
    """
    The process of a run, in its own session. `lifeline_fd`: the reading end of a pipe whose other end the caller holds.
    `printed`: the file for its output.
    """
    launcher = places.python_command(sys.executable, LAUNCHER, "-E", "-s")
    with open(printed, "wb") as log, interrupts.blocked():
        return subprocess.Popen(
            [*launcher, COMMAND, lifeline.FLAG, str(lifeline_fd), "--", *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lifeline_fd,),
            start_new_session=True,
            env=environment,
        )


def start(places, argv):
    """The command of that process."""
    at = argv.index("--")
    lifeline.hold(take_values(argv[:at], (lifeline.FLAG,))[0][lifeline.FLAG])
    flags = argv[at + 1 :]
    if "--producer" in names_in(flags):
        from offramp_launch.program_command import start as start_run
    else:
        from offramp_launch.run_command import start as start_run
    run_dir = pathlib.Path(take_values(flags, ("--run-dir",))[0]["--run-dir"])
    return start_run(places.with_runs_in(run_dir.parent), flags, ["run", *flags])


def refuse_flags(command, refused, flags, config):
    """Errors: LaunchError (USAGE) for a flag of `refused`, {name: why}. `config`: the settings, if they are known."""
    for name in given_among(refused, flags, config):
        raise UsageError(f"{command} does not accept {name}: {refused[name]}", "Leave it out")


def paths_within(whole, config):
    """
    {flag: value} for all paths of a run beside its output, which lead into the folder `whole`. These flags override
    variables and --config.
    """
    paths = {"--log-file": "", "--samples-folder": ""}
    if config.get("when-full") == "spill":
        paths["--spill-dir"] = str(whole / "spilled")
    if folder_written_to(config):
        paths["--write-path"] = str(whole / "written")
        (whole / "written").mkdir(parents=True)
    return paths


def folder_for_results(config, places):
    """A folder on the file system of --output."""
    if config.get("output"):
        for folder in pathlib.Path(config["output"]).absolute().parents:
            if os.access(folder, os.W_OK) and not is_within(folder, config.get("input")):
                return folder
    places.build.mkdir(parents=True, exist_ok=True)
    return places.build


def is_within(folder, source):
    """Whether `folder` is in the input folder, whose files are read."""
    if not source or not os.path.isdir(source):
        return False
    source, folder = pathlib.Path(source).resolve(), folder.resolve()
    return folder == source or source in folder.parents


def failure_of(run_dir, log):
    """Why the run failed, in one line."""
    failure = (read_object(run_dir / "summary.json") or {}).get("failure")
    errors, lines = printed_by_command(log)
    return failure or next(reversed(errors or [line for line in lines if line.strip()]), "it gave no reason")


def remove(*folders):
    """Retries: a program that is ending may still create files."""

    def are_gone():
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        return not any(folder.exists() for folder in folders)

    within(REMOVED_SECONDS, are_gone)


def within(seconds, holds):
    """Waits until holds(), or until the time is over. Returns whether it holds."""
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(AGAIN_SECONDS)
    return held
