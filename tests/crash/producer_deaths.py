"""
Kills the producer with SIGKILL at random moments of back-to-back copies; another producer takes over each time. It
measures

- whether a byte of any slab changes after the dead producer is reaped (a fault), or between its pidfd's readiness and
  the reaping (reported);
- whether Ready and held slabs keep their bytes until the next producer refills them (they must);
- the time from the death to the first new batch, step by step, without the time for checksums.

This program replaces the launcher, without its back-off of 0.1 s. Each run must succeed with an undisturbed run's
outputs.

    OFFRAMP_BIN_DIR=build/release/bin python3 -m tests.crash.producer_deaths                     small, on the CPU
    OFFRAMP_BIN_DIR=PROGRAMS python3 -m tests.crash.producer_deaths --deaths 50 --consumers 12 --spread 0.5 \\
        --rechecks 2 \\
        -- --device cuda --model copy --copy-bytes 1344MiB --batch 64 --batches 150 --samples-per-slab 16 \\
        --slabs 32 --processor checksum
"""

import argparse
import collections
import json
import os
import random
import select
import signal
import statistics
import sys
import threading
import time

if "OFFRAMP_BIN_DIR" in os.environ:
    os.environ.setdefault("OFFRAMP_TEST_BIN", os.environ["OFFRAMP_BIN_DIR"])

from tests.support.real_run import BIN, RealRun, left_behind, shared_memory  # noqa: E402 - after the folder of programs is set
from tests.support.run_memory import changed_pages, endpoint, whole_memory  # noqa: E402

SMALL = (
    *"--device cpu --model copy --copy-bytes 1MiB --batch 8 --batches 1500 --slabs 6".split(),
    *"--processor checksum --status-seconds 0.05".split(),
)
PATIENCE_SECONDS = 120  # for one death and its recovery
LOOK_SECONDS = 0.0002  # between two reads of the ledger
STEPS = (
    "killed, until its pidfd says so",
    "reaped",
    "started, until it has the ledger",
    "until consumers can come back",
    "until the first slab is done with",
    "until the first new batch is published",
)
KEPT = ("ready", "leased")


class Deaths:
    """
    Runs until enough producers have died or the time is up. `recorded`: a dict per death. `wrong`: a text per fault.
    """

    def __init__(self, flags, deaths, consumers, spread, seed, look_at_bytes=True, rechecks=None, seconds=float("inf")):
        self._flags, self._wanted, self._consumers, self._spread = flags, deaths, consumers, spread
        self._rechecks, self._end = rechecks, time.monotonic() + seconds
        self._look_at_bytes = look_at_bytes
        self._random = random.Random(seed)
        self.recorded, self.wrong, self.runs = [], [], 0

    def run(self):
        began = time.monotonic()
        undisturbed = self._one_run(disturb=False)
        print(f"an undisturbed run took {time.monotonic() - began:.1f} s", flush=True)
        while self._is_running():
            died = len(self.recorded)
            outputs = self._one_run(disturb=True)
            if outputs != undisturbed:
                self.wrong.append(f"outputs differ from the undisturbed run's: {_differing(outputs, undisturbed)}")
            if len(self.recorded) == died and time.monotonic() < self._end:
                self.wrong.append("a run ended before its producer could be killed: pass more --batches")
        if not self.recorded and not self.wrong:
            self.wrong.append("the time was up before the first death")
        if left := left_behind(shared_memory):
            self.wrong.append(f"left in /dev/shm: {sorted(left)}")
        return self

    def _is_running(self):
        return len(self.recorded) < self._wanted and not self.wrong and time.monotonic() < self._end

    def _one_run(self, disturb):
        """The run's outputs."""
        self.runs += disturb
        faulty = (BIN / "tests" / "offramp-consumer-faulty").exists() and self._look_at_bytes
        with RealRun(*self._flags) as run:
            environment = {"OFFRAMP_TEST_RECHECK_FILE": str(run.folder / "changed")} if faulty else {}
            if self._rechecks is not None:
                environment["OFFRAMP_TEST_RECHECK_TIMES"] = str(self._rechecks)
            run.deadline = time.monotonic() + PATIENCE_SECONDS
            run.start_producer()
            for _ in range(self._consumers):
                run.start_consumer(faulty=faulty, environment=environment)
            producers = 1 + self._disturb(run) if disturb else 1
            codes = [_code_of(run), *run.wait_for_consumers()]
            if any(codes):
                self.wrong.append(f"producer and consumers ended with {codes}\n{run.logs()}")
                return None
            summary = run.summary()
            if not summary["conserved"] or summary["producers"] != producers or summary["samples"]["in_flight"]:
                self.wrong.append(
                    f"the summary is incomplete: {json.dumps(summary['samples'])}, {summary['producers']} of {producers} producers"
                )
            if (run.folder / "changed").exists():
                self.wrong.append((run.folder / "changed").read_text())
            run.finish_outputs()
            if disturb:
                run.sweep()
            return run.files()

    def _disturb(self, run):
        """Kills one producer after another until the run is over or enough have died. Returns the number of deaths."""
        died = 0
        memory = self._until(run, lambda: run.status().get("done_samples", 0) > 0 and whole_memory(run.run_dir))
        if not memory:
            return died
        try:
            while self._is_running():
                time.sleep(self._random.uniform(0, self._spread))  # the moment of death
                if _has_ended(run.producer):
                    break
                if not self._kill_one(run, memory):
                    break
                died += 1
                run.deadline = time.monotonic() + PATIENCE_SECONDS
            return died
        finally:
            memory.close()

    def _kill_one(self, run, memory):
        """False if the run was over, so that no successor starts."""
        times = {}
        pidfd = os.pidfd_open(run.producer.pid)
        began = time.monotonic()
        os.kill(run.producer.pid, signal.SIGKILL)
        select.select([pidfd], [], [])
        os.close(pidfd)
        dead = time.monotonic()
        found = {"death": len(self.recorded) + 1, "slabs": [state for state, _, _ in memory.words()]}
        at_death = memory.samples() if self._look_at_bytes else None
        reaping = time.monotonic()
        run.producer.wait()
        times[STEPS[0]], times[STEPS[1]] = dead - began, time.monotonic() - reaping
        if _has_summary(run):
            return False
        words, sums = memory.words(), None
        if self._look_at_bytes:
            sums = self._look_after_reaping(memory, at_death, found)
        self._follow(run, memory, words, sums, times, found)
        found["seconds"] = times
        self.recorded.append(found)
        return True

    def _look_after_reaping(self, memory, at_death, found):
        reaped = memory.samples()
        found["pages changed before it was reaped"] = changed_pages(at_death, reaped)
        sums = memory.sums()
        if memory.sums() != sums or memory.samples() != reaped:
            self.wrong.append(f"death {found['death']}: bytes of slabs changed after the producer was reaped")
        return sums

    def _follow(self, run, memory, words, sums, times, found):
        """Starts the next producer and times its steps."""
        epoch, (published, completed) = memory.epoch(), memory.progress()
        started = time.monotonic()
        run.start_producer(command="recover")
        looking = None

        def step(name, holds):
            nonlocal started
            if name in times:
                return
            if self._until(run, holds):
                times[name] = time.monotonic() - started
                started = time.monotonic()

        step(STEPS[2], lambda: memory.epoch() > epoch)
        if sums is not None:
            looking = threading.Thread(target=self._look_at_kept, args=(memory, words, sums, found))
            looking.start()
        step(STEPS[3], lambda: endpoint(run.run_dir).get("epoch") == str(memory.epoch()))
        step(STEPS[4], lambda: memory.progress()[1] > completed)
        step(STEPS[5], lambda: memory.progress()[0] > published)
        if looking:
            looking.join()

    def _look_at_kept(self, memory, words, sums, found):
        """Ready and held slabs keep their bytes until they are refilled."""
        new_sums = memory.sums()
        kept = [
            slab for slab, (was, now) in enumerate(zip(words, memory.words())) if was[0] in KEPT and was[2] == now[2]
        ]
        found["slabs that kept their bytes"] = len(kept)
        for slab in kept:
            if new_sums[slab] != sums[slab]:
                self.wrong.append(
                    f"death {found['death']}: slab {slab}, {words[slab][0]}, has different bytes under the next producer"
                )

    @staticmethod
    def _until(run, holds):
        """The first true result of `holds`; its last result if the run is over before."""
        while not (held := holds()):
            if _has_ended(run.producer):
                return holds()
            if time.monotonic() > run.deadline:
                raise AssertionError(f"the run makes no progress\n{run.logs()}")
            time.sleep(LOOK_SECONDS)
        return held


def _differing(outputs, wanted):
    """Names of differing files, each with the number of missing and extra lines."""
    if outputs is None:
        return "there are no outputs"
    differences = []
    for name in sorted(outputs.keys() | wanted.keys()):
        if outputs.get(name) != wanted.get(name):
            found, due = (collections.Counter(files.get(name, b"").splitlines()) for files in (outputs, wanted))
            differences.append(f"{name}: {(due - found).total()} lines missing, {(found - due).total()} extra")
    return ", ".join(differences)


def _has_summary(run):
    return (run.run_dir / "summary.json").exists()


def _code_of(run):
    """The producer's exit code; its summary counts if it was killed after writing it, as for the launch script."""
    code = run.wait(run.producer)
    return run.summary()["exit"] if code == -signal.SIGKILL and _has_summary(run) else code


def _has_ended(process):
    """Without reaping it."""
    return (
        process.returncode is not None
        or os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    )


def table(deaths):
    lines = ["| step | median | 95 % | worst, ms |", "|---|---|---|---|"]
    rows = {step: [death["seconds"][step] for death in deaths if step in death["seconds"]] for step in STEPS}
    rows["death to the first new batch"] = [
        sum(death["seconds"].values()) for death in deaths if len(death["seconds"]) == len(STEPS)
    ]
    for name, seconds in rows.items():
        if seconds:
            seconds = sorted(1e3 * value for value in seconds)
            lines.append(
                f"| {name} | {statistics.median(seconds):.1f} | {seconds[int(0.95 * (len(seconds) - 1))]:.1f} | {seconds[-1]:.1f} |"
            )
    return "\n".join(lines)


def report(deaths):
    recorded = deaths.recorded
    lines = [
        f"{len(recorded)} producers killed in {deaths.runs} runs; {sum('filling' in death['slabs'] for death in recorded)} of them with slabs being filled"
    ]
    if any("slabs that kept their bytes" in death for death in recorded):
        changed = [death.get("pages changed before it was reaped", 0) for death in recorded]
        lines.append(
            f"pages that changed between a pidfd's readiness and the reaping: {sum(changed)}, at {sum(map(bool, changed))} deaths"
        )
        lines.append(
            f"Ready and held slabs with the same bytes under the next producer: {sum(death.get('slabs that kept their bytes', 0) for death in recorded)}"
        )
    return "\n".join([*lines, table(recorded), *(["WRONG:", *deaths.wrong] if deaths.wrong else ["nothing wrong"])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=20)
    parser.add_argument("--consumers", type=int, default=2)
    parser.add_argument(
        "--spread",
        type=float,
        default=0.05,
        help="seconds after a producer's first new batch in which it dies, at the latest",
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--rechecks",
        type=int,
        help="times that a consumer reads a slab again while it holds it, where not 20; it paces the run",
    )
    parser.add_argument("--at-most-seconds", type=float, default=float("inf"), help="after which nobody else is killed")
    parser.add_argument(
        "--without-bytes", action="store_true", help="only the times: looking at the bytes takes some, and processors"
    )
    parser.add_argument("--json", metavar="FILE", help="every death, with its steps")
    parser.add_argument("flags", nargs="*", help="the run's, after --")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    deaths = Deaths(
        options.flags or SMALL,
        options.deaths,
        options.consumers,
        options.spread,
        options.seed,
        not options.without_bytes,
        options.rechecks,
        options.at_most_seconds,
    ).run()
    print(report(deaths))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"deaths": deaths.recorded, "wrong": deaths.wrong}, file, indent=1)
    return 1 if deaths.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
