"""Steps at which tests let a loop die: common/base/failpoint.hpp, for the package. Outside tests nobody has preloaded what decides there."""

from __future__ import annotations

import ctypes
from typing import Any

_hook: Any = getattr(ctypes.CDLL(None), "offramp_failpoint_reached", None)


def failpoint(name: str) -> None:
    if _hook is not None:
        _hook(name.encode())
