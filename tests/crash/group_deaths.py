"""
Kills the producer of a run with groups at every failpoint that it passes, at its first hits, which belong to different
groups, and the consumers of one group at each of theirs. In further rows the consumers of one group die on one slab
each time, so that it becomes a dead letter of that group alone. The outputs of every group must equal those of an
undisturbed run.

    python3 -m tests.crash.group_deaths [NAME...]      every cell; with NAME, failpoints with this prefix
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import os
import sys

from tests.crash import matrix
from tests.crash.crash_run import (
    LAUNCHER,
    SAMPLES,
    VISIBILITY_TIMEOUT,
    CrashRun,
    failpoints_of_the_sources,
    undisturbed,
)
from tests.crash.matrix import ASLEEP, ELSEWHERE, RECOVERY, SETTING_UP, WITHOUT_A_SLAB, Cell
from tests.support.done_items import items_of_checkpoint, items_of_checksums

SAMPLES_OF_A_SLAB = 4
COPY = (
    *f"--device cpu --model copy --copy-bytes 256KiB --batch {SAMPLES_OF_A_SLAB} --batches".split(),
    str(SAMPLES // SAMPLES_OF_A_SLAB),
    *"--slabs 4 --producer-restarts 4 --log-level info --visibility-timeout".split(),
    str(VISIBILITY_TIMEOUT),
)
ARRAYS, SUMS, EXTRA = "arrays", "sums", "extra"
REQUIRED = ("--group", f"{ARRAYS}=npy:2", "--group", f"{SUMS}=checksum:2")
ALL = ("--group", f"{EXTRA}=safetensors:1")
OPTIONAL = (*ALL[:-1], f"{ALL[-1]},optional")
DROPPING = (*ALL[:-1], f"{ALL[-1]},drop-oldest")
POISON = {"OFFRAMP_TEST_CRASH_ITEM": "10", "OFFRAMP_TEST_CRASH_HOW": "segv"}
POISONED = range(8, 12)  # the items of its slab
DEAD_LETTERS = 84  # exit code
HITS = (1, 2, 3)
HITS_OF_LATER_SLABS = (9, 10, 11)  # two groups acquire 4 slabs before the run has begun, and is taken over
JOBS = 3
# An unused slab of each group is abandoned when the next producer takes over.
ABANDON = ("ledger.filling#10:kill",)
# Two groups complete each of the 4 slabs at most, so that a third one has a consumer by then, which sees the death.
ALL_JOINED = ("ledger.complete#9:kill",)
# Passed only if consumers die on a slab.
OF_A_DEAD_LETTER = ("ledger.dead_letter", "dead_letter.write")
OF_A_DROP = ("broker.drop", "ledger.vacate")
# Passed only if a group spills.
OF_A_SPILL = ("spill.written", "ledger.vacate", "ledger.passed_over", "spill.read_back")
SPILLING = ("--group", f"{ARRAYS}=npy:2", "--group", f"{SUMS}=checksum:1,spill")


@dataclasses.dataclass(frozen=True)
class GroupCell(Cell):
    hit: int = 1
    group: str = ""  # of the consumers that die at the failpoint, or of those that an optional group lacks
    poisoned: str = ""  # the group whose consumers die on one slab
    optional: bool = False  # the run has an optional group, too
    drops: bool = False  # the run has a required group, too, that drops its oldest slabs
    spills: bool = False  # SPILLING; the consumer of the group that spills sleeps for a while

    def __str__(self):
        poisoned = f", {self.poisoned} poisoned" if self.poisoned else ""
        how = f"{', required' if self.drops else ''}{', spilling' if self.spills else ''}"
        return f"{self.failpoint}#{self.hit} {self.action} {self.group or self.program}{poisoned}{how}"

    @property
    def order(self):
        return matrix.Order(self.failpoint, self.action, self.hit)

    @property
    def sees_a_recovery(self):
        return self.program == "consumer" and SETTING_UP.get(self.failpoint) == (RECOVERY,)

    @property
    def setting_up(self):
        if self.failpoint in OF_A_DROP or self.spills:
            return ASLEEP
        if self.sees_a_recovery:
            return ALL_JOINED
        return ABANDON if self.failpoint == "ledger.abandon" else SETTING_UP.get(self.failpoint, ())

    @property
    def flags(self):
        if self.sees_a_recovery and self.group == EXTRA:
            return ALL
        if self.drops:
            return DROPPING
        return OPTIONAL if self.optional else ()


class GroupCrashRun(CrashRun):
    """
    The same run with groups. Failpoints of consumers are those of `group`, if one is given. Consumers of `poisoned` die
    on one slab until the run is resumed. `extra`: the undisturbed outputs of the third group.
    """

    RUN = (*COPY, *REQUIRED)
    resume_flags = ("--resume",)

    def __init__(self, *orders, group="", poisoned="", extra=None, **further):
        self.group, self.poisoned, self.extra = group, poisoned, extra or {}
        super().__init__(*orders, **further)
        self.may_drop = DROPPING[-1] in self.run.flags
        if poisoned:
            self.run.environment.update(POISON, OFFRAMP_TEST_CRASH_GROUP=poisoned)

    def consumers(self):
        environment = super().consumers()
        if self.group:
            self.replace_consumer(f'case "$*" in */groups/{self.group}*) ;; *) unset OFFRAMP_FAILPOINT ;; esac')
        return environment

    def replace_consumer(self, first):
        """Runs the shell command `first` before each consumer."""
        program = self.run.folder / "programs" / "offramp-consumer"
        faulty = os.readlink(program)
        program.unlink()
        program.write_text(f'#!/bin/sh\n{first}\nexec {faulty} "$@"\n')
        program.chmod(0o755)

    def outputs(self):
        """Of the required groups."""
        return of_groups(self.run.files(), ARRAYS, SUMS)

    def is_conserved(self):
        summary = self.run.summary()
        samples = summary["samples"]
        dropped = samples["dropped_when_full"]
        published = samples["published"] - samples["dropped_waiting"] + dropped  # also what earlier producers dropped
        if not summary["conserved"] or samples["released"] + samples["dead_letters"] + dropped != published:
            return False
        if dropped != sum(group["dropped_samples"] for group in summary["groups"] if not group["optional"]):
            return False
        return all(
            group["released_samples"] + group["dead_lettered_samples"] + group["dropped_samples"] + kept(group)
            == published
            for group in summary["groups"]
        )

    def led_by_the_checkpoint(self):
        done = items_of_checkpoint(self.run.output)
        arrays = {item for item in done if (self.run.output / ARRAYS / f"{item}.payload.npy").exists()}
        return sorted(done - (arrays & items_of_checksums(self.run.output / SUMS)))

    def resume(self):
        self.run.flags = (*(flag.removesuffix(",drop-oldest") for flag in self.run.flags),)
        return super().resume()

    def wrong(self, code, expected):
        drops = self.may_drop
        wrong = self.wrong_in_groups(code, expected)
        if drops and not wrong and of_groups(self.run.files(), EXTRA) != self.extra:
            wrong.append(f"outputs of {EXTRA} differ from the undisturbed run's")
        return wrong

    def wrong_in_groups(self, code, expected):
        if not of_groups(self.run.files(), EXTRA).items() <= self.extra.items():
            return [f"outputs of {EXTRA} do not belong to the undisturbed run"]
        if self.poisoned not in (ARRAYS, SUMS):
            return super().wrong(code, expected) + self._dead_letters_but(self.poisoned)
        wrong = [] if code == DEAD_LETTERS else [f"exit code {code} with a dead letter"]
        if not wrong and self.outputs() != without_poisoned(expected, self.poisoned):
            wrong.append(f"outputs are not the undisturbed run's without the dead letter of {self.poisoned}")
        if not wrong and not self.is_conserved():
            wrong.append("samples are not conserved")
        wrong += self._dead_letters_but(self.poisoned)
        return wrong + super().wrong(self.resume(), expected)

    def _dead_letters_but(self, poisoned):
        """Faults of the groups' dead letters: the group `poisoned` has those of one slab, others none."""
        groups = {group["name"]: group["dead_lettered_samples"] for group in self.run.summary()["groups"]}
        wanted = {name: len(POISONED) if name == poisoned else 0 for name in groups}
        if poisoned == EXTRA and groups[EXTRA] == 0:  # an optional group may have dropped it
            wanted[EXTRA] = 0
        return [f"dead letters of groups: {groups}, expected {wanted}"] if groups != wanted else []


class Spills(GroupCrashRun):
    """One of its groups spills."""

    RUN = (*COPY, *SPILLING)


class WithAllGroups(GroupCrashRun):
    """None of its groups is optional."""

    RUN = (*GroupCrashRun.RUN, *ALL)

    def outputs(self):
        return self.run.files()


def kept(group):
    """Samples of slabs that consumers of an optional group still had when the run ended."""
    return SAMPLES_OF_A_SLAB * (group["waiting_slabs"] + group["leased_slabs"]) if group["optional"] else 0


def of_groups(outputs_of_a_run, *groups):
    return {name: text for name, text in outputs_of_a_run.items() if name.partition("/")[0] in groups}


def without_poisoned(outputs_of_a_run, group):
    """What the run wrote, without the group's results of the poisoned slab."""
    kept = {}
    for name, text in outputs_of_a_run.items():
        if group == SUMS and name.startswith(f"{SUMS}/"):
            text = b"".join(line for line in text.splitlines(True) if item_of_line(line) not in POISONED)
        if group != ARRAYS or name not in {f"{ARRAYS}/{item}.payload.npy" for item in POISONED}:
            kept[name] = text
    return kept


def item_of_line(line):
    begin = line.split(b"\t", 1)[0]
    return int(begin) if begin.isdigit() else None


def failpoints_of(program):
    """Those that a run with groups passes."""
    return [
        name
        for name, passed_by in failpoints_of_the_sources().items()
        if passed_by == program and name not in (*ELSEWHERE, *WITHOUT_A_SLAB)
    ]


def quick_cells():
    """One of each kind."""
    return [
        GroupCell("ledger.complete", "producer", "kill", hit=2),
        GroupCell("consumer.work_ended", "consumer", "kill", hit=2, group=SUMS),
        GroupCell("consumer.release", "consumer", "kill", hit=2, group=EXTRA, optional=True),
        GroupCell("ledger.dead_letter", "producer", "kill", poisoned=SUMS),
        GroupCell("ledger.vacate", "producer", "kill", group=EXTRA, optional=True),
        GroupCell("broker.drop", "producer", "kill", hit=2, group=EXTRA, drops=True),
        *spills(hits=(1,))[:1],
    ]


def spills(hits):
    """With another required group that drops its oldest slabs, too."""
    return [
        GroupCell(name, "producer", "kill", hit=hit, group=SUMS, drops=drops, spills=True)
        for name in OF_A_SPILL
        for drops in (False, True)
        for hit in hits
    ]


def all_cells(wanted=()):
    """`wanted`: prefixes of failpoints."""
    producers = [
        GroupCell(name, "producer", "kill", hit=hit, optional=hit == HITS[-1])
        for name in (*failpoints_of("producer"), "ledger.abandon")
        for hit in hits_of(name)
    ]
    consumers = [
        GroupCell(name, "consumer", "kill", hit=hit, group=group, optional=group == EXTRA)
        for name in failpoints_of("consumer")
        for group in (ARRAYS, SUMS, EXTRA)
        for hit in (1, 3)
        if hit == 1 or name not in matrix.ONCE_A_PROCESS
    ]
    poisoned = [
        GroupCell(name, "producer", "kill", hit=hit, poisoned=group, optional=True)
        for group in (ARRAYS, SUMS)
        for name in (*OF_A_DEAD_LETTER, "progress.written", "ledger.revoke.counted", "ledger.free", "ledger.complete")
        for hit in (HITS if name not in OF_A_DEAD_LETTER else HITS[:1])
    ] + [
        GroupCell("consumer.release", "consumer", "kill", hit=2, group=group, poisoned=other, optional=True)
        for group in (ARRAYS, SUMS)
        for other in (ARRAYS, SUMS, EXTRA)
    ]
    drops = [
        GroupCell(name, "producer", "kill", hit=hit, group=EXTRA, optional=not drops, drops=drops)
        for drops in (False, True)
        for name in OF_A_DROP
        for hit in HITS
    ]
    ends = [GroupCell(name, "producer", LAUNCHER, hit=hit) for name in ("ledger.ready", "ledger.free") for hit in HITS]
    return [
        cell
        for cell in (*producers, *consumers, *poisoned, *drops, *spills(HITS), *ends)
        if not wanted or any(cell.failpoint.startswith(begin) for begin in wanted)
    ]


def hits_of(failpoint):
    """Those that each producer has."""
    if failpoint == "ledger.filling":
        return (*HITS, *HITS_OF_LATER_SLABS)
    if failpoint in ("adopt.epoch_used", "adopt.producer_named", "ledger.abandon"):
        return HITS[:2]  # once for each of two groups
    return HITS[:1] if failpoint in matrix.ONCE_A_PROCESS else HITS


def check(cell, expected):
    """The faults of the cell, or an empty text. `expected`: the outputs of WithAllGroups."""
    run = Spills if cell.spills else GroupCrashRun
    make = functools.partial(run, group=cell.group, poisoned=cell.poisoned, extra=of_groups(expected, EXTRA))
    return matrix.check(cell, of_groups(expected, ARRAYS, SUMS), make)


def check_all(wanted, expected):
    """{cell: its faults, or an empty text}. `expected`: the outputs of WithAllGroups."""
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return dict(zip(wanted, pool.map(lambda cell: check(cell, expected), wanted)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    results = check_all(all_cells(parser.parse_args().names), undisturbed(WithAllGroups))
    for cell, wrong in results.items():
        print(f"{cell}: {wrong or 'ok'}", file=sys.stderr if wrong else sys.stdout)
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
