"""
Kills all programs with SIGKILL at random moments, or moves the output folder away, and starts again with --resume:

    OFFRAMP_TEST_BIN=build/release/bin PYTHONPATH=. python3 tests/system/resume_cycles.py --cycles 1000

A cycle is a start and a kill, or a start, a move and the move back. A finished run is compared with an undisturbed one,
byte by byte and row by row; the next run starts from nothing. Exit code 0 if nothing was lost, duplicated or left
behind.
"""

import argparse
import dataclasses
import os
import pathlib
import random
import shutil
import sys
import time

from tests.support.launched_resume import World
from tests.support.real_run import left_behind

# Small slabs, so that a run is many completions; several samples a slab, several slabs a batch.
COPY = ("--device", "cpu", "--model", "copy", "--consumers", "2", "--slabs", "4", "--status-seconds", "0.05")
KINDS = {
    "segments": (
        *COPY,
        *"--processor checksum --copy-bytes 2MiB --batch 16 --samples-per-slab 4 --batches 150".split(),
    ),
    "masks": (
        *COPY,
        *"--processor mask-png,mask-rle,records --copy-outputs 5x24x32 --batch 8 --batches 60".split(),
    ),
    "rows": (
        *COPY,
        *"--processor checksum,embeddings-sqlite --copy-outputs 48 --batch 8 --samples-per-slab 4".split(),
        *"--batches 150 --vector-dtype fp16".split(),
    ),
    "files": (
        *COPY,
        *"--processor write --copy-bytes 64KiB --batch 8 --batches 60 --write-path {output}/files".split(),
    ),
}
if (pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).parent / "lib/libofframp_parquet.so").exists():
    KINDS["columns"] = (
        *COPY,
        *"--processor embeddings-parquet --copy-outputs 48 --batch 8 --samples-per-slab 4 --batches 150".split(),
    )


@dataclasses.dataclass
class Tally:
    """The results of some cycles."""

    kills: int = 0  # starts that were killed before their end
    moves: int = 0  # starts whose output folder was moved away
    ends: int = 0  # finished runs with the results of an undisturbed one
    continued: int = 0  # starts that found finished items
    done_before: int = 0  # items that those found
    failures: list = dataclasses.field(default_factory=list)


class Cycles:
    def __init__(self, kind, seed):
        self.world = World(*KINDS[kind])
        self.random = random.Random(seed)
        self.tally = Tally()

    def run(self, cycles, wanted_ends=0):
        """Kills `cycles` times, then continues until the last run and `wanted_ends` runs have ended."""
        with self.world:
            self._undisturbed()
            while not self.tally.failures and (self.tally.kills < cycles or self.tally.ends < wanted_ends):
                self._to_the_end(cycles)
            return self.tally

    def _undisturbed(self):
        began = time.monotonic()
        code = self.world.start().wait()
        assert code == 0, self.world.logs()
        self.seconds = time.monotonic() - began
        self.wanted = self.world.results()
        assert len(self.wanted) > 0
        shutil.rmtree(self.world.output)

    def _to_the_end(self, cycles):
        """Kills and resumes one run until it has finished."""
        while True:
            self.world.start("--resume")
            # From the launcher's first steps to the merge at the end; a resumed run takes less time than a whole one.
            patience = self.random.uniform(0.02, 0.8) * self.seconds if self.tally.kills < cycles else 100
            ended = _ends_within(self.world, patience)
            self._look_at_status()
            if ended:
                break
            # The producer writes its status once the run has its folder.
            if self.world.status() and self.random.random() < 0.4:
                if self._move_away() in (0, None):
                    break
                continue
            self.world.kill_everything(lambda pids: self.random.sample(pids, len(pids)))
            self.tally.kills += 1
        if self.tally.failures:
            return None
        code = self.world.wait()
        if code != 0:
            return self._fail(f"ended with {code}")
        results = self.world.results()
        if results != self.wanted:
            return self._fail(describe_difference(self.wanted, results))
        if left := left_behind(self.world.shared_memory):
            return self._fail(f"left in /dev/shm: {sorted(left)}")
        if left := self.world.processes():
            return self._fail(f"still alive: {left}")
        self.tally.ends += 1
        shutil.rmtree(self.world.output)

    def _move_away(self):
        """
        Moves the output folder away during a run and back after it. Returns the exit code; None for a wrong code or a
        write to another folder.
        """
        output, away = self.world.output, self.world.output.with_name("away")
        output.rename(away)
        if self.random.random() < 0.5:
            output.mkdir()
        code = self.world.wait()
        written = [str(path) for path in output.rglob("*") if path.is_file()] if output.exists() else []
        shutil.rmtree(output, ignore_errors=True)
        away.rename(output)
        self.tally.moves += 1
        if written or code not in (0, 73):
            self._fail(f"its folder was moved away: the run ended with {code} and wrote {written[:3]}")
            return None
        return code

    def _look_at_status(self):
        before = self.world.status().get("done_before", 0)
        self.tally.continued += before > 0
        self.tally.done_before += before

    def _fail(self, why):
        self.tally.failures.append(f"{why}\n{self.world.logs()}")


def _ends_within(world, seconds):
    deadline = time.monotonic() + seconds
    while world.launcher.poll() is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.002)
    return True


def describe_difference(wanted, found):
    lost = sorted(set(wanted) - set(found))
    more = sorted(set(found) - set(wanted))
    other = sorted(name for name in set(wanted) & set(found) if wanted[name] != found[name])
    text = (
        f"{len(lost)} files lost {lost[:3]}, {len(more)} too many {more[:3]}, {len(other)} with other bytes {other[:3]}"
    )
    if "checksums.tsv" in other:
        lines, there = wanted["checksums.tsv"].splitlines(), found["checksums.tsv"].splitlines()
        text += (
            f"; checksums.tsv: {len(set(lines) - set(there))} lines lost, {len(set(there) - set(lines))} others, "
            f"{len(there) - len(set(there))} twice"
        )
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="all, when none is named")
    parser.add_argument("--seed", type=int, default=None, help="what was printed, to have the same moments again")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    kinds = options.kind or sorted(KINDS)
    print(f"seed {seed}", flush=True)
    bad = False
    for kind in kinds:
        began = time.monotonic()
        tally = Cycles(kind, seed).run(-(-options.cycles // len(kinds)))
        print(
            f"{kind:9} {tally.kills} kills of everything, {tally.moves} moves of the output, {tally.ends} ends, {tally.continued} starts continued "
            f"({tally.done_before} items done before); {time.monotonic() - began:.0f} s; lost, twice or left behind: "
            f"{'nothing' if not tally.failures else 'SEE BELOW'}",
            flush=True,
        )
        for failure in tally.failures:
            print(failure)
            bad = True
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
