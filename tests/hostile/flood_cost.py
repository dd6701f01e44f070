"""
Measures what a flood from one consumer costs the others: samples per second during the flood over those without it.

    OFFRAMP_TEST_BIN=build/release/bin PYTHONPATH=. python3 tests/hostile/flood_cost.py [--rate 100000] \\
        [--phases 60] [--seconds 0.5] [--slab 1MiB]

Within one run the flooding process is stopped and continued in turn, because a busy machine changes less from one half
second to the next than from run to run. Each phase with the flood is compared with the mean of its two neighbours
without it.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import time

from tests.support.real_run import RealRun, kill

CONSUMERS = 2
SLABS = 16
SETTLING_SECONDS = 0.15  # at the beginning of a phase, to empty the sockets


class FloodedRun:
    def __init__(self, run, rate):
        self.run = run
        self._flood = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.hostile_consumer", str(run.run_dir), "flood", "--rate", str(rate)],
            stdout=subprocess.PIPE,
            text=True,
            env=run.environment,
        )
        assert self._flood.stdout.readline() == "flooding\n", run.logs()

    def phase(self, flooding, seconds):
        """Samples a second."""
        kill(self._flood, signal.SIGCONT if flooding else signal.SIGSTOP)
        time.sleep(SETTLING_SECONDS)
        first = self.run.status()
        time.sleep(seconds)
        last = self.run.status()
        return (last["done_samples"] - first["done_samples"]) / ((last["now_ns"] - first["now_ns"]) / 1e9)

    def sent(self):
        """Ends the flood. Returns the total number of messages."""
        kill(self._flood, signal.SIGKILL)
        printed = [line for line in self._flood.stdout.read().splitlines() if line.endswith(" sent")]
        self._flood.wait()
        return int(printed[-1].split()[0])


def phases_of(options):
    """(samples per second of each phase, flood's messages per second); every other phase is flooded."""
    with RealRun(
        *"--device cpu --model copy --copy-bytes".split(),
        options.slab,
        *"--batch 4 --batches 100000000 --slabs".split(),
        str(SLABS),
        *"--processor write --write-path /dev/null --status-seconds 0.02".split(),
    ) as run:
        run.deadline = time.monotonic() + 3600
        run.start_producer()
        run.until(lambda: run.status().get("slabs", {}).get("ready") == SLABS, "every slab full")
        flooded = FloodedRun(run, options.rate)
        for _ in range(CONSUMERS):
            run.start_consumer()
        run.until(lambda: run.status().get("done_samples", 0) > 0, "the first sample done")
        found = [flooded.phase(number % 2 == 1, options.seconds) for number in range(2 * options.phases + 1)]
        rate = flooded.sent() / (options.phases * (options.seconds + SETTLING_SECONDS))
        kill(run.producer, signal.SIGTERM)
        run.wait(run.producer)
    return found, rate


def ratio(found, chosen):
    return sum(found[at] for at in chosen) / sum((found[at - 1] + found[at + 1]) / 2 for at in chosen)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=100_000, help="messages a second")
    parser.add_argument("--phases", type=int, default=60, help="with the flood; as many without, and one")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a phase")
    parser.add_argument("--slab", default="1MiB")
    options = parser.parse_args()
    found, rate = phases_of(options)
    flooded, draw = range(1, len(found), 2), random.Random(1)
    spread = sorted(ratio(found, draw.choices(flooded, k=len(flooded))) for _ in range(1000))
    print(
        f"{os.cpu_count()} cores, slabs of {options.slab}, {CONSUMERS} consumers, {rate:.0f} messages/s: "
        f"{statistics.mean(found[0::2]):.0f} samples/s without, {statistics.mean(found[1::2]):.0f} with; "
        f"ratio {ratio(found, flooded):.3f} (95 %: {spread[25]:.3f} to {spread[975]:.3f})"
    )


if __name__ == "__main__":
    main()
