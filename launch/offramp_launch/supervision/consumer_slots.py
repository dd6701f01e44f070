"""Starts the consumers of a run, one per slot, restarts those that die, and dismisses them."""

from __future__ import annotations

import collections
import dataclasses
import selectors
import signal

from offramp_launch.supervision.backoff import DEATHS_WITHOUT_PROGRESS, Backoff, FailureBudget
from offramp_launch.supervision.children import Child
from offramp_launch.exit_code import FATAL_FOR_A_CONSUMER, ExitCode, LaunchError
from offramp_launch.supervision.log_follower import LogRelay

UNASKED_END_SECONDS = 2  # a consumer that ended with 0: by then the producer's status shows whether the run is over
ENDS_WITHOUT_SINK = 3  # in a row while draining: a run asked to end must not wait for a database
RECORDS_KEPT = 1000  # as many as the producer keeps
WITH_WORK = ("filling", "ready", "leased")  # slab states that consumers still have to handle


@dataclasses.dataclass
class ConsumerSlot:
    """Holds one consumer process; when that dies, its successor takes the slot."""

    number: int
    whose: str = "consumer"  # or the group's name
    child: Child | None = None
    leaving: bool = False
    on_trial: bool = False  # it gets no successor, and its end does not fail the run
    counts: bool = True  # among the consumers that stay; False while it runs beside the one that it will replace
    backoff: Backoff = dataclasses.field(default_factory=Backoff)
    relay: LogRelay | None = None

    name = property(lambda self: f"{self.whose}-{self.number}")


class ConsumerSlots:
    """
    Owns: the consumers. Borrows: every argument. `run` decides whether consumers are wanted and handles failures:
    wants_consumers(), has_work_for_consumers(), is_draining(), completed(), note_death(why) of a consumer that failed
    and gets a successor, fail(LaunchError) of a fatal one. A run that still wants consumers after that gets another one
    later. `start(name)` returns a Child. Thread: the supervisor's. Blocks: never.
    """

    def __init__(
        self,
        run,
        start,
        log_of,
        selector,
        timers,
        logbook,
        incidents,
        whose="consumer",
        make_backoff=Backoff,
    ):
        """`whose`: consumers are named after it. `make_backoff()`: the waits of one slot."""
        self._run, self._start, self._log_of = run, start, log_of
        self._whose, self._make_backoff = whose, make_backoff
        self._selector, self._timers = selector, timers
        self._logbook, self._incidents = logbook, incidents
        self._slots = []
        self._budget = FailureBudget(DEATHS_WITHOUT_PROGRESS)
        self._budget_without_sink = FailureBudget(ENDS_WITHOUT_SINK)
        # {pid, exit, cpu_seconds} of the last consumers that ended
        self.records: collections.deque[dict] = collections.deque(maxlen=RECORDS_KEPT)

    def add(self):
        self._fill(self._new_slot())

    def add_on_trial(self, counts):
        """
        Adds a consumer whose end the caller handles until keep(). `counts`: staying() includes it before keep().
        Errors: LaunchError when it cannot start.
        """
        slot = self._new_slot()
        slot.on_trial, slot.counts = True, counts
        try:
            self._begin(slot)
        except LaunchError:
            slot.leaving = True
            raise
        return slot

    @staticmethod
    def keep(slot):
        slot.on_trial, slot.counts = False, True

    def _new_slot(self):
        """Takes the number and the log of a consumer that left, so that neither the slots nor the logs pile up."""
        vacant = [slot for slot in self._slots if slot.leaving and not slot.child]
        if vacant:
            before = min(vacant, key=lambda slot: slot.number)
            self._slots.remove(before)
            number, relay = before.number, before.relay
        else:
            number, relay = len(self._slots) + 1, None  # the slots have the numbers from 1, without gaps
        slot = ConsumerSlot(number, self._whose, backoff=self._make_backoff())
        slot.relay = relay or LogRelay(slot.name, self._log_of(slot.name), self._logbook)
        self._slots.append(slot)
        return slot

    def bring_to(self, wanted):
        """Adds consumers, or dismisses the newest, until `wanted` stay."""
        before = self.staying()
        for _ in range(wanted - len(before)):
            self.add()
        self.send_away(reversed(before[wanted:]))

    def send_away(self, slots):
        """The consumers finish their current slab, return the others, and get no successors."""
        for slot in slots:
            slot.leaving = True
            if slot.child:
                slot.child.signal(signal.SIGTERM)

    def staying(self):
        return [slot for slot in self._slots if not slot.leaving and slot.counts]

    def children(self):
        return [slot.child for slot in self._slots if slot.child]

    def look(self):
        for slot in self._slots:
            slot.relay.relay()

    def _begin(self, slot):
        slot.child = self._start(slot.name)
        self._selector.register(slot.child.pidfd, selectors.EVENT_READ, lambda: self._on_end(slot))

    def _fill(self, slot):
        try:
            self._begin(slot)
        except LaunchError as problem:
            self._fail(slot, 0.0, problem)

    def _fill_again(self, slot):
        if not slot.leaving and self._run.wants_consumers():
            self._fill(slot)
            if slot.child:
                self._logbook.count("restarts")

    def _fill_if_work_is_left(self, slot, child):
        """After an exit with 0 unasked: checks again until the run is over, since work may come later."""
        if slot.leaving or not self._run.wants_consumers():
            return
        if not self._run.has_work_for_consumers():
            self._timers.after(UNASKED_END_SECONDS, lambda: self._fill_if_work_is_left(slot, child))
        elif self._budget.note_death(self._run.completed()):
            self._fail_without_progress(slot, child)
        else:
            self._logbook.note(
                f"{slot.name} (pid {child.pid}) {child.ending()} before the run was over; starting it again"
            )
            self._fill_again(slot)

    def _fail(self, slot, lived_seconds, problem):
        self._run.fail(problem)
        if self._run.wants_consumers():
            self._timers.after(slot.backoff.after_life_of(lived_seconds), lambda: self._fill_again(slot))

    def _fail_without_progress(self, slot, child):
        how = f"{'ended' if child.status == ExitCode.OK else 'died'} {DEATHS_WITHOUT_PROGRESS} times in a row"
        last = f"the last, {slot.name}, {child.ending()}: {reason_of(child)}"
        what = f"consumers {how} and nothing was completed in between; {last}"
        code = child.status if child.status > 0 else ExitCode.SYSTEM
        self._fail(slot, child.lived_seconds(), LaunchError(what, f"Its log: {child.log_path}", code))

    def _drains_without_sink(self, child):
        return (
            child.status == ExitCode.SINK_UNAVAILABLE
            and self._run.is_draining()
            and self._budget_without_sink.note_death(self._run.completed())
        )

    def _on_end(self, slot):
        child = slot.child
        self._selector.unregister(child.pidfd)
        child.reap()
        slot.child = None
        slot.relay.relay()
        if child.status != ExitCode.OK:
            self._incidents.note_death(child, child.final_messages())
        self.records.append({"pid": child.pid, "exit": child.status, "cpu_seconds": round(child.cpu_seconds, 3)})
        slot.leaving = slot.leaving or slot.on_trial
        if not self._run.wants_consumers():
            return
        if child.status < 0 or child.status not in (ExitCode.OK, ExitCode.NO_SUCH_RUN) and not slot.leaving:
            self._logbook.note_death(slot.name, child.ending())
        if slot.leaving:
            return
        if child.status not in (ExitCode.OK, ExitCode.NO_SUCH_RUN):
            has_reason = child.status > 0 or child.reported_error()
            self._run.note_death(f"{slot.name} {child.ending()}{f': {reason_of(child)}' if has_reason else ''}")
        if child.status == ExitCode.OK:
            self._timers.after(UNASKED_END_SECONDS, lambda: self._fill_if_work_is_left(slot, child))
        elif child.status in FATAL_FOR_A_CONSUMER:
            what = f"{slot.name} {child.ending()}, which a retry cannot fix: {reason_of(child)}"
            self._fail(slot, child.lived_seconds(), LaunchError(what, f"Its log: {child.log_path}", child.status))
        elif counts_as_death(child) and self._budget.note_death(self._run.completed()):
            self._fail_without_progress(slot, child)
        elif self._drains_without_sink(child):
            what = (
                f"the sink is unavailable while the run drains: {ENDS_WITHOUT_SINK} times in a row a consumer gave up, and "
                f"nothing was completed in between; the last, {slot.name}, {child.ending()}: {reason_of(child)}"
            )
            fix = f"Start again with --resume once the sink is back. Its log: {child.log_path}"
            self._fail(slot, child.lived_seconds(), LaunchError(what, fix, child.status))
        else:
            delay = slot.backoff.after_life_of(child.lived_seconds())
            self._logbook.note(f"{slot.name} (pid {child.pid}) {child.ending()}; starting it again in {delay:.1f} s")
            self._timers.after(delay, lambda: self._fill_again(slot))


def is_work_left(status, draining):
    """Whether the last status shows work for consumers: until the input ends, then while slabs are unfinished."""
    if not draining and status.get("state", "running") in ("starting", "running"):
        return True
    slabs = status.get("slabs") or {}
    return any(slabs.get(state) for state in WITH_WORK) or bool(status.get("spilled_samples"))


def reason_of(child):
    return child.reason() or "it wrote nothing"


def counts_as_death(child):
    """
    A consumer that found no run, or no room in it, did not die: it was too early, too late or one too many. Nor did one
    whose sink is unavailable: a run waits for its database indefinitely, unless it was asked to end.
    """
    return child.status not in (ExitCode.NO_SUCH_RUN, ExitCode.SINK_UNAVAILABLE)
