"""
Cuts the power: records what a run does to its output folder, rebuilds what the disk may hold after a power cut at any
step, and resumes the run from there.

    python3 -m tests.crash.power_cuts [KIND...]                  40 states of each kind of results
    python3 -m tests.crash.power_cuts --states 1000 --seed 7     more
    python3 -m tests.crash.power_cuts --recording FOLDER --seed 7   a failure again: that recording, these choices

tests/support/recorded_disk.py describes what a disk may lose. --states of the rebuilt states are resumed. With
--durable every state is also examined: no finished result may be lost. Without it, a resumed run may lack only results
that the checkpoint counts as done, or is refused.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading

from tests.support.database_rows import database_rows
from tests.support.launched_job import JobWorld
from tests.support.launched_resume import World
from tests.support.real_run import BIN, OWN, left_behind
from tests.support.recorded_disk import OF_FILES, OF_FOLDERS, Recording, environment, put, tree

JOBS = 2
RECORDER = BIN / "tests" / "libofframp_disk_recorder.so"
COPY = "--device cpu --model copy --consumers 2 --slabs 4 --status-seconds 0.05".split()
# Codes with which a run may refuse a damaged output: wrong use, damaged data, absent or unwritable files, segments.
REFUSALS = (64, 65, 66, 73, 75, 76)
LOOP = """
    import numpy, offramp

    def batch(number):
        return [f"{4 * number + row}" for row in range(4)], numpy.arange(24, dtype="float32").reshape(4, 6) + number

    with offramp.Egress(slabs=4, samples_per_slab=4) as egress:
        for keys, values in egress.pending(map(batch, range(6))):
            egress.submit({"out": values}, keys)
"""


class CutWorld(World):
    """A run whose output is on the recorded disk."""

    def __init__(self, kind, durable):
        super().__init__(*kind.flags, *(("--durable",) if durable else ()))
        self._prepare(kind)

    def _prepare(self, kind):
        self.kind = kind
        self.disk, self.log = self.folder / "disk", self.folder / "recorded"
        self.disk.mkdir()
        self.output = self.disk / "output"
        self.environment.update(kind.environment)

    def call_all(self, resumes):
        """Runs to the end. Returns the exit code."""
        return self.start(*(("--resume",) if resumes else ())).wait()

    def record(self, failing=None):
        """Runs it with the recorder. Returns the exit code."""
        with self.with_recorder(failing):
            return self.call_all(resumes=False)

    @contextlib.contextmanager
    def with_recorder(self, failing=None):
        before = self.environment
        self.environment = {**before, **environment(RECORDER, self.disk, self.log)}
        if failing:
            self.environment["OFFRAMP_TEST_DISK_FAIL"] = failing
        try:
            yield
        finally:
            self.environment = before

    def moved(self, state, root):
        """The state of a disk that was at `root`."""
        return state

    def note(self, durable, made):
        """Describes the recording in its folder. `made`: the folder with the kind's files."""
        notes = {"kind": self.kind.name, "durable": durable, "made": str(made)}
        (self.folder / "recording.json").write_text(json.dumps(notes))

    def has_failed(self):
        """What is wrong with a run that ended with 0."""
        samples = self.summary()["samples"]
        return "" if samples.get("dead_letters", 0) == samples.get("dropped_when_full", 0) == 0 else f"lost: {samples}"


class CutJob(CutWorld, JobWorld):
    """A job of two shards, whose commands are repeated after the cut."""

    def __init__(self, kind, durable):
        JobWorld.__init__(self, *kind.flags, *(("--durable",) if durable else ()))
        self._prepare(kind)
        self.job = self.disk / "job"
        self.printed = ""

    def call_all(self, resumes):
        for name, command in (
            ("init", lambda: self.init(2)),
            ("shard 0", lambda: self.call("shard", "--job", self.job, "--index", 0)),
            ("shard 1", lambda: self.call("shard", "--job", self.job, "--index", 1)),
            ("merge", self.merge),
        ):
            code, printed = command()
            self.printed += f"--- {name}: {code}\n{printed}"
            if code != 0:
                return code
        return 0

    def moved(self, state, root):
        """The job's files contain their folder's name."""
        here, there = os.fsencode(self.folder), os.fsencode(root.parent)
        assert len(here) == len(there)
        return {path: content and content.replace(there, here) for path, content in state.items()}

    def has_failed(self):
        return "" if self.job_summary()["conserved"] else f"lost: {self.job_summary()}"

    def logs(self):
        return self.printed


class CutPartialJob(CutJob):
    """The first of two shards, merged."""

    def call_all(self, resumes):
        self.init(2)
        self.call("shard", "--job", self.job, "--index", 0)
        code, self.printed = self.merge("--partial")
        return code


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of results, and the run that makes it."""

    name: str
    flags: tuple
    items: int
    world: type = CutWorld
    environment: dict = dataclasses.field(default_factory=dict)
    refusals: tuple = REFUSALS
    failed: int = 73  # exit code after an operation of the disk that failed
    made: pathlib.Path | None = None  # folder with its files


def kinds(folder):
    """The kinds of results. `folder` gets the files that they need."""
    return {kind.name: dataclasses.replace(kind, made=folder) for kind in kinds_in(folder)}


def kinds_in(folder):
    found = [
        Kind(
            "samples",
            (
                *COPY,
                *"--processor mask-png,mask-rle,records,npy --copy-outputs 5x24x32 --batch 4 --batches 6".split(),
            ),
            24,
        ),
        Kind(
            "rows",
            (
                *COPY,
                *"--processor checksum,embeddings-sqlite --copy-outputs 48 --batch 8 --samples-per-slab 4".split(),
                *"--batches 4".split(),
            ),
            32,
        ),
        Kind(
            "job",
            (*COPY, *"--processor checksum,records,npy --copy-outputs 48 --batch 4 --batches 4".split()),
            16,
            CutJob,
            failed=75,  # a shard's host may be the reason: another may succeed
        ),
    ]
    if importlib.util.find_spec("pyarrow") and (BIN.parent / "lib" / "libofframp_parquet.so").exists():
        found.append(
            Kind(
                "parquet",
                (
                    *COPY,
                    *"--processor embeddings-parquet --copy-outputs 48 --batch 8 --samples-per-slab 4".split(),
                    *"--batches 4".split(),
                ),
                32,
            )
        )
    if importlib.util.find_spec("numpy"):
        found.append(loop_in(folder))
    if importlib.util.find_spec("torch") and (BIN.parent / "lib" / "libofframp_models.so").exists():
        found.append(tiles_in(folder))
    return found


def loop_in(folder):
    """A loop in Python as the producer."""
    loop = folder / "loop.py"
    loop.write_text(textwrap.dedent(LOOP))
    flags = ("--consumers", "2", "--processor", "npy", "--producer", shlex.join([sys.executable, str(loop)]))
    return Kind(
        "loop",
        flags,
        24,
        environment={"OFFRAMP_LIBRARY": str(BIN.parent / "lib" / "libofframp.so")},
        refusals=(*REFUSALS, 1),  # of an exception
        failed=1,
    )


def tiles_in(folder):
    """Masks of pictures in tiles."""
    import torch

    class Colours(torch.nn.Module):
        def forward(self, x):
            return torch.cat((x.mean(1, keepdim=True) + 0.02, x), 1)

    from tests.system.test_tiles import NOTES, noise

    torch.jit.script(Colours().eval()).save(str(folder / "Colours.pt"))
    (folder / "Colours.toml").write_text(NOTES)
    images = folder / "images"
    images.mkdir(exist_ok=True)
    for seed, size in enumerate(((150, 90), (70, 133))):
        noise(size, seed).save(images / f"{seed}.png")
    flags = (
        *("--model", str(folder / "Colours.pt"), "--input", str(images)),
        *"--device cpu --tile 64 --overlap 12 --batch 4 --samples-per-slab 4 --slabs 4 --consumers 2".split(),
    )
    return Kind("tiles", flags, 0)


# --- what the disk holds ---


CHOICES = {
    "nothing": lambda step, block: False,
    "everything": lambda step, block: True,
    "names without bytes": lambda step, block: step.kind in OF_FOLDERS,
    "names and sizes without bytes": lambda step, block: True if step.kind in OF_FOLDERS else "zeros",
    "bytes without names": lambda step, block: step.kind in OF_FILES,
}


@dataclasses.dataclass(frozen=True)
class Cut:
    at: int
    choice: str  # of CHOICES, or "some SEED"

    def choose(self):
        if self.choice in CHOICES:
            return CHOICES[self.choice]
        chance = random.Random(self.choice)
        share = chance.choice((0.2, 0.5, 0.8))
        return lambda step, block: (
            (chance.random() < share)
            and (True if step.kind not in OF_FILES else chance.choice((True, True, True, "zeros")))
        )


class Recorded:
    """One undisturbed run, recorded, or a kept recording."""

    def __init__(self, kind, durable, kept=None):
        self.kind, self.durable = kind, durable
        self.world = kind.world(kind, durable)
        self.is_kept = kept is not None
        if kept:
            shutil.rmtree(self.world.folder)
            self.world.folder, self.world.disk, self.world.log = kept, kept / "disk", kept / "recorded"
        else:
            self.world.note(durable, kind.made)
            code = self.world.record()
            assert code == 0, self.world.logs()
        self.real = tree(self.world.disk)
        self.wanted = results_of(self.real)
        self.series = set(items_of(self.real))
        self.recording = Recording(self.world.disk, self.world.log)

    def differences(self):
        """Paths whose replayed content differs from the real one. Bytes of mapped files are not recorded."""
        real = self.real
        replayed = self.recording.state(len(self.recording.steps), CHOICES["everything"])
        return {
            path
            for path in {*real, *replayed}
            if real.get(path, "absent") != replayed.get(path, "absent") and path not in self.recording.mapped()
        }

    def forgetting(self, *patterns):
        """The same run, as if the programs had not flushed these paths."""
        forgetful = object.__new__(Recorded)
        forgetful.__dict__ |= self.__dict__
        forgetful.recording = Recording(self.world.disk, self.world.log, patterns)
        return forgetful

    def cuts(self, seed, random_ones=1):
        return [
            Cut(at, choice)
            for at in self.recording.cuts()
            for choice in (*CHOICES, *(f"some {seed}-{at}-{number}" for number in range(random_ones)))
        ]

    def state(self, cut):
        return rebooted(self.recording.state(cut.at, cut.choose()))

    def describe(self, cut):
        steps = self.recording.steps
        return (
            f"{self.kind.name} {'with' if self.durable else 'without'} --durable, cut after step {cut.at} of {len(steps)} "
            f"({steps[cut.at - 1]}), unflushed there: {cut.choice}"
        )


def rebooted(state):
    """Without files of memory, and with marks of another boot than this one."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    other = boot[:-4] + (b"0000" if boot[-4:] != b"0000" else b"0001")
    return {
        path: content.replace(boot, other) if content and "/.offramp-made-" in path else content
        for path, content in state.items()
        if not path.endswith("-shm")
    }


def is_result(path):
    """Whether the path has no hidden part of Offramp."""
    return "/.offramp-" not in f"/{path}"


def results_of(state):
    """{path: bytes or rows} of the final names below the output."""
    found = {}
    for path, content in state.items():
        if content is None or not path.startswith("output/") or not is_result(path):
            continue
        if path.endswith(".sqlite"):
            found[path] = rows_of(state, path)
        elif not path.endswith(("-wal", "-shm", "-journal")):
            found[path] = content
    return found


def rows_of(state, path):
    """{table: rows} of the database with its log, as SQLite reads them after the cut; a text if it cannot."""
    return rows_in(*(state.get(path + end) for end in ("", "-wal", "-journal")))


@functools.lru_cache(maxsize=256)
def rows_in(content, log, journal):
    with tempfile.TemporaryDirectory(prefix="offramp-rows-") as folder:
        path = pathlib.Path(folder, "rows.sqlite")
        for end, each in (("", content), ("-wal", log), ("-journal", journal)):
            if each is not None:
                path.with_name(path.name + end).write_bytes(each)
        try:
            with contextlib.closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA synchronous = OFF")
                (sound,) = database.execute("PRAGMA integrity_check").fetchone()
            return database_rows(path) if sound == "ok" else f"damaged: {sound}"
        except sqlite3.Error as problem:
            return f"damaged: {problem}"


CHECKPOINTS = ("/.offramp-checkpoint", "/.offramp-egress")


def done_in(state):
    """Items that the checkpoints and the records of a job's shards count as done."""
    found = set()
    for path, content in state.items():
        if path.startswith("job/done/") and path.endswith(".json") and not pathlib.PurePath(path).name.startswith("."):
            with contextlib.suppress(ValueError):
                record = json.loads(content)
                found |= set(range(record["index"] * record["items"], (record["index"] + 1) * record["items"]))
        if path.endswith(CHECKPOINTS):
            for line in (content or b"").split(b"\n")[1:-1]:
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    for begin, end, *_ in json.loads(line)["done"]:
                        found |= set(range(begin, end))
    return found


ENDINGS = (".png", ".npy", ".tsv", ".jsonl", ".sqlite", ".parquet")
LINE = re.compile(rb'^(?:\{"item":)?(\d+)[,\t]', re.M)


SHARDS = "output/.offramp-shards/"


def items_of(state, below="output/"):
    """
    {result: its items} of the results below a folder, of runs whose keys are item numbers. Those in the folders of a
    job's shards do not count as results of the job.
    """
    found = collections.defaultdict(set)
    for path, content in state.items():
        if content is None or not path.startswith(below) or not path.endswith(ENDINGS):
            continue
        if path.startswith(SHARDS) and not below.startswith(SHARDS):
            continue
        name = pathlib.PurePath(path)
        if name.suffix in (".png", ".npy") and is_result(path):
            found[name.parent.name].add(int(name.name.split(".")[0]))
        elif name.suffix == ".parquet":
            rows = rows_of_parquet(content)
            if not isinstance(rows, str):
                found[name.parent.name] |= {row[2] for row in rows["embeddings"]}
        elif name.parent.name == "embeddings-parquet":
            found[name.parents[2].name] |= set(items_of_vectors(content))
        elif name.suffix in (".tsv", ".jsonl"):
            # in OUTPUT/NAME/.offramp-segments/SERIES, or merged in OUTPUT/NAME
            folder = name.parents[2] if ".offramp-segments" in name.parts else name.parent
            found[folder.name] |= {int(item) for item in LINE.findall(content)}
        elif name.suffix == ".sqlite":
            rows = rows_of(state, path)
            for table in ("embeddings", "records"):
                if not isinstance(rows, str) and table in rows:
                    # `records` has the item first, `embeddings` after key and output
                    found[table] |= {row[0 if table == "records" else 2] for row in rows[table]}
    return found


def items_of_vectors(segment):
    """The items of whole rows (consumer/sinks/parquet/vector_rows.hpp)."""
    while len(segment) >= 16:
        size, _, item = struct.unpack_from("<IIQ", segment)
        if not 16 <= size <= len(segment):
            return
        yield item
        segment = segment[size:]


@functools.lru_cache(maxsize=16)
def rows_of_parquet(content):
    """{table: rows}, as of a database; a text if it cannot be read."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(content))
        return {"embeddings": list(zip(*(table[name].to_pylist() for name in ("key", "output", "item", "vector"))))}
    except (pyarrow.ArrowException, OSError, KeyError) as problem:
        return f"damaged: {problem}"


# --- what is promised ---


def lost_results(recorded, state):
    """Items that a checkpoint or a shard's record counts as done, without their results in its folder."""
    wrong = []
    for path in [path for path in state if path.endswith(CHECKPOINTS) or path.startswith("job/done/")]:
        done = done_in({path: state[path]})
        # A shard's results are in its own folder until they are merged.
        folder = SHARDS if path.startswith("job/done/") else path[: path.rfind("/") + 1]
        made = [items_of(state, each) for each in {folder, "output/" if folder.startswith(SHARDS) else folder}]
        for series in sorted(recorded.series):
            if lost := sorted(done.difference(*(each[series] for each in made))):
                wrong.append(f"done by {path}, but without {series}: items {lost}")
    return wrong


def examine(recorded, state):
    """What is wrong with a state of a durable run, without a resumed run."""
    wrong = []
    for path, content in results_of(state).items():
        if isinstance(content, str):
            wrong.append(f"{path} is {content}")
        elif isinstance(content, bytes) and content != recorded.wanted.get(path):
            wrong.append(f"{path} is half-written")
    return wrong + (lost_results(recorded, state) if recorded.kind.items else [])


def examine_end(recorded):
    """What is wrong if the power is cut after the run's end: everything must be on the disk."""
    state = recorded.state(Cut(len(recorded.recording.steps), "nothing"))
    there = results_of(state)
    wrong = [
        f"the finished run has lost {path}" for path, content in recorded.wanted.items() if there.get(path) != content
    ]
    # A journal would undo the last commit, and segments would look as if they had not been merged.
    wrong += [
        f"{path} comes back"
        for path, content in state.items()
        if path not in recorded.real and content is not None and (is_result(path) or "/.offramp-segments/" in path)
    ]
    wrong += [
        f"the finished job has lost {path}"
        for path, content in recorded.real.items()
        if path.startswith("job/") and is_result(path) and state.get(path) != content
    ]
    if recorded.kind.items and (lost := set(range(recorded.kind.items)) - done_in(state)):
        wrong.append(f"the checkpoint of the finished run lacks items {sorted(lost)}")
    return wrong


def resume(recorded, cut):
    """Resumes the run from the state. Returns (exit code, what is wrong, the end of its log)."""
    state = recorded.state(cut)
    world = recorded.kind.world(recorded.kind, recorded.durable)
    with world:
        put(world.moved(state, recorded.recording.root), world.disk)
        try:
            code = world.call_all(resumes=True)
        except subprocess.TimeoutExpired:
            return None, ["it hangs"], world.logs()
        there = tree(world.disk)
        wrong = [f"left in /dev/shm: {left}"] if (left := left_behind(world.shared_memory)) else []
        log = world.logs()
        if code == 0:
            wrong += [failed] if (failed := world.has_failed()) else []
            wrong += compare(recorded, state, there)
        elif recorded.durable or code not in recorded.kind.refusals:
            wrong.append(f"exit code {code} with --resume")
        elif str(world.disk) not in log:
            wrong.append(f"exit code {code} without the file's name")
    return code, wrong, log


def compare(recorded, state, there):
    """Differences of the resumed run's results from the undisturbed run's that are not allowed."""
    wanted, found = recorded.wanted, results_of(there)
    wrong = [f"it makes {path}" for path in sorted(found.keys() - wanted.keys())]
    leftovers = [
        path
        for path, content in there.items()
        if content is not None
        and not is_result(path)
        and not path.endswith((*CHECKPOINTS, *(f"/{name}" for name in OWN)))
        and "/.offramp-made-" not in path
        and path.startswith("output/")
    ]
    wrong += [f"it leaves {path}" for path in leftovers]
    may_lack = set() if recorded.durable else done_in(state)
    for path, content in wanted.items():
        if found.get(path) == content:
            continue
        is_allowed = not recorded.durable and (
            lacks_only(path, content, found.get(path), may_lack) if recorded.kind.items else bool(may_lack)
        )
        if not is_allowed:
            wrong.append(f"{path} {'differs' if path in found else 'is missing'}")
    return wrong


def lacks_only(path, wanted, found, items):
    """Whether a result differs from the wanted one only in these items."""
    if path.endswith(".parquet"):
        wanted, found = rows_of_parquet(wanted), found and rows_of_parquet(found)
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return found is None and bool(items)
        column = {"records": 0, "embeddings": 2}
        return all(
            set(map(repr, found.get(table, ()))) <= set(map(repr, rows))
            and all(
                table in column and row[column[table]] in items
                for row in rows
                if repr(row) not in set(map(repr, found.get(table, ())))
            )
            for table, rows in wanted.items()
        )
    if path.endswith((".tsv", ".jsonl")):
        lines, there = wanted.splitlines(keepends=True), (found or b"").splitlines(keepends=True)
        return set(there) <= set(lines) and all(
            (item := LINE.match(line)) and int(item.group(1)) in items for line in lines if line not in there
        )
    return int(pathlib.PurePath(path).name.split(".")[0]) in items


# --- many states ---


@dataclasses.dataclass
class Tally:
    examined: int = 0
    resumed: int = 0
    refused: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    failures: list = dataclasses.field(default_factory=list)

    def fail(self, recorded, text):
        """Notes a failure, and keeps the recording."""
        kept = "" if recorded.is_kept else f"\nThe recording is kept: --recording {recorded.world.folder}"
        recorded.is_kept = True
        self.failures.append(text + kept)


class Cuts:
    """All states of one recorded run. Use as a context."""

    def __init__(self, kind, durable, seed, kept=None):
        self.recorded = Recorded(kind, durable, kept)
        self.seed = seed

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.recorded.is_kept:
            self.recorded.world.kill_everything()
        else:
            self.recorded.world.__exit__(*exception)

    def states(self, most):
        """The cuts with different states, of at most `most` random ones."""
        cuts, seen = self.recorded.cuts(self.seed), set()
        for cut in cuts if most is None else random.Random(self.seed).sample(cuts, min(most, len(cuts))):
            state = self.recorded.state(cut)
            mark = hashlib.sha256()
            for path, content in sorted(state.items()):
                mark.update(f"{path} {len(content or b'')} ".encode())
                mark.update(content or b"")
            if mark.digest() not in seen:
                seen.add(mark.digest())
                yield cut, state

    def examine(self, tally, most=None):
        """Examines the states of a durable run, or at most `most` of them. Returns the cuts, of other runs too."""
        found = []
        for cut, state in self.states(most):
            found.append(cut)
            if not self.recorded.durable:
                continue
            tally.examined += 1
            if wrong := examine(self.recorded, state):
                tally.fail(self.recorded, f"{self.recorded.describe(cut)}: {'; '.join(wrong[:5])}")
        if self.recorded.durable and (wrong := examine_end(self.recorded)):
            tally.fail(
                self.recorded, f"{self.recorded.kind.name} with --durable, cut at the end: {'; '.join(wrong[:5])}"
            )
        return found

    def some(self, cuts, count):
        """`count` of the cuts: each choice in turn, at random steps."""
        chance = random.Random(self.seed)
        by_choice = collections.defaultdict(list)
        for cut in cuts:
            by_choice[cut.choice if cut.choice in CHOICES else "some"].append(cut)
        for each in by_choice.values():
            chance.shuffle(each)
        chosen = []
        while len(chosen) < count and any(by_choice.values()):
            chosen += [each.pop() for each in by_choice.values() if each]
        return [(self.recorded, cut) for cut in chosen[:count]]


def resume_all(chosen, tally):
    """Resumes runs from these states: pairs of a recorded run and a cut."""
    lock = threading.Lock()

    def one(recorded, cut):
        code, wrong, log = resume(recorded, cut)
        with lock:
            tally.resumed += 1
            if code != 0:
                tally.refused[f"{code}: {last_error(log)}"] += 1
            if wrong:
                tally.fail(recorded, f"{recorded.describe(cut)}: {'; '.join(wrong[:5])}\n{log[-1500:]}")

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(one, *zip(*chosen)))


# --- one operation fails ---

# Of each kind: operations with the number of the one that fails, and their paths.
FAULTS = {
    "samples": (
        ("write:2 flush:2 rename:1", "*/.offramp-checkpoint*"),
        ("write:9 flush:2 close:2 rename:2", "*/npy/*"),
        ("write:3 flush:2 close:1 rename:2", "*/.offramp-segments/*"),
        ("write:40 flush:8", "*.sqlite*"),
    ),
    "job": (("write:2 rename:2", "job/done/*"),),
    "loop": (("flush:1", "output/.offramp-*.part"), ("write:1 rename:1", "output/.offramp-egress")),
    "tiles": (("write:9 flush:2", "*/.offramp-tiles/*"),),
}


def faults(kind):
    """Orders for the recorder, which fail with EIO."""
    return [f"{operation}:{paths}" for operations, paths in FAULTS.get(kind, ()) for operation in operations.split()]


def fail(recorded, order):
    """
    Runs it again, with one failing operation, and resumes it. Returns (exit code, what is wrong, the end of the log);
    the code is None if no operation failed.
    """
    kind = recorded.kind
    world = kind.world(kind, recorded.durable)
    with world:
        code = world.record(failing=order)
        matched, wanted = pathlib.Path(f"{world.log}.matched"), int(order.split(":")[1])
        if not matched.exists() or matched.stat().st_size < wanted:
            return None, [], world.logs()
        log, wrong = world.logs(), []
        state = tree(world.disk)
        if code not in (0, kind.failed):
            wrong.append(f"exit code {code}")
        if code != 0 and "Input/output error" not in log and "I/O error" not in log:
            wrong.append(f"exit code {code} without the reason")
        if kind.items:
            recording = Recording(world.disk, world.log)
            on_disk = recording.state(len(recording.steps), CHOICES["nothing"])
            wrong += lost_results(recorded, state) + lost_results(recorded, rebooted(on_disk))
        if code == 0:
            wrong += [failed] if (failed := world.has_failed()) else []
            wrong += compare(recorded, state, state)
        again = world.call_all(resumes=True)
        if again != 0:
            wrong.append(f"exit code {again} with --resume")
            log += world.logs()
        wrong += compare(recorded, state, tree(world.disk))
        wrong += [f"left in /dev/shm: {left}"] if (left := left_behind(world.shared_memory)) else []
        return code, wrong, log


def fail_all(recordings):
    """{order: (exit code, what is wrong, log)} of the faults of these recorded runs."""
    wanted = [(recorded, order) for recorded in recordings for order in faults(recorded.kind.name)]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        outcomes = list(pool.map(lambda each: fail(*each), wanted))
    return {f"{recorded.kind.name} {order}": outcome for (recorded, order), outcome in zip(wanted, outcomes)}


def last_error(log):
    lines = [line for line in log.splitlines() if "rror" in line or line.startswith("offramp:")]
    return re.sub(r"/tmp/\S*?/(disk/)?", "", lines[-1])[:300] if lines else log[-300:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--states", type=int, default=40, help="states of each kind that are resumed [40]")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--durable", choices=("yes", "no", "both"), default="both")
    parser.add_argument("--recording", type=pathlib.Path, metavar="FOLDER", help="that a failure has kept")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    failed, made = 0, None
    if given.recording:
        notes = json.loads((given.recording / "recording.json").read_text())
        given.kinds, given.durable, made = [notes["kind"]], "yes" if notes["durable"] else "no", notes["made"]
    with contextlib.ExitStack() as stack:
        if made is None:
            made = tempfile.mkdtemp(prefix="offramp-cuts-")
        pathlib.Path(made).mkdir(exist_ok=True)
        stack.callback(shutil.rmtree, made)
        for name, kind in kinds(pathlib.Path(made)).items():
            if given.kinds and name not in given.kinds:
                continue
            for durable in (True, False):
                if given.durable not in ("both", "yes" if durable else "no"):
                    continue
                tally = Tally()
                with Cuts(kind, durable, given.seed, given.recording) as cuts:
                    if differences := cuts.recorded.differences():
                        tally.fail(cuts.recorded, f"the recorder missed {sorted(differences)}")
                    resume_all(cuts.some(cuts.examine(tally), given.states), tally)
                print(
                    f"{name} {'with' if durable else 'without'} --durable: {tally.examined} states examined, {tally.resumed} resumed, "
                    f"{len(tally.failures)} wrong",
                    flush=True,
                )
                for text, count in tally.refused.most_common():
                    print(f"  refused {count} times with {text}")
                for text in tally.failures:
                    print(text, file=sys.stderr)
                failed += len(tally.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
