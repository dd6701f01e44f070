"""Shows how a run is doing: one live line on a terminal, a line of JSON every few seconds elsewhere."""

import contextlib
import json
import sys
import time

PLAIN_SECONDS = 5
RATE_SECONDS = 10
ENDS = ("ended", "abandoned", "failed")


def describe(status, unit):
    """One line: done, rate, time left, who is busy, what holds the rest back."""
    total = status.get("total_samples")
    done = status.get("done_samples") or 0
    parts = [f"{done}/{total} {unit}" if total else f"{done} {unit}", f"{status.get('samples_per_second') or 0:.1f}/s"]
    left = seconds_left(status)
    if left is not None:
        parts.append(f"{spelled(left)} left")
    for key, name in (("gpu_share", "compute"), ("consumer_share", "consumers")):
        if status.get(key) is not None:
            parts.append(f"{name} {100 * status[key]:.0f}%")
    if status.get("limiting_stage"):
        parts.append(f"held back by {status['limiting_stage']}")
    if status.get("message"):
        parts.append(status["message"])
    return ", ".join(parts)


def seconds_left(status):
    """At the present rate; None where that, or the number of items, is not known or nothing is left."""
    left = (status.get("total_samples") or 0) - (status.get("done_samples") or 0)
    rate = status.get("samples_per_second") or 0
    return left / rate if left > 0 and rate > 0 else None


def spelled(seconds):
    """1:05, or 2:00:10"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def as_json(status, unit):
    """One line for programs: what describe() tells."""
    left = seconds_left(status)
    told = {"state": status.get("state"), "unit": unit, "done": status.get("done_samples") or 0, "total": status.get("total_samples"),
            "per_second": _rounded(status.get("samples_per_second")), "seconds_left": _rounded(left), "compute_share": _rounded(status.get("gpu_share")),
            "consumer_share": _rounded(status.get("consumer_share")), "limiting_stage": status.get("limiting_stage"),
            "message": status.get("message")}
    return json.dumps({"progress": {name: value for name, value in told.items() if value not in (None, "")}})


def _rounded(value):
    return None if value is None else round(value, 3)


def who_holds_what(status):
    """Lines on each consumer's hold, and on the releases and messages that were not taken; none where nothing is to be said."""
    lines = []
    for consumer in status.get("consumers") or []:
        if consumer.get("holding"):
            lines.append(f"    pid {consumer.get('pid')} holds {consumer['holding']} for {consumer.get('oldest_hold_seconds') or 0:.1f} s"
                         + (" (overdue)" if consumer.get("overdue") else ""))
    odd = {name: number for name, number in (status.get("releases") or {}).items()
           if number and name in ("foreign", "stale", "malformed", "repeated")}
    odd.update({reason: number for reason, number in (status.get("refused") or {}).items() if number})
    if odd:
        lines.append("  not taken " + ", ".join(f"{reason} {number}" for reason, number in odd.items()))
    if status.get("quarantined_samples"):
        lines.append(f"  set aside {status['quarantined_samples']} samples; ./launch/offramp quarantine list")
    if status.get("dropped_samples"):
        lines.append(f"  dropped {status['dropped_samples']} samples that found no free slab; dropped.jsonl in the run directory lists them")
    if status.get("spilled_samples"):
        lines.append(f"  on the disk {status['spilled_samples']} samples, until consumers have time for them")
    return lines


class Rate:
    """Samples a second over the last ten seconds: batches that take seconds each would otherwise show as nothing, then a jump."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._seen = []

    def update(self, status):
        """The status with this rate in the place of the momentary one."""
        done = status.get("done_samples")
        if done is None:
            return status
        now = self._clock()
        self._seen = [(at, count) for at, count in self._seen if now - at <= RATE_SECONDS] + [(now, done)]
        began, before = self._seen[0]
        seconds = now - began
        return {**status, "samples_per_second": (done - before) / seconds} if seconds > 0 else status


class PlainDisplay:
    """
    Where no terminal is: what happens as text behind "[run]", how far the run is as a line of JSON.
    Thread: one. A reader that is gone (a closed pipe, a closed terminal) never disturbs the run.
    """

    def __init__(self, unit, clock=time.monotonic):
        self._unit = unit
        self._clock = clock
        self._next = 0.0
        self._ended = False
        self._rate = Rate(clock)

    def note(self, text):
        with contextlib.suppress(OSError, ValueError):
            print(f"[run] {text}", flush=True)

    def show(self, status):
        status = self._rate.update(status)
        ended = status.get("state") in ENDS
        if status and (self._clock() >= self._next or ended and not self._ended):
            self._next, self._ended = self._clock() + PLAIN_SECONDS, ended
            with contextlib.suppress(OSError, ValueError):
                print(as_json(status, self._unit), flush=True)

    def close(self):
        pass


class LiveDisplay:
    """The same on a terminal. Drawn only when the supervisor says so: no thread of its own."""

    def __init__(self, unit):
        from rich.progress import BarColumn, Progress, TextColumn

        self._unit = unit
        self._rate = Rate()
        self._progress = Progress(TextColumn("{task.fields[state]}"), BarColumn(bar_width=24), TextColumn("{task.fields[line]}"),
                                  auto_refresh=False)
        self._task = self._progress.add_task("", total=None, state="starting", line="")
        self._progress.start()

    def note(self, text):
        with contextlib.suppress(OSError, ValueError):
            self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, status):
        status = self._rate.update(status)
        with contextlib.suppress(OSError, ValueError):
            self._progress.update(self._task, total=status.get("total_samples"), completed=status.get("done_samples") or 0,
                                  state=status.get("state", "starting"), line=describe(status, self._unit) if status else "")
            self._progress.refresh()

    def close(self):
        with contextlib.suppress(OSError, ValueError):
            self._progress.stop()


def make_display(unit):
    if sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            return LiveDisplay(unit)
    return PlainDisplay(unit)
