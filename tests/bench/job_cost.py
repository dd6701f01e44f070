"""
What a job in shards costs beside one run of the same work: seconds a shard, of `job init` and of `job merge`, and the system calls on the shared
folders, which at a thousand hosts a file system feels. On the CPU, with a model and pictures so small that nothing else is in the figures.

    python3 tests/bench/job_cost.py [--shards 4,16] [--rounds 3] [--strace] [--json FILE]

The launch script's build is used. Each round runs the whole work in one run, then in each number of shards, one after another.
"""

import argparse
import collections
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAUNCH = [str(ROOT / "launch/offramp")]
ITEMS, SIDE = 512, 64
FLAGS = ["--model", "cutout", "--image-size", str(SIDE), "--batch", "8", "--device", "cpu", "--consumers", "1", "--processor", "checksum", "--slabs", "4"]
CALL = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(\w+)\((.*)$")
PATH = re.compile(r'"([^"]*)"|<([^>]*)>')


class Works:
    """The input, and outputs of runs and jobs over it, in one folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.input = self.folder / "pictures.npy"
        numpy.save(self.input, numpy.random.default_rng(0).integers(0, 255, (ITEMS, 3, SIDE, SIDE), dtype=numpy.uint8))
        self.number = 0

    def anew(self):
        self.number += 1
        return self.folder / f"job-{self.number}", self.folder / f"output-{self.number}"

    def command(self, *words, trace=None):
        begin = time.perf_counter()
        done = subprocess.run([*(["strace", "-f", "-y", "-s", "4096", "-e", "trace=%file,%desc", "-o", trace] if trace else []), *LAUNCH, *map(str, words)],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return time.perf_counter() - begin

    def run(self):
        _, output = self.anew()
        return self.command("run", "--input", self.input, "--output", output, *FLAGS)

    def job(self, shards):
        """Seconds of init, of each shard, of the merge."""
        job, output = self.anew()
        init = self.command("job", "init", "--job", job, "--shards", shards, "--input", self.input, "--output", output, *FLAGS)
        each = [self.command("shard", "--job", job, "--index", index) for index in range(shards)]
        return init, each, self.command("job", "merge", "--job", job)

    def calls(self, shards):
        """System calls on JOB and OUT by their names: of one shard, and of the merge."""
        job, output = self.anew()
        self.command("job", "init", "--job", job, "--shards", shards, "--input", self.input, "--output", output, *FLAGS)
        counted = {}
        for index in range(shards):
            self.command("shard", "--job", job, "--index", index, trace=self.folder / "trace" if index == 1 else None)
        counted["shard"] = on_paths(self.folder / "trace", (job, output))
        self.command("job", "merge", "--job", job, trace=self.folder / "trace")
        counted["merge"] = on_paths(self.folder / "trace", (job, output))
        return counted


def on_paths(trace, folders):
    names = tuple(map(str, folders))
    counted = collections.Counter()
    for line in open(trace, encoding="utf-8", errors="replace"):
        call = CALL.match(line)
        if call and any((one or two).startswith(names) for one, two in PATH.findall(call[2])):
            counted[call[1]] += 1
    return dict(counted.most_common())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", default="4,16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--strace", action="store_true", help="count system calls on the shared folders, too")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    counts = [int(count) for count in options.shards.split(",")]
    told = {"machine": {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}, "items": ITEMS, "rounds": options.rounds}
    print(f"{told['machine']['cores']} cores, {ITEMS} items of {SIDE}x{SIDE}, {options.rounds} rounds, one run beside the same in shards one after another")
    with tempfile.TemporaryDirectory(prefix="offramp-job-cost-") as folder:
        works = Works(folder)
        works.run()
        alone, jobs = [], {count: [] for count in counts}
        for _ in range(options.rounds):
            alone.append(works.run())
            for count in counts:
                jobs[count].append(works.job(count))
        told["run"] = alone
        told["jobs"] = {count: [{"init": init, "shards": shards, "merge": merge} for init, shards, merge in each] for count, each in jobs.items()}
        print(f"one run: {statistics.median(alone):.2f} s")
        for count, each in jobs.items():
            seconds = [second for _, shards, _ in each for second in shards]
            print(f"{count} shards: init {statistics.median(init for init, _, _ in each):.2f} s, a shard {statistics.median(seconds):.2f} s, merge "
                  f"{statistics.median(merge for _, _, merge in each):.2f} s")
        if options.strace:
            told["calls"] = works.calls(counts[0])
            for what, counted in told["calls"].items():
                print(f"system calls on the shared folders, a {what} of {counts[0]} shards: {sum(counted.values())}: "
                      + ", ".join(f"{name} {number}" for name, number in counted.items()))
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
