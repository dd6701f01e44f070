"""`job merge`: joins the outputs of a job's shards into one, with one checkpoint and one summary, as of one run."""

import contextlib
import hashlib
import os
import pathlib

from offramp_launch import sink
from offramp_launch.arguments import take_values, without_values
from offramp_launch.exit_code import (
    NO_ROOM,
    ExitCode,
    InputError,
    LaunchError,
    NotFoundError,
    UsageError,
    WriteError,
    in_one_line,
    way_to_write,
)
from offramp_launch.groups import FLAG as GROUP, groups_in, standalone_group
from offramp_launch.jobs import files as job_files
from offramp_launch.jobs.folder import SHARDS
from offramp_launch.jobs.shard_record import COUNTS, folders_of_processors, groups_summed, may_be_part
from offramp_launch.output_folder import CHECKPOINT, OutputLock, run_noted
from offramp_launch.processes import answer_of
from offramp_launch.summary import group_line, labelled

# Files that a shard's consumers append to, and whose bytes depend only on the items.
MERGED_BY_LINES = (".tsv", ".jsonl", ".parquet")
# SQLite's files beside a database with readers; the last reader removes them.
OF_A_READER = (".sqlite-wal", ".sqlite-shm", ".sqlite-journal")


def print_of_job(text):
    print(f"[job] {text}", flush=True)


def merge(places, job, partial, ask):
    """`ask`: runs a program. If killed at any step, another call completes the merge. Returns the exit code."""
    records = job.records()
    missing = job.missing(records)
    if missing and not partial:
        raise NotFoundError(
            f"{len(missing)} of the job's {job.shards} shards are not done: {as_ranges(missing)}",
            f"Run them (./launch/offramp shard --job {job.folder} --index I), or give --partial to merge the others",
        )
    if not records:
        raise NotFoundError(
            "no shard of the job is done", f"Run them: ./launch/offramp shard --job {job.folder} --index I"
        )
    if not is_merged(job):
        with contextlib.closing(OutputLock(str(job.output), job.id)) as lock:
            if not is_merged(job):  # another merge may have held the lock
                # The programs inherit the lock, and hold it while they write even if the launcher dies.
                merge_output(places, job, records, missing, lambda *words: ask(*words, pass_fds=(lock.fd,)), lock)
    if is_merged(job):
        remove_places(job)
    summary = job_files.read(job.folder / "summary.json")
    print("\n".join(summary_lines(job, summary)), flush=True)
    require_a_result(summary["items"], summary["skipped"])
    if not summary["partial"]:
        require_whole_pictures(job, summary)
    return int(ExitCode.OK)


def merge_output(places, job, records, missing, ask, lock, note=print_of_job):
    """
    Makes a single run's output, then the job's summary. `lock`: the output's. `missing`: shards without a record. Each
    group is merged alone, so that one that fails leaves the others merged. Errors: LaunchError, not of an optional
    group, whose results then stay in the shards' folders for another call.
    """
    require_own(job)
    merging = Merging(places, job, records, ask, note)
    merging.each(merging.join)
    merging.join_checkpoints()
    if not missing:
        merging.each(merging.finish)
    lock.require_in_place()  # the shards' folders are removed next
    job_files.replace(job.folder / "summary.json", summary_of(job, records, missing, merging.not_merged))


class Merging:
    """
    Joins the results, then writes the checkpoint that counts them, then finishes the output. Only a complete output is
    finished, as that also removes files of dead programs: while shards are missing, other hosts may be writing there.
    `ask`: runs a program. `note`: reports failures that are not raised.
    """

    def __init__(self, places, job, records, ask, note):
        self._places, self._job, self._records, self._ask, self._note = places, job, records, ask, note
        before = job_files.read(job.folder / "summary.json") or {}
        left = before.get("not_merged") if before.get("job") == job.id and not before.get("partial") else None
        self._groups = [group for group in groups_in(job.facts["flags"]) if not left or group.name in left] or [None]
        self.not_merged: dict[str, str] = {}  # why, by the name of an optional group that failed

    def each(self, step):
        """
        Errors: LaunchError, the first of step(group), but not of an optional group; other groups come first, and their
        failures are noted.
        """
        problems = []
        for group in self._groups:
            if group and group.name in self.not_merged:
                continue
            try:
                step(group)
            except (LaunchError, OSError) as caught:
                problem = caught if isinstance(caught, LaunchError) else error_of_file(caught)
                if not group or problem.code == ExitCode.INTERRUPTED:
                    raise
                named = LaunchError(f"merging group {group.name}: {problem.what}", problem.fix, problem.code)
                if group.optional:
                    self.not_merged[group.name] = problem.in_one_line()
                    self._note_left_out(named)
                else:
                    problems.append(named)
        for problem in problems[1:]:
            self._note(str(problem))
        if problems:
            raise problems[0]

    def _note_left_out(self, problem):
        why = "The merge succeeds without it, because the group is optional"
        stay = f"Its results stay in {self._job.output / SHARDS}. Fix the cause, then {way_to_merge(self._job)}"
        self._note(f"{problem}\n    {why}. {stay}")

    def join(self, group):
        """Joins the shards' files of a group, or those of a job without groups."""
        parts = {index: self._parts(index, record, group) for index, record in self._records.items()}
        lines = "".join("\t".join((str(index), *names)) + "\n" for index, names in parts.items())
        job = self._job
        command = [str(self._places.consumer()), "join-shards", str(job.items), str(job.shards), *self._flags(group)]
        self._ask([*command, "--output", str(job.output)], lines)
        require_joined(job, parts)

    def _parts(self, index, record, group):
        """The names of a shard's files. Errors: LaunchError, if one is not whole."""
        within = group.name if group else ""
        wanted = {name: digest for name, digest in record["parts"].items() if is_within(name, within)}
        if within in record.get("not_merged", ()):
            self._join_in_place(index, group)
            names = names_of_parts(self._job.place(index), {group.name: group.processor})
            wanted = {name: None for name in names if is_within(name, within)}
        require_merged(self._job, index, within)
        require_parts(self._job, index, wanted)
        return list(wanted)

    def _join_in_place(self, index, group):
        """Does what the shard's run could not do for an optional group."""
        job = self._job
        where = ["--output", str(job.place(index)), "--samples-folder", str(job.output)]
        part = ["--shard", f"{index + 1}/{job.shards}"]
        self._ask([str(self._places.consumer()), "finish", *self._flags(group), *where, *part])

    def join_checkpoints(self):
        states = "".join(
            f"{index} whole\n" if record["done"] == record["items"] else f"{index}\n"
            for index, record in self._records.items()
        )
        job = self._job
        self._ask([str(self._places.producer()), "join-shards", str(job.output), job.id, str(job.shards)], states)

    def finish(self, group):
        flags = [*self._flags(group), "--output", str(self._job.output)]
        self._ask([str(self._places.consumer()), "finish", "--run-id", self._job.id, *flags])

    def _flags(self, group):
        flags = self._job.facts["flags"]
        return [*without_values(flags, (GROUP,)), GROUP, standalone_group(group)] if group else flags


def way_to_merge(job):
    if job.is_of_one_host():
        return "continue the run with --resume"
    return f"run ./launch/offramp job merge --job {job.folder}"


def groups_not_merged(job):
    """Why, by the name of an optional group that the last merge left out."""
    return (job_files.read(job.folder / "summary.json") or {}).get("not_merged") or {}


def lines_not_merged(job, not_merged):
    for name, why in not_merged.items():
        yield "  " + in_one_line(f"group {name} is not merged: {why}\nFix it, then {way_to_merge(job)}")


def error_of_file(problem):
    """The LaunchError for an OSError of a file of the job."""
    kind = WriteError if problem.errno in NO_ROOM else LaunchError
    what = f"{problem.filename or 'a file of the job'}: {problem.strerror or problem}"
    return kind(what, way_to_write(problem, "Check that the shared folders are mounted on this host"))


def is_within(name, folder):
    return not folder or name.startswith(f"{folder}/")


def is_merged(job):
    """Whether no part of the output is left in the shards' folders."""
    summary = job_files.read(job.folder / "summary.json")
    is_of_job = summary is not None and summary.get("job") == job.id
    return is_of_job and not summary.get("partial") and not summary.get("not_merged")


def require_own(job):
    """Errors: LaunchError (USAGE) if a later run wrote results that the merge would overwrite."""
    if (run := run_noted(job.output)) not in (None, job.id):
        raise UsageError(
            f"{job.output} holds results of run {run}, not of this job",
            "If that run continued a merged part, no merge is needed; to replace its results with the shards', "
            f"remove {job.output / CHECKPOINT} and merge again",
        )


def require_merged(job, index, within="", remedy="", code=ExitCode.BAD_INPUT):
    """
    `within`: a group's folder. Errors: LaunchError if a file that the shard's consumers append to is not whole; the
    record does not show it.
    """
    if segments := sorted((job.place(index) / within).rglob(".offramp-segments/*/*.tsv")):
        raise LaunchError(
            f"{segments[0]} is not joined yet with the other output of shard {index}",
            remedy or f"Remove {job.record_path(index)}, and run the shard again to join it",
            code,
        )


def require_parts(job, index, parts):
    """`parts`: digests by name. Errors: LaunchError (BAD_INPUT) if a finished file is gone or has changed."""
    for name, wanted in parts.items():
        path = job.place(index) / name
        if not path.exists() or (wanted and digest(path) != wanted):
            raise InputError(
                f"{path}, which shard {index} wrote, {'has changed' if path.exists() else 'is missing'}",
                f"Remove {job.record_path(index)} and {job.place(index)}, and run the shard again",
            )


def parts_of(place, names):
    """The files that a shard's run finished, with digests; None where equal rows may differ in bytes."""
    return {name: digest(place / name) if name.endswith(MERGED_BY_LINES) else None for name in names}


def names_of_parts(place, folders):
    """`folders`: of shard_record.folders_of()."""
    return [
        str(name)
        for name in (path.relative_to(place) for path in sorted(place.rglob("*")) if path.is_file())
        if not any(part.startswith(".") for part in name.parts)
        and name.parts[0] != "attempts"
        and not name.name.endswith(OF_A_READER)
        and may_be_part(name, folders)
    ]


def digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def require_joined(job, parts):
    """
    `parts`: names by shard. Errors: LaunchError (COUNT_MISMATCH) if the merge made no file for a part, before shards'
    files are removed.
    """
    for index, names in parts.items():
        for name in names:
            if not (job.output / name).exists():
                raise LaunchError(
                    f"shard {index} wrote {job.place(index) / name}, but the merge did not create {job.output / name}",
                    f"If it is your own file, move it away, remove {job.record_path(index)} and run the shard again; else this is a bug in "
                    "Offramp. The shards' results are unchanged",
                    ExitCode.COUNT_MISMATCH,
                )


def sums(job, records):
    counted = {name: sum(record[name] for record in records.values()) for name in COUNTS}
    groups = groups_summed(record.get("report") or {} for record in records.values())
    return {
        "items": job.items,
        **counted,
        **({"groups": groups} if groups else {}),
        "conserved": sum(record["items"] for record in records.values()) == sum(counted.values()),
    }


def summary_of(job, records, missing, not_merged):
    """`not_merged`: why, by the name of an optional group."""
    whole = sums(job, records)
    return {
        "job": job.id,
        "output": str(job.output),
        "partial": bool(missing),
        "missing": missing,
        "not_merged": not_merged,
        **whole,
        "conserved": whole["conserved"] and not missing and job.items == sum(whole[name] for name in COUNTS),
        "seconds": round(sum(record["seconds"] for record in records.values()), 3),
        "shards": [
            {"index": index, **{name: record[name] for name in ("items", *COUNTS, "attempt", "host", "seconds")}}
            for index, record in records.items()
        ],
    }


def remove_places(job):
    """Removes the shards' folders after the merge; those of another job that has begun there since stay."""
    folders = [folder / SHARDS for _, folder in job.claimed() if job.owner_of(folder) in (None, job.id)]
    for folder in folders:
        job_files.remove_folder(folder, "The output is whole; remove the folder, or merge again")
    with job_files.write_errors(job.folder):
        (job.folder / "input.items").unlink(missing_ok=True)


def require_a_result(items, skipped):
    """Errors: LaunchError (BAD_INPUT) if all items were skipped, whatever --max-errors allows."""
    if skipped == items:
        raise InputError(
            f"none of the {items} items has a result: all were skipped",
            "Check --input, the model, its weights and --precision; a run with --resume tries them again",
        )


def require_whole_pictures(job, whole):
    """
    For --tile. `whole`: the counts over all shards. Errors: LaunchError (CANNOT_WRITE) if a picture lacks tiles and
    none was skipped, dead-lettered or dropped: their results are gone.
    """
    optional = {group.name for group in groups_in(job.facts["flags"]) if group.optional}
    left = sorted(
        path
        for pattern in (".offramp-tiles/*", "*/.offramp-tiles/*")
        for path in job.output.glob(pattern)
        if not path.name.startswith(".") and path.relative_to(job.output).parts[0] not in optional
    )
    if left and not any(whole[name] for name in COUNTS if name != "done"):
        raise WriteError(
            f"{len(left)} {'mask is' if len(left) == 1 else 'masks are'} missing, although all tiles were processed: pictures, or files in {left[0].parent}, "
            "were removed or changed",
            "A run with --resume makes them again. Do not change pictures or output before a run has ended",
        )


def losses(whole):
    reasons = {
        "skipped": "could not be read",
        "dead_letters": "were dead-lettered, as their deliveries failed",
        "dropped": "were given up, as no slab was free",
    }
    return [f"  {name.replace('_', ' '):<10} {whole[name]} items {why}" for name, why in reasons.items() if whole[name]]


def lines_of_groups(whole):
    return labelled(*(("group", group_line(group, "items")) for group in whole.get("groups") or []))


def summary_lines(job, summary):
    yield f"{job.id}: {summary['done']} of {job.items} items of {len(summary['shards'])} shards are in {summary['output']}"
    yield from lines_of_groups(summary)
    yield from losses(summary)
    yield from lines_not_merged(job, summary.get("not_merged") or {})
    if summary["partial"]:
        yield f"  PARTIAL    shards {as_ranges(summary['missing'])} are not in it; merge again when they are done"
        yield f"  or resume  once no shard is running, remove {' and '.join(str(folder / SHARDS) for _, folder in job.claimed())} and start a run with --resume, which makes the rest"
    elif summary["done"] < job.items:
        yield f"  continue   a run with --resume, the job's flags and --output {summary['output']} tries those again"
    yield f"  summary    {job.folder / 'summary.json'}"


def as_ranges(indices):
    """The array syntax of schedulers, "0,3-5"."""
    found: list[list[int]] = []
    for index in indices:
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)


def merge_ranks(places, argv):
    """
    Joins the parts of several ranks (launch/python/offramp/ranks.py), like those of shards.

    The caller holds the ranks' lock, which the program inherits: it holds it while it writes even if both others die.
    May be killed and called again. `--items`: of all ranks.
    """
    given, flags = take_values(argv, ("--ranks", "--items", "--lock-fd", "--output", "--processor"))
    ranks, output, processor = int(given["--ranks"]), pathlib.Path(given["--output"]), given["--processor"]
    flags = [*flags, "--processor", processor, "--output", str(output)]
    folders = folders_of_processors(processor.split(","))
    parts = ([str(rank), *names_of_parts(output / SHARDS / str(rank), folders)] for rank in range(ranks))
    command = [str(places.consumer()), "join-shards", given["--items"], str(ranks)]
    lines = "".join("\t".join(each) + "\n" for each in parts)
    answer_of([*command, *sink.hide_password(flags, os.environ)], lines, pass_fds=(int(given["--lock-fd"]),))
    return int(ExitCode.OK)
