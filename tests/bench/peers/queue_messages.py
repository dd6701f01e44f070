#!/usr/bin/env python3
"""
Messages alone through multiprocessing.Queue: numbers of slabs go to readers through one queue and come back through
another.

With --progress it runs until it is killed, with all slabs in flight. With --latency it passes one number at a time
through an idle queue, prints one JSON line with the times from put to get, and ends.
"""

import argparse
import collections
import json
import math
import multiprocessing
import time

from processes import die_with_parent
from progress import ProgressCell

IDLE_SECONDS = 0.0005  # between two messages, so that the receiver is asleep


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--slabs", type=int, default=8)
    parser.add_argument("--progress", help="a file of cells, one for this process and one for each reader")
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--samples", type=int, default=10_000)
    return parser.parse_args()


def read(index, progress, work, free):
    die_with_parent()
    cell = ProgressCell(progress, index) if progress else None
    while True:
        slab, sent_ns = work.get()
        came_ns = time.monotonic_ns()
        free.put((slab, came_ns - sent_ns))
        if cell:
            cell.add(1)


def pass_on(work, free):
    while True:
        slab, _ = free.get()
        work.put((slab, 0))


def histogram(times_ns):
    """
    [upper bound in microseconds, count] in steps of an eighth of a power of two, like offramp-message-bench, without
    empty steps.
    """
    counts = collections.Counter(math.ceil(8 * math.log2(max(time_ns, 1000) / 1000)) for time_ns in times_ns)
    return [[2 ** (step / 8), counts[step]] for step in sorted(counts)]


def measure_latency(samples, work, free):
    free.get()
    times_ns = []
    for number in range(samples + samples // 10):
        time.sleep(IDLE_SECONDS)
        work.put((0, time.monotonic_ns()))
        took_ns = free.get()[1]
        if number >= samples // 10:  # the first messages warm up
            times_ns.append(took_ns)
    times_ns.sort()
    print(
        json.dumps(
            {
                "samples": samples,
                "p50_us": times_ns[len(times_ns) // 2] / 1000,
                "p99_us": times_ns[min(len(times_ns) - 1, len(times_ns) * 99 // 100)] / 1000,
                "histogram": histogram(times_ns),
            }
        ),
        flush=True,
    )


def main():
    options = parse()
    context = multiprocessing.get_context("spawn")
    work, free = context.Queue(), context.Queue()
    for index in range(1, options.readers + 1):
        context.Process(target=read, args=(index, options.progress, work, free), daemon=True).start()
    for slab in range(1 if options.latency else options.slabs):
        free.put((slab, 0))
    if options.latency:
        measure_latency(options.samples, work, free)
    else:
        pass_on(work, free)


if __name__ == "__main__":
    main()
