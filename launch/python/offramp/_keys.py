"""What samples are called by."""

from __future__ import annotations

from typing import Iterable

from offramp._errors import BadArgument


def key_text_of(keys: Iterable[str] | None, rows: int, once: bool) -> bytes | None:
    """One after another, with a NUL behind each: for the library, and at once. `once`: none stands twice, since results are called by them."""
    if keys is None:
        return None
    if isinstance(keys, (str, bytes)):
        raise TypeError("keys are one text. Give a list of them, one a sample")
    if not isinstance(keys, (list, tuple)):
        keys = list(keys)
    try:
        text = "\0".join(keys)
    except TypeError:
        text = ""
    if text and len(keys) == rows and text.count("\0") == rows - 1:
        if once and len(set(keys)) != rows:
            twice = next(key for at, key in enumerate(keys) if key in keys[:at])
            raise BadArgument(f"the key {twice!r} names two samples of a batch, whose results would replace one another. Give each a key of its own")
        return f"{text}\0".encode("utf-8", "surrogateescape")
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"a key of type {type(key).__qualname__}. Keys are of type str")
        if "\0" in key:
            raise BadArgument(f"the key {key!r} has a NUL character in it. Give one without")
    if len(keys) != rows:
        raise BadArgument(f"{len(keys)} keys for {rows} samples. Give one a sample, or none")
    return "".join(f"{key}\0" for key in keys).encode("utf-8", "surrogateescape")
