"""A run's history while `top` or the server of --http watches it: shares, rates, recent work of each consumer."""

from __future__ import annotations

import collections
import dataclasses

from offramp_launch.watching.diagnosis import is_over

KEPT_SECONDS = 600
SHARE_SECONDS = 10  # the window of rates and shares in status.json, too


@dataclasses.dataclass(frozen=True)
class Moment:
    at: float  # seconds, by the run's clock if it is reported
    rate: float | None = None  # samples a second
    compute: float | None = None  # shares of the time
    copy: float | None = None
    consumers: float | None = None
    copied: float | None = None  # seconds of copies so far
    released: float | None = None  # bytes so far
    done: dict = dataclasses.field(default_factory=dict)  # samples of each consumer, by its pid
    busy: dict = dataclasses.field(default_factory=dict)  # busy seconds of each


class Rates:
    """`silent`: seconds since the status last changed, as of the last add()."""

    def __init__(self, kept_seconds=KEPT_SECONDS):
        self._kept_seconds = kept_seconds
        self.moments: collections.deque[Moment] = collections.deque()
        self.silent = 0.0
        self._time = self._changed_at = None
        self._has_run_clock = False  # False: times are the viewer's

    def add(self, document, now):
        """`now`: seconds of a clock that only goes forward."""
        status = document.get("status") or {}
        self._note_time(status.get("time"), now)
        has_run_clock = bool(status.get("now_ns"))
        if has_run_clock and not self._has_run_clock:
            self.moments.clear()
        at = status["now_ns"] / 1e9 if has_run_clock else now
        last = self.moments[-1] if self.moments else Moment(0.0)
        if not status.get("state") or (self.moments and (at <= last.at or has_run_clock != self._has_run_clock)):
            return
        self._has_run_clock = has_run_clock
        over, copied = is_over(document), copy_seconds(document)
        before = self._first(at - SHARE_SECONDS, lambda moment: moment.copied)
        copy = (
            min(1.0, max(0.0, (copied - before.copied) / (at - before.at))) if before and copied is not None else None
        )

        def held(value, name):
            """A missing share keeps its last value."""
            return getattr(last, name) if value is None and not over else value

        consumers = status.get("consumers") or []
        self.moments.append(
            Moment(
                at,
                0.0 if over else status.get("samples_per_second"),
                held(status.get("gpu_utilization"), "compute"),
                held(copy, "copy"),
                held(status.get("consumer_utilization"), "consumers"),
                copied,
                status.get("released_bytes"),
                {each.get("pid"): each.get("samples") or 0 for each in consumers},
                {each.get("pid"): each.get("busy_seconds") or 0 for each in consumers},
            )
        )
        while self.moments[0].at < at - self._kept_seconds:
            self.moments.popleft()

    def _note_time(self, time, now):
        if time is None or time != self._time:
            self._time, self._changed_at = time, now
        self.silent = now - self._changed_at

    def _first(self, since, value):
        return next((moment for moment in self.moments if moment.at >= since and value(moment) is not None), None)

    def growth(self, value):
        """Growth per second of `value(moment)`; None while unknown."""
        if not self.moments:
            return None
        last = self.moments[-1]
        first = self._first(last.at - SHARE_SECONDS, value)
        if first in (None, last) or value(last) is None:
            return None
        return max(0.0, value(last) - value(first)) / (last.at - first.at)

    def now(self):
        """The latest moment, as JSON."""
        last = self.moments[-1] if self.moments else None
        return {
            **{name: getattr(last, name, None) for name in ("at", "rate", "compute", "copy", "consumers")},
            "bytes_per_second": self.growth(lambda moment: moment.released),
        }

    def line(self, name, columns, seconds):
        """One value per column for the last `seconds`, the newest last; None if unknown."""
        found = [None] * columns
        for moment in self.moments:
            column = columns - 1 - int((self.moments[-1].at - moment.at) * columns / seconds)
            value = getattr(moment, name)
            if column >= 0 and value is not None:
                found[column] = max(value, found[column] or 0)
        return filled(found)


def filled(values):
    """Gaps between two values repeat the value before them: a terminal may have more columns than there are moments."""
    known = [place for place, value in enumerate(values) if value is not None]
    for place in range(known[0], known[-1]) if known else ():
        if values[place] is None:
            values[place] = values[place - 1]
    return values


def copy_seconds(document):
    """Seconds of copies per device since the run began; None if not reported."""

    def seconds(counters):
        return ((counters or {}).get("stage_seconds") or {}).get("d2h", {}).get("sum")

    workers = document.get("workers")
    runs = [report for report in workers.values() if report.get("run_dir")] if workers else [document]
    runs = [report for report in runs if seconds(report.get("status")) is not None]
    known = [seconds(report["status"]) + (seconds(report.get("earlier")) or 0) for report in runs]
    return sum(known) / len(known) if known else None
