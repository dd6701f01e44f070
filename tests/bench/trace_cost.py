"""
What tracing a live run costs it: windows of one run that are traced and not, by turns.

    tests/bench/trace_cost.py [--rounds 5] [--seconds 5] [-- FLAGS OF A RUN]

A traced window lasts from the request, with which all programs begin to record, until a second behind its end, by when
they have written. The one behind it is about as long. The ratios are those of their rates, and of the CPU time that
producer and consumers took for a sample, which other work on the machine disturbs less; medians of all rounds.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "launch"))

from offramp_launch.exit_code import LaunchError   # noqa: E402
from offramp_launch.supervision.control import ControlClient   # noqa: E402

WRITTEN_SECONDS = 1.0
FLAGS = ("--device", "cpu", "--model", "copy", "--copy-bytes", "1MiB", "--batch", "4", "--slabs", "8", "--consumers", "1", "--processor", "checksum")
ENDLESS = ("--batches", "1000000000", "--status-seconds", "0.05")


def moment(run_dir):
    """(samples done, when) as the run tells, and the CPU seconds of its programs."""
    status = json.loads((run_dir / "status.json").read_text())
    programs = [status["pid"], *(consumer["pid"] for consumer in status["consumers"])]
    return status["released_samples"], status["now_ns"], sum(map(cpu_seconds, programs))


def cpu_seconds(pid):
    fields = pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def figures(begin, end):
    """(samples per second, CPU seconds per sample)"""
    samples = end[0] - begin[0]
    return samples / (end[1] - begin[1]) * 1e9, (end[2] - begin[2]) / samples


def window(run_dir, seconds):
    begin = moment(run_dir)
    time.sleep(seconds)
    return figures(begin, moment(run_dir))


def ask(run_dir, seconds):
    """When it ends. Blocks while an earlier one is under way."""
    while True:
        try:
            return ControlClient(run_dir).ask({"do": "trace", "seconds": seconds})["trace"]
        except LaunchError as problem:
            if "under way" not in problem.what:
                raise
            time.sleep(0.5)


def wait_until_it_runs(run_dir, run):
    while True:
        try:
            if moment(run_dir)[0] > 0:
                return
        except (OSError, ValueError, KeyError):
            pass
        if run.poll() is not None:
            raise SystemExit("the run ended before it began")
        time.sleep(0.1)


@contextlib.contextmanager
def endless_run(flags):
    """(its directory, its launcher) of a run that goes on until it is left."""
    with tempfile.TemporaryDirectory(prefix="offramp-cost-") as folder:
        run_dir = pathlib.Path(folder, "run")
        with open(os.path.join(folder, "launcher.log"), "wb") as log:
            run = subprocess.Popen([str(ROOT / "launch" / "offramp"), "run", *flags, *ENDLESS, "--run-dir", str(run_dir), "--output", os.path.join(folder, "output")],
                                   stdout=log, stderr=log)
            try:
                wait_until_it_runs(run_dir, run)
                time.sleep(2)
                yield run_dir, run
            finally:
                subprocess.run([str(ROOT / "launch" / "offramp"), "stop", "--now", "--run-dir", str(run_dir)], stdout=log, stderr=log, check=False)
                run.wait(60)


def measure(run_dir, rounds, seconds):
    for number in range(rounds):
        begin = moment(run_dir)
        asked = ask(run_dir, seconds)
        while time.monotonic_ns() < asked["until_ns"] + WRITTEN_SECONDS * 1e9:
            time.sleep(0.01)
        traced = figures(begin, moment(run_dir))
        answers = len(list(pathlib.Path(asked["folder"]).glob("*.jsonl")))
        assert answers == len(asked["programs"]), f"{answers} of {len(asked['programs'])} programs were traced"
        quiet = window(run_dir, seconds + 2.5)
        ratios = traced[0] / quiet[0], quiet[1] / traced[1]
        print(f"round {number + 1}: {traced[0]:,.0f} samples/s traced, {quiet[0]:,.0f} not: {ratios[0]:.3f}; of the CPU time for a sample {ratios[1]:.3f}", flush=True)
        yield ratios


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("flags", nargs="*", default=FLAGS)
    given = arguments.parse_args()
    with endless_run(given.flags) as (run_dir, _):
        ratios = list(measure(run_dir, given.rounds, given.seconds))
    for what, each in zip(("samples a second", "samples for a CPU second"), zip(*ratios)):
        print(f"{what}, traced over not: {statistics.median(each):.3f} [{min(each):.3f}, {max(each):.3f}]")


if __name__ == "__main__":
    main()
