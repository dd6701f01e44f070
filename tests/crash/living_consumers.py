"""
Consumers end in a process that lives on: with an error at any of their steps, or with their producer. No death of a
process returns their slabs, so the library must.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading

from tests.crash.crash_run import BIN, ROOT
from tests.support.waiting import WATCHDOG_SECONDS, put_away, wait_for

BATCHES, ROWS = 60, 8
# A library's consumer never reaches these failpoints: no other producer recovers its run.
OF_A_RECOVERY = ("consumer.producer_lost", "consumer.producer_met", "consumer.back")
# Every value of sample r of batch b is b * 1000 + r; its key is b/r.
PRODUCER = """
    import sys, numpy, offramp
    run_dir, slabs, batches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with offramp.Egress(run_dir, {"values": ("float64", (8, 64))}, "cpu", slabs=slabs, samples_per_slab=8) as egress:
        print("open", flush=True)
        for batch in range(batches):
            numbers = batch * 1000 + numpy.arange(8.0)
            egress.submit({"values": numpy.repeat(numbers[:, None], 64, axis=1)}, [f"{batch}/{row}" for row in range(8)])
        egress.drain()
        stats = egress.stats()
        print(stats.samples_completed, stats.samples_dead_lettered, stats.consumers, flush=True)
"""
READING = """
    import os, sys, threading, offramp

    def read(slab):
        for sample, values in slab:
            print("sample", sample.key, int(values.min()), int(values.max()), flush=True)
"""
HEALTHY = (
    READING
    + """
    try:
        offramp.Consumer(sys.argv[1], wait_for_run=0.1).run(read)
    except offramp.NoSuchRun:
        pass        # the other consumer failed after the last slab
"""
)
# Runs a given number of times and stays alive. Its function fails once, to cover the steps of a failure.
FAILING = (
    READING
    + """
    failed = []

    def once(slab):
        if not failed:
            failed.append(slab)
            raise offramp.Failed("once")
        read(slab)

    for _ in range(int(sys.argv[2])):
        try:
            offramp.Consumer(sys.argv[1]).run(once)
            print("ended", flush=True)
        except offramp.Error as problem:
            print("failed", problem, flush=True)
    print("lives", flush=True)
    sys.stdin.read()
"""
)
# Two consumers in one process: the second joins the next run while the first still holds a slab of the dead run.
TWO = (
    READING
    + """
    def hold_then_read(name, number):
        def work(slab):
            seen.append(slab)
            if len(seen) == number:
                print(name, "holds", flush=True)
                go_on[name].wait()
            read(slab)
        seen = []
        return work

    def run(name, number):
        try:
            offramp.Consumer(sys.argv[1]).run(hold_then_read(name, number))
            print(name, "ended", flush=True)
        except offramp.Error as problem:
            print(name, "failed", type(problem).__name__, flush=True)

    go_on = {"first": threading.Event(), "second": threading.Event()}
    for line in sys.stdin:
        what, name, number = line.split()
        if what == "run":
            threading.Thread(target=run, args=(name, int(number))).start()
        else:
            go_on[name].set()
"""
)


class RunDirectory:
    """A run directory and the interpreters around it. Use as a context."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="offramp-living-", dir="/tmp")
        self.run_dir = pathlib.Path(self._folder.name) / "run"
        self._started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process, watchdog in self._started:
            watchdog.cancel()
            process.stdin.close()
            put_away(process)
        self._folder.cleanup()

    def python(self, program, *arguments, failpoints=""):
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}/launch/python",
            "OFFRAMP_LIBRARY": str(BIN.parent / "lib" / "libofframp.so"),
        }
        if failpoints:
            environment.update(LD_PRELOAD=str(BIN / "tests" / "libofframp_failpoints.so"), OFFRAMP_FAILPOINT=failpoints)
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), str(self.run_dir), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment,
        )
        watchdog = threading.Timer(WATCHDOG_SECONDS, process.kill)  # unblocks the reader
        watchdog.start()
        self._started.append((process, watchdog))
        return process

    def produce(self, slabs, batches=BATCHES):
        """Starts a producer; returns once its run exists."""
        producer = self.python(PRODUCER, slabs, batches)
        read_until(producer, "open")
        return producer

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait(WATCHDOG_SECONDS)


def read_until(process, until):
    """The process's lines through the first one that begins with `until`."""
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if lines[-1].startswith(until):
            return lines
    raise AssertionError(f"the process ended before it printed '{until}': {lines}")


def send(process, *words):
    print(*words, file=process.stdin, flush=True)


def samples_in(lines):
    """[(key, least value, greatest value)] of the printed samples."""
    return [
        (key, int(low), int(high))
        for word, key, low, high in (line.split() for line in lines if line.startswith("sample "))
        if word
    ]


def wrong_values(samples):
    """Samples that hold another sample's data."""

    def value(key):
        batch, row = map(int, key.split("/"))
        return 1000 * batch + row

    return [sample for sample in samples if sample[1:] != (value(sample[0]), value(sample[0]))]


def error_at(failpoint, directory, times=1):
    """
    Fails a consumer `times` times at a failpoint; its process lives on while another consumer does the rest. Returns
    the faults as texts.
    """
    batches, wrong = 12, []
    producer = directory.produce(slabs=1 if times == 1 else times, batches=batches)
    living = directory.python(
        FAILING, times, failpoints=",".join(f"{failpoint}#{nth}:throw" for nth in range(1, times + 1))
    )
    printed = read_until(living, "lives")
    healthy = directory.python(HEALTHY)
    if sum(line.startswith("failed") for line in printed) != times:
        wrong.append(f"the failpoint was not passed {times} times: {printed}")
    completed, dead_letters, consumers = map(int, read_until(producer, str(batches * ROWS))[-1].split())
    if (completed, dead_letters) != (batches * ROWS, 0) or living.poll() is not None:
        wrong.append(
            f"{completed} samples were completed, {dead_letters} dead-lettered; the consumer's process: {living.poll()}"
        )
    if consumers > 1:
        wrong.append(f"{consumers} consumers are registered, but only one exists")
    healthy.wait(WATCHDOG_SECONDS)
    samples = samples_in([*printed, *healthy.stdout.read().splitlines()])
    if len({key for key, _, _ in samples}) != batches * ROWS or wrong_values(samples):
        wrong.append(f"{len(samples)} samples were read; wrong ones: {wrong_values(samples)}")
    return wrong


def producer_dies_at_slab(number, directory):
    """
    The producer dies while the first consumer holds its `number`-th slab. The next producer uses the same directory.
    The second consumer, in the same process, reads a slab of the new run while the first returns the dead run's slab.
    Returns the faults as texts.
    """
    killed = directory.produce(slabs=4)
    consumers = directory.python(TWO)
    send(consumers, "run", "first", number)
    before = read_until(consumers, "first holds")
    directory.kill(killed)
    producer = directory.produce(slabs=4)
    send(consumers, "run", "second", number)
    read = read_until(consumers, "second holds")
    send(consumers, "go", "first", 0)
    end = read_until(consumers, "first ")
    status = directory.run_dir / "status.json"
    wait_for(lambda: '"free": 0' in status.read_text(), "the next run to fill its free slabs")
    send(consumers, "go", "second", 0)
    read += read_until(consumers, "second ")
    of_next = samples_in(read)
    wrong = [] if end[-1].startswith("first failed") else [f"the consumer of the dead run: {end[-1]}"]
    if (printed := read_until(producer, "")[-1].split())[:2] != [str(BATCHES * ROWS), "0"]:
        wrong.append(f"completed and dead-lettered: {printed}")
    if len({key for key, _, _ in of_next}) != BATCHES * ROWS or (
        others := wrong_values(samples_in([*before, *end]) + of_next)
    ):
        wrong.append(f"{len(of_next)} samples of the next run; with another sample's bytes: {others}")
    return wrong
