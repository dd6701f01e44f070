"""Points at which tests can kill a loop, as in common/base/failpoint.hpp. No effect outside tests."""

from __future__ import annotations

import ctypes
from typing import Any

_hook: Any = getattr(ctypes.CDLL(None), "offramp_failpoint_reached", None)


def failpoint(name: str) -> None:
    if _hook is not None:
        _hook(name.encode())
