#!/usr/bin/env python3
"""
Hours of one run whose processes are killed, stopped and scaled: does anything grow that should not? Samples memory,
descriptors, threads, files and shared memory, prints for each figure its value early and late and its slope, and exits
with 1 if one has grown, if a batch is lost, or if something is left.

  OFFRAMP_TEST_BIN=build/release/bin python3 -m tests.crash.soak --hours 2 [--producers] [--seed N] [--into FILE]
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import signal
import statistics
import sys
import time
from collections import defaultdict

from tests.support.launched_run import LaunchedRun
from tests.support.real_run import left_behind, shared_memory

PROCESSOR = """
import time

def process(batch):
    time.sleep(0.1)
"""
FLAGS = ("--source", "synthetic", "--model", "copy", "--batch", "4", "--image-size", "32", "--slabs", "16")
FLAGS += ("--consumers", "3", "--max-failures", "1000", "--visibility-timeout", "2", "--producer-restarts", "1000")
SAMPLE_SECONDS = 10
STOPPED_RUN = 130  # the exit code after `stop`
BETWEEN = (1, 8)  # seconds from one disturbance to the next
PRODUCER_SHARE = 0.02  # of the disturbances, with --producers
STOPPED = (0.5, 4)  # seconds: also beyond the visibility timeout
# Growth between the second and the last quarter that is still noise: a share of the value, and a number.
NOISE = {"kB": (0.03, 1024), "bytes": (0.03, 65536), "": (0, 2)}
UNITS = {"rss": "kB", "locked": "kB", "bytes": "bytes"}


@dataclasses.dataclass
class Trend:
    early: float
    late: float
    per_hour: float
    has_grown: bool


def trend_of(series, unit):
    """`series`: [(seconds, value)]. Compares the medians of the second and last quarters, after a warm-up."""
    quarter = max(1, len(series) // 4)
    early = statistics.median(value for _, value in series[quarter : 2 * quarter] or series)
    late = statistics.median(value for _, value in series[-quarter:])
    later = series[quarter:]
    share, number = NOISE[unit]
    slope = 0.0
    if len({seconds for seconds, _ in later}) > 1:
        slope = statistics.linear_regression(*zip(*later)).slope * 3600
    return Trend(early, late, slope, late - early > max(share * early, number))


def figures_of(pid, prefix):
    """The process's memory, descriptors and threads; nothing if it is gone."""
    with contextlib.suppress(OSError, ValueError, KeyError):  # a dead one has no memory until it is reaped
        lines = (line.split() for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        fields = {
            words[0]: int(words[1]) for words in lines if words and words[0] in ("RssAnon:", "VmLck:", "Threads:")
        }
        yield f"{prefix} rss", fields["RssAnon:"]
        yield f"{prefix} locked", fields["VmLck:"]
        yield f"{prefix} threads", fields["Threads:"]
        yield f"{prefix} descriptors", len(os.listdir(f"/proc/{pid}/fd"))


def size_of(folder, leave_out=()):
    """(files, bytes) below a folder."""
    number, size = 0, 0
    for path in pathlib.Path(folder).rglob("*"):
        with contextlib.suppress(OSError):
            if not any(name in path.parts for name in leave_out):
                number, size = number + 1, size + path.lstat().st_size
    return number, size


class Soak:
    """One run and its disturbances. Owns: the run, and the processes that it has stopped."""

    def __init__(self, run, kills_producers, seed):
        self._run, self._kills_producers, self._random = run, kills_producers, random.Random(seed)
        self.series = defaultdict(list)
        self.tally = defaultdict(int)
        self._first = [*SIGNALS, "scale"] if kills_producers else [*OF_CONSUMERS, "scale"]  # each kind happens once
        self._stopped = {}

    def go_on(self, seconds):
        began = time.monotonic()
        sample_at = disturb_at = began
        while (now := time.monotonic()) < began + seconds:
            if self._run.launcher.poll() is not None:
                raise AssertionError(f"the run ended with {self._run.launcher.returncode}\n{self._run.logs()}")
            self._continue(now)
            if now >= sample_at:
                sample_at = now + SAMPLE_SECONDS
                self._sample(now - began)
            if now >= disturb_at:
                disturb_at = now + self._random.uniform(*BETWEEN)
                self._disturb()
            time.sleep(0.1)
        self._continue(float("inf"))

    def _continue(self, now):
        for pid in [pid for pid, until in self._stopped.items() if now >= until]:
            del self._stopped[pid]
            send(pid, signal.SIGCONT)

    def _disturb(self):
        status = self._run.status()
        consumers = [each["pid"] for each in status.get("consumers") or []]
        kind = self._first[-1] if self._first else self._random.choice((*OF_CONSUMERS, "kill", "scale"))
        if not self._first and self._kills_producers and self._random.random() < PRODUCER_SHARE:
            kind = "producer killed"
        victims = [status.get("pid")] if kind == "producer killed" else consumers
        if kind == "scale":
            if self._run.command("scale", str(self._random.randint(1, 5))).returncode:
                return
        elif not victims or not send(pid := self._random.choice(victims), SIGNALS[kind]):
            return
        elif kind == "stop":
            self._stopped[pid] = time.monotonic() + self._random.uniform(*STOPPED)
        self.tally[kind] += 1
        self._first = [each for each in self._first if each != kind]

    def never(self):
        """Kinds of disturbances that did not happen."""
        return self._first

    def _sample(self, now):
        status = self._run.status()
        found = dict(figures_of(self._run.launcher.pid, "launcher"))
        found.update(figures_of(status.get("pid"), "producer"))
        for consumer in status.get("consumers") or []:
            for name, value in figures_of(consumer["pid"], "consumer"):
                found[name] = max(value, found.get(name, 0))
        found["run directory files"], found["run directory bytes"] = size_of(self._run.run_dir, ("logs",))
        checkpoint = self._run.output / ".offramp-checkpoint"
        found["checkpoint bytes"] = checkpoint.stat().st_size if checkpoint.exists() else 0
        names = shared_memory()
        found["shared memory files"] = len(names)
        found["shared memory bytes"] = sum(size_if_there(pathlib.Path("/dev/shm", name)) for name in names)
        found["logs files"] = size_of(self._run.run_dir / "logs")[0]
        for name, value in found.items():
            self.series[name].append((now, value))


OF_CONSUMERS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "end": signal.SIGTERM}
SIGNALS = {**OF_CONSUMERS, "producer killed": signal.SIGKILL}


def size_if_there(path):
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def send(pid, number):
    with contextlib.suppress(ProcessLookupError, TypeError):
        os.kill(pid, number)
        return True
    return False


def table(series):
    """The lines to print, and the names of the figures that have grown."""
    lines, grown = [f"{'figure':<24}{'early':>14}{'late':>14}{'an hour':>14}"], []
    for name, values in sorted(series.items()):
        trend = trend_of(values, UNITS.get(name.split()[-1], ""))
        mark = "  has grown" if trend.has_grown else ""
        lines.append(f"{name:<24}{trend.early:>14,.0f}{trend.late:>14,.0f}{trend.per_hour:>+14,.1f}{mark}")
        grown += [name] if trend.has_grown else []
    return lines, grown


def wrong_at_the_end(run, code):
    """What does not hold after the end, as texts."""
    summary = run.summary()
    if code != STOPPED_RUN:
        yield f"exit code {code}\n{run.logs()}"
    if not summary["conserved"] or summary["batches"]["published"] != summary["batches"]["released"]:
        yield f"batches are lost: {summary['batches']}"
    if names := left_behind(shared_memory):
        yield f"left in /dev/shm: {', '.join(sorted(names))}"


def soak(hours, kills_producers, seed, into):
    with LaunchedRun() as run:
        processor = run.folder / "slow.py"
        processor.write_text(PROCESSOR)
        run.deadline = time.monotonic() + hours * 3600 + 600
        run.start(
            *FLAGS, "--batches", str(10**7), "--processor", f"{processor}:process", "--consumer-python", sys.executable
        )
        run.until(lambda: run.status().get("released_batches"), "the first batch")
        work = Soak(run, kills_producers, seed)
        work.go_on(hours * 3600)
        run.command("stop")
        wrong = [*wrong_at_the_end(run, run.wait()), *(f"never happened: {kind}" for kind in work.never())]
        batches = run.summary()["batches"]["released"]
    lines, grown = table(work.series)
    print(f"{hours:g} hours, seed {seed}: {batches:,} batches, {json.dumps(work.tally)}")
    print("\n".join(lines))
    if into:
        pathlib.Path(into).write_text(json.dumps({"tally": work.tally, "series": work.series}))
    return wrong + [f"grown: {name}" for name in grown]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--producers", action="store_true", help="kill producers, too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--into", metavar="FILE", help="the samples as JSON")
    given = parser.parse_args()
    wrong = soak(given.hours, given.producers, given.seed, given.into)
    print("\n".join(wrong) or "nothing has grown or was lost")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
