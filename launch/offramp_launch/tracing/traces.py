"""Reads traces of --trace-dir and `trace`: a file per program, a JSON object per line, CLOCK_MONOTONIC nanoseconds."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import typing

from offramp_launch.exit_code import InputError

TIMES = re.compile(r'"begin_ns":(\d+),"end_ns":(\d+)')  # the format of range_file.cpp


class Range(typing.NamedTuple):
    """`device`: timed by two events on the device's stream, not by the host's clock."""

    lane: str
    name: str
    batch: int
    begin: int
    end: int
    device: bool


@dataclasses.dataclass(frozen=True)
class Program:
    process: str
    pid: int
    ranges: tuple
    not_kept: int = 0


@dataclasses.dataclass(frozen=True)
class Trace:
    """All programs of one run. `window`: begin and end of the measured batches; None if the run ended before."""

    programs: tuple
    window: tuple | None

    def device(self, lane):
        """The device's ranges of a lane, as (begin, end)."""
        return [(each.begin, each.end) for _, each in self._ranges() if each.device and each.lane == lane]

    def named(self, name):
        """(program, range) of the host's ranges of this name."""
        return [(program, each) for program, each in self._ranges() if not each.device and each.name == name]

    def _ranges(self):
        return ((program, each) for program in self.programs for each in program.ranges)


def read_trace(folder):
    """Errors: LaunchError (BAD_INPUT) names a file that is not a trace."""
    programs = [read_program(file) for file in sorted(folder.glob("*.jsonl"))]
    for program in programs:
        if program.not_kept:
            raise InputError(
                f"the trace of {program.process} {program.pid} in '{folder}' lacks {program.not_kept} time ranges: its recording was full",
                "Measure fewer --batches",
            )
    # The producer first, then consumers in the order of their start.
    programs.sort(key=lambda program: (program.process != "producer", program.pid))
    instants = {
        entry.name: entry.begin
        for program in programs
        if program.process == "producer"
        for entry in program.ranges
        if entry.name in ("measure_begin", "measure_end")
    }
    complete = instants.get("measure_end", 0) > instants.get("measure_begin", 0) and "measure_begin" in instants
    return Trace(tuple(programs), (instants["measure_begin"], instants["measure_end"]) if complete else None)


def read_program(file, view=None):
    """`view`: reads only ranges that touch it. Errors: LaunchError (BAD_INPUT) names a file that is not a trace."""
    with open(file, encoding="utf-8") as lines:
        try:
            head = json.loads(next(lines, ""))
            ranges = tuple(
                _range(json.loads(line)) for line in lines if line.strip() and (view is None or _touches(line, view))
            )
            return Program(head["process"], head["pid"], ranges, head.get("not_kept", 0))
        except (ValueError, KeyError, TypeError) as problem:
            raise InputError(f"'{file}' is not a trace ({problem!r})", "Record it again") from problem


def _touches(line, view):
    found = TIMES.search(line)
    return found is None or (int(found[2]) > view.begin and int(found[1]) < view.end)


def _range(entry):
    # interned: there are many ranges with few lanes and names
    return Range(
        sys.intern(entry["lane"]),
        sys.intern(entry["name"]),
        entry.get("batch", -1),
        entry["begin_ns"],
        entry["end_ns"],
        entry.get("clock") == "device",
    )
