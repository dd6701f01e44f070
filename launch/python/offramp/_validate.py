"""Validation of argument types, with messages that name the fix."""

from __future__ import annotations

import numbers
import operator
import os
import re
from typing import Any, Iterable, Mapping, Sequence

from offramp._errors import BadArgument


def whole(name: str, value: Any, most: int, of: str) -> int:
    """
    Accepts whole numbers of Python and NumPy. `of`: the accepted values, for messages. Errors: TypeError, BadArgument.
    """
    number = None if isinstance(value, bool) else _whole(value)
    if number is None:
        raise TypeError(f"{name} is {value!r:.80}. Give a whole number: {of}, or 0 to choose it automatically")
    if not 0 <= number <= most:
        raise BadArgument(f"{name} is {number}. Give {of}, or 0 to choose it automatically")
    return number


def byte_count(name: str, value: Any) -> int:
    """Accepts a number, or text such as "256MiB". Errors: TypeError, BadArgument."""
    if not isinstance(value, str):
        return whole(name, value, (1 << 63) - 1, 'bytes, or text such as "256MiB"')
    if not (parts := re.fullmatch(r"(\d+) ?([KMG])iB", value.strip(), re.ASCII)):
        raise BadArgument(f'{name} is {value!r:.80}. Give a number with KiB, MiB or GiB, such as "256MiB"')
    return whole(name, int(parts[1]) << 10 * (1 + "KMG".index(parts[2])), (1 << 63) - 1, 'text such as "256MiB"')


def seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r:.80}. Give a number of seconds")
    return float(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r:.80}. Give a str, or omit it")
    return value


def path(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise TypeError(f"{name} is {value!r:.80}. Give a path: a str or a pathlib.Path")
    if scheme := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", os.fspath(value)):
        raise BadArgument(
            f"{name} is {value!r:.80}, and {scheme[0]} is not supported. Give a local folder: mount it, or upload results in the processor"
        )
    return os.fspath(value)


def yes_or_no(name: str, value: Any) -> bool:
    if value is not True and value is not False:
        raise TypeError(f"{name} is {value!r:.80}. Give True or False")
    return value


def mapping(name: str, value: Any, example: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is of type {type(value).__qualname__}. Give a mapping, such as {example}")
    return value


def one_per_sample(name: str, value: Iterable[Any], example: str) -> Sequence[Any]:
    """A sequence in a fixed order; refuses sets. Errors: TypeError."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} is a single str. Give a list, one per sample")
    if isinstance(value, (set, frozenset)):
        raise TypeError(
            f"{name} is a {type(value).__qualname__}, which is unordered. Give a list, one per sample, in the order of the samples"
        )
    try:
        each = iter(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r:.80}. Give a list, one per sample, such as {example}") from None
    return list(each)


def items(value: Iterable[Any]) -> list[int]:
    each = one_per_sample("items", value, "[0, 1]")
    try:
        return list(map(operator.index, each))
    except TypeError:
        wrong = next((item for item in each if _whole(item) is None), None)
        raise TypeError(f"the item {wrong!r:.80} is not a whole number. Give whole numbers") from None


def _whole(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None
