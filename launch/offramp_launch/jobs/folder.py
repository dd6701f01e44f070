"""
A job: one run's work, cut into shards for many hosts. The shared folders hold:

    JOB/job.json              written once: id, input (items, identity), shards, output, flags. Other content is
                              refused, with the difference
    JOB/input.list            the list of a folder of images, made when the job began
    JOB/input.index           of a list of images: with it a shard reads only its own part. Its layout, and when there
                              is none, is in common/app/images/list_index.hpp
    JOB/input.items           beside it, until the merge: the items' hashes, which shards' checkpoints link to
    JOB/done/I.json           written once: the outcome of shard I. The first one counts
    JOB/ray/I.log             the output of shard I's command under Ray
    JOB/summary.json          of the merge
    OUT/...                   results of single samples, of all shards (OUT: --output, or JOB/output)
    OUT/.offramp-shards/job.json    written once, by `init`: the job that owns the output; also in the folder of
                                    --write-path. Shards refuse to work without it
    OUT/.offramp-shards/I/    of shard I: lock, checkpoint, the files that its consumers append to, attempts/N.json

An attempt at a shard checks that done/I.json does not exist and that the output is the job's; takes an attempt number;
takes the lock; checks again; does the remaining items, from the checkpoint; writes done/I.json; releases the lock. Any
step may be interrupted, and two attempts may be at the same step: they write the same bytes under the same names.
"""

import os
import pathlib
import socket

from offramp_launch.jobs import files as job_files
from offramp_launch.exit_code import ExitCode, LaunchError, NotFoundError, UsageError

VERSION = 1
SHARDS = ".offramp-shards"  # common/app/program/output_share.hpp
# Fields that may differ between two hosts that begin the same job.
NOT_COMPARED = ("id", "made_by")


class Job:
    """Borrows nothing. Errors: LaunchError, if the folder holds no job (NO_INPUT) or something else."""

    def __init__(self, folder, facts):
        self.folder = folder
        self.facts = facts
        self.id = facts["id"]
        self.items = facts["items"]
        self.shards = facts["shards"]
        self.output = pathlib.Path(facts["output"])

    @staticmethod
    def begun(folder, facts):
        """Begins the job here, or finds it with the same facts. Returns (the job, whether it began now)."""
        job_files.make_folder(folder)
        path = folder / "job.json"
        began = job_files.put_once(path, {"version": VERSION, **facts})
        job = Job.found(folder)
        if difference := difference_of(job.facts, {"version": VERSION, **facts}):
            raise UsageError(
                f"{path} belongs to another job: {difference}",
                "Give the same values, or begin this job in another folder",
            )
        return job, began

    @staticmethod
    def found(folder):
        path = folder / "job.json"
        facts = job_files.read(path)
        if facts is None:
            raise NotFoundError(
                f"{folder} is not a job's folder: job.json is missing",
                "Begin one: ./launch/offramp job init --job FOLDER --shards N, with the flags of a run",
            )
        if not isinstance(facts, dict) or facts.get("version") != VERSION:
            raise LaunchError(
                f"{path} has version {facts.get('version') if isinstance(facts, dict) else 'none'}, but this program supports {VERSION}",
                "Continue with the version of Offramp that began the job",
                ExitCode.PROTOCOL,
            )
        return Job(folder, facts)

    def claim_output(self):
        """
        Only the host that begins the job calls this: without the claim a shard knows that its host lacks the mount.
        Errors: LaunchError (USAGE) if the output, or the folder of --write-path, is another job's.
        """
        for _, folder in self.claimed():
            while self.owner_of(folder) is None:  # a merge may remove the claim meanwhile
                path = claim_of(folder)
                job_files.make_folder(path.parent)
                job_files.put_once(path, {"job": self.id, "folder": str(self.folder)})
        self.require_claimed()

    def require_claimed(self):
        """Errors: LaunchError (USAGE) as claim_output(), (NO_INPUT) if a folder has no claim."""
        for flag, folder in self.claimed():
            path = claim_of(folder)
            owner = job_files.read(path)
            if owner is None:
                raise NotFoundError(
                    f"{flag} {folder}: {path.relative_to(folder)}, which job init wrote, is missing",
                    "Mount the same folders on this host as on the job's first, under the same paths. If they are mounted, the job was discarded",
                )
            if owner["job"] != self.id:
                raise UsageError(
                    f"{folder} is the output of job {owner['job']} in {owner['folder']}",
                    f"Give each job its own {flag}",
                )

    @staticmethod
    def owner_of(folder):
        """The id of the job that claimed the folder; None without a claim."""
        claim = job_files.read(claim_of(folder))
        return claim and claim["job"]

    def unclaimed(self):
        """Those of claimed() that have no claim yet."""
        return [(flag, folder) for flag, folder in self.claimed() if self.owner_of(folder) is None]

    def claimed(self):
        """(flag, folder) of each folder that all shards write to."""
        return [
            ("--output", self.output),
            *([("--write-path", pathlib.Path(self.facts["write_path"]))] if self.facts.get("write_path") else []),
        ]

    def require_made_by(self, build):
        """`build`: "VERSION COMMIT", or without COMMIT. Errors: LaunchError (PROTOCOL): results may differ."""
        began = self.facts.get("made_by", "")
        if any(then != now for then, now in zip(began.split(), build.split())):
            raise LaunchError(
                f"{self.folder / 'job.json'} was made by Offramp {began}, and this is {build}",
                "Continue with the version of Offramp that began the job",
                ExitCode.PROTOCOL,
            )

    def require_for_hosts(self):
        """Errors: LaunchError (USAGE) for a job of a run with --gpus (gpus/job.py), which merges its own shards."""
        if self.is_of_one_host():
            raise UsageError(
                f"{self.folder} belongs to a run with --gpus, which merges its own shards",
                "Continue it: ./launch/offramp run --gpus N --resume, with the same flags",
            )

    def is_of_one_host(self):
        """Whether it is the job of a run with --gpus."""
        folder = pathlib.Path(os.path.realpath(self.folder))
        return (folder.parent.name, folder.name) == (SHARDS, "job")

    def list_of_input(self):
        """None if the input is not a folder of images."""
        return self.folder / "input.list" if self.facts["listed"] else None

    def flags_of_input(self):
        """For programs that read the job's input."""
        index = self.folder / "input.index"
        usable = is_utf8(index) and index.exists()
        return {"--input-list": self.list_of_input(), "--input-index": index if usable else None}

    def place(self, index):
        return self.output / SHARDS / str(index)

    def items_of(self, index):
        """As in common/app/settings/parsed_values.hpp."""
        return self.items // self.shards + (index < self.items % self.shards)

    def record_path(self, index):
        return self.folder / "done" / f"{index}.json"

    def record(self, index):
        """The shard's record; None if it is not done. Errors: LaunchError (USAGE) for the record of another job."""
        record = job_files.read(self.record_path(index))
        if record is not None and (record.get("job"), record.get("index"), record.get("items")) != (
            self.id,
            index,
            self.items_of(index),
        ):
            raise UsageError(
                f"{self.record_path(index)} belongs to shard {record.get('index')} of job {record.get('job')}, not to shard {index} of job {self.id}",
                "If you no longer need that job, remove the record; the shard then counts as not done",
            )
        return record

    def records(self):
        """The records of the shards that are done, by index."""
        return {index: self.record(index) for index in numbers_in(self.folder / "done") if index < self.shards}

    def missing(self, records):
        """The shards that are not among the records."""
        return [index for index in range(self.shards) if index not in records]

    def require(self, index):
        if not 0 <= index < self.shards:
            raise UsageError(
                f"shard {index} does not exist: the job has {self.shards} shards",
                f"Give an index from 0 to {self.shards - 1}",
            )

    def note_done(self, index, record):
        """Returns whether this attempt's record is the one that counts."""
        job_files.make_folder(self.folder / "done")
        return job_files.put_once(
            self.record_path(index),
            {"version": VERSION, "job": self.id, "index": index, "items": self.items_of(index), **record},
        )

    def begin_attempt(self, index):
        """Creates this attempt's note, with a unique number. Returns its path. Errors: LaunchError, without a claim."""
        folder = self.place(index) / "attempts"
        for each in (folder.parent, folder):
            job_files.make_folder(each, parents=False)
        number = len(os.listdir(folder))
        while not job_files.put_once(folder / f"{number}.json", {"host": socket.gethostname(), "pid": os.getpid()}):
            number += 1
        return folder / f"{number}.json"

    def attempts(self, index):
        """The notes of the shard's attempts, the latest last."""
        folder = self.place(index) / "attempts"
        return [job_files.read(folder / f"{number}.json") or {} for number in numbers_in(folder)]


def is_utf8(path):
    """Whether a program's settings, which are UTF-8, can hold the path."""
    try:
        return bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def numbers_in(folder):
    """The numbers of the files NUMBER.json, ascending."""
    names = os.listdir(folder) if folder.is_dir() else []
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def claim_of(folder):
    return folder / SHARDS / "job.json"


def difference_of(there, wanted):
    """Such as "shards was 4 and is 8"; empty if the two are equal."""
    differences = []
    for name in sorted({*there, *wanted}.difference(NOT_COMPARED)):
        was, is_now = there.get(name), wanted.get(name)
        if isinstance(was, dict) and isinstance(is_now, dict):
            differences += [difference for difference in [difference_of(was, is_now)] if difference]
        elif was != is_now:
            differences.append(f"{name} was {shown(was)} and is {shown(is_now)}")
    return ", ".join(differences)


def shown(value):
    return "none" if value in (None, "") else " ".join(value) if isinstance(value, list) else str(value)
