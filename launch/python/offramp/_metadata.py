"""Metadata of samples: small JSON objects beside their keys."""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, Mapping

from offramp import _validate
from offramp._errors import BadArgument
from offramp._exchange import attribute
from offramp._torch import is_torch

MOST_BYTES = 1 << 14  # kMaxMetadataBytes
_LEAST_BYTES = 1024
_WITHOUT_PARTS = {str, int, float, bool, type(None)}
EXAMPLE = "[{'path': 'a.png'}, {'path': 'b.png'}]"


def json_of(metadata: Iterable[Mapping[str, object] | None] | None, rows: int) -> list[bytes | None] | None:
    """The metadata of each sample as JSON for the library; None: it has none. Errors: BadArgument."""
    if metadata is None:
        return None
    if isinstance(metadata, Mapping):
        raise BadArgument(
            f"metadata is a single {type(metadata).__qualname__}. Give a list, one per sample, such as {EXAMPLE}"
        )
    each = _validate.one_per_sample("metadata", metadata, EXAMPLE)
    if len(each) != rows:
        raise BadArgument(f"metadata of {len(each)} samples for {rows}. Give one per sample, or none")
    return [_encoded(row, one) for row, one in enumerate(each)]


def limit_for(texts: list[bytes | None]) -> int:
    """metadata_bytes of a run that opens with these: room for texts twice as long, within bounds."""
    return min(max(_LEAST_BYTES, 2 * max(len(text or b"") for text in texts)), MOST_BYTES)


def _plain(value: Any) -> Any:
    """Arrays on the CPU and NumPy's numbers become lists and numbers, paths become texts."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if is_torch(value) and value.device.type != "cpu" or attribute(value, "__cuda_array_interface__") is not None:
        raise TypeError("a tensor is not on the CPU: pass tensor.tolist()")
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value is of type {type(value).__qualname__}")


# Made once: json.dumps() makes an encoder in every call.
_json_of = json.JSONEncoder(default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode


def _culprit_in(metadata: Mapping[Any, object]) -> str:
    """The first field that cannot be stored, for a message; empty if each can."""
    for key, value in metadata.items():
        try:
            _json_of({key: value}).encode()
        except Exception:
            return f"its field {key!r:.80} is {value!r:.80}: "
    return ""


def _may_have_same_keys(metadata: Mapping[Any, object], text: str) -> bool:
    """
    Whether it has a key of another type than str, or a nested dict: only then its entries are walked again. A brace in
    a text counts as a dict.
    """
    return text.find("{", 1) >= 0 or not set(map(type, metadata)) <= {str}


def _same_keys_in(value: object) -> tuple[object, object] | None:
    """Two keys of one dict, also of a nested one, that JSON writes as the same text, such as 1 and "1"."""
    if isinstance(value, (list, tuple)):
        if set(map(type, value)) <= _WITHOUT_PARTS:
            return None
        return next((found for each in value if (found := _same_keys_in(each))), None)
    if not isinstance(value, Mapping):
        return None
    if any(type(key) is not str for key in value):
        by_text: dict[str, object] = {}
        for key in value:
            if (text := _json_of({key: 0})) in by_text:
                return by_text[text], key
            by_text[text] = key
    return _same_keys_in(list(value.values()))


def _encoded(row: int, metadata: object) -> bytes | None:
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise BadArgument(
            f"the metadata of sample {row} is of type {type(metadata).__qualname__}. Give a dict such as {{'path': 'a.png'}}, or None"
        )
    try:
        text = _json_of(dict(metadata))
        encoded, same = text.encode(), _same_keys_in(metadata) if _may_have_same_keys(metadata, text) else None
    except (TypeError, ValueError, RuntimeError) as problem:  # NaN, a cycle, half a surrogate pair, a sparse tensor
        raise BadArgument(
            f"the metadata of sample {row} cannot be stored as JSON: {_culprit_in(metadata)}{problem}. Give texts, finite numbers, lists and dicts of them"
        ) from None
    if same is not None:
        raise BadArgument(
            f"the metadata of sample {row} has the keys {same[0]!r} and {same[1]!r}, which are the same text in JSON. Rename one of them"
        )
    if len(encoded) > MOST_BYTES:
        raise BadArgument(
            f"the metadata of sample {row} has {len(encoded)} bytes as JSON. Give at most {MOST_BYTES}; submit larger data as a tensor"
        )
    return encoded if metadata else None
