"""
The kill-point matrix: every failpoint of the sources × every way to die × the victim, for each --when-full. Prints a
table. test_crash.py runs it in CI.

    python3 -m tests.crash.matrix [--when-full spill] [NAME...]      all cells; with NAME, failpoints with this prefix
"""

import argparse
import dataclasses
import sys
import time

from tests.crash.crash_run import (
    DEATH,
    DEATHS,
    HANG,
    LAUNCHER,
    RECOVERY,
    WHEN_FULL,
    CrashRun,
    Order,
    failpoints_of_the_sources,
    undisturbed,
)

# Preconditions of failpoints; below, the failpoints that a process passes only once.
SETTING_UP = {
    "ledger.expire": (HANG,),
    "ledger.return.holder_cleared": (HANG,),
    "ledger.revoke.counted": (DEATH,),
    "ledger.revoke.holder_cleared": (DEATH,),
    **dict.fromkeys(
        (
            "adopt.epoch_used",
            "adopt.producer_named",
            "ledger.adopt",
            "broker.rejoin",
            "broker.rejoined",
            "consumer.producer_lost",
            "consumer.producer_met",
            "consumer.back",
        ),
        (RECOVERY,),
    ),
}
ONCE_A_PROCESS = (
    "broker.admitted",
    "consumer.welcomed",
    "consumer.disconnect",
    "ledger.expire",
    "ledger.return.holder_cleared",
    "ledger.revoke.counted",
    "ledger.revoke.holder_cleared",
    "sink.commit",
    "sink.committed",
    "consumer.acknowledged",
    "broker.acknowledge",
    "run.meet",
    "run.met",
    "run.first_result",
    "run.begun",
    "run.joined",
    "run.ended",
    "run.swept",
    "adopt.epoch_used",
    "adopt.producer_named",
    "broker.rejoin",
    "broker.rejoined",
    "consumer.producer_lost",
    "consumer.producer_met",
    "consumer.back",
)
# Only a run with --tile passes these: system.tiles kills consumers at each.
OF_TILES = tuple(name for name in failpoints_of_the_sources() if name.startswith(("stitch.", "canvas.")))
# Not every run passes these. system.dead_letters covers dead letters and failing user functions, broker_test unused
# grants at the end, recovery_test the steps of groups that spill, system.overwrite the steps after the consumers' end,
# and system.growing_input the items file.
ELSEWHERE = (
    "ledger.dead_letter",
    "dead_letter.write",
    "consumer.failed",
    "ledger.fail.counted",
    "ledger.abandon",
    "ledger.lost",
    "ledger.passed_over",
    "spill.lost",
    "merge.write",
    "parts.join",
    "items.in_place",
    "sink.replace",
    "sink.replaced",
    *OF_TILES,
)
# Passed only with these values of --when-full, and always if the only consumer is stopped for a while.
WITHOUT_A_SLAB = {
    "ledger.vacate": ("drop-oldest", "spill"),
    "broker.drop": ("drop-oldest",),
    "spill.written": ("spill",),
    "spill.read_back": ("spill",),
}
RUNS_TO_REACH_IT = 3
ASLEEP, ONE_CONSUMER = ("consumer.welcomed#1:stop",), ("--consumers", "1")
# For tests of --when-full: the other ways to die differ only for the victim's parent.
FEWER_ACTIONS = ("kill", "stop", LAUNCHER)


@dataclasses.dataclass(frozen=True)
class Cell:
    failpoint: str
    program: str  # passes the failpoint
    action: str
    when_full: str = "wait"

    @property
    def victim(self):
        return "launcher" if self.action == LAUNCHER else self.program

    @property
    def order(self):
        return Order(self.failpoint, self.action, 1 if self.failpoint in ONCE_A_PROCESS else 3)

    @property
    def setting_up(self):
        return ASLEEP if self.failpoint in WITHOUT_A_SLAB else SETTING_UP.get(self.failpoint, ())

    @property
    def flags(self):
        return ONE_CONSUMER if self.failpoint in WITHOUT_A_SLAB else ()


def cells(wanted=(), when_full="wait", actions=(*DEATHS, LAUNCHER)):
    """All cells, or those of failpoints that begin with one of `wanted`."""
    return [
        Cell(name, program, action, when_full)
        for name, program in failpoints_of_the_sources().items()
        if name not in ELSEWHERE and when_full in WITHOUT_A_SLAB.get(name, WHEN_FULL)
        if not wanted or any(name.startswith(begin) for begin in wanted)
        for action in actions
    ]


def check(cell, expected, make=CrashRun):
    """
    Runs the cell in a run from `make`. Returns the faults, or an empty text. Repeats a faultless run that did not reach
    the failpoint: on a busy machine a returning consumer may come so late that another has done its work.
    """
    for _ in range(RUNS_TO_REACH_IT):
        unreached, wrong = run(cell, expected, make)
        if wrong or not unreached:
            break
    return "; ".join(unreached + wrong)


def run(cell, expected, make):
    """(missed failpoint, other faults), each with the run's logs."""
    with make(cell.order, setting_up=cell.setting_up, when_full=cell.when_full, flags=cell.flags) as crash:
        code = crash.finish()
        unreached = [] if crash.reached(cell.order) else [f"the failpoint was not reached\n{crash.run.logs()}"]
        if crash.is_ended_by(cell.order):
            code = crash.resume()
        wrong = crash.wrong(code, expected)
        return unreached, wrong + ([crash.run.logs()] if wrong else [])


def table(results):
    """A Markdown table: failpoints by ways to die."""
    columns = (*DEATHS, LAUNCHER)
    lines = [
        "| failpoint | in | "
        + " | ".join("launcher dies" if column == LAUNCHER else column for column in columns)
        + " |",
        "|---|---|" + "---|" * len(columns),
    ]
    for name in dict.fromkeys(cell.failpoint for cell in results):
        row = {cell.action: wrong for cell, wrong in results.items() if cell.failpoint == name}
        program = next(cell.program for cell in results if cell.failpoint == name)
        lines.append(
            f"| {name} | {program} | "
            + " | ".join("–" if column not in row else "FAILED" if row[column] else "ok" for column in columns)
            + " |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--when-full", choices=WHEN_FULL, default="wait")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    began, expected, results = time.monotonic(), undisturbed(), {}
    for cell in cells(options.names, options.when_full):
        results[cell] = check(cell, expected)
        if results[cell]:
            print(f"{cell.failpoint} {cell.action}: {results[cell]}", file=sys.stderr, flush=True)
    print(table(results))
    failed = sum(bool(wrong) for wrong in results.values())
    print(f"{len(results)} cells, {failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
