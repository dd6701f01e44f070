"""Packages that only some modules need."""

from __future__ import annotations

import contextlib
from typing import Iterator

from offramp._errors import LibraryNotFound


@contextlib.contextmanager
def needs(what: str, package: str, install: str = "") -> Iterator[None]:
    """A context for imports from a package, which `what` needs. Errors: LibraryNotFound."""
    try:
        yield
    except ModuleNotFoundError as problem:
        raise LibraryNotFound(
            f"{what} needs {package}: {problem}. Install it: pip install {install or package}"
        ) from None
    except ImportError as problem:
        raise LibraryNotFound(
            f"{what} needs another {package}: {problem}. Update it: pip install --upgrade {install or package}"
        ) from problem
