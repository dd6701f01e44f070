"""Validation of argument types, with messages that name the fix."""

from __future__ import annotations

import numbers
import operator
import os
import re
from typing import Any, Iterable, Mapping, Sequence

from offramp._errors import BadArgument


def whole(name: str, value: Any, most: int, of: str, least: int = 0) -> int:
    """
    Accepts whole numbers of Python and NumPy. `of`: the accepted values, for messages. Errors: BadArgument.
    """
    number = None if isinstance(value, bool) else _whole(value)
    remedy = of if least else f"{of}, or 0 to choose it automatically"
    if number is None:
        raise BadArgument(f"{name} is {value!r:.80}. Give a whole number: {remedy}")
    if not least <= number <= most:
        raise BadArgument(f"{name} is {number}. Give {remedy}")
    return number


def byte_count(name: str, value: Any) -> int:
    """Accepts a number, or text such as "256MiB". Errors: BadArgument."""
    if not isinstance(value, str):
        return whole(name, value, (1 << 63) - 1, 'bytes, or text such as "256MiB"')
    if not (parts := re.fullmatch(r"(\d+) ?([KMG])iB", value.strip(), re.ASCII)):
        raise BadArgument(f'{name} is {value!r:.80}. Give a number with KiB, MiB or GiB, such as "256MiB"')
    return whole(name, int(parts[1]) << 10 * (1 + "KMG".index(parts[2])), (1 << 63) - 1, 'text such as "256MiB"')


def seconds(name: str, value: Any) -> float:
    return number(name, value, "a number of seconds")


def number(name: str, value: Any, of: str = "a number") -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise BadArgument(f"{name} is {value!r:.80}. Give {of}")
    try:
        return float(value)
    except OverflowError:
        raise BadArgument(f"{name} is too large. Give {of}") from None


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadArgument(f"{name} is {value!r:.80}. Give a str, or omit it")
    return encodable(name, value, "strict")


def one_of(name: str, value: Any, *words: str) -> str:
    if not isinstance(value, str) or value not in words:
        raise BadArgument(f"{name} is {value!r:.80}. Give {' or '.join(map(repr, words))}")
    return value


def encodable(name: str, value: str, errors: str = "surrogateescape") -> str:
    """Accepts text that programs and files can have as a name; by default also names of files that are not UTF-8."""
    if "\0" in value:
        raise BadArgument(f"{name} contains a NUL character. Remove it")
    try:
        value.encode("utf-8", errors)
    except UnicodeEncodeError:
        raise BadArgument(f"{name} is {value!r:.80}, which UTF-8 cannot encode. Remove the surrogates") from None
    return value


# offramp_launch/stores/store.py
STORES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss")


# offramp_launch/stores/store.py
def flaw_of(url: str) -> str:
    """
    Why obstore would store elsewhere than the URL says, or why others would see credentials; empty for a proper URL.
    The text does not repeat the URL, which may contain a secret.
    """
    scheme, _, rest = url.partition("://")
    bucket = rest.partition("/")[0]
    if ":" in bucket or "@" in bucket and not scheme.lower().startswith("abfs"):  # Azure: abfs://CONTAINER@ACCOUNT
        return "user info or a port"
    if found := re.search(r"[?#%\x00-\x1f\x7f]|\s$", rest):
        return f"the character {found[0]!r}"
    return "a part '.' or '..'" if {".", ".."} & set(rest.split("/")) else ""


def store_url(name: str, value: Any) -> str | None:
    """The URL of an object store; None for anything else."""
    if not isinstance(value, (str, os.PathLike)):
        return None
    found = re.match(rf"({'|'.join(STORES)}):/(/?)", text := os.fsdecode(value), re.IGNORECASE)
    if found and not found[2] and not isinstance(value, str):
        raise BadArgument(f"{name} is a URL as a path, which has one slash of the two. Give a str")
    if not found or not found[2]:
        return None
    if flaw := flaw_of(text):
        place = "CONTAINER@ACCOUNT.dfs.core.windows.net" if "abfs" in found[1].lower() else "BUCKET"
        raise BadArgument(
            f"{name} is a URL with {flaw}. Give {found[1].lower()}://{place}/PREFIX, and credentials in the environment"
        )
    return encodable(name, text)


def path(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise BadArgument(f"{name} is {value!r:.80}. Give a path: a str or a pathlib.Path")
    if scheme := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", os.fspath(value)):
        raise BadArgument(
            f"{name} is {value!r:.80}, and {scheme[0]} is not supported. Give a local folder; results may also go to s3://, gs://, az:// and abfs://"
        )
    return encodable(name, os.fspath(value))


def yes_or_no(name: str, value: Any) -> bool:
    if value is not True and value is not False:
        raise BadArgument(f"{name} is {value!r:.80}. Give True or False")
    return value


def mapping(name: str, value: Any, example: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise BadArgument(f"{name} is of type {type(value).__qualname__}. Give a mapping, such as {example}")
    return value


def sequence(name: str, value: Any, example: str) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise BadArgument(f"{name} is {value!r:.80}. Give a list, such as {example}")
    return value


def one_per_sample(name: str, value: Iterable[Any], example: str) -> Sequence[Any]:
    """A sequence in a fixed order; refuses sets. Errors: BadArgument."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (str, bytes)):
        raise BadArgument(f"{name} is a single str. Give a list, one per sample")
    if isinstance(value, (set, frozenset)):
        raise BadArgument(
            f"{name} is a {type(value).__qualname__}, which is unordered. Give a list, one per sample, in the order of the samples"
        )
    try:
        each = iter(value)
    except TypeError:
        raise BadArgument(f"{name} is {value!r:.80}. Give a list, one per sample, such as {example}") from None
    return list(each)


def items(value: Iterable[Any], rows: int) -> list[int]:
    """The item numbers of a batch of so many samples. Errors: BadArgument."""
    each = one_per_sample("items", value, "[0, 1]")
    try:
        numbers = list(map(operator.index, each))
    except TypeError:
        wrong = next((item for item in each if _whole(item) is None), None)
        raise BadArgument(f"the item {wrong!r:.80} is not a whole number. Give whole numbers") from None
    if (wrong := next((item for item in numbers if not 0 <= item < 1 << 64), None)) is not None:
        raise BadArgument(f"the item {wrong} is out of range. Give whole numbers from 0 to 2**64 - 1")
    if len(numbers) != rows:
        raise BadArgument(f"{len(numbers)} items for {rows} samples. Give one per sample, or none")
    return numbers


def _whole(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None
