"""The command `shard`: does one shard of a job, or the rest of it, and writes its record. 0, 75 or a final code."""

import contextlib
import dataclasses
import fcntl
import os
import shlex
import socket
import sys
import time
import typing

from offramp_launch import interrupts, run_command, settings
from offramp_launch.jobs import files as job_files, merge as job_merge
from offramp_launch.supervision import lifeline
from offramp_launch.arguments import count, take_switch, take_values, without_values, words_of
from offramp_launch.exit_code import ExitCode, LaunchError, NotFoundError, UsageError
from offramp_launch.jobs.command import (
    build_of,
    enter,
    facts_of,
    job_of,
    refuse_of_a_shard,
    refuse_settings,
    require_locks,
    require_same_input,
)
from offramp_launch.groups import Group, groups_of, longest_folder
from offramp_launch.jobs.folder import Job
from offramp_launch.output_folder import LOCK, OutputLock
from offramp_launch.run_dir import choose_run_dir, new_run_id
from offramp_launch.jobs.shard_record import (
    DONE,
    exit_of,
    fate_of,
    folders_of,
    outcome_of,
    records_among,
    report_of,
    require_whole_files,
    TRY_AGAIN,
)
from offramp_launch.watching import address

# Variables that hold the index if --index is not given: engines number their tasks from 0.
VARIABLES = ("OFFRAMP_SHARD_INDEX", "SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "RANK")


@dataclasses.dataclass(frozen=True)
class Attempt:
    places: typing.Any
    job: Job
    index: int
    flags: list
    strict: bool = False
    http: typing.Optional[tuple] = None  # the address to watch its run at
    first: typing.Optional[int] = None  # the number of consumers to begin with, with autoscaling
    groups: typing.Sequence[Group] = ()  # of --group


def start(places, argv):
    given, flags = take_values(argv, ("--job", "--index", lifeline.FLAG))
    if lifeline.FLAG in given:
        lifeline.hold(given[lifeline.FLAG])
    strict, flags = take_switch(flags, "--strict")
    http, flags = address.take(flags)
    refuse_of_a_shard(flags)
    folder, index = job_of(given), index_of(given)

    def found():
        job = Job.found(folder)
        job.require_for_hosts()
        job.require_made_by(build_of(places))
        job.require(index)
        return job

    return exit_of_attempt(
        lambda: do(Attempt(places, found(), index, flags, strict, http)), lambda: print_if_done(found(), index)
    )


def exit_of_attempt(attempt, is_done=lambda: False):
    """
    The shard's exit code for attempt()'s result or exception; 0 if another attempt has done the shard meanwhile, as it
    may have blocked this one. After a signal another try continues. Errors: LaunchError (a final code).
    """
    try:
        interrupts.handle_all_signals()
        try:
            code = attempt()
            return int(ExitCode.OK) if code == ExitCode.OK or is_known(is_done) else exit_of(code)
        except Exception as problem:
            return int(ExitCode.OK) if is_known(is_done) else exit_of_problem(problem)
    except KeyboardInterrupt:
        print("offramp: interrupted; another try continues from here", file=sys.stderr)
        return TRY_AGAIN


def is_known(is_done):
    """False if the shared folders cannot be read now: another try looks again."""
    try:
        return is_done()
    except (OSError, LaunchError) as problem:
        if isinstance(problem, LaunchError) and exit_of(problem.code) != TRY_AGAIN:
            raise
        return False


def exit_of_problem(problem):
    """Prints a problem that another try may pass, and returns its exit code; raises any other."""
    if isinstance(problem, OSError):  # any error of the shared folders
        print(f"offramp: {problem}; another try continues from here", file=sys.stderr)
        return TRY_AGAIN
    if not isinstance(problem, LaunchError) or exit_of(problem.code) != TRY_AGAIN:
        raise problem
    print(f"offramp: {problem}", file=sys.stderr)
    return TRY_AGAIN


def index_of(given, environment=os.environ):
    for variable in VARIABLES:
        if "--index" not in given and environment.get(variable):
            return count(environment[variable], variable)
    if "--index" not in given:
        raise UsageError("--index is not given", f"Give it, from 0 on, or set one of {', '.join(VARIABLES)}")
    return count(given["--index"], "--index")


def do(attempt):
    """The steps of an attempt (folder.py). Returns the run's exit code."""
    if print_if_done(attempt.job, attempt.index):
        return int(ExitCode.OK)
    try:
        return do_the_rest(attempt)
    finally:
        remove_partial_outputs(attempt.job)


def remove_partial_outputs(job):
    """If the job is merged by now, removes the folder that a late attempt has created again."""
    with contextlib.suppress(LaunchError, OSError):
        if job_merge.is_merged(job):
            job_merge.remove_places(job)
            os.rmdir(job.output)  # fails for a merged output, which is not empty


def do_the_rest(attempt):
    places, job, index, flags = attempt.places, attempt.job, attempt.index, attempt.flags
    enter(job)
    flags = [
        *without_values(job.facts["flags"], {flag.partition("=")[0] for flag in flags if flag.startswith("--")}),
        *flags,
    ]
    config = settings_of(places, flags)
    groups = groups_of(config, flags)
    # from a flag, the environment or --config
    flags = [*without_values(flags, ("--run-dir",)), *words_of({"--run-dir": config.get("run-dir") or None})]
    require_under_way(job, index)
    require_input(job, config)
    require_same_input(job, facts_of(places, flags, config, job=job))
    warn_about_other_shards(job, index)
    note = job.begin_attempt(index)
    run_id = f"{job.id}-{index}-{new_run_id()[-4:]}"
    with end_noted(note), held(job, index, run_id) as lock:
        # After a long stop, the shard may be done and the job merged: look again before doing any work.
        if print_if_done(job, index):
            return int(ExitCode.OK)
        require_under_way(job, index)
        return make(dataclasses.replace(attempt, flags=flags, groups=groups), note, run_id, lock)


def require_under_way(job, index):
    """Errors: LaunchError (USAGE) if the job is merged, though the shard is not done; those of require_claimed()."""
    if job_merge.is_merged(job):
        raise UsageError(
            f"the job is merged, and {job.record_path(index)} was removed",
            "No work is left: leave the job's folder as it is, or remove it",
        )
    job.require_claimed()


def require_input(job, config):
    """Errors: LaunchError (NO_INPUT) if a folder that `init` listed is empty, as an unmounted one is."""
    folder = config.get("input", "")
    if job.list_of_input() and os.path.isdir(folder) and is_empty(folder):
        raise NotFoundError(
            f"--input {folder} is empty, but had pictures when the job began",
            "Mount the same folders on this host as on the job's first, under the same paths",
        )


def is_empty(folder):
    """Reads one entry only: the folder may have millions."""
    with os.scandir(folder) as entries:
        return next(entries, None) is None


@contextlib.contextmanager
def end_noted(note):
    """Notes the end of an attempt that fails before its run begins, so that it no longer counts as running."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as problem:
        code = ExitCode.INTERRUPTED if isinstance(problem, KeyboardInterrupt) else ExitCode.SYSTEM
        with contextlib.suppress(LaunchError, OSError):
            note_end(note, problem.code if isinstance(problem, LaunchError) else code)
        raise


def note_end(note, code, **more):
    """Notes the end once. The note may be gone: after another attempt has done the shard, a merge removes it."""
    if (begun := job_files.read(note)) is not None and "exit" not in begun:
        job_files.replace(note, {**begun, "exit": int(code), **more})


def warn_about_other_shards(job, index):
    """A note without an end is of a lost host or a running attempt. Only a lock that works across hosts tells which."""
    unended = {str(attempt.get("host") or "") for attempt in job.attempts(index) if "exit" not in attempt}
    hosts = sorted(unended - {"", socket.gethostname()})
    if hosts:
        print(
            f"[job] an attempt at shard {index} on {', '.join(hosts)} may still be running. If file locks do not work across these hosts, make sure that "
            "it is not",
            flush=True,
        )


def settings_of(places, flags):
    """The flags' settings on this host. Errors: LaunchError, for settings that a job refuses."""
    config = settings.resolve_run(places, flags)[1]
    refuse_settings(config)
    return config


@contextlib.contextmanager
def held(job, index, run_id):
    """Holds the lock of a shard's folder, from before its run until its record is written. Errors: LaunchError."""
    require_locks(job.place(index))
    with contextlib.closing(OutputLock(str(job.place(index)), run_id)) as lock:
        fcntl.flock(lock.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a run works without the server's locks; a shard must not
        yield lock


def make(attempt, note, run_id, lock):
    """Within held()."""
    job, index = attempt.job, attempt.index
    began = time.monotonic()
    code, run_dir = run(attempt, run_id, lock)
    lock.require_in_place()
    seconds = round(time.monotonic() - began, 3)
    folders = folders_of(run_dir)
    names = job_merge.names_of_parts(job.place(index), folders)
    records = records_among(names)
    note_end(note, code, seconds=seconds, run_dir=str(run_dir), records=records)
    if fate_of(code) != DONE:
        return code
    not_merged = groups_not_merged(attempt, run_dir)
    outcome, optional = (
        outcome_of(job, index, run_dir, code),
        [group.name for group in attempt.groups if group.optional],
    )
    require_whole_files(job, index, folders, outcome["done"], names, optional)
    whole = [name for name in names if not any(job_merge.is_within(name, each) for each in not_merged)]
    record = {
        **outcome,
        "parts": job_merge.parts_of(job.place(index), whole),
        "not_merged": not_merged,
        "attempt": int(note.stem),
        "host": socket.gethostname(),
        "seconds": seconds,
        "report": report_of(run_dir),
    }
    if attempt.strict and (lost := "\n".join(job_merge.losses(record))):
        raise LaunchError(
            f"shard {index} has losses, which --strict refuses:\n{lost}",
            "Without --strict the shard is done, and its record counts the losses",
            ExitCode.DEAD_LETTERS if record["dead_letters"] else ExitCode.BAD_INPUT,
        )
    # The results must be in the folders that the paths lead to now, where the merge looks for them.
    lock.require_in_place()
    job.require_claimed()
    job.note_done(index, record)
    print_if_done(job, index)
    return int(ExitCode.OK)


def groups_not_merged(attempt, run_dir):
    """The optional groups whose files are not whole. Errors: LaunchError, for the files of others."""
    found = []
    for group in attempt.groups or [None]:
        within = group.name if group else ""
        try:
            job_merge.require_merged(
                attempt.job,
                attempt.index,
                within,
                f"Run the shard again to join it; the run is {run_dir}",
                ExitCode.CANNOT_WRITE,
            )
        except LaunchError:
            if not (group and group.optional):
                raise
            found.append(within)
    return found


def print_if_done(job, index):
    record = job.record(index)
    if record is None:
        return False
    print(
        f"[job] shard {index} of {job.shards} is done: {record['done']} of {record['items']} items, by attempt {record['attempt']} on {record['host']}",
        flush=True,
    )
    return True


def run(attempt, run_id, lock):
    """(the run's exit code, its directory)."""
    places, job, index = attempt.places, attempt.job, attempt.index
    place = job.place(index)
    given = take_values(attempt.flags, ("--run-dir",))[0].get("--run-dir")
    run_dir = choose_run_dir(places, given, run_id, longest_folder(attempt.groups))
    typed = ["shard", "--job", str(job.folder), "--index", str(index)]
    own = {
        "--output": place,
        "--samples-folder": job.output,
        "--shard": f"{index + 1}/{job.shards}",
        "--run-id": run_id,
        "--run-dir": run_dir,
        **job.flags_of_input(),
        address.FLAG: address.spelled(*attempt.http) if attempt.http else None,
    }
    resume = ["--resume"] if holds_work(place) else []
    argv = [*without_values(attempt.flags, ("--run-dir",)), *words_of(own), *resume]
    go_on = f"{places.continue_command_line()} {shlex.join(typed)}"
    return run_command.start(places, argv, typed, go_on, lock, attempt.first), run_dir


def holds_work(place):
    """Whether an earlier attempt left work, not only notes and the lock."""
    return any(name not in ("attempts", LOCK) for name in os.listdir(place))
