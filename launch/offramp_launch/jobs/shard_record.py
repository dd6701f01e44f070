"""What became of a shard, as its run tells it: for the record that says that it is done."""

import pathlib

from offramp_launch.jobs import files as job_files
from offramp_launch.exit_code import ExitCode, LaunchError

# The one file that a processor's consumers append to, with something of each item that is done: `whole` in consumer/processors/plugins.
WHOLE_FILES = {"checksum": "checksums.tsv", "embeddings-parquet": "embeddings.parquet", "embeddings-sqlite": "embeddings.sqlite", "mask-rle": "masks.jsonl",
               "records": "records.sqlite"}
# That of a processor that is not a part of Offramp, which need not have made one.
RECORDS = "records.jsonl"


def account_of(job, index, run_dir, code):
    """
    What became of the shard's items, over all attempts. `code`: its run's. Errors: LaunchError (CANNOT_WRITE) where the run has not told
    it; where that is not all of them (DEAD_LETTERS for a run that ended as slab after slab failed, else COUNT_MISMATCH).
    """
    path = pathlib.Path(run_dir) / "summary.json"
    summary = job_files.read(path)
    if summary is None:
        raise LaunchError(f"{path} is not there, which tells what became of shard {index}", "Make room there, or choose another --run-dir, and run the shard again",
                          ExitCode.CANNOT_WRITE)
    samples = summary.get("samples") or {}
    account = {"done": samples.get("done_before", 0) + samples.get("released", 0), "skipped": samples.get("skipped", 0),
               "dead_letters": samples.get("dead_letters", 0), "dropped": samples.get("dropped_when_full", 0)}
    if sum(account.values()) < job.items_of(index) and code == ExitCode.DEAD_LETTERS:
        raise LaunchError(summary.get("failure") or "the run ended before its input was used up, and its summary says no reason",
                          f"Mend that, and run the shard again, which goes on from there; the run is {run_dir}", ExitCode.DEAD_LETTERS)
    if sum(account.values()) != job.items_of(index):
        raise LaunchError(f"shard {index} has {job.items_of(index)} items, and its run accounts for {sum(account.values())}: {account}",
                          f"This is an error of Offramp's; the run is {run_dir}", ExitCode.COUNT_MISMATCH)
    return account


def processors_of(run_dir):
    return (job_files.read(pathlib.Path(run_dir) / "config.json") or {}).get("processor", "").split(",")


def may_be_part(name, processors):
    """
    Whether a file in a shard's place, by its path there, is one that consumers appended to. Beside that of a processor in WHOLE_FILES lie only files of those
    who read it; what others make is not known here.
    """
    processor, file = (name.parts[0], "/".join(name.parts[1:])) if len(processors) > 1 else (processors[0], str(name))
    return file == WHOLE_FILES.get(processor, RECORDS if ":" in processor else file)


def records_among(names):
    return [name for name in names if pathlib.PurePath(name).name == RECORDS]


def require_whole_files(job, index, processors, done, parts):
    """
    Errors: LaunchError (BAD_INPUT) where items are done, by an earlier attempt's checkpoint, and a file that tells of them is not there any more: one of
    WHOLE_FILES, or that an attempt has noted.
    """
    wanted = [f"{name}/{WHOLE_FILES[name]}" if len(processors) > 1 else WHOLE_FILES[name] for name in processors if name in WHOLE_FILES]
    wanted += [name for attempt in job.attempts(index) for name in attempt.get("records", ())]
    if done and (gone := [name for name in wanted if name not in parts]):
        raise LaunchError(f"{done} items of shard {index} are done, and {job.place(index) / gone[0]}, which tells of them, is gone",
                          f"Put it back; or remove {job.place(index)}, and run the shard again, which then makes all of them", ExitCode.BAD_INPUT)
