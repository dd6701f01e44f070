"""What samples are called by."""

from __future__ import annotations

from typing import Sequence

from offramp._errors import BadArgument

EXAMPLE = "['a', 'b']"
# For the keys of earlier batches, which takes some 2 million. Each also takes its text, Python's part of that, and its place in the set.
ROOM_BYTES, BESIDE_TEXT_BYTES = 1 << 28, 100


def key_text_of(keys: Sequence[str] | None, rows: int, once: bool) -> bytes | None:
    """Of what one_a_sample() gave: one after another, with a NUL behind each: for the library, and at once. `once`: none stands twice."""
    if keys is None:
        return None
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


class KeysBefore:
    """
    The keys of earlier batches, whose samples' results are called by them: texts and not hashes, so that no good key is refused. Once they fill their
    room no more are kept, and later keys are compared with these. Thread: any.
    """

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._room = ROOM_BYTES

    def require_others(self, keys: Sequence[str]) -> None:
        """Errors: BadArgument."""
        if not self._keys.isdisjoint(keys):
            twice = next(key for key in keys if key in self._keys)
            raise BadArgument(f"the key {twice!r} names a sample of an earlier batch, whose results this one's would replace. Give each a key of its own; or, "
                              "where it is to replace them, as those of a batch that TensorChanged told of, Egress(repeated_keys='allow')")

    def add(self, keys: Sequence[str], text_bytes: int) -> None:
        """Of a batch that was taken, or that pending() leaves out: an earlier run has done it."""
        if self._room > 0:
            self._room -= text_bytes + BESIDE_TEXT_BYTES * len(keys)
            self._keys.update(keys)
