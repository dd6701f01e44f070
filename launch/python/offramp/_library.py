"""Finds libofframp.so, once, when it is first needed."""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from typing import Any, Callable

from offramp import _abi, _validate
from offramp._errors import BadArgument, LibraryNotFound, error_of
from offramp._version import __version__

NAME = f"libofframp.so.{__version__.rpartition('.')[0]}"
VARIABLE = "OFFRAMP_LIBRARY"

_lock = threading.RLock()  # reentrant: before Python 3.11, Ctrl-C may leave it locked by its own thread
_opened: ctypes.CDLL | None = None


def places() -> list[str]:
    """Candidate paths, in order. OFFRAMP_LIBRARY replaces all others."""
    if named := os.environ.get(VARIABLE):
        return [named]
    package = pathlib.Path(__file__).resolve().parent
    checkout = package.parents[2]
    built = (
        [checkout / "build" / "release" / "lib" / NAME]
        if (checkout / "common" / "abi" / "include" / "offramp.h").exists()
        else []
    )
    # a wheel; an installation by CMake or a Debian package
    beside = [
        package / NAME,
        (package / "programs").resolve().parent / NAME,
    ]
    return [*dict.fromkeys(str(path) for path in beside if path.exists()), NAME, *(str(path) for path in built)]


def library() -> ctypes.CDLL:
    """Opens the library. Errors: LibraryNotFound if it is missing or has another version."""
    global _opened
    if _opened is None:
        with _lock:
            _opened = _opened or _open()
    return _opened


def library_version() -> str:
    """Returns the library's version, such as "0.1.0"."""
    return str(library().offramp_version().decode())


def _open() -> ctypes.CDLL:
    reasons = []
    for place in places():
        try:
            return _checked(ctypes.CDLL(place), place)
        except OSError as problem:
            if "GLIBC" in str(problem):
                raise LibraryNotFound(
                    f"{NAME} needs glibc 2.34 or later and the C++ library of GCC 11 or later, and this machine has older ones ({problem}). "
                    "Use Debian 12, Ubuntu 22.04, Fedora 35, RHEL 9 or later, or a container of one of them"
                ) from None
            reasons.append(str(problem))
    raise LibraryNotFound(
        f"{NAME} cannot be opened: {'; '.join(reasons)}. Install it (cmake --install BUILD --component library), "
        f"or set {VARIABLE} to its path"
    )


def _checked(opened: ctypes.CDLL, place: str) -> ctypes.CDLL:
    try:
        opened.offramp_version.restype = ctypes.c_char_p
        version = opened.offramp_version().decode()
        same = version.split(".")[:2] == __version__.split(".")[:2]
        if same:
            _abi.declare(opened)
            return opened
    except AttributeError as problem:
        raise LibraryNotFound(
            f"{place} lacks a call of offramp {__version__}: {problem}. Install the library of that version, "
            f"or set {VARIABLE} to its path"
        ) from None
    raise LibraryNotFound(
        f"{place} is version {version}, and the package offramp is {__version__}. Install both of one version, "
        f"or set {VARIABLE} to the path of that version's {NAME}"
    )


def path_of(run_dir: str | os.PathLike[str]) -> bytes:
    """The absolute path, relative to the current working directory: an Egress may open its run later."""
    path = _validate.path("run_dir", run_dir)
    if not path:
        raise BadArgument("no run directory was given. Give the directory that producer and consumers share")
    return os.fsencode(os.path.abspath(path))


def checked(call: Callable[..., Any], *arguments: Any, besides: tuple[int, ...] = ()) -> int:
    """Calls a library function with an error buffer and raises its error. Returns codes that are not errors."""
    error = _abi.ErrorText()
    code = int(call(*arguments, ctypes.byref(error)))
    if code != _abi.OK and code not in besides:
        raise error_of(code, error.text.decode(errors="replace"))
    return code
