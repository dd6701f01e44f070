"""
The contest of a row: all contestants stay loaded, one runs at a time, and their windows alternate.

A window: the contestant continues and settles; a first reading; at least `seconds` later a second one; the contestant
is stopped. A reading is taken at a release and carries that release's own time, so the rate is (samples between the
readings) / (time between the two releases) and the edges lose nothing. The windows of one round are neighbours, and
ratios are taken within rounds.

Stopping a program does not stop the kernels and copies that it has queued on the GPU. So the next contestant settles
for at least as long as those may take, and the order changes so that each follows each other one.
"""

import collections
import dataclasses
import itertools

from processes import Usage


@dataclasses.dataclass(frozen=True)
class Pace:
    windows: int = 6
    seconds: float = 3.0
    settle_seconds: float = 0.5  # a row may need more
    warmup_batches: int = 10
    warm_seconds: float = 3.0  # after the batches, until the whole pool was used and every reader has mapped it
    overlapping_starts: bool = False  # only if nothing is measured: autotuning chooses wrongly beside a neighbour


@dataclasses.dataclass(frozen=True)
class Window:
    """One contestant in one round. CPU times are shares of the wall time, so that they need no edges either."""

    seconds: float
    batches: float
    batches_per_second: float
    bytes_per_batch: float
    producer_cpu_ms_per_batch: float
    readers_cpu_ms_per_batch: float
    producer_faults_per_batch: float
    readers_faults_per_batch: float
    producer_private_mib: float
    readers_private_mib: float
    stage: str
    producer_threads_cpu_ms_per_batch: dict = dataclasses.field(default_factory=dict)
    compute_ms_per_batch: float | None = (
        None  # of the device, by pairs of events; None if the program does not report it
    )


def between(first, last, batch):
    """The window between two readings; `batch`: samples in a batch."""
    seconds = (last.release_ns - first.release_ns) / 1e9
    batches = (last.samples - first.samples) / batch
    rate = batches / seconds
    per_batch = 1 / ((last.at_ns - first.at_ns) / 1e9 * rate)  # batches within the time between the looks

    def used(before: Usage, after: Usage):
        return (after.cpu_seconds - before.cpu_seconds) * 1000 * per_batch, (after.faults - before.faults) * per_batch

    producer_cpu, producer_faults = used(first.producer, last.producer)
    readers_cpu, readers_faults = used(first.readers, last.readers)
    return Window(
        seconds=seconds,
        batches=batches,
        batches_per_second=rate,
        bytes_per_batch=(last.payload_bytes - first.payload_bytes) / batches,
        producer_cpu_ms_per_batch=producer_cpu,
        readers_cpu_ms_per_batch=readers_cpu,
        producer_faults_per_batch=producer_faults,
        readers_faults_per_batch=readers_faults,
        producer_private_mib=last.producer.private_kib / 1024,
        readers_private_mib=last.readers.private_kib / 1024,
        stage=last.stage,
        producer_threads_cpu_ms_per_batch={
            name: (seconds - first.producer_threads.get(name, 0)) * 1000 * per_batch
            for name, seconds in last.producer_threads.items()
        },
        compute_ms_per_batch=computed(first.compute, last.compute),
    )


def computed(first, last):
    """Milliseconds per batch between two counts of (seconds, batches)."""
    if first is None or last is None or last[1] <= first[1]:
        return None
    return 1000 * (last[0] - first[0]) / (last[1] - first[1])


def load(programs, batch, pace):
    """Start, warm up and stop each program, one after another, so that none tunes its model beside another."""
    if pace.overlapping_starts:
        for program in programs:
            program.start()
    for program in programs:
        if not pace.overlapping_starts:
            program.start()
        program.wait_until_warm(pace.warmup_batches * batch)
        program.run_on(pace.warm_seconds)
        program.pause()


def rounds_of(names, windows):
    """
    The order of each round, chosen so that each contestant runs in each place, and after each other one, about equally
    often. Two alternate: A B, B A, A B. Three run in all six orders in six rounds.
    """
    orders, places, follows = [], collections.Counter(), collections.Counter()

    def neighbours(order):
        whole = (*orders[-1][-1:], *order) if orders else order
        return [(before, after) for before, after in zip(whole, whole[1:]) if before != after]

    def unevenness_added(order):
        return sum(2 * places[place] + 1 for place in enumerate(order)) + sum(
            2 * follows[pair] + 1 for pair in neighbours(order)
        )

    for _ in range(windows):
        chosen = min(itertools.permutations(names), key=unevenness_added)
        places.update(enumerate(chosen))
        follows.update(neighbours(chosen))
        orders.append(list(chosen))
    return orders


def hold_contest(programs, batch, pace, log=lambda text: None):
    """Windows by contestant's name, one per round. The caller closes the programs."""
    load(programs, batch, pace)
    by_name = {program.name: program for program in programs}
    windows = {name: [] for name in by_name}
    for number, order in enumerate(rounds_of(list(by_name), pace.windows)):
        for name in order:
            windows[name].append(by_name[name].window(batch, pace))
        log(
            f"round {number + 1}: "
            + ", ".join(f"{name} {windows[name][-1].batches_per_second:.4g}/s" for name in by_name)
        )
    return windows
