"""
What watching a live run costs it: windows of one run in which /metrics is scraped each second and a page is open (/events), and windows without, by turns.

    tests/bench/watching_cost.py [--pairs 40] [--seconds 1] [--json FILE] [-- FLAGS OF A RUN]

Without flags the run is one of messages alone. The ratios are those of rates, and of the CPU time that producer and consumers took for a sample, each of two
neighbouring windows whose order changes; beside them the CPU time of the server and of the launcher, as shares of a core. Medians with 95 % intervals.
"""

import argparse
import contextlib
import pathlib
import socket
import json
import threading
import time
import urllib.parse
import urllib.request

from live_windows import about, figures, keep, live_run, told
from processes import children_of, usage_of, usage_of_all


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
        """At once, and each second."""
        while True:
            with urllib.request.urlopen(self._address + "metrics", timeout=5) as answer:
                self.scrapes += len(answer.read()) > 0
            if self._over.wait(1):
                return

    def _follow(self):
        """Read as it comes, so that a window is over when it is."""
        at = urllib.parse.urlsplit(self._address)
        with socket.create_connection((at.hostname, at.port), 5) as connection:
            connection.sendall(f"GET /events HTTP/1.1\r\nHost: {at.netloc}\r\n\r\n".encode())
            connection.settimeout(0.05)
            while not self._over.is_set():
                with contextlib.suppress(TimeoutError):
                    self.events += connection.recv(1 << 16).count(b"data:")


def watched_by(launcher):
    """{"launcher", "server": CPU seconds}."""
    servers = [pid for pid in children_of(launcher) if b"watching" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert servers, "the launcher has no server"
    return {"launcher": usage_of(launcher).cpu_seconds, "server": usage_of_all(servers).cpu_seconds}


class Cost:
    """Owns what was seen of the watched windows beside their figures."""

    def __init__(self, run, seconds):
        self._run, self._seconds = run, seconds
        self._address = json.loads((run.folder / "http.json").read_text())["url"]
        self.cpu = {"launcher": 0.0, "server": 0.0}
        self.watched_seconds = 0.0
        self.scrapes = self.events = 0

    def window(self, is_watched):
        watcher = Watcher(self._address) if is_watched else contextlib.nullcontext()
        before, began = watched_by(self._run.launcher), time.monotonic()
        with watcher:
            begin = self._run.next_page()
            time.sleep(self._seconds)
            found = figures(begin, self._run.next_page())
        if is_watched:
            self.watched_seconds += time.monotonic() - began
            self.cpu = {name: self.cpu[name] + now - before[name] for name, now in watched_by(self._run.launcher).items()}
            self.scrapes, self.events = self.scrapes + watcher.scrapes, self.events + watcher.events
        return found

    def pairs(self, many):
        """[((watched), (not))]"""
        found = []
        for number in range(many):
            first = self.window(number % 2 == 0)
            second = self.window(number % 2 == 1)
            found.append((first, second) if number % 2 == 0 else (second, first))
        return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, default=40)
    arguments.add_argument("--seconds", type=float, default=0.5, help="of a window, which ends with the next page that the run tells (0.5)")
    arguments.add_argument("--json", help="a file for what was measured")
    arguments.add_argument("flags", nargs="*")
    given = arguments.parse_args()
    measured_on = about()
    print(f"{measured_on}; {given.pairs} pairs; run {' '.join(given.flags) or 'of messages alone'}", flush=True)
    with live_run(given.flags, ("--http", "127.0.0.1:0")) as run:
        cost = Cost(run, given.seconds)
        pairs = cost.pairs(given.pairs)
    assert cost.scrapes >= given.pairs and cost.events >= given.pairs, f"{cost.scrapes} scrapes, {cost.events} events: too little was read"
    result = {**measured_on, "flags": given.flags, "samples_per_second": told("samples a second without", [quiet[0] for _, quiet in pairs]),
              "rate": told("samples a second, watched over not", [watched[0] / quiet[0] for watched, quiet in pairs]),
              "cpu": told("samples for a CPU second, watched over not", [quiet[1] / watched[1] for watched, quiet in pairs]),
              **{f"{name}_of_a_core": round(seconds / cost.watched_seconds, 5) for name, seconds in cost.cpu.items()}, "scrapes": cost.scrapes, "events": cost.events}
    print(f"of a core: server {result['server_of_a_core']:.2%}, launcher {result['launcher_of_a_core']:.2%}; {cost.scrapes} scrapes, {cost.events} events")
    keep(given.json, result)


if __name__ == "__main__":
    main()
