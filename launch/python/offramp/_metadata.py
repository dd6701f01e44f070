"""Metadata of samples: small JSON objects beside their keys."""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, Mapping

from offramp import _validate
from offramp._errors import BadArgument
from offramp._torch import is_torch

DEFAULT_BYTES = 1024  # at most, of a sample, unless the run was opened with metadata_bytes
EXAMPLE = "[{'path': 'a.png'}, {'path': 'b.png'}]"


def json_of(metadata: Iterable[Mapping[str, object] | None] | None, rows: int) -> list[bytes | None] | None:
    """The metadata of each sample as JSON for the library; None: it has none. Errors: TypeError and BadArgument."""
    if metadata is None:
        return None
    if isinstance(metadata, Mapping):
        raise TypeError(
            f"metadata is a single {type(metadata).__qualname__}. Give a list, one per sample, such as {EXAMPLE}"
        )
    each = _validate.one_per_sample("metadata", metadata, EXAMPLE)
    if len(each) != rows:
        raise BadArgument(f"{len(each)} metadata for {rows} samples. Give one per sample, or none")
    return [_encoded(row, one) for row, one in enumerate(each)]


def _encoded(row: int, metadata: object) -> bytes | None:
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise TypeError(
            f"the metadata of sample {row} is of type {type(metadata).__qualname__}. Give a dict such as {{'path': 'a.png'}}, or None"
        )
    try:
        text = json.dumps(
            dict(metadata), default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":")
        ).encode()
    except (TypeError, ValueError, RecursionError) as problem:  # ValueError: NaN, a cycle, or half a surrogate pair
        raise BadArgument(
            f"the metadata of sample {row} cannot be stored as JSON: {problem}. Give texts, finite numbers, lists and dicts of them"
        ) from None
    return text if metadata else None


def _plain(value: Any) -> Any:
    """Arrays on the CPU and NumPy's numbers become lists and numbers, paths become texts."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist") and not (is_torch(value) and value.device.type != "cpu"):
        return value.tolist()
    raise TypeError(f"a value is of type {type(value).__qualname__}")
