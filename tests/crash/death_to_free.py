"""
Measures how long a slab is unavailable when its consumer dies: milliseconds from the signal until the ledger frees the
slab for another consumer, by the size of the mapped memory, with core dumps enabled.

    python3 -m tests.crash.death_to_free [--gib 0.25 --gib 1 --gib 8] [--deaths 100] [--how kill --how segv]

The consumer has read every slab of the pool, so its page tables hold all of it. --max-failures 1000 keeps the deaths
from making dead letters.
"""

import argparse
import mmap
import os
import pathlib
import resource
import select
import signal
import struct
import sys
import tempfile
import time
import typing

from tests.support.gate import Gate
from tests.support.real_run import RealRun, kill

SLABS = 4
SAMPLES_A_SLAB = 4
HOWS = {"kill": signal.SIGKILL, "segv": signal.SIGSEGV}
MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23
LEASED, LEDGER_HEADER_BYTES, CONSUMER_BYTES, ENTRY_BYTES = 3, 512, 64, 128


class Death(typing.NamedTuple):
    """Milliseconds."""

    until_free: float  # from the signal
    after_death: (
        float  # the part after the pidfd's readiness, which is Offramp's; before it the kernel removes the mappings
    )


class Ledger:
    """The current states of a run's slabs."""

    def __init__(self, run_id):
        name = next(
            name
            for name in os.listdir("/dev/shm")
            if name.startswith(f"offramp-{run_id}-") and name.endswith(".ledger")
        )
        with open(f"/dev/shm/{name}", "rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        slabs, consumers = struct.unpack_from("<II", self._memory, 24)
        first = LEDGER_HEADER_BYTES + consumers * CONSUMER_BYTES
        self._words = [first + slab * ENTRY_BYTES for slab in range(slabs)]

    def state(self, slab):
        return self._memory[self._words[slab] + 7] >> 4

    def leased(self):
        return [slab for slab in range(len(self._words)) if self.state(slab) == LEASED]


class Deaths:
    """Consumers that read the whole pool and die while they hold a slab."""

    def __init__(self, pool_bytes):
        self.pool_bytes = pool_bytes
        slab_bytes = pool_bytes // SLABS
        self.flags = (
            *"--device cpu --model copy --copy-bytes".split(),
            str(slab_bytes),
            "--batch",
            str(SAMPLES_A_SLAB),
            "--batches",
            "1000000",
            "--samples-per-slab",
            str(SAMPLES_A_SLAB),
            "--slabs",
            str(SLABS),
            *"--max-failures 1000 --visibility-timeout 600 --window 1 --status-seconds 0.05".split(),
            *"--log-level warning".split(),
        )

    def measure(self, count, how):
        """([Death], number of core files)"""
        with RealRun(*self.flags) as run, tempfile.TemporaryDirectory(prefix="offramp-cores-") as cores:
            run.deadline = time.monotonic() + 1800
            run.start_producer()
            run.until(lambda: run.status().get("slabs", {}).get("ready") == SLABS, "every slab full")
            ledger, found, dumped = Ledger(run.run_id), [], 0
            with Gate(run.folder) as gate:
                while len(found) < count:
                    found.append(self._one(run, ledger, gate, how, cores))
                    left = list(pathlib.Path(cores).iterdir())
                    dumped += bool(left)
                    for core in left:
                        core.unlink()
            kill(run.producer, signal.SIGTERM)
            run.until(lambda: run.status().get("state") == "draining", "the first signal handled")
            kill(run.producer, signal.SIGTERM)
            run.wait(run.producer)
        return found, dumped

    def _one(self, run, ledger, gate, how, cores):
        run.through = ("env", f"--chdir={cores}")  # the kernel writes core files there
        consumer = run.start_consumer("--processor", "none", faulty=True, environment=gate.environment)
        gate.entered()
        while mapped_bytes(consumer.pid) < self.pool_bytes:
            gate.let(1)
            gate.entered()
        (slab,) = ledger.leased()
        pidfd = os.pidfd_open(consumer.pid)
        death = select.poll()
        death.register(pidfd, select.POLLIN)
        began = time.monotonic_ns()
        os.kill(consumer.pid, HOWS[how])
        death.poll()
        dead = time.monotonic_ns()
        while ledger.state(slab) == LEASED:
            pass
        free = time.monotonic_ns()
        os.close(pidfd)
        run.wait(consumer)
        run.consumers.remove(consumer)
        return Death((free - began) / 1e6, (free - dead) / 1e6)


def mapped_bytes(pid):
    """Bytes of shared memory in the process's page tables."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) * 1024
    return 0


def bare(gib, deaths=20):
    """The kernel's share: [milliseconds] until the pidfd of a bare process that mapped as much memory is readable."""
    took = []
    with open(f"/dev/shm/offramp-bare-{os.getpid()}", "w+b") as file:
        os.unlink(file.name)
        os.ftruncate(file.fileno(), int(gib * (1 << 30)))
        with mmap.mmap(file.fileno(), 0) as memory:  # like slabs: in huge pages if the mount provides them
            memory.madvise(mmap.MADV_HUGEPAGE)
            memory.madvise(MADV_POPULATE_WRITE)
        for _ in range(deaths):
            ready, report = os.pipe()
            pid = os.fork()
            if pid == 0:
                memory = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
                memory.madvise(MADV_POPULATE_READ)
                os.write(report, b"r")
                while True:
                    signal.pause()
            os.read(ready, 1)
            pidfd, death = os.pidfd_open(pid), select.poll()
            death.register(pidfd, select.POLLIN)
            began = time.monotonic_ns()
            os.kill(pid, signal.SIGKILL)
            death.poll()
            took.append((time.monotonic_ns() - began) / 1e6)
            os.waitpid(pid, 0)
            for fd in (pidfd, ready, report):
                os.close(fd)
    return took


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def histogram(values):
    """The lines of a histogram; each bucket is twice as wide as the one before."""
    edges = [0.25 * 2**step for step in range(14)]
    lines, below = [], 0.0
    for edge in edges:
        inside = sum(below <= value < edge for value in values)
        if inside:
            lines.append(f"    {below:8.2f} to {edge:8.2f} ms  {inside:5}  {'#' * -(-60 * inside // len(values))}")
        below = edge
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, action="append", help="mapped by the consumer; default 0.25, 1 and 8")
    parser.add_argument("--deaths", type=int, default=100, help="of each kind")
    parser.add_argument(
        "--how", choices=HOWS, action="append", help="kill leaves no core file, segv does; default both"
    )
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    print(f"{os.cpu_count()} cores, Linux {os.uname().release}, core pattern '{pattern}'")
    for gib in options.gib or (0.25, 1, 8):
        for how in options.how or tuple(HOWS):
            found, dumped = Deaths(int(gib * (1 << 30))).measure(options.deaths, how)
            free, ours = [death.until_free for death in found], [death.after_death for death in found]
            print(
                f"{gib:g} GiB mapped, {HOWS[how].name}: {len(found)} deaths ({dumped} core files), p50 {percentile(free, 0.5):.2f} ms, "
                f"p99 {percentile(free, 0.99):.2f} ms, max {max(free):.2f} ms; after the pidfd p50 {percentile(ours, 0.5):.3f} ms, "
                f"p99 {percentile(ours, 0.99):.3f} ms; an empty process with the same memory mapped p50 {percentile(bare(gib), 0.5):.2f} ms"
            )
            print("\n".join(histogram(free)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
