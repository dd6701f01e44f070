"""
What programs do to the files below a folder, recorded by support/disk_recorder, and what a power cut may leave of it.

The model is that of ALICE (Pillai et al., OSDI 2014) for a file system that promises no more than POSIX: an operation
is on the disk once its file (bytes and size) or its folder (names) was flushed afterwards. Any part of the other
operations may be there: of a write each sector of 512 bytes, of a rename between two folders each name. After a flush
that failed, no later one covers what was written before it.
"""

import bisect
import dataclasses
import enum
import fnmatch
import os
import pathlib
import struct

SECTOR = 512
HEADER = struct.Struct("<IIQQQQQII")
NEVER = 1 << 62
ROOT = "OFFRAMP_TEST_DISK_ROOT"


class Kind(enum.IntEnum):
    CREATE = 1
    WRITE = 2
    SET_SIZE = 3
    PUNCH = 4
    FLUSH = 5
    FLUSH_FOLDER = 6
    LINK = 7
    RENAME = 8
    REMOVE = 9
    MAKE_FOLDER = 10
    FLUSH_ALL = 11
    MAP = 12
    FLUSH_FAILED = 13


OF_FILES = (Kind.WRITE, Kind.SET_SIZE, Kind.PUNCH)
OF_FOLDERS = (Kind.CREATE, Kind.LINK, Kind.RENAME, Kind.REMOVE, Kind.MAKE_FOLDER)
FLUSHES = (Kind.FLUSH, Kind.FLUSH_FOLDER, Kind.FLUSH_ALL)
# After these, and before a flush, a cut may leave something new that matters.
CUTS = (*FLUSHES, Kind.LINK, Kind.RENAME, Kind.REMOVE, Kind.MAKE_FOLDER)


@dataclasses.dataclass(slots=True)
class Step:
    kind: Kind
    file: int  # number of the file or folder
    path: str  # of the file at this time, relative to the root
    folder: int = 0  # that gets or loses a name
    name: str = ""
    source_name: str = ""  # that a rename removes from the folder
    at: int = 0
    length: int = 0
    data: bytes = b""
    changes: bool = False  # bytes or names

    def __str__(self):
        extent = f" {self.at}+{self.length}" if self.kind in (Kind.WRITE, Kind.PUNCH) else ""
        return f"{self.kind.name.lower()} {self.path}{extent}"


def environment(library, root, log):
    return {"LD_PRELOAD": str(library), ROOT: os.path.realpath(root), "OFFRAMP_TEST_DISK_LOG": str(log)}


class Recording:
    """
    The steps of one or more programs. `forgotten`: patterns of paths whose flushes count as if the programs had left
    them out; with "last ", only the last flush of each path.
    """

    def __init__(self, root, log, forgotten=()):
        self.root = pathlib.Path(os.path.realpath(root))
        self.steps = []
        self._objects = {}  # inode number: file's number now
        self._paths = {}  # file's number: its latest path
        self._count = 0
        self.top = self._begin(os.stat(self.root).st_ino, "")
        self._read(pathlib.Path(log).read_bytes())
        self._forgotten = forgotten
        self._note_flushes()

    def _begin(self, inode, path):
        self._count += 1
        self._objects[inode] = self._count
        self._paths[self._count] = path
        return self._count

    def _read(self, log):
        place = 0
        while place < len(log):
            size, kind, inode, folder, source, at, length, name_bytes, source_bytes = HEADER.unpack_from(log, place)
            rest = log[place + HEADER.size : place + size]
            place += size
            name = os.fsdecode(rest[:name_bytes])
            source_name = os.fsdecode(rest[name_bytes : name_bytes + source_bytes])
            self._add(
                Kind(kind), inode, folder, source, name, source_name, at, length, rest[name_bytes + source_bytes :]
            )

    def _add(self, kind, inode, folder, source, name, source_name, at, length, data):
        path = ""
        if kind in OF_FOLDERS:
            folder = self._objects[folder]
            path = f"{self._paths[folder]}/{name}".lstrip("/")
            source = self._objects[source] if source else 0
        if kind in (Kind.CREATE, Kind.MAKE_FOLDER):
            file = self._begin(inode, path)
        elif kind == Kind.FLUSH_ALL:
            file = 0
        else:
            file = self._objects[inode]
        if kind == Kind.RENAME and source != folder:
            before = f"{self._paths[source]}/{source_name}".lstrip("/")
            self.steps.append(Step(Kind.LINK, file, path, folder, name, changes=True))
            self.steps.append(Step(Kind.REMOVE, file, before, source, source_name, changes=True))
            self._move(file, path)
            return
        if kind in (Kind.LINK, Kind.RENAME):
            self._move(file, path)
        self.steps.append(
            Step(
                kind,
                file,
                path or self._paths.get(file, ""),
                folder,
                name,
                source_name,
                at,
                length,
                data,
                changes=kind in OF_FILES or kind in OF_FOLDERS,
            )
        )

    def _move(self, file, path):
        before = self._paths[file]
        for each, old in self._paths.items():
            if old == before or before and old.startswith(before + "/"):
                self._paths[each] = path + old[len(before) :]

    def _note_flushes(self):
        """Notes for each step the number of the flush that puts it on the disk."""
        flushes, failed = {}, {}
        last = {step.path: number for number, step in enumerate(self.steps) if step.kind in FLUSHES}
        for number, step in enumerate(self.steps):
            if step.kind == Kind.FLUSH_FAILED:
                failed.setdefault(step.file, []).append(number)
            if step.kind in FLUSHES and not self._is_forgotten(step.path, number == last[step.path]):
                flushes.setdefault(step.file, []).append(number)

        def next_of(numbers, number):
            place = bisect.bisect(numbers, number)
            return numbers[place] if place < len(numbers) else NEVER

        def first(file, number):
            found = min(next_of(flushes.get(file, []), number), next_of(flushes.get(0, []), number))
            return NEVER if next_of(failed.get(file, []), number) < found else found

        self.flushed_by = [
            first(step.file if step.kind in OF_FILES else step.folder, number) if step.changes else NEVER
            for number, step in enumerate(self.steps)
        ]

    def _is_forgotten(self, path, is_last):
        return any(
            fnmatch.fnmatch(path, each.removeprefix("last ")) and (is_last or not each.startswith("last "))
            for each in self._forgotten
        )

    def cuts(self):
        """Numbers of steps before which the power may be cut."""
        after = {number + 1 for number, step in enumerate(self.steps) if step.kind in CUTS}
        return sorted(after | self.cuts_before_flushes())

    def cuts_before_flushes(self):
        """Of these, the ones at which the writes that a flush completes may be there in part."""
        return {number for number, step in enumerate(self.steps) if step.kind in FLUSHES and number > 0}

    def mapped(self):
        """Paths of files that a program maps to write: their bytes are not recorded."""
        return {step.path for step in self.steps if step.kind == Kind.MAP}

    def state(self, cut, choice):
        """
        {path: bytes, or None of a folder} after a power cut before step `cut`. `choice(step, block)` tells whether a
        step that no flush has put on the disk is there: True, False, or "zeros" for a write's size without its bytes.
        """
        disk = Disk(self.top)
        for step, flushed_by in zip(self.steps[:cut], self.flushed_by):
            if step.changes:
                disk.take(step, None if flushed_by < cut else choice)
        return disk.files()


class Disk:
    def __init__(self, top):
        self._top = top
        self._folders = {top: {}}
        self._files = {}

    def take(self, step, choice):
        if step.kind in OF_FOLDERS:
            if choice is None or choice(step, None):
                self._rename(step)
            return
        bytes_ = self._files.setdefault(step.file, bytearray())
        if step.kind == Kind.WRITE:
            for at, data in ((step.at, step.data),) if choice is None else blocks(step):
                there = choice is None or choice(step, at)
                if there and len(bytes_) < at + len(data):
                    bytes_.extend(bytes(at + len(data) - len(bytes_)))
                if there is True:
                    bytes_[at : at + len(data)] = data
        elif choice is None or choice(step, None):
            if step.kind == Kind.SET_SIZE:
                del bytes_[step.length :]
                bytes_.extend(bytes(step.length - len(bytes_)))
            else:
                end = min(step.at + step.length, len(bytes_))
                bytes_[step.at : end] = bytes(max(end - step.at, 0))

    def _rename(self, step):
        names = self._folders.setdefault(step.folder, {})
        if step.kind == Kind.MAKE_FOLDER:
            self._folders.setdefault(step.file, {})
        if step.kind == Kind.REMOVE:
            if names.get(step.name) == step.file:
                del names[step.name]
            return
        if step.kind == Kind.RENAME and names.get(step.source_name) == step.file:
            del names[step.source_name]
        names[step.name] = step.file

    def files(self):
        found, folders = {}, [("", self._top)]
        while folders:
            path, folder = folders.pop()
            for name, each in self._folders[folder].items():
                below = f"{path}/{name}".lstrip("/")
                if each in self._folders:
                    found[below] = None
                    folders.append((below, each))
                else:
                    found[below] = bytes(self._files.get(each, b""))
        return found


def blocks(step):
    """(place, bytes) of each part of a write that is torn from the rest."""
    at, end = step.at, step.at + step.length
    while at < end:
        upto = min(end, (at // SECTOR + 1) * SECTOR)
        yield at, step.data[at - step.at : upto - step.at]
        at = upto


def tree(root):
    """{path: bytes, or None of a folder} of the real files."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in pathlib.Path(root).rglob("*")
    }


def put(state, root):
    """Writes the state below the root, which exists."""
    for path, content in sorted(state.items()):
        target = pathlib.Path(root, path)
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
