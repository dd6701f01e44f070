"""
A number of consumers that follows the work (--consumers 1..MOST), beside fixed numbers: a loop makes a batch every 50 ms, and what a consumer takes for one
changes twice in a run. By turns, round after round: the number that follows, in one run; then each fixed number, in a short run for each phase, so that
nothing of a phase before, which filled the slabs, is in its rate.

    python3 tests/bench/following.py [--rounds 2] [--numbers 2,3,4,6,8] [--seconds 45] [--json FILE]

A phase counts as a whole, and from SETTLED_SECONDS after its beginning on. The best fixed number of a phase is that with the highest rate in it. Only
sleep is shared out, so two cores are enough; what follows where cores are short is seen by tests/unit/launch/test_following.py.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from machine import describe_build, describe_machine
from processes import end, end_on_sigterm

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BINARIES = pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR", ROOT / "build/release/bin"))
MAKE_SECONDS = 0.05
TAKE_SECONDS = (0.08, 0.28, 0.13)       # wanted: 1.6, 5.6 and 2.6 consumers
SETTLED_SECONDS = 20
WARM_SECONDS = 2        # of a fixed number, after each change
LOOK_SECONDS = 0.25
CHANGED = re.compile(r"consumers: (\d+) -> (\d+): (.*)")


class Run:
    """One run, from its start to its end. `consumers`: as --consumers has it."""

    def __init__(self, folder, consumers, phases, phase_seconds):
        self.folder, self.phases, self.phase_seconds = pathlib.Path(folder), phases, phase_seconds
        self.pace = self.folder / "pace"
        self.set_pace(phases[0])
        self.run_dir = self.folder / "run"
        loop = f"{sys.executable} {HERE / 'following_loop.py'} {MAKE_SECONDS} {self.pace}"
        self.said = (self.folder / "said").open("w+")
        self.process = subprocess.Popen(
            [str(ROOT / "launch/offramp"), "run", "--producer", loop, "--processor", f"{HERE / 'following_post.py'}:wait", "--consumer-python", sys.executable,
             "--consumers", str(consumers), "--run-dir", str(self.run_dir)],
            stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT, env={**os.environ, "FOLLOWING_PACE": str(self.pace)})

    def set_pace(self, seconds):
        """In one step: consumers read it all the time."""
        beside = self.pace.with_suffix(".new")
        beside.write_text(str(seconds))
        beside.rename(self.pace)

    def status(self):
        try:
            return json.loads((self.run_dir / "status.json").read_text())
        except (OSError, ValueError):
            return {}

    def measured(self):
        """[[(seconds since the phase began, samples that were done, consumers)] by phase]."""
        while not self.status().get("released_samples"):
            if self.process.poll() is not None:
                sys.exit(f"the run ended:\n{self.words()}")
            time.sleep(LOOK_SECONDS)
        phases = []
        for take in self.phases:
            self.set_pace(take)
            began, points = time.monotonic(), []
            while time.monotonic() - began < self.phase_seconds:
                status = self.status()
                points.append((time.monotonic() - began, status["now_ns"] / 1e9, status["released_samples"], len(status["consumers"])))
                time.sleep(LOOK_SECONDS)
            phases.append(points)
        return phases

    def words(self):
        self.said.seek(0)
        return self.said.read()

    def end(self):
        """What it noted of changes: [(from, to, why)]."""
        self.pace.unlink()
        if self.process.wait(60) != 0:
            sys.exit(f"the run ended with {self.process.returncode}:\n{self.words()}")
        return [(int(found[1]), int(found[2]), found[3]) for found in CHANGED.finditer(self.words())]


def rate(points, since):
    """Samples a second, by the run's own clock."""
    inside = [point for point in points if point[0] >= since]
    return (inside[-1][2] - inside[0][2]) / (inside[-1][1] - inside[0][1])


def run_once(consumers, phases, phase_seconds):
    """([the points of each phase], what it noted of changes)."""
    with tempfile.TemporaryDirectory(prefix="offramp-following-") as folder:
        run = Run(folder, consumers, phases, phase_seconds)
        try:
            phases = run.measured()
            return phases, run.end()
        finally:
            run.pace.unlink(missing_ok=True)
            end(run.process)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--numbers", type=lambda text: [int(each) for each in text.split(",")], default=[2, 3, 4, 6, 8], help="fixed ones; the largest is the most")
    parser.add_argument("--seconds", type=float, default=45, help="of a phase of the number that follows")
    parser.add_argument("--fixed-seconds", type=float, default=10, help="of a phase of a fixed number")
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    end_on_sigterm()
    told = {"machine": describe_machine(BINARIES), "build": describe_build(BINARIES, ROOT),
            "sizes": {"make_seconds": MAKE_SECONDS, "take_seconds": TAKE_SECONDS, "slabs": 16, "bounds": f"1..{max(given.numbers)}", "phase_seconds": given.seconds,
                      "fixed_phase_seconds": given.fixed_seconds, "settled_after_seconds": SETTLED_SECONDS}, "rounds": []}
    del told["machine"]["probe"]
    print(json.dumps({name: told[name] for name in ("machine", "build", "sizes")}, indent=1), flush=True)
    for number in range(given.rounds):
        phases, changes = run_once(f"1..{max(given.numbers)}", TAKE_SECONDS, given.seconds)
        fixed = {each: [rate(run_once(each, [take], given.fixed_seconds)[0][0], WARM_SECONDS) for take in TAKE_SECONDS] for each in given.numbers}
        done = {"changes": changes, "fixed": fixed, "phases": []}
        told["rounds"].append(done)
        print(f"round {number + 1}", flush=True)
        for phase, points in enumerate(phases):
            best = max(fixed, key=lambda each: fixed[each][phase])
            most = fixed[best][phase]
            here = {"whole": rate(points, 0), "settled": rate(points, SETTLED_SECONDS), "best_number": best, "best": most, "consumers": points[-1][3],
                    "fewest": min((each for each in fixed if fixed[each][phase] >= 0.97 * most))}
            done["phases"].append(here)
            print(f"  {TAKE_SECONDS[phase]} s a slab: {here['settled']:.1f} samples/s with {here['consumers']} consumers, {here['settled'] / most:.3f} of the best fixed number's "
                  f"{most:.1f} ({best}; {here['fewest']} reach 0.97 of it); with the time to find it {here['whole'] / most:.3f}")
        for before, after, why in changes:
            print(f"  {before} -> {after}: {why}")
        if given.json:
            given.json.write_text(json.dumps(told, indent=1) + "\n")
    for phase, take in enumerate(TAKE_SECONDS):
        ratios = [done["phases"][phase]["settled"] / done["phases"][phase]["best"] for done in told["rounds"]]
        print(f"{take} s a slab: {statistics.median(ratios):.3f} of the best, least {min(ratios):.3f}")
    print(f"changes: {[len(done['changes']) for done in told['rounds']]}, of 2 that the phases need")
    return 0


if __name__ == "__main__":
    sys.exit(main())
