"""
Kills one consumer per second and measures what the run loses. Windows with and without deaths alternate in one run. The
report has

- completed slabs per second in windows with and without deaths, and the ratio of neighbouring windows;
- the hand-over, from a slab's last byte until a surviving consumer has it: p50 and p99 in both kinds of windows;
- faults: a lost or duplicate sample, a dead letter, an incomplete summary, leftovers in /dev/shm.

This program replaces the launcher: it starts another consumer 0.1 s after a death.

    OFFRAMP_BIN_DIR=build/release/bin python3 -m tests.crash.consumer_deaths                     small, on the CPU
    OFFRAMP_BIN_DIR=PROGRAMS python3 -m tests.crash.consumer_deaths --consumers 12 --windows 12 \\
        --seconds 10 --settle 5 \\
        -- --device cuda --model copy --copy-bytes 1344MiB --batch 64 --samples-per-slab 8 --slabs 64 \\
        --processor checksum
    with --processor tests/bench/hosted/processors.py:Noted --consumer-python python3: consumers in Python
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import time
import typing

if "OFFRAMP_BIN_DIR" in os.environ:
    os.environ.setdefault("OFFRAMP_TEST_BIN", os.environ["OFFRAMP_BIN_DIR"])

from tests.support.real_run import RealRun, kill, left_behind, shared_memory  # noqa: E402 - after the folder of programs is set
from tests.support.run_memory import whole_memory  # noqa: E402

SMALL = (
    *"--device cpu --model copy --copy-bytes 1MiB --batch 8 --samples-per-slab 2 --slabs 16".split(),
    *"--processor checksum".split(),
)
WITNESSES = 2  # consumers that are never killed: a killed one loses its records
START_AGAIN_SECONDS = 0.1
PATIENCE_SECONDS = 120
STOPPED = 130  # exit code of a run that was stopped before the end of its input


class Window(typing.NamedTuple):
    begin_ns: int
    end_ns: int
    slabs: int  # completed
    deaths: int

    def rate(self):
        return self.slabs / (self.end_ns - self.begin_ns) * 1e9


class ConsumerDeaths:
    """
    One run. `windows`: every second one has deaths. `wrong`: one text per fault. `hand_over`: {with deaths: [seconds]}.
    """

    def __init__(self, flags, consumers, windows, seconds, settle, seed):
        if consumers <= WITNESSES:
            raise ValueError(f"{consumers} consumers: pass more than {WITNESSES}, because {WITNESSES} are never killed")
        self._flags = (*flags, "--batches", "10000000", "--status-seconds", "0.1")
        self._consumers, self._wanted, self._seconds, self._settle = consumers, windows, seconds, settle
        self._random = random.Random(seed)
        self._victims, self._dead_until = [], []
        self.windows, self.wrong, self.redelivered, self.looked_at, self.hand_over = [], [], 0, 0, {False: [], True: []}

    def run(self):
        with RealRun(*self._flags) as run:
            run.deadline = time.monotonic() + PATIENCE_SECONDS + self._settle + 2 * self._wanted * self._seconds
            run.start_producer()
            witnesses = [run.start_consumer("--trace-dir", str(run.folder / "trace")) for _ in range(WITNESSES)]
            self._victims = [run.start_consumer() for _ in range(self._consumers - WITNESSES)]
            run.until(lambda: run.status().get("done_samples", 0) > 0, "the first batch")
            time.sleep(self._settle)
            memory = run.until(lambda: whole_memory(run.run_dir), "the whole pool")
            for index in range(self._wanted):
                self.windows.append(self._window(run, memory, with_deaths=index % 2 == 1))
            memory.close()
            self._end(run, witnesses)
        if left := left_behind(shared_memory):
            self.wrong.append(f"left in /dev/shm: {sorted(left)}")
        return self

    def deaths(self):
        return sum(window.deaths for window in self.windows)

    def ratios(self):
        """The ratio of each window with deaths to the mean of its neighbours without."""
        found = []
        for index in range(1, len(self.windows), 2):
            beside = [window.rate() for window in (self.windows[index - 1], *self.windows[index + 1 : index + 2])]
            found.append(self.windows[index].rate() / statistics.mean(beside))
        return found

    def _window(self, run, memory, with_deaths):
        begin, done, deaths = time.monotonic_ns(), memory.progress()[1], 0
        end = begin + int(self._seconds * 1e9)
        next_death = begin + int(0.5e9)
        due = len(range(next_death, end, int(1e9))) if with_deaths else 0
        while (now := time.monotonic_ns()) < end or deaths < due:
            if now >= next_death and deaths < due:
                self._kill_one(run)
                deaths += 1
                next_death = now + int(1e9)
            self._start_again(run)
            time.sleep(0.005)
        return Window(begin, time.monotonic_ns(), memory.progress()[1] - done, deaths)

    def _kill_one(self, run):
        victim = self._victims.pop(self._random.randrange(len(self._victims)))
        if victim.poll() is not None:
            self.wrong.append(f"a consumer ended by itself, with {victim.returncode}\n{run.logs()}")
        kill(victim)
        self._dead_until.append(time.monotonic() + START_AGAIN_SECONDS)

    def _start_again(self, run):
        while self._dead_until and time.monotonic() >= self._dead_until[0]:
            self._dead_until.pop(0)
            self._victims.append(run.start_consumer())

    def _end(self, run, witnesses):
        kill(run.producer, signal.SIGTERM)
        code = run.wait(run.producer)
        run.wait_for_consumers()
        codes = [child.returncode for child in (*witnesses, *self._victims) if run.was_let_in(child)]
        if code != STOPPED or any(codes):
            self.wrong.append(f"the producer ended with {code}, the surviving consumers with {codes}\n{run.logs()}")
            return
        samples = run.summary()["samples"]
        if not run.summary()["conserved"] or samples["in_flight"] or samples["dead_letters"]:
            self.wrong.append(f"the summary is incomplete: {json.dumps(samples)}")
        self.redelivered = samples["redelivered"]
        self._check_outputs(run, samples["released"])
        for path in (run.folder / "trace").glob("consumer-*.jsonl"):
            self._note_hand_overs(path)

    def _check_outputs(self, run, completed):
        """Checks that each item has one line, if the run's processor writes lines, as `checksum` and records do."""
        run.finish_outputs()
        items = items_in(run.output)
        if items is not None:
            self.looked_at = len(items)
            if sorted(items) != list(range(completed)):
                self.wrong.append(
                    f"{completed} samples were completed; the outputs hold {len(items)} items, {len(set(items))} of them distinct"
                )

    def _note_hand_overs(self, path):
        for line in path.read_text(encoding="utf-8").splitlines():
            took = json.loads(line)
            if took.get("name") != "hand_over":
                continue
            for window in self.windows:
                if window.begin_ns <= took["begin_ns"] < window.end_ns:
                    self.hand_over[window.deaths > 0].append((took["end_ns"] - took["begin_ns"]) / 1e9)


def items_in(output):
    """The items of all lines that the run wrote; None if its processor writes none."""
    if (lines := output / "checksums.tsv").exists():
        return [
            int(line.split(b"\t", 1)[0])
            for line in lines.read_bytes().splitlines()
            if not line.startswith((b"#", b"item"))
        ]
    if (lines := output / "records.jsonl").exists():
        return [json.loads(line)["item"] for line in lines.read_bytes().splitlines()]
    return None


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(run):
    rates = {
        deaths: [window.rate() for window in run.windows if (window.deaths > 0) == deaths] for deaths in (False, True)
    }
    ratios = run.ratios()
    lines = [
        f"{run.deaths()} consumers killed in {len(rates[True])} windows, {run.redelivered} samples redelivered",
        f"slabs per second without deaths: median {statistics.median(rates[False]):.1f} [{min(rates[False]):.1f}, {max(rates[False]):.1f}]",
        f"slabs per second with deaths:    median {statistics.median(rates[True]):.1f} [{min(rates[True]):.1f}, {max(rates[True]):.1f}]",
        f"share of the undisturbed rate, by neighbouring windows: median {statistics.median(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]",
    ]
    for deaths, kind in ((False, "without deaths"), (True, "with deaths")):
        times = run.hand_over[deaths]
        if times:
            lines.append(
                f"hand-over {kind}: p50 {1e3 * percentile(times, 0.5):.2f} ms, p99 {1e3 * percentile(times, 0.99):.2f} ms, of {len(times)}"
            )
    return "\n".join([*lines, *(["WRONG:", *run.wrong] if run.wrong else ["nothing wrong"])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consumers", type=int, default=4)
    parser.add_argument("--windows", type=int, default=6, help="the second, fourth, ... have deaths")
    parser.add_argument("--seconds", type=float, default=4, help="of each window")
    parser.add_argument(
        "--settle", type=float, default=2, help="seconds after the first batch, before the first window"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", metavar="FILE", help="the windows, and what was wrong")
    parser.add_argument("flags", nargs="*", help="the run's, after --")
    options = parser.parse_args()
    print(f"seed {options.seed}; {os.cpu_count()} processors; run: {' '.join(options.flags or SMALL)}", flush=True)
    run = ConsumerDeaths(
        options.flags or SMALL, options.consumers, options.windows, options.seconds, options.settle, options.seed
    ).run()
    print(report(run))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(
                {"windows": [window._asdict() for window in run.windows], "ratios": run.ratios(), "wrong": run.wrong},
                file,
                indent=1,
            )
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
