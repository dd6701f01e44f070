"""Messages for a loop that leaves the context of an Egress."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Callable

from offramp._errors import Error
from offramp._run import Stats, level_of_the_caller


def report_abandoned(stats_of_run: Callable[[], Stats], is_resumable: bool) -> None:
    """Prints how many submitted samples an exception has abandoned, if any. Errors: none: it matters more."""
    if sys.stderr is None:
        return
    with contextlib.suppress(Error, OSError, ValueError):  # another thread closes the run; stderr is closed
        _report(stats_of_run(), is_resumable)


def _report(stats: Stats, is_resumable: bool) -> None:
    finished = stats.samples_completed + stats.samples_dropped + stats.samples_dead_lettered
    abandoned = stats.samples_submitted - finished
    if abandoned > 0:
        remedy = (
            ". To process them, start again with resume=True, in a loop of your own with pending()"
            if is_resumable
            else ""
        )
        print(
            f"offramp: an exception abandoned {abandoned} of {stats.samples_submitted} submitted samples{remedy}",
            file=sys.stderr,
            flush=True,
        )


def warn_of_no_batch() -> None:
    warnings.warn(
        "no sample was submitted, so there are no results. Check that the loop has batches",
        RuntimeWarning,
        stacklevel=level_of_the_caller(),
    )
