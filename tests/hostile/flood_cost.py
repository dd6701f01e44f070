"""
What a flood from one consumer costs the others: samples a second of a run with it, over those of the same run without.

    OFFRAMP_TEST_BIN=build/release/bin PYTHONPATH=. python3 tests/hostile/flood_cost.py [--rate 100000] [--pairs 10] [--seconds 6] [--slab 1MiB]

Runs follow one another in pairs, the order turned around each time. The flood is a process of its own; where cores are few, some of its cost
is that it runs at all, which --elsewhere shows: the same flood, at a socket that is not the run's.
"""

import argparse
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from tests.support.real_run import RealRun, kill

CONSUMERS = 2
SETTLING_SECONDS = 1


class Sink:
    """Takes whatever comes to two sockets like a run's, and answers nothing."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="offramp-sink-")
        self.address = str(pathlib.Path(self.folder.name, "sink.sock"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self):
        connection, _ = self._listener.accept()
        while connection.recv(1 << 20):
            pass


FLOOD_ELSEWHERE = """
import socket, sys, time
rate, address = int(sys.argv[1]), sys.argv[2]
connection = socket.socket(socket.AF_UNIX); connection.connect(address)
a_step = max(1, rate // 500); data = bytes(53) * a_step
print("flooding", flush=True)
began, sent = time.monotonic(), 0
while True:
    connection.sendall(data); sent += a_step
    ahead = sent / rate - (time.monotonic() - began)
    if ahead > 0: time.sleep(ahead)
"""


def flood_of(run, options, where):
    if where == "run":
        words = ["-m", "tests.hostile.hostile_consumer", str(run.run_dir), "flood", "--rate", str(options.rate)]
    else:
        run.sink = Sink()
        words = ["-c", FLOOD_ELSEWHERE, str(options.rate), run.sink.address]
    child = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True, env=run.environment)
    assert child.stdout.readline() == "flooding\n", run.logs()
    return child


def samples_a_second(options, where):
    """Of a run with a flood at the run, or elsewhere, or with none; and the flood's own rate."""
    with RealRun("--device", "cpu", "--model", "copy", "--copy-bytes", options.slab, "--batch", "4", "--batches", "100000000", "--slabs", "16",
                 "--processor", "checksum", "--status-seconds", "0.05") as run:
        run.start_producer()
        run.until(lambda: run.status().get("slabs", {}).get("ready") == 16, "every slab full")
        flood = flood_of(run, options, where) if where else None
        for _ in range(CONSUMERS):
            run.start_consumer()
        run.until(lambda: run.status().get("done_samples", 0) > 0, "the first sample done")
        time.sleep(SETTLING_SECONDS)
        first = run.status()
        time.sleep(options.seconds)
        last = run.status()
        rate = 0.0
        if flood:
            flood.kill()
            told = [line for line in flood.stdout.read().splitlines() if line.endswith("messages/s")]
            rate = float(told[-1].split()[0]) if told else 0.0
            flood.wait()
        kill(run.producer, signal.SIGTERM)
        run.wait(run.producer)
    return (last["done_samples"] - first["done_samples"]) / ((last["now_ns"] - first["now_ns"]) / 1e9), rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=100_000, help="messages a second")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--slab", default="1MiB")
    parser.add_argument("--elsewhere", action="store_true")
    options = parser.parse_args()
    where = "elsewhere" if options.elsewhere else "run"
    ratios = []
    for pair in range(options.pairs):
        figures = {}
        for kind in ((None, where), (where, None))[pair % 2]:
            figures[kind] = samples_a_second(options, kind)
        ratios.append(figures[where][0] / figures[None][0])
        print(f"without {figures[None][0]:8.0f} samples/s, with {figures[where][0]:8.0f} ({figures[where][1]:.0f} messages/s): {ratios[-1]:.3f}",
              flush=True)
    spread = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else 0
    print(f"{os.cpu_count()} cores, slabs of {options.slab}, flood of {options.rate} messages/s{' elsewhere' if options.elsewhere else ''}: "
          f"median ratio {statistics.median(ratios):.3f}, mean {statistics.mean(ratios):.3f} ± {1.96 * spread:.3f}")


if __name__ == "__main__":
    main()
