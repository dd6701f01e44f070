"""
A job: one run's work, cut into shards for many hosts. What the folder that they share says of it.

    JOB/job.json              written once: id, input (items, identity), shards, output, flags. Other content is refused, with the difference
    JOB/input.list            what lies in a folder of images, as it was listed when the job began
    JOB/done/I.json           written once: what became of shard I. The first one counts
    JOB/ray/I.log             what shard I's command wrote, where Ray started it
    JOB/summary.json          of the merge
    OUT/...                   results of single samples, of all shards (OUT: --output, or JOB/output)
    OUT/.offramp-shards/job.json    written once, by `init`: whose output it is; in the folder of --write-path, too. Without it no shard does anything
    OUT/.offramp-shards/I/    of shard I: lock, checkpoint, what its consumers append to, attempts/N.json

Steps of a shard's attempt: look for done/I.json, and whether the output is the job's; take a number among the attempts; take the lock; look once more;
do the rest of its items, from its checkpoint on; write done/I.json; give the lock back. Each may be cut off, and two attempts may be at any of them at
once: they write the same bytes under the same names.
"""

import os
import pathlib
import socket

from offramp_launch.jobs import files as job_files
from offramp_launch.exit_code import ExitCode, LaunchError

VERSION = 1
SHARDS = ".offramp-shards"      # common/program/shard_place.hpp
# What two hosts may say differently of one job.
NOT_COMPARED = ("id", "made_by")


class Job:
    """Borrows nothing. Errors: LaunchError, where the folder is none of a job (NO_INPUT) or holds something else."""

    def __init__(self, folder, facts):
        self.folder = folder
        self.facts = facts
        self.id = facts["id"]
        self.items = facts["items"]
        self.shards = facts["shards"]
        self.output = pathlib.Path(facts["output"])

    @staticmethod
    def begun(folder, facts):
        """The job of this folder, which begins with these facts unless it has begun with the same before. Returns (it, whether it began now)."""
        job_files.make_folder(folder)
        path = folder / "job.json"
        began = job_files.put_once(path, {"version": VERSION, **facts})
        job = Job.found(folder)
        if difference := difference_of(job.facts, {"version": VERSION, **facts}):
            raise LaunchError(f"{path} is of another job: {difference}", "Give the same as there, or begin this one in another folder", ExitCode.USAGE)
        return job, began

    @staticmethod
    def found(folder):
        path = folder / "job.json"
        facts = job_files.read(path)
        if facts is None:
            raise LaunchError(f"{folder} holds no job: it has no job.json", "Begin one: ./launch/offramp job init --job FOLDER --shards N, with the flags of a run",
                              ExitCode.NO_INPUT)
        if not isinstance(facts, dict) or facts.get("version") != VERSION:
            raise LaunchError(f"{path} is of version {facts.get('version') if isinstance(facts, dict) else 'none'}, and this program knows {VERSION}",
                              "Go on with the version of Offramp that began the job", ExitCode.PROTOCOL)
        return Job(folder, facts)

    def claim_output(self):
        """
        What whoever begins the job does, and nobody else: by this a shard tells a host that sees these folders from one whose mount is missing.
        Errors: LaunchError (USAGE) where the output, or the folder of --write-path, is another job's.
        """
        for _, folder in self.claimed():
            while self.owner_of(folder) is None:    # also where a merge removes one meanwhile
                path = claim_of(folder)
                job_files.make_folder(path.parent)
                job_files.put_once(path, {"job": self.id, "folder": str(self.folder)})
        self.require_claimed()

    def require_claimed(self):
        """Errors: LaunchError (USAGE) as claim_output(), (NO_INPUT) where nothing says whose the folder is."""
        for flag, folder in self.claimed():
            path = claim_of(folder)
            owner = job_files.read(path)
            if owner is None:
                raise LaunchError(f"{flag} {folder} has no {path.relative_to(folder)}, which job init laid there",
                                  "Mount on this host what the job's first one had, under the same path. Where it is mounted, the job was given up", ExitCode.NO_INPUT)
            if owner["job"] != self.id:
                raise LaunchError(f"{folder} is the output of job {owner['job']} in {owner['folder']}", f"Give each job a {flag} of its own", ExitCode.USAGE)

    @staticmethod
    def owner_of(folder):
        """The job that has claimed it; None where none has."""
        claim = job_files.read(claim_of(folder))
        return claim and claim["job"]

    def unclaimed(self):
        """As claimed(), where that is not so yet."""
        return [(flag, folder) for flag, folder in self.claimed() if self.owner_of(folder) is None]

    def claimed(self):
        """(flag, folder) of all that its shards write to together."""
        return [("--output", self.output), *([("--write-path", pathlib.Path(self.facts["write_path"]))] if self.facts.get("write_path") else [])]

    def require_made_by(self, build):
        """`build`: "VERSION COMMIT"; of a copy the commit may be unknown. Errors: LaunchError (PROTOCOL) for another: it may make other results."""
        began = self.facts.get("made_by", "")
        if any(then != now for then, now in zip(began.split(), build.split())):
            raise LaunchError(f"{self.folder / 'job.json'} was made by Offramp {began}, and this is {build}", "Go on with the version of Offramp that began the job",
                              ExitCode.PROTOCOL)

    def require_for_hosts(self):
        """Errors: LaunchError (USAGE) where it is a run's with --gpus (gpus/job.py), which has its shards done and merged by itself."""
        folder = pathlib.Path(os.path.realpath(self.folder))
        if (folder.parent.name, folder.name) == (SHARDS, "job"):
            raise LaunchError(f"{self.folder} is that of a run with --gpus, which merges what its workers have done", "Go on with it: ./launch/offramp run --gpus N --resume, "
                              "with the flags that it had", ExitCode.USAGE)

    def list_of_input(self):
        """Nothing where the input is not a folder of images."""
        return self.folder / "input.list" if self.facts["listed"] else None

    def place(self, index):
        return self.output / SHARDS / str(index)

    def items_of(self, index):
        """As common/settings/shard.hpp cuts."""
        return self.items // self.shards + (index < self.items % self.shards)

    def record_path(self, index):
        return self.folder / "done" / f"{index}.json"

    def record(self, index):
        """What became of the shard; None where that is not done. Errors: LaunchError (USAGE) for the record of another job."""
        record = job_files.read(self.record_path(index))
        if record is not None and (record.get("job"), record.get("index"), record.get("items")) != (self.id, index, self.items_of(index)):
            raise LaunchError(f"{self.record_path(index)} is of shard {record.get('index')} of job {record.get('job')}, and this is shard {index} of job {self.id}",
                              "Remove it, if that job is not wanted any more: it is as if the shard were not done", ExitCode.USAGE)
        return record

    def records(self):
        """By index, of the shards that are done."""
        names = os.listdir(self.folder / "done") if (self.folder / "done").is_dir() else []
        indices = sorted(int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdigit() and name.endswith(".json"))
        return {index: self.record(index) for index in indices if index < self.shards}

    def require(self, index):
        if not 0 <= index < self.shards:
            raise LaunchError(f"shard {index} is not one of this job, which has {self.shards}", f"Give an index from 0 to {self.shards - 1}", ExitCode.USAGE)

    def note_done(self, index, record):
        """Returns whether this attempt's record is the one that counts."""
        job_files.make_folder(self.folder / "done")
        return job_files.put_once(self.record_path(index), {"version": VERSION, "job": self.id, "index": index, "items": self.items_of(index), **record})

    def begin_attempt(self, index):
        """The path of this attempt's own note, with a number that no other attempt has. Errors: LaunchError, also where the output is not claimed."""
        folder = self.place(index) / "attempts"
        for each in (folder.parent, folder):
            job_files.make_folder(each, parents=False)
        number = len(os.listdir(folder))
        while not job_files.put_once(folder / f"{number}.json", {"host": socket.gethostname(), "pid": os.getpid()}):
            number += 1
        return folder / f"{number}.json"

    def attempts(self, index):
        """What is told of them, the latest last."""
        folder = self.place(index) / "attempts"
        names = [name for name in os.listdir(folder) if name.removesuffix(".json").isdigit()] if folder.is_dir() else []
        return [job_files.read(folder / name) or {} for name in sorted(names, key=lambda name: int(name.removesuffix(".json")))]


def claim_of(folder):
    return folder / SHARDS / "job.json"


def difference_of(there, wanted):
    """"shards was 4 and is 8, ..."; empty where the two say the same."""
    told = []
    for name in sorted({*there, *wanted}.difference(NOT_COMPARED)):
        was, is_now = there.get(name), wanted.get(name)
        if isinstance(was, dict) and isinstance(is_now, dict):
            told += [difference for difference in [difference_of(was, is_now)] if difference]
        elif was != is_now:
            told.append(f"{name} was {shown(was)} and is {shown(is_now)}")
    return ", ".join(told)


def shown(value):
    return "none" if value in (None, "") else " ".join(value) if isinstance(value, list) else str(value)
