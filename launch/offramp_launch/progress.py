"""Shows a run's progress: one live line on a terminal, a line of JSON every few seconds elsewhere."""

import contextlib
import datetime
import json
import math
import os
import sys
import time

from offramp_launch.screen import drawn_on, one_line, printable

PLAIN_SECONDS = 5
ENDS = ("ended", "abandoned", "failed")
# Fields of a status, and their words.
LOSSES = {"skipped": "skipped", "dead_lettered_samples": "dead-lettered", "dropped_samples": "dropped"}
BUSY = (("gpu_utilization", "compute"), ("consumer_utilization", "consumers"))
# Keys of a status's `releases` that are refusals.
REFUSED_RELEASES = ("foreign", "stale", "malformed")
# Columns from which everything fits on one line.
WIDE = 130
LONGEST_BAR, SHORTEST_BAR = 24, 6


def describe(status, unit):
    """One line: done, rate, time left, utilization, limiting stage."""
    return ", ".join(filter(None, (counted(status, unit), held_back(status), status.get("message"))))


def counted(status, unit):
    """Amount done, rate and time left; for a finished run only the first."""
    total, done = status.get("total_samples"), status.get("done_samples") or 0
    parts = [f"{done}/{total} {unit}" if total else f"{done} {unit}"]
    for name, word in LOSSES.items():
        if status.get(name):
            parts.append(f"{status[name]} {word}")
    if status.get("state") not in ENDS:
        parts.append(f"{status.get('samples_per_second') or 0:.1f}/s")
        left = seconds_left(status)
        if left is not None:
            parts.append(f"{spelled(left)} left")
    return ", ".join(parts)


def held_back(status):
    """Utilization and limiting stage; empty for a finished run."""
    if status.get("state") in ENDS:
        return ""
    parts = [f"{name} {100 * status[key]:.0f}%" for key, name in BUSY if status.get(key) is not None]
    if status.get("limiting_stage"):
        parts.append(f"held back by {status['limiting_stage']}")
    return ", ".join(parts)


def settled(status):
    """Number of samples that are done or given up."""
    return sum(status.get(name) or 0 for name in ("done_samples", *LOSSES))


def seconds_left(status):
    """Time left at the present rate; None where rate or total is unknown, nothing is left or the run is over."""
    left = (status.get("total_samples") or 0) - settled(status)
    rate = status.get("samples_per_second") or 0
    return left / rate if left > 0 and rate > 0 and status.get("state") not in ENDS else None


def spelled(seconds):
    """1:05, or 2:00:10"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def as_json(status, unit):
    """The content of describe() as one line of JSON."""
    left = seconds_left(status)
    fields = {
        "state": status.get("state"),
        "unit": unit,
        "done": status.get("done_samples") or 0,
        "total": status.get("total_samples"),
        "per_second": _rounded(status.get("samples_per_second")),
        "seconds_left": _rounded(left),
        "gpu_utilization": _rounded(status.get("gpu_utilization")),
        "consumer_utilization": _rounded(status.get("consumer_utilization")),
        "limiting_stage": status.get("limiting_stage"),
        "skipped": status.get("skipped") or None,
        "message": status.get("message"),
    }
    if status.get("state") in ENDS:
        fields.update(dict.fromkeys(("per_second", "gpu_utilization", "consumer_utilization", "limiting_stage")))
    return json.dumps({"progress": {name: value for name, value in fields.items() if value not in (None, "")}})


def _rounded(value):
    return None if value is None else round(value, 3)


def describe_holders(status):
    """Lines about each consumer's hold, refused releases and messages, and lost samples; empty where there are none."""
    lines = []
    for consumer in status.get("consumers") or []:
        if consumer.get("holding"):
            whose = f" of {consumer['group']}" if consumer.get("group") else ""
            lines.append(
                f"    pid {consumer.get('pid')}{whose} holds {consumer['holding']} for {consumer.get('oldest_hold_seconds') or 0:.1f} s"
                + (" (stalled)" if consumer.get("stalled") else "")
            )
    refused = [each for each in (status.get("releases") or {}).items() if each[0] in REFUSED_RELEASES]
    refused += (status.get("refused") or {}).items()
    odd = [f"{reason} {number}" for reason, number in refused if number]
    if odd:
        lines.append("  refused   " + ", ".join(odd))
    if status.get("dead_lettered_samples"):
        lines.append(f"  dead       {status['dead_lettered_samples']} samples; ./launch/offramp dead-letters list")
    if status.get("dropped_samples"):
        # a user's program keeps no list
        listed = "" if "submitted_samples" in status else "; dropped.jsonl in the run directory lists them"
        lines.append(f"  dropped {status['dropped_samples']} samples: no slab was free{listed}")
    if status.get("spilled_samples"):
        lines.append(f"  on the disk {status['spilled_samples']} samples, until consumers have time for them")
    return lines


def print_note(text):
    """A note of a run that has no display."""
    print(f"[run] {text}", flush=True)


class PlainDisplay:
    """
    Without a terminal: messages as text after "[run]", progress as lines of JSON.
    Thread: one. A reader that is gone (a closed pipe, a closed terminal) never disturbs the run.
    """

    def __init__(self, unit, clock=time.monotonic):
        self._unit = unit
        self._clock = clock
        self._next = 0.0
        self._end = None  # the end shown last

    def note(self, text):
        with contextlib.suppress(OSError, ValueError):
            print(f"[run] {text}", flush=True)

    def show(self, status):
        end = status.get("state") if status.get("state") in ENDS else None
        if status and (self._clock() >= self._next or end not in (None, self._end)):
            self._next, self._end = self._clock() + PLAIN_SECONDS, end
            with contextlib.suppress(OSError, ValueError):
                print(as_json(status, self._unit), flush=True)

    def show_end(self, status):
        """Shows the run's last status, which a dead producer may not have written."""
        self._next = math.inf  # shown once
        self.show(status)

    def close(self):
        pass


class JsonDisplay(PlainDisplay):
    """For --log-format json: every line is JSON, in the form of the programs' logs."""

    def note(self, text):
        with contextlib.suppress(OSError, ValueError):
            print(as_record(text), flush=True)


def as_record(text):
    """A log record in the format of common/base/log.cpp."""
    time_of_day = datetime.datetime.now().astimezone().isoformat(timespec="microseconds")
    return json.dumps(
        {"time": time_of_day, "level": "info", "program": "launcher", "pid": os.getpid(), "message": text}
    )


class LiveDisplay:
    """
    The same on a terminal. Draws only when called, without a thread. The layout depends only on the terminal's width,
    so that nothing jumps. Shows text without markup.
    """

    def __init__(self, unit, console=None):
        from rich.console import Console
        from rich.live import Live

        self._unit = unit
        self._live = Live(console=console or Console(file=drawn_on(sys.stdout)), auto_refresh=False)
        self._live.start()
        self.show({})

    def note(self, text):
        with contextlib.suppress(OSError, ValueError):
            self._live.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def show(self, status):
        with contextlib.suppress(OSError, ValueError):
            self._live.update(self._drawn(status), refresh=True)

    def show_end(self, status):
        """Does nothing: the summary follows."""

    def close(self):
        with contextlib.suppress(OSError, ValueError):
            self._live.stop()

    def _drawn(self, status):
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        def line(text):
            return Text(one_line(text), no_wrap=True, overflow="ellipsis")

        width = self._live.console.width
        state, causes = one_line(str(status.get("state", "starting"))), held_back(status)
        numbers = counted(status, self._unit) if status else ""
        if width >= WIDE:
            numbers, causes = ", ".join(filter(None, (numbers, causes))), ""
        bar = max(SHORTEST_BAR, min(LONGEST_BAR, width - len(state) - len(numbers) - 2))
        first = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        first.add_column(no_wrap=True, min_width=len(state))
        first.add_column(min_width=bar, max_width=bar)
        first.add_column(no_wrap=True, overflow="ellipsis")
        total = status.get("total_samples")
        drawn = ProgressBar(total=total, completed=settled(status), width=bar, pulse=not total)
        first.add_row(Text(state), drawn, line(numbers))
        below = [line(f"  {causes}")] if causes else []
        if status.get("message"):
            # Not up to the right edge, where the terminal's echo of ^C would start another line.
            below.append(Padding(Text(printable(status["message"])), (0, 0, 0, 2), expand=False))
        return Group(first, *below)


def make_display(unit, log_format="text"):
    if log_format == "json":
        return JsonDisplay(unit)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        with contextlib.suppress(ImportError):
            return LiveDisplay(unit)
    return PlainDisplay(unit)
