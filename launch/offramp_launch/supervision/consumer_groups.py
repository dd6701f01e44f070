"""The consumers of a run, by group (`run --group`): slots, restarts and failures of each group are its own."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import pathlib

from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.failure import reasons_in
from offramp_launch.incidents import IncidentReporter
from offramp_launch.retries import error_in
from offramp_launch.supervision.backoff import FAILURES_WITHOUT_PROGRESS, Backoff, FailureBudget
from offramp_launch.supervision.consumer_slots import ConsumerSlots, is_work_left
from offramp_launch.supervision.group_status import GroupStatus
from offramp_launch.supervision.scaling import ConsumerScaling

LONGEST_BACKOFF_SECONDS = 60.0  # of an optional group, which is started again for ever


@dataclasses.dataclass
class GroupPlan:
    """
    `name`: empty in a run without groups. `consumers`: at the start. `command`: of a consumer. `finishing`: of a
    consumer without a run. `folder`: the group's, in the run directory, or that. `max_failures`: of one slab.
    `results`: the group's folder in the output; empty for the output itself. `follows`: Bounds of autoscaling; None: a
    fixed number. `drops`: the run waits for the group at its end only.
    """

    name: str
    optional: bool
    consumers: int
    command: list
    finishing: list
    folder: pathlib.Path
    max_failures: int = 1
    results: str = ""
    follows: object = None
    drops: bool = False


class ConsumerGroup:
    """
    One group, as its slots see the run. An optional group never fails the run. Owns: its slots and their scaling.
    Borrows: the plan, the watch. Thread, Blocks: as ConsumerSlots.
    """

    def __init__(self, plan, watch, start, log_of, selector, timers, logbook):
        self.plan = plan
        self._watch, self._logbook = watch, logbook
        self.incidents = IncidentReporter(plan.folder)
        backoff = functools.partial(Backoff, LONGEST_BACKOFF_SECONDS) if plan.optional else Backoff
        about = selector, timers, logbook, self.incidents, plan.name or "consumer", backoff
        self.slots = ConsumerSlots(self, lambda name: start(name, plan.command), log_of, *about)
        # Of a user's program, one group's consumers may be all of this launcher.
        self._seen = plan.name or watch.run_dir.group
        see = {"see": GroupStatus(self._seen).of} if self._seen else {}
        self.scaling = ConsumerScaling(self.slots, logbook.note, plan.name, **see)
        if plan.follows:
            self.scaling.take_up(plan.follows)
        # Of an optional group, until it completes samples again: why its last consumer failed.
        self._failure, self._completed_then = "", 0
        self._is_announced = False  # whether a note has said that the run goes on without it
        self._most_dead_letters = math.ceil(FAILURES_WITHOUT_PROGRESS / plan.max_failures)  # in a row
        self._failures = FailureBudget(self._most_dead_letters if self._seen else FAILURES_WITHOUT_PROGRESS)

    def _reported(self):
        groups = self._watch.status.get("groups") or []
        return next((each for each in groups if each.get("name") == self._seen), {})

    def wants_consumers(self):
        return self._watch.wants_consumers()

    def has_work_for_consumers(self):
        """A group may have finished while the run goes on: then nothing waits for it any more."""
        own = self._reported()
        if not own:
            return is_work_left(self._watch.status, self.is_draining())
        return any(own.get(field) for field in ("waiting_slabs", "leased_slabs", "spilled_samples"))

    def is_draining(self):
        return self._watch.is_draining()

    def completed(self):
        return (self._reported().get("released_samples") or 0) if self.plan.name else self._watch.completed()

    def fail(self, problem):
        if not self.plan.optional:
            self._watch.fail(problem)
            return
        if not self._is_announced:
            self._is_announced = True
            self._logbook.note(
                f"group {self.plan.name} fails, and the run goes on without it, as it is optional: {problem}\n"
                f"    its consumers are started again, at most every {LONGEST_BACKOFF_SECONDS:.0f} s"
            )
        self.note_death(problem.in_one_line())

    def note_death(self, why):
        if self.plan.optional:
            self._failure, self._completed_then = why, self.completed()

    def look(self):
        self.slots.look()
        self.incidents.complete()
        if self._failure and self.completed() > self._completed_then:
            if self._is_announced:
                self._logbook.note(f"group {self.plan.name} works again")
            self._failure, self._is_announced = "", False
        if self._watch.wants_consumers() and self._failures.is_spent(self.completed(), self._failed()):
            self.fail(self._every_slab_fails())

    def _failed(self):
        """The producer counts failures of the whole run only; a group counts its dead letters."""
        if self._seen:
            return self.incidents.number_of_reports()
        return (self._watch.status.get("releases") or {}).get("failed") or 0

    def _every_slab_fails(self):
        first = next(iter(reasons_in(self.plan.folder)), "")
        if self._seen:
            what = f"{self._most_dead_letters} slabs in a row became dead letters of group {self._seen}"
            fix = f"./launch/offramp dead-letters list --run-dir {self.plan.folder}"
            return LaunchError(f"{what}: {first or 'no reason is known'}", fix, ExitCode.DEAD_LETTERS)
        why = error_in((self._watch.status.get("last_failure") or "").strip() or "its consumer gave no reason")
        how = f"{FAILURES_WITHOUT_PROGRESS} times in a row and nothing was completed in between"
        what = f"slabs failed {how}; the last: {why}" + (f"; the first dead letter: {first}" if first else "")
        return LaunchError(
            what, f"The consumers' logs have the details: {self._watch.run_dir.logs}", ExitCode.DEAD_LETTERS
        )

    def describe(self):
        return {
            "name": self.plan.name,
            "optional": self.plan.optional,
            "wanted": len(self.slots.staying()),
            "alive": len(self.slots.children()),
            "failure": self._failure,
            "following": self.scaling.report(),
        }


class ConsumerGroups:
    """
    The groups of a run, in the order of its flags, or a single one without a name. Owns: the groups. Thread, Blocks: as
    ConsumerSlots.
    """

    def __init__(self, plans, *about):
        """`about`: of each ConsumerGroup."""
        self._groups = [ConsumerGroup(plan, *about) for plan in plans]

    records = property(
        lambda self: [{**record, "group": each.plan.name} for each in self._groups for record in each.slots.records]
    )

    def begin(self):
        for group in self._groups:
            group.slots.bring_to(group.plan.consumers)

    def children(self):
        return list(itertools.chain.from_iterable(group.slots.children() for group in self._groups))

    def staying(self):
        return list(itertools.chain.from_iterable(group.slots.staying() for group in self._groups))

    def send_away(self):
        """All consumers, as ConsumerSlots.send_away()."""
        for group in self._groups:
            group.slots.send_away(group.slots.staying())

    def look(self):
        for group in self._groups:
            group.look()

    def follow(self, status):
        """Call while consumers are wanted."""
        for group in self._groups:
            group.scaling.look(status)

    def describe(self):
        return [group.describe() for group in self._groups]

    def following(self):
        """The autoscaling reports by the group's name, without groups where it was never on."""
        return {group.plan.name: report for group in self._groups if (report := group.scaling.report())}

    def named(self, name):
        """All groups without a name. Errors: LaunchError (USAGE)."""
        found = [each for each in self._groups if name in ("", each.plan.name)]
        if found:
            return found
        if not self._groups[0].plan.name:
            raise UsageError(f"reload {name} names a group, and this run has none", "Run ./launch/offramp reload")
        names = ", ".join(each.plan.name for each in self._groups)
        raise UsageError(f"the run has no group '{name}'", f"Its groups: {names}")

    def scaled(self, text):
        """
        (the group, the words after its name) of NAME=N, NAME=MIN..MAX or NAME=auto; without groups of the same without
        a name. Errors: LaunchError (USAGE).
        """
        if "=" not in text and not self._groups[0].plan.name:
            return self._groups[0], text
        plan, to = group_scaled([each.plan for each in self._groups if each.plan.name], text)
        return next(each for each in self._groups if each.plan is plan), to


def group_scaled(plans, text):
    """(the group's plan, the words after its name) of NAME=WORDS. Errors: LaunchError (USAGE)."""
    name, equals, words = text.partition("=")
    if not plans:
        raise UsageError(
            f"scale {text} names a group, and this run has none", "Give a number, such as ./launch/offramp scale 4"
        )
    plan = next((each for each in plans if equals and each.name == name), None)
    if not plan:
        what = (
            f"the run has no group '{name}'"
            if name and equals
            else f"scale {text} names no group, and this run has groups"
        )
        names = ", ".join(each.name for each in plans)
        raise UsageError(what, f"Give NAME=N, such as ./launch/offramp scale {plans[0].name}=4; groups: {names}")
    return plan, words


def waiting_note(plan, wanted):
    """What a number of consumers means for the run, for its message."""
    if wanted or plan.optional:
        return ""
    return "; the run waits for " + ("it at its end" if plan.drops else "this group until it has consumers again")
