"""
Kills a Python loop, the producer, at every failpoint of the library and of the Python package that its egress passes,
and its consumers at each of theirs. Each batch has samples of one shape and samples of different shapes.

    python3 -m tests.crash.loop_deaths [NAME...]      every failpoint × every way to die; with NAME, failpoints with
                                                      this prefix
"""

import argparse
import concurrent.futures
import json
import shlex
import sys
import textwrap

from tests.crash import matrix
from tests.crash.crash_run import (
    BIN,
    VISIBILITY_TIMEOUT,
    ROOT,
    CrashRun,
    failpoints_in,
    failpoints_of_the_sources,
    undisturbed,
)
from tests.crash.matrix import DEATHS, ELSEWHERE, LAUNCHER, WITHOUT_A_SLAB, Cell

BATCHES, ROWS = 24, 4
BATCH = f"""
    import numpy, offramp

    def batch(number):
        lengths = [(number * 7 + row * 3) % 11 for row in range({ROWS})]
        tokens = [numpy.full((length, 2), number + length, "float32") for length in lengths]
        values = numpy.arange({ROWS} * 6, dtype="float32").reshape({ROWS}, 6) + number
        in_one = numpy.concatenate(tokens)
        return (
            [f"b{{number:03}}-{{row}}" for row in range({ROWS})],
            {{"values": values, "tokens": tokens if number % 2 == 0 else offramp.packed(in_one, lengths)}},
        )
"""
LOOP = (
    BATCH
    + f"""
    with offramp.Egress(slabs=4, samples_per_slab={ROWS}, visibility_timeout={VISIBILITY_TIMEOUT}) as egress:
        for keys, values in egress.pending(map(batch, range({BATCHES}))):
            egress.submit(values, keys)
"""
)
# A loop's egress never reaches these failpoints: its run is not recovered, and the programs use another checkpoint.
OF_THE_PROGRAMS = (
    "adopt.epoch_used",
    "adopt.producer_named",
    "ledger.adopt",
    "broker.rejoin",
    "broker.rejoined",
    "run.first_result",
    "run.begun",
    "run.joined",
    "run.ended",
    "run.swept",
)
# Consumers of a loop pass these only if another producer takes over.
OF_A_RECOVERY = ("consumer.producer_lost", "consumer.producer_met", "consumer.back")
# In the test the launcher dies at one step each of the run's start, work and checkpoint.
LAUNCHER_DIES_AT = ("run.meet", "egress.published", "checkpoint.added")
JOBS = 3


def failpoints_of_a_loop():
    of_the_package = failpoints_in((ROOT / "launch" / "python").glob("**/*.py"))
    of_the_library = [name for name, program in failpoints_of_the_sources().items() if program == "producer"]
    return [
        name
        for name in (*of_the_library, *of_the_package)
        if name not in (*ELSEWHERE, *WITHOUT_A_SLAB, *OF_THE_PROGRAMS)
    ]


def failpoints_of_consumers():
    return [
        name
        for name, program in failpoints_of_the_sources().items()
        if program == "consumer" and name not in (*ELSEWHERE, *WITHOUT_A_SLAB, *OF_A_RECOVERY)
    ]


class LoopCell(Cell):
    """A loop rewrites its checkpoint once and appends to it a few times."""

    @property
    def order(self):
        return matrix.Order(
            self.failpoint, self.action, 1 if self.failpoint.startswith("checkpoint.") else super().order.nth
        )


class LoopCrashRun(CrashRun):
    """The same run, its producer a loop in the interpreter that runs these tests."""

    RUN = ("--consumers", "2", "--processor", "npy", "--producer-restarts", "4")
    LOOP = LOOP
    resume_flags = ("--resume",)

    def consumers(self):
        loop = self.run.folder / "loop.py"
        loop.write_text(textwrap.dedent(self.LOOP))
        self.run.flags += ("--producer", shlex.join([sys.executable, str(loop)]))
        return {**super().consumers(), "OFFRAMP_LIBRARY": str(BIN.parent / "lib" / "libofframp.so")}

    def outputs(self):
        return {name: text for name, text in self.run.files().items() if name.endswith(".npy")}

    def is_conserved(self):
        samples = self.run.summary()["samples"]
        return samples["dead_letters"] == samples["dropped_when_full"] == 0

    def led_by_the_checkpoint(self):
        """Item i is sample i % ROWS of batch i // ROWS."""
        lines = (self.run.output / ".offramp-egress").read_text().splitlines()[1:]
        done = {item for line in lines for begin, end, _ in json.loads(line)["done"] for item in range(begin, end)}
        return sorted(
            item
            for item in done
            for tensor in ("values", "tokens")
            if not (self.run.output / f"b{item // ROWS:03}-{item % ROWS}.{tensor}.npy").exists()
        )

    @staticmethod
    def is_ended_by(order):
        """A loop that exits by itself ends the run, too."""
        return CrashRun.is_ended_by(order) or order.action == "exit"


class CatchingCrashRun(LoopCrashRun):
    """
    Its loop catches the exceptions of submit() and submits the batch again. Each batch fails at another line of the
    package.
    """

    LOOP = (
        BATCH
        + f"""
    import os, sys

    class Interrupted(Exception):
        pass

    def interrupt(line):
        left = line
        def trace(frame, event, argument):
            nonlocal left
            left -= event == "line"
            if left < 0:
                raise Interrupted
            return trace
        folder = os.path.dirname(offramp.__file__)
        sys.settrace(lambda frame, *_: trace if frame.f_code.co_filename.startswith(folder) else None)

    with offramp.Egress(slabs=4, samples_per_slab={ROWS}, visibility_timeout={VISIBILITY_TIMEOUT}) as egress:
        for number, (keys, values) in enumerate(egress.pending(map(batch, range({BATCHES})))):
            try:
                interrupt(12 * number if number % 2 else 130 - 5 * number)
                egress.submit(values, keys)
                sys.settrace(None)
            except Interrupted:
                egress.submit(values, keys)
"""
    )


def cells(wanted=(), everything=False):
    """
    SIGKILL at every failpoint and the launcher's death at some; with `everything`, all ways to die. `wanted`: prefixes
    of failpoints.
    """
    programs = {
        **dict.fromkeys(failpoints_of_a_loop(), "producer"),
        **dict.fromkeys(failpoints_of_consumers(), "consumer"),
    }
    return [
        LoopCell(name, program, action)
        for name, program in programs.items()
        if not wanted or any(name.startswith(begin) for begin in wanted)
        for action in (*DEATHS, LAUNCHER)
        if everything or action == "kill" or action == LAUNCHER and name in LAUNCHER_DIES_AT
    ]


def seen_by_a_loop():
    """The failpoints that an undisturbed loop, its launcher and its consumers pass."""
    with LoopCrashRun() as crash:
        seen = crash.run.folder / "seen"
        crash.run.environment["OFFRAMP_FAILPOINT_SEEN"] = str(seen)
        assert crash.finish() == 0, crash.run.logs()
        return set(seen.read_text().split())


def is_whole(outputs):
    """Whether these are the results of a finished run: two files per sample."""
    return len(outputs) == 2 * BATCHES * ROWS


def check_all(wanted, make=LoopCrashRun):
    """{cell: its faults, or an empty text}."""
    expected = undisturbed(make)
    assert is_whole(expected), list(expected)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return dict(zip(wanted, pool.map(lambda cell: matrix.check(cell, expected, make), wanted)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    results = check_all(cells(parser.parse_args().names, everything=True))
    for cell, wrong in results.items():
        if wrong:
            print(f"{cell.failpoint} {cell.action}: {wrong}", file=sys.stderr)
    print(matrix.table(results))
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
