"""Validation of sample keys."""

from __future__ import annotations

import operator
import os
import re
from typing import Any, Container, Iterable, Iterator, Sequence, SupportsIndex, Union

from offramp import _validate
from offramp._errors import BadArgument
from offramp._torch import is_torch

Key = Union[str, "os.PathLike[str]", SupportsIndex]  # of one sample; str() makes it a text

EXAMPLE = "['a', 'b']"
# Room for about 2 million keys of earlier batches. Each takes its text, Python's overhead and a set entry.
ROOM_BYTES, BESIDE_TEXT_BYTES = 1 << 28, 100


def keys_of(given: Iterable[Key]) -> Sequence[str]:
    """
    One text per sample: texts, paths and whole numbers of Python, NumPy and PyTorch, as str() writes them. Errors:
    BadArgument.
    """
    keys = _validate.one_per_sample("keys", _without_array(given), EXAMPLE)
    return keys if set(map(type, keys)) <= {str} else [_text_of(key) for key in keys]


def _without_array(given: Any) -> Any:
    """An array of one dimension as a list, in one step: elements of a GPU's tensor would be copied one by one."""
    if isinstance(given, (list, tuple)) or getattr(given, "ndim", None) != 1 or not hasattr(given, "tolist"):
        return given
    if is_torch(given) and given.device.type != "cpu":
        raise BadArgument(
            f"the keys are on the device '{given.device}', whose work would have to finish first. Keep keys on the CPU"
        )
    return given.tolist()


def _text_of(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, os.PathLike):
        if isinstance(path := os.fspath(key), str):
            return path
    elif not isinstance(key, bool) and not str(getattr(key, "dtype", "")).endswith("bool"):
        try:
            return str(operator.index(key))
        except TypeError:
            pass
    raise BadArgument(
        f"a key is of type {type(key).__qualname__}. Give texts, paths or whole numbers, such as [str(key) for key in keys]"
    )


def key_text_of(keys: Sequence[str] | None, rows: int, once: bool) -> bytes | None:
    """Encodes keys for the library, each followed by a NUL. `once`: refuse repeated keys."""
    if keys is None:
        return None
    text = "\0".join(keys)
    if text and len(keys) == rows and text.count("\0") == rows - 1:
        if once and len(set(keys)) != rows:
            repeated = next(key for at, key in enumerate(keys) if key in keys[:at])
            raise BadArgument(
                f"the key {repeated!r} names two samples of a batch, whose results would replace each other. Give each sample its own key"
            )
        return _encoded(keys, f"{text}\0")
    for key in keys:
        _validate.encodable(f"the key {key!r}", key)
    require_one_key_each(keys, rows)
    return _encoded(keys, "".join(f"{key}\0" for key in keys))


def _encoded(keys: Sequence[str], text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        for key in keys:
            _validate.encodable("a key", key)
        raise


def require_one_key_each(keys: Sequence[str], rows: int) -> None:
    if len(keys) != rows:
        raise BadArgument(
            f"{len(keys)} keys for {rows} samples. Give one per sample, or none"
            + ("; if the tensors are one sample, submit [tensor]" if len(keys) == 1 else "")
        )


# Built-in processors that name files by keys, with their endings. Custom processors may use any ending. All others
# accept any key.
_IMAGES = (".png", ".jpg", ".webp")
ENDINGS = {
    "npy": (".npy",),
    "safetensors": (".safetensors",),
    "mask-png": _IMAGES,
    "cut-out": _IMAGES,
    "overlay": _IMAGES,
    "image": _IMAGES,
    "write": (".bin",),
}
_OF_ROWS = (
    "checksum",
    "embeddings-parquet",
    "embeddings-postgres",
    "embeddings-sqlite",
    "http",
    "mask-rle",
    "none",
    "records",
    "records-postgres",
)
# In NUL-terminated keys: a part that cannot name a file or folder, or that Offramp reserves.
_UNUSABLE = re.compile(rb"(?<![^\0/])(?:[/\0]|\.\.?[/\0]|\.offramp-)|[^/\0]{256,}/")


MOST_FOLDERS = 1 << 18  # limits memory


class FileNames:
    """
    Checks early that keys can name files in the output. Consumers would find a bad key only after the batch was
    processed. `endings`: the file endings; None: any. Thread: one at a time.
    """

    def __init__(self, endings: tuple[str, ...] | None):
        self._endings = endings
        self._stems: set[str] = set()  # keys whose file would have a folder's name: 'k' for 'k.npy/x'
        self._folders: set[str] = set()  # folders that these stems belong to
        self._new: set[str] = set()  # folders of the last checked batch

    def require_usable(self, keys: Sequence[str], key_text: bytes, before: Container[str]) -> None:
        """`before`: keys of earlier batches. Errors: BadArgument."""
        flat = b"/" not in key_text
        if (not flat or key_text[0] in b".\0" or b"\0." in key_text or b"\0\0" in key_text) and _UNUSABLE.search(
            key_text
        ):
            for key in keys:
                _require_path(key)
        self._new = set() if flat else self._new_folders(keys)
        if not self._new and not self._stems:
            return
        here = set(keys)
        stems = {stem for folder in self._new for stem in self._stems_of(folder)}
        for key in (*(stem for stem in stems if stem in here or stem in before), *self._stems.intersection(here)):
            raise BadArgument(
                f"the key {key!r} names a file beside a folder that another key names, as '{key}{self._endings[0] if self._endings else '.npy'}' and "
                f"'{key}{self._endings[0] if self._endings else '.npy'}/x': a path cannot be both a file and a folder. Rename one of the keys"
            )

    def add(self) -> None:
        """Adds the folders of the last checked batch after it was accepted. Idempotent."""
        for folder in self._new if len(self._folders) < MOST_FOLDERS else ():
            self._stems.update(self._stems_of(folder))
            self._folders.add(folder)

    def _new_folders(self, keys: Sequence[str]) -> set[str]:
        return {folder for key in keys if (folder := key.rpartition("/")[0])} - self._folders

    def _stems_of(self, folder: str) -> Iterator[str]:
        at = folder.find(".")
        while at >= 0:
            ending = folder[at:].partition("/")[0]
            if (
                at > 0
                and folder[at - 1] != "/"
                and len(ending) > 1
                and (self._endings is None or ending.endswith(self._endings))
            ):
                yield folder[:at]
            at = folder.find(".", at + 1)


def file_names_of(processor: str) -> FileNames | None:
    """None if no processor names files by keys."""
    names = [name for name in processor.split(",") if name not in _OF_ROWS]
    if not names:
        return None
    return FileNames(
        tuple(ending for name in names for ending in ENDINGS[name]) if all(name in ENDINGS for name in names) else None
    )


def _require_path(key: str) -> None:
    """Checks a key like consumer/sinks/files/output_name.cpp. Errors: BadArgument."""
    parts = key.split("/")
    if not key:
        raise BadArgument("a key of 0 bytes cannot name a result. Give each sample a key")
    if key.startswith("/"):
        raise BadArgument(
            f"the key {key!r} is an absolute path, but keys name results below the output. Make it relative to a folder: "
            f"os.path.relpath({key!r}, FOLDER)"
        )
    for part in parts:
        why = (
            "an empty part"
            if not part
            else f"the part '{part}'"
            if part in (".", "..")
            else "a part that begins with '.offramp-', which Offramp reserves"
            if part.startswith(".offramp-")
            else "a folder's name of more than 255 bytes"
            if part is not parts[-1] and len(part.encode("utf-8", "surrogateescape")) > 255
            else None
        )
        if why is not None:
            raise BadArgument(
                f"the key {key!r} has {why}, but keys name results below the output. Give a relative path without it, such as "
                "os.path.relpath(PATH, FOLDER) for a PATH in FOLDER"
            )


class KeysBefore:
    """
    The keys of earlier batches, which name results. Stores texts and not hashes, so that no valid key is refused. Once
    full, it adds no more keys but still compares. Thread: any.
    """

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._room = ROOM_BYTES

    def require_others(self, keys: Sequence[str]) -> None:
        """Errors: BadArgument."""
        if not self._keys.isdisjoint(keys):
            repeated = next(key for key in keys if key in self._keys)
            raise BadArgument(
                f"the key {repeated!r} names a sample of an earlier batch, whose results would be replaced. Give each sample its own key; or, "
                "to replace them, for example after TensorChanged reported that batch, pass Egress(repeated_keys='allow')"
            )

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def add(self, keys: Sequence[str], text_bytes: int) -> None:
        """Adds keys of a batch that was submitted, or that pending() skips."""
        if self._room > 0:
            self._room -= text_bytes + BESIDE_TEXT_BYTES * len(keys)
            self._keys.update(keys)
