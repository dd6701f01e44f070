"""A shard's outcome: the record that marks it as done, and its exit code for the engines that start shards."""

import pathlib

from offramp_launch.exit_code import ExitCode, InputError, LaunchError, WriteError
from offramp_launch.groups import parsed
from offramp_launch.jobs import files as job_files
from offramp_launch.run_dir import read_settings
from offramp_launch.watching.counters import COUNTS_OF_A_GROUP

# The file that a processor's consumers append to for each completed item: `whole` in consumer/processors/plugins.
WHOLE_FILES = {
    "checksum": "checksums.tsv",
    "embeddings-parquet": "embeddings.parquet",
    "embeddings-sqlite": "embeddings.sqlite",
    "mask-rle": "masks.jsonl",
    "records": "records.sqlite",
}
# The same of a custom processor; optional.
RECORDS = "records.jsonl"
# Lists in a run's summary.
LISTS = ("skipped", "dead_letters", "unreadable_upcoming")
# Of a run with groups of consumers.
OF_GROUPS = ("groups", "dead_letters_in")
# A shard's counts: the name in its record, the field in its run's status, the fields in its run's summary.
COUNTS = {
    "done": ("done_samples", ("done_before", "released")),
    "skipped": ("skipped", ("skipped",)),
    "dead_letters": ("dead_lettered_samples", ("dead_letters",)),
    "dropped": ("dropped_samples", ("dropped_when_full",)),
}


def counts_of_summary(summary):
    samples = summary.get("samples") or {}
    return {name: sum(samples.get(field) or 0 for field in fields) for name, (_, fields) in COUNTS.items()}


def outcome_of(job, index, run_dir, code):
    """
    Counts the shard's items by outcome, over all attempts. `code`: its run's. Errors: LaunchError (CANNOT_WRITE) if the
    run left no summary; if the counts miss items (DEAD_LETTERS for a run that ended because slab after slab failed,
    else COUNT_MISMATCH).
    """
    path = pathlib.Path(run_dir) / "summary.json"
    summary = job_files.read(path)
    if summary is None:
        raise WriteError(
            f"{path} is missing, and with it the counts of shard {index}",
            "Free disk space there, or choose another --run-dir, and run the shard again",
        )
    outcome = counts_of_summary(summary)
    if sum(outcome.values()) < job.items_of(index) and code == ExitCode.DEAD_LETTERS:
        raise LaunchError(
            summary.get("failure") or "the run ended before its input was used up, and its summary gives no reason",
            f"Fix that, and run the shard again to continue; the run is {run_dir}",
            ExitCode.DEAD_LETTERS,
        )
    if sum(outcome.values()) != job.items_of(index):
        raise LaunchError(
            f"shard {index} has {job.items_of(index)} items, and its run accounts for {sum(outcome.values())}: {outcome}",
            f"This is a bug in Offramp; the run is {run_dir}",
            ExitCode.COUNT_MISMATCH,
        )
    return outcome


def report_of(run_dir):
    """What is kept of the run's summary: its directory may be gone when the shards are joined."""
    summary = job_files.read(pathlib.Path(run_dir) / "summary.json") or {}
    kept = {name: summary.get(name) for name in ("run_dir", "samples", *LISTS)}
    return {**kept, **{name: summary[name] for name in OF_GROUPS if summary.get("groups")}}


def groups_summed(reports):
    """The groups of several runs' summaries, or reports of shards, summed by name."""
    whole: dict = {}
    for report in reports:
        before = (report.get("samples") or {}).get("done_before") or 0
        for group in report.get("groups") or []:
            entry = {**dict.fromkeys(COUNTS_OF_A_GROUP, 0), **whole.get(group["name"], {})}
            counts = {name: entry[name] + (group.get(name) or 0) for name in COUNTS_OF_A_GROUP}
            if not group.get("optional"):  # earlier runs have done these for every required group
                counts["released_samples"] += before
            policy = {"when_full": word} if (word := group.get("when_full") or entry.get("when_full")) else {}
            kind = {"optional": bool(group.get("optional")), **policy}
            whole[group["name"]] = {"name": group["name"], **kind, **counts}
    return list(whole.values())


def folders_of_processors(names):
    """{folder of its results in the shard's folder: processor}; the folder of a single processor is ""."""
    return {"": names[0]} if len(names) == 1 else {name: name for name in names}


def folders_of(run_dir):
    """The same for the processors, or the groups, of a run."""
    settings = read_settings(pathlib.Path(run_dir))
    groups = [parsed(line) for line in settings.get("group", "").splitlines()]
    if groups:
        return {group.name: group.processor for group in groups}
    return folders_of_processors(settings.get("processor", "").split(","))


def may_be_part(name, folders):
    """
    Whether consumers may have appended to this file; `name`: its path within the shard's folder. Of a processor in
    WHOLE_FILES only that file counts, as readers may leave others beside it; other processors may make any file.
    """
    if "" in folders:
        processor, file = folders[""], str(name)
    else:
        processor, file = folders.get(name.parts[0], name.parts[0]), "/".join(name.parts[1:])
    return file == WHOLE_FILES.get(processor, RECORDS if ":" in processor else file)


def records_among(names):
    return [name for name in names if pathlib.PurePath(name).name == RECORDS]


def require_whole_files(job, index, folders, done, names, may_lack=()):
    """
    `names`: of the files that are there. `may_lack`: folders of optional groups, which may have no result. Errors:
    LaunchError (BAD_INPUT) if items are done, and one of WHOLE_FILES, or a noted file, is gone.
    """
    known = [folder for folder, processor in folders.items() if processor in WHOLE_FILES and folder not in may_lack]
    wanted = [str(pathlib.PurePath(folder, WHOLE_FILES[folders[folder]])) for folder in known]
    wanted += [name for attempt in job.attempts(index) for name in attempt.get("records", ())]
    if done and (gone := [name for name in wanted if name not in names]):
        raise InputError(
            f"{done} items of shard {index} are done, but their results in {job.place(index) / gone[0]} are missing",
            f"Restore the file; or remove {job.place(index)} and run the shard again to make them all",
        )


TRY_AGAIN = int(ExitCode.SINK_UNAVAILABLE)  # EX_TEMPFAIL

DONE, AGAIN, FINAL = "done", "again", "final"
# With dead letters the shard's record counts them; shard_record.outcome_of() has the exception.
OF_DONE = (ExitCode.OK, ExitCode.DEAD_LETTERS)
OF_AGAIN = (
    ExitCode.SINK_UNAVAILABLE,
    ExitCode.DEVICE_BROKEN,
    ExitCode.PRODUCER_GONE,
    ExitCode.NO_SUCH_RUN,
    ExitCode.INTERRUPTED,  # SIGTERM with input left
    ExitCode.RUN_IN_USE,  # another attempt at the shard, on this host
    # Another host may have what this one lacks, or this one may have it later. Engines limit the number of tries.
    ExitCode.SYSTEM,
    ExitCode.CANNOT_WRITE,
    ExitCode.SHARED_MEMORY_FULL,
    ExitCode.DEVICE_OUT_OF_MEMORY,
    ExitCode.NO_INPUT,  # a mount is missing: the job began with this input
)
FATES = {code: DONE if code in OF_DONE else AGAIN if code in OF_AGAIN else FINAL for code in ExitCode}
FIRST_SIGNAL = 128


def fate_of(code):
    """The fate of a shard whose run ended with this code. Above FIRST_SIGNAL: a program was killed or lost."""
    return FATES.get(code, AGAIN if code > FIRST_SIGNAL else FINAL)


def exit_of(code):
    """The shard's exit code for its run's."""
    return {DONE: int(ExitCode.OK), AGAIN: TRY_AGAIN, FINAL: code}[fate_of(code)]


def final_codes():
    """A shard's permanent exit codes, ascending. DEAD_LETTERS is one of them with --strict."""
    return sorted({int(code) for code, fate in FATES.items() if fate == FINAL} | {int(ExitCode.DEAD_LETTERS)})
