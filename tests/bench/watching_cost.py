"""
What watching a live run costs it: windows of one run in which /metrics is scraped each second and a page is open (/events), and windows without, by turns.
The run's slabs are small, so that its rate is that of messages, which other work on the machine disturbs most.

    tests/bench/watching_cost.py [--rounds 5] [--seconds 5] [-- FLAGS OF A RUN]

The ratios are those of rates, and of the CPU time that producer and consumers took for a sample; beside them the CPU time of the server and of the launcher, as
a share of a core.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import threading
import time
import urllib.request

from trace_cost import cpu_seconds, endless_run, figures, moment

FLAGS = ("--device", "cpu", "--model", "copy", "--copy-bytes", "4KiB", "--batch", "1", "--slabs", "64", "--consumers", "1", "--processor", "none")


class Watcher:
    """A Prometheus and a browser."""

    def __init__(self, address):
        self._address = address
        self._over = threading.Event()
        self.scrapes = self.events = 0
        self._threads = [threading.Thread(target=self._scrape), threading.Thread(target=self._follow)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _scrape(self):
        while not self._over.wait(1):
            with urllib.request.urlopen(self._address + "metrics", timeout=5) as answer:
                self.scrapes += len(answer.read()) > 0

    def _follow(self):
        with urllib.request.urlopen(self._address + "events", timeout=5) as answer:
            while not self._over.is_set():
                self.events += answer.readline().startswith(b"data:")


def watched_by(launcher):
    """{"launcher", "server": CPU seconds}."""
    children = [int(folder.name) for folder in pathlib.Path("/proc").iterdir() if folder.name.isdigit() and parent_and_command(folder)[0] == launcher]
    servers = [pid for pid in children if "watching" in parent_and_command(pathlib.Path("/proc", str(pid)))[1]]
    assert servers, "the launcher has no server"
    return {"launcher": cpu_seconds(launcher), "server": sum(map(cpu_seconds, servers))}


def parent_and_command(folder):
    with contextlib.suppress(OSError):
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1]), (folder / "cmdline").read_bytes().decode(errors="replace")
    return None, ""


def window(run_dir, seconds, watcher):
    with watcher:
        begin = moment(run_dir)
        time.sleep(seconds)
        return figures(begin, moment(run_dir))


def measure(run_dir, launcher, given):
    address = json.loads((run_dir / "http.json").read_text())["url"]
    for number in range(given.rounds):
        before, began = watched_by(launcher), time.monotonic()
        watcher = Watcher(address)
        watched = window(run_dir, given.seconds, watcher)
        shares = {name: (cpu - before[name]) / (time.monotonic() - began) for name, cpu in watched_by(launcher).items()}
        assert watcher.scrapes and watcher.events, "nothing was read"
        quiet = window(run_dir, given.seconds, contextlib.nullcontext())
        ratios = watched[0] / quiet[0], quiet[1] / watched[1]
        print(f"round {number + 1}: {watched[0]:,.0f} samples/s watched, {quiet[0]:,.0f} not: {ratios[0]:.3f}; of the CPU time for a sample {ratios[1]:.3f}; "
              f"of a core: server {shares['server']:.2%}, launcher {shares['launcher']:.2%}", flush=True)
        yield *ratios, shares["server"], shares["launcher"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("flags", nargs="*", default=FLAGS)
    given = arguments.parse_args()
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; run {' '.join(given.flags)}; {given.rounds} rounds of {given.seconds} s")
    with endless_run((*given.flags, "--http", "127.0.0.1:0")) as (run_dir, run):
        rounds = list(measure(run_dir, run.pid, given))
    for what, each in zip(("samples a second, watched over not", "samples for a CPU second, watched over not", "server, of a core", "launcher, of a core"), zip(*rounds)):
        print(f"{what}: {statistics.median(each):.4f} [{min(each):.4f}, {max(each):.4f}]")


if __name__ == "__main__":
    main()
