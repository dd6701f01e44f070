"""The consumers of a run, each in a place of its own: started, started again when they die, sent away."""

import dataclasses
import selectors
import signal

from offramp_launch.supervision.backoff import DEATHS_WITHOUT_PROGRESS, Backoff, DeathBudget
from offramp_launch.supervision.children import Child
from offramp_launch.exit_code import FATAL_FOR_A_CONSUMER, ExitCode, LaunchError
from offramp_launch.supervision.log_follower import LogRelay

UNASKED_END_SECONDS = 2         # a consumer that ended with 0: by then the producer says whether the run is over
ENDS_WITHOUT_SINK = 3           # in a row, of a run that drains: who asked it to end does not want it to wait for a database
WITH_WORK = ("filling", "ready", "leased")      # slabs: what is, or will be, somebody's to take


@dataclasses.dataclass
class Seat:
    """The place of one consumer: who sits there changes when it dies."""

    number: int
    child: Child = None
    leaving: bool = False
    on_trial: bool = False      # nobody follows it, and its end is not a failure of the run's
    counts: bool = True         # as one that stays; else it is there beside one whose place it is to take
    backoff: Backoff = dataclasses.field(default_factory=Backoff)
    relay: LogRelay = None

    name = property(lambda self: f"consumer-{self.number}")


class Seats:
    """
    Owns: the consumers. Borrows: everything handed in; `run` says whether consumers are wanted, and is told when it cannot go on:
    wants_consumers(), has_work_for_consumers(), is_draining(), completed(), fail(LaunchError). `start(name)`: a Child.
    Thread: the supervisor's. Blocks: never.
    """

    def __init__(self, run, start, log_of, selector, timers, display, stories, logbook):
        self._run, self._start, self._log_of = run, start, log_of
        self._selector, self._timers, self._display, self._stories, self._logbook = selector, timers, display, stories, logbook
        self._seats = []
        self._next_number = 1
        self._budget = DeathBudget()
        self._budget_without_sink = DeathBudget(ENDS_WITHOUT_SINK)
        self.records = []       # {pid, number, exit, cpu_seconds} of every consumer that ended

    def add(self):
        seat = self._new_seat()
        self._fill(seat)

    def add_on_trial(self, counts):
        """Whose end is left to whoever asked for it, until keep(). `counts`: among those that stay, also before. Errors: LaunchError where it cannot be started."""
        seat = self._new_seat()
        seat.on_trial, seat.counts = True, counts
        try:
            self._begin(seat)
        except LaunchError:
            seat.leaving = True
            raise
        return seat

    @staticmethod
    def keep(seat):
        seat.on_trial, seat.counts = False, True

    def _new_seat(self):
        seat = Seat(self._next_number)
        self._next_number += 1
        seat.relay = LogRelay(seat.name, self._log_of(seat.name), self._display)
        self._seats.append(seat)
        return seat

    def bring_to(self, wanted):
        """So many stay: others are added, or the newest are sent away."""
        before = self.staying()
        for _ in range(wanted - len(before)):
            self.add()
        self.send_away(reversed(before[wanted:]))

    def send_away(self, seats):
        """They finish the slab at hand, give back the others, and are not replaced."""
        for seat in seats:
            seat.leaving = True
            if seat.child:
                seat.child.signal(signal.SIGTERM)

    def staying(self):
        return [seat for seat in self._seats if not seat.leaving and seat.counts]

    def children(self):
        return [seat.child for seat in self._seats if seat.child]

    def relay_logs(self):
        for seat in self._seats:
            seat.relay.relay()

    def _begin(self, seat):
        seat.child = self._start(seat.name)
        self._selector.register(seat.child.pidfd, selectors.EVENT_READ, lambda: self._on_end(seat))

    def _fill(self, seat):
        try:
            self._begin(seat)
        except LaunchError as problem:
            self._run.fail(problem)

    def _fill_again(self, seat):
        if not seat.leaving and self._run.wants_consumers():
            self._fill_as_follower(seat)

    def _fill_as_follower(self, seat):
        self._logbook.note_restart()
        self._fill(seat)

    def _fill_if_work_is_left(self, seat, child):
        """Of a consumer that ended by itself, and well: asked again until the run is over, since what is computed comes later."""
        if seat.leaving or not self._run.wants_consumers():
            return
        if not self._run.has_work_for_consumers():
            self._timers.after(UNASKED_END_SECONDS, lambda: self._fill_if_work_is_left(seat, child))
        elif self._budget.note_death(self._run.completed()):
            self._fail_for_want_of_progress(seat, child)
        else:
            self._display.note(f"{seat.name} (pid {child.pid}) {child.ending()} before the run was over; starting it again")
            self._fill_as_follower(seat)

    def _fail_for_want_of_progress(self, seat, child):
        self._run.fail(LaunchError(
            f"consumers {'ended' if child.status == ExitCode.OK else 'died'} {DEATHS_WITHOUT_PROGRESS} times in a row and nothing was "
            f"completed in between; the last, {seat.name}, {child.ending()}: {words_of(child)}", f"Its log: {child.log_path}",
            child.status if child.status > 0 else ExitCode.SYSTEM))

    def _drains_in_vain(self, child):
        return (child.status == ExitCode.SINK_UNAVAILABLE and self._run.is_draining()
                and self._budget_without_sink.note_death(self._run.completed()))

    def _on_end(self, seat):
        child = seat.child
        self._selector.unregister(child.pidfd)
        child.reap()
        seat.child = None
        seat.relay.relay()
        if child.status != ExitCode.OK:
            self._stories.note_death(child, child.final_messages())
        self.records.append({"pid": child.pid, "number": seat.number, "exit": child.status,
                             "cpu_seconds": round(child.cpu_seconds, 3)})
        seat.leaving = seat.leaving or seat.on_trial
        if not self._run.wants_consumers():
            return
        if child.status < 0 or child.status not in (ExitCode.OK, ExitCode.NO_SUCH_RUN) and not seat.leaving:
            self._logbook.note_death(seat.name, child.ending())
        if seat.leaving:
            return
        if child.status == ExitCode.OK:
            self._timers.after(UNASKED_END_SECONDS, lambda: self._fill_if_work_is_left(seat, child))
        elif child.status in FATAL_FOR_A_CONSUMER:
            self._run.fail(LaunchError(f"{seat.name} {child.ending()}, and would end so again: {words_of(child)}", f"Its log: {child.log_path}",
                                       child.status))
        elif counts_as_death(child) and self._budget.note_death(self._run.completed()):
            self._fail_for_want_of_progress(seat, child)
        elif self._drains_in_vain(child):
            self._run.fail(LaunchError(
                f"the place for results is away, and the run was asked to end: {ENDS_WITHOUT_SINK} times in a row a consumer gave up, and "
                f"nothing was completed in between; the last, {seat.name}, {child.ending()}: {words_of(child)}",
                f"When it is back, --resume makes what is left. Its log: {child.log_path}", child.status))
        else:
            delay = seat.backoff.after_life_of(child.lived_seconds())
            self._display.note(f"{seat.name} (pid {child.pid}) {child.ending()}; starting it again in {delay:.1f} s")
            self._timers.after(delay, lambda: self._fill_again(seat))


def is_work_left(status, draining):
    """Whether consumers are needed, by what the producer said last: until the end of the input, and then as long as slabs are not done."""
    if not draining and status.get("state", "running") in ("starting", "running"):
        return True
    slabs = status.get("slabs") or {}
    return any(slabs.get(state) for state in WITH_WORK) or bool(status.get("spilled_samples"))


def words_of(child):
    return child.reason() or "it wrote nothing"


def counts_as_death(child):
    """
    A consumer that found no run, or no place in it, did not die: it was too early, too late or one too many. Nor did one
    whose sink is away: a run waits for its database, however long that takes, unless it was asked to end.
    """
    return child.status not in (ExitCode.NO_SUCH_RUN, ExitCode.SINK_UNAVAILABLE)
