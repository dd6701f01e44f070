"""
The job that a run with --gpus is: it lies within the run's output, until all of its shards are done and merged. What OUT holds meanwhile:

    OUT/...                        results of single samples
    OUT/.offramp-shards/job.json   whose output it is (jobs/folder.py)
    OUT/.offramp-shards/job/       the job's folder: as long as its job.json is there, --resume goes on
    OUT/.offramp-shards/I/         of shard I

Whoever calls these has the output's lock.
"""

import os
import pathlib
import re
import shutil
import urllib.parse

from offramp_launch.jobs import files as job_files, merge as job_merge
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.gpus.shares import shards_for
from offramp_launch.jobs.command import build_of, claim, facts_of, keep_list, look_at_output, new_job, place_of_a_list, require_empty, require_locks, require_same_input
from offramp_launch.jobs.folder import SHARDS, Job
from offramp_launch.output_folder import CHECKPOINT, LOCK, run_noted


def folder_in(output):
    return output / SHARDS / "job"


def is_begun_in(output):
    """Errors: LaunchError, where that cannot be told."""
    return job_files.read(folder_in(output) / "job.json") is not None


def holds_more_than_a_job(output):
    return output.is_dir() and any(name not in (LOCK, SHARDS) for name in os.listdir(output))


def require_own(output):
    """Errors: LaunchError (USAGE) where hosts do a job whose output this is."""
    owner, own = (job_files.read(folder / "job.json") for folder in (output / SHARDS, folder_in(output)))
    # One's own may have been moved with the output, of which go_on() tells.
    if owner is not None and owner.get("job") != (own or {}).get("id") and os.path.realpath(owner.get("folder", "")) != os.path.realpath(folder_in(output)):
        raise LaunchError(f"--output {output} is that of job {owner.get('job')} in {owner.get('folder')}", "Go on with that (./launch/offramp job status --job FOLDER), or "
                          "give another --output", ExitCode.USAGE)


def clear_remains(output):
    """What was left when a job was begun, or put away, and cut off there: nothing in it is anybody's work."""
    require_own(output)
    if is_begun_in(output):
        return
    # Places go before job.json.
    if work := sorted((output / SHARDS).glob(f"*/{CHECKPOINT}")):
        raise LaunchError(f"{work[0].parent} holds a shard's work, and {folder_in(output) / 'job.json'}, which tells of it, is gone",
                          f"Put that back; or, if that work is not wanted any more, remove {output / SHARDS}", ExitCode.BAD_INPUT)
    remove(output / SHARDS)


def begin(places, output, flags, config, shards, workers):
    """A job of this input in an output that holds nothing yet. `shards`: how many, or None for as many as are good."""
    require_empty(output, "--output")
    folder = folder_in(output)
    try:
        with place_of_a_list(folder) as listing:
            facts, listed = facts_of(places, flags, config, listing=listing)
            shards = number_of_shards(shards, facts["items"], config, workers)
            wanted = {**new_job(places, facts, shards, output, config, flags, listed), "sink": config.get("sink") or ""}
            if wanted["write_path"]:
                require_empty(pathlib.Path(wanted["write_path"]), "--write-path")
            look_at_output(places, output, flags)
            if listed:
                keep_list(listed, folder / "input.list")
            job, _ = Job.begun(folder, wanted)
    except BaseException:
        if not is_begun_in(output):
            remove(output / SHARDS)
        raise
    claim(job)
    return job


def number_of_shards(wanted, items, config, workers):
    """Errors: LaunchError, where there cannot be so many."""
    if items == 0:
        raise LaunchError(f"the input has no items: {config.get('input')}", "Give one that has", ExitCode.NO_INPUT)
    if wanted is not None and wanted > items:
        raise LaunchError(f"--shards is {wanted}, and the input has {items} items", f"Give a number from 1 to {items}, or none", ExitCode.USAGE)
    return wanted or shards_for(items, config.get("batch") or 1, workers)


def go_on(places, output, flags, config, shards):
    """The job that was begun there, with flags that may differ in what changes no result."""
    job = Job.found(folder_in(output))
    job.require_made_by(build_of(places))
    require_locks(output)
    if shards not in (None, job.shards):
        raise LaunchError(f"--shards is {shards}, and the run in {output} was begun with {job.shards}", "Leave --shards out", ExitCode.USAGE)
    if job.output != output:
        raise LaunchError(f"{output} was begun as {job.output}, where its shards are looked for", "Move it back, or begin the run in another --output", ExitCode.USAGE)
    if job_merge.is_merged(job):
        return job
    if (run := run_noted(output)) not in (None, job.id):
        raise LaunchError(f"{output} holds results of run {run}, which was begun there beside the unfinished one with --gpus", f"If those are what is wanted, remove "
                          f"{output / SHARDS} and give --resume again; else give another --output", ExitCode.USAGE)
    require_same_input(job, facts_of(places, flags, config, listed=job.list_of_input())[0])
    require_same_database(job, config.get("sink") or "")
    claim(job)
    return job


def require_same_database(job, sink):
    """By its name: the same server may be reached by several. Errors: LaunchError (CONFIG), as shards that begin now would put their rows there."""
    was, is_now = (database_in(each) for each in (job.facts.get("sink", ""), sink))
    if was != is_now:
        raise LaunchError(f"--sink leads to the database '{is_now}', and the rows of the run in {job.output} are in '{was}'",
                          "Give the --sink that it was begun with, or begin another run in another --output", ExitCode.CONFIG)


def database_in(sink):
    """As far as the text tells it: a service, or the environment, may do so instead."""
    if "://" not in sink:
        found = re.search(r"(?:^|\s)dbname\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S*))", sink)
        return (found[1] or found[2] or "") if found else ""
    told = urllib.parse.urlsplit(sink)
    return dict(urllib.parse.parse_qsl(told.query)).get("dbname") or urllib.parse.unquote(told.path.strip("/"))


def merge(places, job, flags, ask, lock):
    """Makes of all shards what one run would have left. `flags`: of this run, the job's may be old. Killed anywhere, and called again, the end is the same."""
    if job_merge.is_merged(job):
        return
    lock.require_in_place()
    job.facts["flags"] = flags
    job_merge.merge_output(places, job, job.records(), [], ask, lock)


def put_away(job):
    """After the merge. As long as job.json is there, this is gone on with. Errors: LaunchError, where shards have work that is nowhere else."""
    if not job_merge.is_merged(job):
        raise LaunchError(f"{job.folder} is not merged, and was to be put away", "This is an error of Offramp's; all that shards left is as it was", ExitCode.INTERNAL)
    for _, folder in job.claimed():
        if folder != job.output:
            remove(folder / SHARDS)
    for index in range(job.shards):
        remove(job.place(index))
    (job.folder / "job.json").unlink(missing_ok=True)
    remove(job.output / SHARDS)


def remove(folder):
    try:
        if folder.is_dir():
            shutil.rmtree(folder)
    except OSError as problem:
        raise LaunchError(f"{problem.filename or folder} cannot be removed: {problem.strerror}", "Remove the folder, and run it again with --resume",
                          ExitCode.CANNOT_WRITE) from problem
