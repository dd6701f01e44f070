"""
FOLDER/.offramp-egress records which batches are done, so that a later run can resume. JSON lines:

    {"offramp_egress": 1, "work": "NAME", "identity": {...}, "tensors": [["logits", "float32", [64, 21]]],
     "slab_bytes": 67108864, "metadata_bytes": 1024}    what the run had; 0: its default
    {"done": [[0, 640, "HASH"], [704, 768, "HASH"]]}        any number; items 0 to 639 and 704 to 767

A batch is done once a consumer has committed the results of all its samples and reported so. The file may lag behind
the results, never lead. HASH is the sum, modulo 2**64, of a hash of each batch's keys and first item number. It detects
a resumed loop with other keys or another order. Incomplete and unknown lines are ignored; their batches are processed
again.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import ctypes
import errno
import fcntl
import hashlib
import io
import json
import os
import secrets
import weakref
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from offramp._errors import BadArgument, CannotWrite

NAME, NEW_NAME = ".offramp-egress", ".offramp-egress.new"
LOCK = ".offramp-lock"  # the launcher's lock on its output folder
VERSION = 1
LEAST_TO_REWRITE = 1 << 20
MODULUS = 1 << 64
SIZES = ("slab_bytes", "metadata_bytes")  # options of the Egress, which a resumed one keeps
MOST_KEY_BYTES = 1 << 24  # of one range, remembered for a message
MOST_RANGES = 1 << 16  # of finished items: each dropped batch leaves a gap
Tensor = list[Any]  # its name, type and shape
_failpoint_hook: Any = getattr(ctypes.CDLL(None), "offramp_failpoint_reached", None)


def failpoint(name: str) -> None:
    """A point at which tests can kill the loop, as in common/base/failpoint.hpp. No effect outside tests."""
    if _failpoint_hook is not None:
        _failpoint_hook(name.encode())


def flush_folder(folder: int) -> None:
    """Returns once the names in the open folder are on the disk. Accepts a file system that cannot flush a folder."""
    try:
        os.fsync(folder)
    except OSError as problem:
        if problem.errno != errno.EINVAL:
            raise


class Done(NamedTuple):
    """Finished items from `begin` to `end` - 1."""

    begin: int
    end: int
    hash: int


class DoneBatches:
    """
    Finished items, as ranges. At twice MOST_RANGES, the shortest ranges are dropped, oldest first, until MOST_RANGES
    remain; their batches are processed again. Thread: one.
    """

    def __init__(self) -> None:
        self._ranges: list[Done] = []  # sorted; they neither overlap nor touch

    def add(self, batch: Done) -> None:
        """Ignores a batch that overlaps finished items."""
        at = bisect.bisect_right(self._ranges, (batch.begin, MODULUS, MODULUS))
        if (
            at > 0
            and self._ranges[at - 1].end > batch.begin
            or at < len(self._ranges)
            and self._ranges[at].begin < batch.end
        ):
            return
        first = last = at
        if at > 0 and self._ranges[at - 1].end == batch.begin:
            first -= 1
        if at < len(self._ranges) and self._ranges[at].begin == batch.end:
            last += 1
        merged = [*self._ranges[first:at], batch, *self._ranges[at:last]]
        self._ranges[first:last] = [Done(merged[0].begin, merged[-1].end, sum(each.hash for each in merged) % MODULUS)]
        if len(self._ranges) >= 2 * MOST_RANGES:
            self._ranges = sorted(
                sorted(self._ranges, key=lambda done: (done.end - done.begin, done.begin))[-MOST_RANGES:]
            )

    def around(self, item: int) -> Done | None:
        """The range that contains the item."""
        at = bisect.bisect_right(self._ranges, (item, MODULUS, MODULUS)) - 1
        return self._ranges[at] if at >= 0 and item < self._ranges[at].end else None

    def list(self) -> list[Done]:
        return list(self._ranges)


class Checkpoint:
    """
    The checkpoint of an Egress. Owns: the folder's descriptor, so that a renamed folder is detected; the file, from the
    first batch on. Writing fails once the path leads to another folder. Thread: submitted() on the loop's; completed()
    and write() on one other; other calls come first. Errors: BadArgument if the file belongs to other work;
    CannotWrite.
    """

    def __init__(self, folder: str, identity: dict[str, str], work: str, resume: bool, durable: bool = False):
        self.path = os.path.join(folder, NAME)
        self._durable = durable  # batches count as done once the disk has them
        self.folder = folder
        self._identity = identity
        self.tensors: list[Tensor] = []  # of the earlier run, then of this one
        self.sizes = dict.fromkeys(SIZES, 0)
        self._folder_fd: int | None = None  # the folder's descriptor
        self._lock: int | None = None  # shares the launcher's lock
        self._file: io.FileIO | None = None
        self._new: io.FileIO | None = None  # kept open, so that its inode number is not reused
        self._bytes = self._rewritten_bytes = 0
        # Submitted batches: first item, samples, keys. Without keys: a batch that no longer counts as done.
        self._submitted: collections.deque[tuple[int, int, bytes | None]] = collections.deque()
        self._open: dict[int, list[int]] = {}  # first item: unfinished samples, samples, hash
        self._firsts: list[int] = []  # keys of _open, sorted
        self._done = DoneBatches()
        self._unwritten: list[Done] = []  # finished, but not in the file yet
        self.earlier = DoneBatches()  # finished by earlier runs; fixed
        self.work = work
        self.resumes = False
        # Gets a batch's first item, and whether all its samples are done (True) or one never will be. Set it before the
        # first batch.
        self.on_end: Callable[[int, bool], None] = lambda first, is_done: None
        _all.add(self)
        if resume and os.path.isdir(folder) and (text := self._read()) is not None:
            self._resume(text)

    def _open_folder(self) -> int:
        """The folder's descriptor. Errors: CannotWrite."""
        if self._folder_fd is None:
            try:
                self._folder_fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as problem:
                raise self._write_error(problem) from problem
        return self._folder_fd

    def _require_in_place(self) -> None:
        """Errors: CannotWrite."""
        try:
            why = (
                ""
                if os.path.samestat(os.fstat(self._open_folder()), os.stat(self.folder))
                else "another folder has its name"
            )
        except OSError as problem:
            why = problem.strerror or str(problem)
        if why:
            raise CannotWrite(
                f"the folder {self.folder} was moved, unmounted or replaced while results were written to it ({why}): no further results "
                "are recorded. Put it back or mount it again, and continue with resume=True"
            )

    def _share_lock(self) -> None:
        """Shares the launcher's lock on the folder, so that the folder stays locked if the launcher dies."""
        with contextlib.suppress(OSError):
            self._lock = os.open(
                LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._open_folder()
            )
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def _unlock(self) -> None:
        """Releases the lock, also for forked children that inherited it."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        self.close_lock()

    def close_lock(self) -> None:
        """Closes the lock without releasing it, for a forked child."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _read(self) -> bytes | None:
        try:
            with open(
                os.open(NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._open_folder()),
                "rb",
            ) as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise CannotWrite(
                f"the checkpoint {self.path} cannot be read: {problem.strerror}. Make it an ordinary file that this user may read, or remove "
                "it to process everything again"
            ) from problem

    def _resume(self, text: bytes) -> None:
        first, *lines = text.split(b"\n")
        lines = lines[:-1]  # the last line is incomplete
        try:
            header = json.loads(first)
            earlier, work, tensors = header["identity"], header["work"], header["tensors"]
            sizes = {name: header.get(name, 0) for name in SIZES}
            known = (
                header["offramp_egress"] == VERSION
                and isinstance(earlier, dict)
                and isinstance(work, str)
                and isinstance(tensors, list)
                and all(type(size) is int and 0 <= size < 1 << 44 for size in sizes.values())
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            known = False
        if not known:
            raise BadArgument(
                f"{self.path} is not a checkpoint of an Egress, or has another version. Remove it to process everything again"
            )
        self._require_same(earlier, self._identity)
        self.work, self.tensors, self.sizes, self.resumes = work, tensors, sizes, True
        for line in lines:
            try:
                for begin, end, digest in json.loads(line)["done"]:
                    if 0 <= begin < end:
                        self._done.add(Done(begin, end, int(digest, 16)))
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        for done in self._done.list():
            self.earlier.add(done)

    def _require_same(self, earlier: Mapping[str, object], now: Mapping[str, object]) -> None:
        if other := differences(earlier, now):
            raise BadArgument(
                f"{self.folder} has results of other work: {other}. Use the earlier values, or omit resume=True and give "
                "another output"
            )

    def require_same(self, tensors: list[Tensor]) -> None:
        """Checks the first batch's tensors before the run opens. Errors: BadArgument."""
        if self.resumes:
            self._require_same(
                {name: describe(rest) for name, *rest in self.tensors},
                {name: describe(rest) for name, *rest in tensors},
            )
        self.tensors = tensors

    def begin(self, in_place: bool) -> None:
        """
        Writes the file: in place, or for the launcher to move into place after it has checked the folder. A resumed
        file stays unchanged until the first batch is done, because another loop may still add to it.
        """
        if not in_place:
            try:
                os.makedirs(self.folder, exist_ok=True)
            except OSError as problem:
                raise CannotWrite(
                    f"output {self.folder} cannot be written: {problem.strerror}. Give a folder that you may write to"
                ) from problem
        self._require_in_place()
        if in_place:
            self._share_lock()
            self._rewrite()
        elif not self.resumes:
            self._new = self._put(NEW_NAME, self._header())
            self._close_folder()  # the launcher may give the folder another name

    def submitted(self, first: int, samples: int, keys: bytes | None) -> None:
        """Records a batch before the library receives it."""
        self._submitted.append((first, samples, keys or b""))

    def changed(self, first: int) -> None:
        """
        Marks a submitted batch as not done: its tensors changed before the copy, or the library did not accept it.
        Thread: any.
        """
        self._submitted.append((first, 0, None))

    def completed(self, ranges: Sequence[tuple[int, int]], given_up: Sequence[tuple[int, int]] = ()) -> None:
        """Records finished items. `given_up`: failed items; a resumed loop processes their batches again."""
        while self._submitted:
            first, samples, keys = self._submitted.popleft()
            if keys is None:
                self._give_up(first)
                continue
            if first not in self._open:
                bisect.insort(self._firsts, first)
            self._open[first] = [samples, samples, hash_of(first, keys)]
        for begin, end in given_up:
            for first in self._batches_in(begin, end):
                self._give_up(first)
        for begin, end in ranges:
            for first in self._batches_in(begin, end):
                self._count(first, begin, end)

    def _batches_in(self, begin: int, end: int) -> list[int]:
        """The first items of open batches that overlap these items."""
        at = max(bisect.bisect_right(self._firsts, begin) - 1, 0)
        found = self._firsts[at : bisect.bisect_left(self._firsts, end)]
        return found[1:] if found and found[0] + self._open[found[0]][1] <= begin else found

    def _give_up(self, first: int) -> None:
        self._forget(first)
        self.on_end(first, False)

    def _forget(self, first: int) -> None:
        if self._open.pop(first, None) is not None:
            del self._firsts[bisect.bisect_left(self._firsts, first)]

    def _count(self, first: int, begin: int, end: int) -> None:
        batch = self._open[first]
        batch[0] -= min(end, first + batch[1]) - max(begin, first)
        if batch[0] <= 0:
            self._forget(first)
            done = Done(first, first + batch[1], batch[2])
            self._done.add(done)
            self._unwritten.append(done)
            self.on_end(first, True)

    def write(self) -> None:
        """Writes what completed() reported."""
        if not self._unwritten:
            return
        self._require_in_place()
        if self._file is None:
            self._rewrite()
            return
        added = DoneBatches()
        for done in self._unwritten:
            added.add(done)
        text = lines_of(added)
        if self._bytes + len(text) >= max(LEAST_TO_REWRITE, 2 * self._rewritten_bytes):
            self._rewrite()
            return
        failpoint("checkpoint.add")
        try:
            write_all(self._file, text)
            if self._durable:
                os.fdatasync(self._file.fileno())
        except OSError as problem:
            self._close_file()
            raise self._write_error(problem) from problem
        failpoint("checkpoint.added")
        self._unwritten = []
        self._bytes += len(text)

    def close(self) -> None:
        self._close_file()
        self._unlock()
        if self._new is not None:
            new, self._new = self._new, None
            # the launcher refused the folder, or another loop replaced the file
            with (
                new,
                contextlib.suppress(OSError),
            ):
                if os.path.samestat(
                    os.fstat(new.fileno()), os.stat(NEW_NAME, dir_fd=self._open_folder(), follow_symlinks=False)
                ):
                    os.unlink(NEW_NAME, dir_fd=self._open_folder())
        self._close_folder()

    def _close_folder(self) -> None:
        if self._folder_fd is not None:
            os.close(self._folder_fd)
            self._folder_fd = None

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None  # the next write replaces the file

    def _header(self) -> bytes:
        header = {
            "offramp_egress": VERSION,
            "work": self.work,
            "identity": self._identity,
            "tensors": self.tensors,
            **self.sizes,
        }
        return json.dumps(header).encode() + b"\n"

    def _rewrite(self) -> None:
        self._close_file()
        text = self._header() + lines_of(self._done)
        self._file = self._put(NAME, text)
        self._unwritten = []
        self._bytes = self._rewritten_bytes = len(text)

    def _put(self, name: str, text: bytes) -> io.FileIO:
        """Replaces the file and returns it, open for appending."""
        inside, partial = self._open_folder(), f".offramp-{secrets.token_hex(8)}.part"
        try:
            file = open(
                os.open(
                    partial,
                    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW,
                    0o644,
                    dir_fd=inside,
                ),
                "ab",
                buffering=0,
            )
            try:
                write_all(file, text)
                os.fsync(file.fileno())
                failpoint("checkpoint.replace")
                os.replace(partial, name, src_dir_fd=inside, dst_dir_fd=inside)
                failpoint("checkpoint.replaced")
                if self._durable:
                    flush_folder(inside)
                return file
            except BaseException:
                file.close()
                with contextlib.suppress(FileNotFoundError):  # it was renamed already
                    os.unlink(partial, dir_fd=inside)
                raise
        except OSError as problem:
            raise self._write_error(problem) from problem

    def _write_error(self, problem: OSError) -> CannotWrite:
        return CannotWrite(
            f"the checkpoint {self.path} cannot be written: {problem.strerror}. Make room, or make the folder writable, "
            "and continue with resume=True"
        )


_all: weakref.WeakSet[Checkpoint] = weakref.WeakSet()


def _release_all() -> None:
    for checkpoint in list(_all):
        checkpoint.close_lock()


os.register_at_fork(after_in_child=_release_all)


class Comparison:
    """Checks that skipped batches have the keys of the earlier run. Borrows: the checkpoint."""

    def __init__(self, checkpoint: Checkpoint):
        self._path, self._folder, self._earlier = checkpoint.path, checkpoint.folder, checkpoint.earlier
        self._range: Done | None = None
        self._hash = 0
        self._keys = bytearray()  # of the range, while they fit

    def skips(self, first: int, samples: int, keys: bytes | None) -> bool:
        """Whether the batch is done. Call it for batches in order. Errors: BadArgument."""
        around = self._earlier.around(first)
        if around is None and self._earlier.around(first + samples - 1) is None:
            return False
        begins = self._range != around
        if around is None or first + samples > around.end or begins and first != around.begin:
            raise BadArgument(
                f"the batch of items {first} to {first + samples - 1} is partly done: the earlier run had batches of another size. "
                f"{self._remedy()}"
            )
        if begins:
            self._range, self._hash, self._keys = around, 0, bytearray()
        if keys is not None and len(self._keys) + len(keys) <= MOST_KEY_BYTES:
            self._keys += keys
        self._hash = (self._hash + hash_of(first, keys or b"")) % MODULUS
        if first + samples == around.end and self._hash != around.hash:
            raise BadArgument(
                f"the batches of items {around.begin} to {around.end - 1} are done, and they had other keys{self._first_new_key()}. {self._remedy()}"
            )
        return True

    def _first_new_key(self) -> str:
        """Names the first key without a result, if others have one. The checkpoint knows only a hash of the keys."""
        found: dict[str, set[str]] = {}
        new = []
        keys = self._keys.decode(errors="surrogateescape").split("\0")[:-1]
        for key in keys:
            inside, _, name = key.rpartition("/")
            if inside not in found:
                found[inside] = names_in(os.path.join(self._folder, inside))
            if name not in found[inside]:
                new.append(key)
        return f": the loop now gives '{new[0]}', which has no result" if 0 < len(new) < len(keys) else ""

    def finish(self, items: int) -> None:
        """Call it after the last batch. Errors: BadArgument."""
        earlier = self._earlier.list()
        if earlier and earlier[-1].end > items:
            raise BadArgument(
                f"the loop gave {items} items, and the earlier run finished items up to {earlier[-1].end - 1}. {self._remedy()}"
            )

    def _remedy(self) -> str:
        return (
            "Give the earlier run's batches in the same order (shuffle=False, the same batch size), and new ones after them. To add files in "
            "between, leave out pending(), and submit only keys whose result does not exist. Or start over with another output: "
            f"{self._path} lists what is done"
        )


def names_in(folder: str) -> set[str]:
    """The names of the folder's files, with and without each of their endings."""
    with contextlib.suppress(OSError):
        return {
            name[:end]
            for name in os.listdir(folder)
            for end in range(1, len(name) + 1)
            if name[end : end + 1] in ("", ".")
        }
    return set()


def differences(earlier: Mapping[str, object], now: Mapping[str, object]) -> str:
    """The facts that differ between earlier work and this one's; "" if none does."""
    return "; ".join(
        f"{name} was {earlier.get(name)!r} and is {now.get(name)!r}"
        for name in sorted({*earlier, *now})
        if earlier.get(name) != now.get(name)
    )


def describe(tensor: Tensor) -> str:
    """Type and shape without the batch size, which may differ between runs."""
    dtype, shape = tensor
    return f"{dtype}{tuple(shape[1:])}"


def write_all(file: io.FileIO, text: bytes) -> None:
    """Repeats partial writes: a full disk reports its error only on the next one."""
    while text:
        text = text[file.write(text) :]


def hash_of(first: int, keys: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(keys, digest_size=8, salt=first.to_bytes(8, "little")).digest(), "little")


def lines_of(done: DoneBatches) -> bytes:
    ranges = [[each.begin, each.end, f"{each.hash:016x}"] for each in done.list()]
    return b"".join(json.dumps({"done": ranges[at : at + 1000]}).encode() + b"\n" for at in range(0, len(ranges), 1000))
