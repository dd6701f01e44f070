"""
The job behind a run with --gpus. Its folder is within the run's output until all shards are done and merged. Meanwhile
OUT holds:

    OUT/...                        results of single samples
    OUT/.offramp-shards/job.json   the job that owns this output (jobs/folder.py)
    OUT/.offramp-shards/job/       the job's folder: while its job.json exists, --resume continues the run
    OUT/.offramp-shards/I/         of shard I

Callers hold the output's lock.
"""

import os
import re
import urllib.parse

from offramp_launch.jobs import command as job_command, files as job_files, merge as job_merge
from offramp_launch.exit_code import ExitCode, InputError, LaunchError, NotFoundError, UsageError
from offramp_launch.gpus.shares import shards_for
from offramp_launch.jobs.folder import SHARDS, Job
from offramp_launch.output_folder import CHECKPOINT, NOTES, run_noted


def folder_in(output):
    return output / SHARDS / "job"


def is_begun_in(output):
    """Errors: LaunchError, if job.json cannot be read."""
    return job_files.read(folder_in(output) / "job.json") is not None


def holds_more_than_a_job(output):
    return output.is_dir() and any(name not in (*NOTES, SHARDS) for name in os.listdir(output))


def require_own(output):
    """Errors: LaunchError (USAGE) if the output belongs to a job of several hosts."""
    owner, own = (job_files.read(folder / "job.json") for folder in (output / SHARDS, folder_in(output)))
    # The run's own job may have moved with the output: go_on() reports that.
    if (
        owner is not None
        and owner.get("job") != (own or {}).get("id")
        and os.path.realpath(owner.get("folder", "")) != os.path.realpath(folder_in(output))
    ):
        raise UsageError(
            f"--output {output} belongs to job {owner.get('job')} in {owner.get('folder')}",
            "Continue that job (./launch/offramp job status --job FOLDER), or give another --output",
        )


def clear_remains(output):
    """Removes what an interrupted begin() or put_away() left. It holds no shard's work."""
    require_own(output)
    if is_begun_in(output):
        return
    # put_away() removes the shards' folders before job.json.
    if work := sorted((output / SHARDS).glob(f"*/{CHECKPOINT}")):
        raise InputError(
            f"{work[0].parent} holds a shard's work, but its job file {folder_in(output) / 'job.json'} is missing",
            f"Restore that file; or, to discard the work, remove {output / SHARDS}",
        )
    remove(output / SHARDS)


def begin(places, output, flags, config, shards, workers):
    """Begins a job for this input in an empty output. `shards`: their number; None to choose it here."""
    job_command.require_empty(output, "--output")
    folder = folder_in(output)
    try:
        with job_command.place_of_a_list(folder) as listing:
            facts = job_command.facts_of(places, flags, config, listing=listing, output=output)
            shards = number_of_shards(shards, facts["items"], config, workers)
            wanted = {
                **job_command.new_job(places, facts, shards, output, config, flags, listing),
                "sink": config.get("sink") or "",
            }
            job_command.require_room(places, wanted, flags)
            job, _ = job_command.kept(folder, wanted, listing)
    except BaseException:
        if not is_begun_in(output):
            remove(output / SHARDS)
        raise
    job_command.claim(job)
    return job


def number_of_shards(wanted, items, config, workers):
    """Errors: LaunchError, if the input has fewer items."""
    if items == 0:
        raise NotFoundError(f"the input has no items: {config.get('input')}", "Give an input with items")
    if wanted is not None and wanted > items:
        raise UsageError(
            f"--shards is {wanted}, and the input has {items} items",
            f"Give a number from 1 to {items}, or leave --shards out",
        )
    return wanted or shards_for(items, config.get("batch") or 1, workers)


def go_on(places, output, flags, config, shards):
    """
    Continues the job in this output. `flags` may differ from the job's only in settings that do not affect results.
    """
    job = Job.found(folder_in(output))
    job.require_made_by(job_command.build_of(places))
    job_command.require_locks(output)
    if shards not in (None, job.shards):
        raise UsageError(
            f"--shards is {shards}, and the run in {output} was begun with {job.shards}", "Leave --shards out"
        )
    if job.output != output:
        raise UsageError(
            f"the run in {output} was begun as {job.output}, where its shards must stay",
            "Move it back, or begin the run in another --output",
        )
    if job_merge.is_merged(job):
        return job
    if (run := run_noted(output)) not in (None, job.id):
        raise UsageError(
            f"{output} holds results of run {run}, which was begun there beside the unfinished one with --gpus",
            f"To keep those results, remove {output / SHARDS} and give --resume again; else give another --output",
        )
    job_command.require_same_input(job, job_command.facts_of(places, flags, config, job=job))
    require_same_database(job, config.get("sink") or "")
    job_command.claim(job)
    return job


def require_same_database(job, sink):
    """Compares names, as a server may have several addresses. Errors: LaunchError (CONFIG): rows would go elsewhere."""
    was, is_now = (database_in(each) for each in (job.facts.get("sink", ""), sink))
    if was != is_now:
        raise LaunchError(
            f"--sink names the database '{is_now}', but the rows of the run in {job.output} are in '{was}'",
            "Give the run's first --sink, or begin another run in another --output",
            ExitCode.CONFIG,
        )


def database_in(sink):
    """The database that the text names; empty if a service or the environment names it."""
    if "://" not in sink:
        found = re.search(r"(?:^|\s)dbname\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S*))", sink)
        return (found[1] or found[2] or "") if found else ""
    url = urllib.parse.urlsplit(sink)
    return dict(urllib.parse.parse_qsl(url.query)).get("dbname") or urllib.parse.unquote(url.path.strip("/"))


def merge(places, job, flags, ask, lock, note):
    """
    Merges all shards into one run's output. If it is killed, another call completes it. `flags`: this run's. `note`:
    reports an optional group that cannot be merged.
    """
    if job_merge.is_merged(job):
        return
    lock.require_in_place()
    job.facts["flags"] = flags
    job_merge.merge_output(places, job, job.records(), [], ask, lock, note)


def put_away(job):
    """Removes the job after its merge. While job.json exists, another call completes it. Errors: LaunchError."""
    if not job_merge.is_merged(job):
        raise LaunchError(
            f"{job.folder} cannot be removed: its shards are not merged",
            "This is a bug in Offramp; the shards' results are unchanged",
            ExitCode.INTERNAL,
        )
    for _, folder in job.claimed():
        if folder != job.output:
            remove(folder / SHARDS)
    for index in range(job.shards):
        remove(job.place(index))
    (job.folder / "job.json").unlink(missing_ok=True)
    remove(job.output / SHARDS)


def remove(folder):
    job_files.remove_folder(folder, "Remove the folder, and run it again with --resume")
