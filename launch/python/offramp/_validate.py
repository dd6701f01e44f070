"""Validation of argument types, with messages that name the fix."""

from __future__ import annotations

import numbers
import operator
import os
import re
from typing import Any, Iterable, Mapping, Sequence

from offramp._errors import BadArgument


def whole(name: str, told: Any, most: int, of: str) -> int:
    """Accepts whole numbers of Python and NumPy. `of`: the accepted values, for messages. Errors: TypeError, BadArgument."""
    number = None if isinstance(told, bool) else _whole(told)
    if number is None:
        raise TypeError(f"{name} is {told!r:.80}. Give a whole number: {of}, or 0 to have it chosen")
    if not 0 <= number <= most:
        raise BadArgument(f"{name} is {number}. Give {of}, or 0 to have it chosen")
    return number


def seconds(name: str, told: Any) -> float:
    if isinstance(told, bool) or not isinstance(told, numbers.Real):
        raise TypeError(f"{name} is {told!r:.80}. Give a number of seconds")
    return float(told)


def text(name: str, told: Any) -> str:
    if not isinstance(told, str):
        raise TypeError(f"{name} is {told!r:.80}. Give a text, or leave it out")
    return told


def path(name: str, told: Any) -> str:
    if not isinstance(told, (str, os.PathLike)) or not isinstance(os.fspath(told), str):
        raise TypeError(f"{name} is {told!r:.80}. Give a path: a text, or one of pathlib's")
    if scheme := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", os.fspath(told)):
        raise BadArgument(f"{name} is {told!r:.80}, and {scheme[0]} is not supported. Give a local folder: mount it, or upload results in the processor")
    return os.fspath(told)


def yes_or_no(name: str, told: Any) -> bool:
    if told is not True and told is not False:
        raise TypeError(f"{name} is {told!r:.80}. Give True or False")
    return told


def by_name(name: str, told: Any, example: str) -> Mapping[Any, Any]:
    if not isinstance(told, Mapping):
        raise TypeError(f"{name} are of type {type(told).__qualname__}. Give a mapping, such as {example}")
    return told


def one_a_sample(name: str, told: Iterable[Any], example: str) -> Sequence[Any]:
    """A sequence in a fixed order; refuses sets. Errors: TypeError."""
    if isinstance(told, (list, tuple)):
        return told
    if isinstance(told, (str, bytes)):
        raise TypeError(f"{name} are one text. Give a list of them, one a sample")
    if isinstance(told, (set, frozenset)):
        raise TypeError(f"{name} are a {type(told).__qualname__}, which has no order. Give a list, one a sample, in the order of the samples")
    try:
        each = iter(told)
    except TypeError:
        raise TypeError(f"{name} are {told!r:.80}. Give a list, one a sample, such as {example}") from None
    return list(each)


def items(told: Iterable[Any]) -> list[int]:
    each = one_a_sample("items", told, "[0, 1]")
    try:
        return list(map(operator.index, each))
    except TypeError:
        wrong = next((item for item in each if _whole(item) is None), None)
        raise TypeError(f"the item {wrong!r:.80}. Items are whole numbers") from None


def _whole(told: Any) -> int | None:
    try:
        return operator.index(told)
    except TypeError:
        return None
