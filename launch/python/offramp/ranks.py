"""
One output of several ranks, such as those of torchrun. Each rank has an Egress and consumers of its own. Files of
single samples go to the output itself, everything else to the rank's part, which the last rank merges (jobs/merge.py):

    OUTPUT/...                         files of single samples
    OUTPUT/.offramp-shards/job.json    the work of all ranks
    OUTPUT/.offramp-shards/keys        SQLite: which rank submitted which key
    OUTPUT/.offramp-shards/lock        held during a merge
    OUTPUT/.offramp-shards/I/          rank I's part: its checkpoint, tables and records
    OUTPUT/.offramp-shards/I.done      rank I has drained
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import secrets
import sqlite3
import sys
import threading
from typing import Any, Iterable, Iterator, Mapping, Sequence

from offramp import _validate
from offramp._checkpoint import NAME as CHECKPOINT
from offramp._checkpoint import differences
from offramp._consumers import OPTIONS, flag_of, flags_of, in_python, launcher_environment, run_launcher, values_of
from offramp._dead_letters import DEAD_LETTERS
from offramp._egress import Egress
from offramp._errors import BadArgument, CannotWrite, ConsumersFailed
from offramp._keys import Key, keys_of
from offramp._options import facts_of, require_complete
from offramp.zarr import FIELD

SHARDS = ".offramp-shards"
MOST_RANKS = 1 << 16
ITEMS_OF_A_RANK = 1 << 32  # rank I numbers its samples from I * 2**32: shards of a job have ranges of items
LOCK_SECONDS = 60
DEFAULT_CONSUMERS = 8  # of a rank, at most
ZARR_WRITER = "python:offramp.zarr:Writer"


def egress(
    *,
    output: str | os.PathLike[str],
    processor: str,
    rank: int | None = None,
    ranks: int | None = None,
    consumers: int = 0,
    settings: Mapping[str, object] | None = None,
    identity: str | Mapping[str, object] | None = None,
    resume: bool = False,
    **options: Any,
) -> Egress:
    """
    An Egress of this rank into an output that all ranks share.

        with offramp.ranks.egress(output="OUT", processor="npy", resume=True) as egress:
            for keys, images in egress.pending(loader):    # the rank's own batches
                egress.submit({"logits": model(images)}, keys)

    `rank`, `ranks`: this rank, from 0, and their number. Default: those of torch.distributed if it is initialized, else
    the environment variables RANK and WORLD_SIZE, else 0 of 1. One rank has an ordinary Egress. `consumers`: of this
    rank; 0: its share of the host's cores, at most 8. The other arguments are those of Egress, without `run_dir`.

    Each batch needs keys, and each key belongs to one rank: submit() raises BadArgument for a key of another rank, so
    that no rank replaces the result of another. For offramp.zarr:Writer, each sample also needs metadata: its index,
    under the name that the option `index` gives, or its region. drain() returns when this rank's results are in place.
    The last rank to drain merges tables and records into `output`. If a rank dies, start all ranks again with
    `resume=True`.

    Ranks on several hosts need the output at the same path, on a file system with locks. Errors: BadArgument, also if
    the output has other work: another number of ranks, processor or identity; CannotWrite; those of Egress.
    """
    if rank is None or ranks is None:
        if rank is not ranks:
            raise BadArgument("only one of rank and ranks is given. Give both, or neither under torchrun")
        rank, ranks = rank_of_this_process()
    ranks = _validate.whole("ranks", ranks, MOST_RANKS, f"1 to {MOST_RANKS}", least=1)
    rank = _validate.whole("the rank", rank, ranks - 1, f"0 to {ranks - 1}")
    if options.get("groups"):
        raise BadArgument(
            "groups do not go with ranks yet. Omit groups, and give processors with commas: 'npy,post.py:save'"
        )
    own = {"run_dir": None, "output": output, "processor": processor, "settings": settings, "consumers": consumers}
    require_complete(own)
    arguments = {"processor": processor, "identity": identity, "resume": resume, **options}
    if ranks == 1:
        return Egress(output=output, consumers=consumers, settings=settings, **arguments)
    work = SharedWork(output, rank, ranks, settings or {}, processor)
    return _RankEgress(work, identity, consumers or _default_consumers(), arguments)


def rank_of_this_process() -> tuple[int, int]:
    """(rank, ranks). Errors: BadArgument for environment variables that are not numbers."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    given = {name: os.environ.get(name, default) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"))}
    if wrong := [f"{name}={value}" for name, value in given.items() if not value.isdecimal()]:
        raise BadArgument(f"the environment has {wrong[0]}, which is not a number. Give rank= and ranks=")
    return int(given["RANK"]), int(given["WORLD_SIZE"])


def _default_consumers() -> int:
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    cores = len(os.sched_getaffinity(0)) // (int(local) if local.isdecimal() and int(local) else 1)
    return min(max(cores // 2, 1), DEFAULT_CONSUMERS)


class SharedWork:
    """
    The shared work of all ranks, as one of them sees it. `ranks`: their number; 0: unknown, and each takes the next
    free part. Thread: any, one at a time.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        rank: int,
        ranks: int,
        settings: Mapping[str, object],
        processor: str,
    ):
        if _validate.store_url("output", output):
            raise BadArgument(
                "output is in an object store, which does not go with several ranks. Give a folder that all ranks reach "
                "at the same path, and copy the results from there"
            )
        if refused := [name for name in settings if flag_of(name) in ("overwrite", "samples-folder")]:
            raise BadArgument(
                f"the setting '{refused[0]}' does not go with several ranks. Omit it, or give another output"
            )
        self.output = os.path.abspath(_validate.path("output", output))
        self.rank, self.ranks, self.processor = rank, ranks, processor
        options = values_of(settings).get(OPTIONS, "").split(",")
        self.zarr_index = next((each[6:] for each in options if each.startswith("index=")), "")
        self.writes_zarr = ZARR_WRITER in processor.split(",")
        self.settings = {**settings, "samples-folder": self.output}
        self.folder = pathlib.Path(self.output, SHARDS)

    @property
    def place(self) -> pathlib.Path:
        return self.folder / str(self.rank)

    @property
    def _done(self) -> pathlib.Path:
        return self.folder / f"{self.rank}.done"

    def begin(self, facts: Mapping[str, object], resume: bool) -> None:
        """Joins the work in the output, or begins it. Errors: BadArgument if there is other work; CannotWrite."""
        facts = {"ranks": self.ranks, **facts}
        with _write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            # Listed before job.json is read: a faster rank may have written results since.
            others = [each for each in sorted(os.listdir(self.output)) if each != SHARDS and not _is_foreign(each)]
            earlier = self._read()
            if earlier is None:
                if others:
                    raise BadArgument(
                        f"output {self.output} is not empty: it has {others[0]}, which is not the work of "
                        f"{self.ranks or 'any'} ranks. Give an empty or new folder"
                    )
                self._put({"job": f"ranks-{secrets.token_hex(8)}", "folder": str(self.folder), **facts})
                earlier = self._read() or {}
        self._require_same(earlier, facts)
        if not resume and (self.place / CHECKPOINT).exists():
            raise BadArgument(
                f"output {self.output} has earlier work of rank {self.rank}. Pass resume=True in all ranks to continue it, or "
                "give another output"
            )
        with self._locked():
            self._done.unlink(missing_ok=True)

    def is_begun(self, facts: Mapping[str, object]) -> bool:
        """Whether the output has this work. Only reads. Errors: BadArgument if there is other work; CannotWrite."""
        with _write_errors(self.folder):
            earlier = self._read()
        if earlier is not None:
            self._require_same(earlier, {"ranks": self.ranks, **facts})
        return earlier is not None

    def _require_same(self, earlier: Mapping[str, object], facts: Mapping[str, object]) -> None:
        earlier = {name: fact for name, fact in earlier.items() if name not in ("job", "folder")}
        if other := differences(earlier, facts):
            raise BadArgument(
                f"output {self.output} has other work: {other}. Use the earlier values, or give another output"
            )

    def finish(self) -> None:
        """Records that this rank has drained; the last one merges. Errors: CannotWrite; ConsumersFailed."""
        with self._locked() as lock:
            self._done.touch()
            if all((self.folder / f"{rank}.done").exists() for rank in range(self.ranks)):
                self._merge(self.ranks, lock)

    def take_next_part(self) -> None:
        """Sets `rank` to the number of a part that no process has begun. Errors: CannotWrite."""
        with _write_errors(self.folder):
            for self.rank in itertools.count():
                with contextlib.suppress(FileExistsError):
                    return self.place.mkdir()

    def parts(self) -> range:
        """The parts that take_next_part() has given."""
        with _write_errors(self.folder):
            return range(sum(each.isdecimal() for each in os.listdir(self.folder)))

    def merge(self) -> None:
        """Joins all parts, which are drained. Errors: CannotWrite; ConsumersFailed."""
        with self._locked() as lock:
            self._merge(len(self.parts()), lock)

    def _merge(self, ranks: int, lock: int) -> None:
        flags = flags_of({name: value for name, value in self.settings.items() if name != "samples-folder"})
        command = ["merge-ranks", "--ranks", str(ranks), "--output", self.output]
        command += ["--items", str(ranks * ITEMS_OF_A_RANK), "--lock-fd", str(lock), "--processor", self.processor]
        # The lock is held until the merge's last program exits, also if this process dies.
        code, _, message = run_launcher(*command, *flags, env=launcher_environment(), pass_fds=(lock,))
        if code != 0:
            again = "start all ranks again with resume=True" if self.ranks else "merge again"
            raise ConsumersFailed(
                f"the results of the {ranks} ranks are complete, but not merged: {in_python(message)}. Then {again}",
                code,
            )

    def _read(self) -> dict[str, Any] | None:
        path = self.folder / "job.json"
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise BadArgument(f"{path} is damaged. Give another output")
        return found

    def _put(self, value: Mapping[str, object]) -> None:
        """Creates job.json, unless another rank was faster."""
        temporary = self.folder / f".job.{secrets.token_hex(8)}"
        try:
            temporary.write_text(json.dumps(value, indent=2) + "\n")
            with contextlib.suppress(FileExistsError):
                os.link(temporary, self.folder / "job.json")
        finally:
            temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        with _write_errors(self.folder):
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield lock
            finally:
                os.close(lock)


class _Keys:
    """
    Which rank submitted which key. The file is not flushed to the disk: it only detects mistakes of living programs.
    Thread: any.
    """

    def __init__(self, path: pathlib.Path, rank: int):
        self._path, self._rank = path, rank
        self._lock = threading.Lock()
        with self._errors():
            self._file = sqlite3.connect(path, LOCK_SECONDS, check_same_thread=False)
            self._file.execute("PRAGMA synchronous = OFF")
            self._file.execute("PRAGMA journal_mode = TRUNCATE")
            with self._file:
                self._file.execute("CREATE TABLE IF NOT EXISTS keys (key BLOB PRIMARY KEY, rank INTEGER) WITHOUT ROWID")

    def take(self, keys: Sequence[str]) -> None:
        """Errors: BadArgument if another rank has submitted one of them; then none is taken."""
        rows = [(key.encode(errors="surrogatepass"), self._rank) for key in keys]
        with self._lock, self._errors(), self._file:
            if self._file.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?)", rows).rowcount == len(rows):
                return
            for key, _ in rows:
                [(owner,)] = self._file.execute("SELECT rank FROM keys WHERE key = ?", (key,))
                if owner != self._rank:
                    raise BadArgument(
                        f"the key {key.decode(errors='replace')!r} was submitted by rank {owner}, whose result rank "
                        f"{self._rank} would replace. Give each sample to one rank, also with resume=True, or start with a "
                        "new output: DistributedSampler repeats samples to fill its last batches, "
                        "sampler=range(rank, len(dataset), ranks) does not"
                    )

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            raise CannotWrite(
                f"{self._path}, which ranks share, cannot be written: {problem}. Give an output on a file system with locks"
            ) from problem


class PartEgress(Egress):
    """The Egress of one part of a shared work, which has begun."""

    def __init__(self, work: SharedWork, consumers: int, arguments: Mapping[str, Any]):
        self._work = work
        super().__init__(output=str(work.place), consumers=consumers, settings=work.settings, **arguments)
        self._numbering.begin_at(work.rank * ITEMS_OF_A_RANK)

    def submit(
        self,
        outputs: object,
        keys: Iterable[Key] | None = None,
        items: Iterable[int] | None = None,
        stream: object = None,
        copy: bool | None = None,
        metadata: Iterable[Mapping[str, object] | None] | None = None,
    ) -> None:
        self._require_own()
        if keys is None or items is not None:
            raise BadArgument(
                "ranks share an output by keys, and number the items themselves. Give keys, without items"
            )
        texts = keys_of(keys)
        if self._work.writes_zarr and texts:
            metadata = self._placed(metadata)
        super().submit(outputs, texts, None, stream, copy, metadata)

    def _warn_of_no_batch(self) -> None:
        """A part may have none."""

    def _placed(self, metadata: Iterable[Mapping[str, object] | None] | None) -> Sequence[Mapping[str, object] | None]:
        """The metadata. Errors: BadArgument without a place in the array: items of a rank begin at 2**32."""
        given: Any = () if metadata is None else _validate.one_per_sample("metadata", metadata, "[{'index': 0}]")
        fields = {FIELD, self._work.zarr_index or FIELD}
        if not given or any(not isinstance(each, Mapping) or fields.isdisjoint(each) for each in given):
            raise BadArgument(
                f"{ZARR_WRITER} of several ranks needs each sample's index, as ranks do not count their samples together. "
                "Give its name and the index: settings={'processor-option': {'path': PATH, 'index': 'index'}} and "
                "submit(..., metadata=[{'index': 0}, ...]); or regions of an array of offramp.zarr.create()"
            )
        return list(given)


class _RankEgress(PartEgress):
    """The Egress of one of several ranks. Owns: also its connection to the shared keys."""

    def __init__(
        self,
        work: SharedWork,
        identity: str | Mapping[str, object] | None,
        consumers: int,
        arguments: Mapping[str, Any],
    ):
        self._keys: _Keys | None = None
        resume = _validate.yes_or_no("resume", arguments["resume"])
        work.begin(facts_of(identity, work.processor, work.settings), resume)
        self._keys = _Keys(work.folder / "keys", work.rank)
        super().__init__(work, consumers, arguments)

    def _claim(self, keys: Sequence[str] | None) -> None:
        if self._keys is not None and keys:
            self._keys.take(keys)

    def drain(self, timeout: float | None = None) -> None:
        try:
            super().drain(timeout)
        except ConsumersFailed as problem:
            if problem.code == DEAD_LETTERS:  # the other samples have results
                self._work.finish()
                raise ConsumersFailed(
                    f"{problem}. A retry writes beside the run. To have these samples in {self._work.output}, start all ranks "
                    "again with resume=True",
                    problem.code,
                ) from problem
            raise
        self._work.finish()

    def close(self) -> None:
        super().close()
        if self._keys is not None and self._pid == os.getpid():
            self._keys.close()


def _is_foreign(name: str) -> bool:
    """Hidden names of the file system or desktop, such as .nfs... and .DS_Store."""
    return name.startswith(".") and not name.startswith(".offramp-")


@contextlib.contextmanager
def _write_errors(folder: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise CannotWrite(
            f"{problem.filename or folder} cannot be written: {problem.strerror}. Give an output that all ranks may write "
            "to, on a file system with links and locks"
        ) from problem
