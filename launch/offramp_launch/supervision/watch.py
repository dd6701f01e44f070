"""What every watch over a run's consumers has: their seats, their failures, and how they are scaled and replaced."""

import dataclasses
import os
import signal

from offramp_launch.arguments import count
from offramp_launch.supervision.backoff import FAILURES_WITHOUT_PROGRESS, FailureBudget
from offramp_launch.supervision.children import Child
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.supervision.scaling import MOST_CONSUMERS, ConsumerScaling, bounds_of
from offramp_launch.supervision.process_loop import ProcessLoop
from offramp_launch.progress import ENDS
from offramp_launch.incidents import IncidentReporter
from offramp_launch.supervision.reload import Reload
from offramp_launch.supervision.seats import Seats, is_work_left
from offramp_launch.tracing.request import TraceRequests

CONSUMERS_END_SECONDS = 1.5     # after the run, which waited for the Disconnects of all that it had let in
TERMINATE_SECONDS = 10          # from SIGTERM, on which a consumer finishes its slab, to SIGKILL
ABANDONED_END_SECONDS = 5       # for programs that were asked to abandon, before they are killed
STATUS_SECONDS = 0.5            # from one status.json to the next, where --status-seconds, which a program of one's own has not, says nothing else


@dataclasses.dataclass
class RunPlan:
    """What to start. The lifeline's descriptor is added to the command lines."""

    run_id: str
    run_dir: object
    producer: list              # empty: a program of one's own is the producer, and is there already
    consumer: list
    consumers: int
    follows: object = None      # Bounds, where the number of consumers follows the work
    account: object = None
    producer_restarts: int = 0
    not_recovered: str = ""    # why a run of these settings ends with its producer; empty: it does not
    output_lock: object = None  # OutputLock
    log_format: str = "text"    # of what is told meanwhile, as of the programs' logs
    status_seconds: float = STATUS_SECONDS      # from one status.json to the next
    http: tuple = None          # (host, port) where it is to be watched


class Watch(ProcessLoop):
    """
    Owns: the consumers.
    Who watches says what is to be watched beside consumers: _begin(), _is_running(), _code(), _takes_consumers(), _ask_to_drain(),
    _ask_to_abandon(), fail(), and where there is more of it _others(), _look(), _facts() and _consumer_command().
    """

    def __init__(self, plan, display):
        super().__init__(plan.run_dir, display, plan.http)
        self._plan = plan
        self._status = {}
        self._left_out = set()      # of it
        self._stories = IncidentReporter(plan.run_dir.path)
        self._failures = FailureBudget()
        identity = plan.account.of_consumers() if plan.account else {}
        self._seats = Seats(self, lambda name: self._spawn(name, self._consumer_command(), identity), plan.run_dir.log, self._selector,
                            self._timers, self._display, self._stories, self._logbook)
        self._follower = ConsumerScaling(self._seats, self._display.note)
        if plan.follows:
            self._follower.take_up(plan.follows)
        self._reload = None     # the latest
        self._traces = TraceRequests(plan.run_dir, self._timers)

    def close(self):
        self._traces.close()
        super().close()

    # -- the life of a watch ----------------------------------------------------------------------------------------

    run_dir = property(lambda self: self._plan.run_dir)
    status = property(lambda self: self._status)
    records = property(lambda self: self._seats.records)
    following = property(lambda self: self._follower.account(), doc="How the number of consumers followed the work; None where it never did.")

    def _begin_consumers(self):
        for _ in range(self._plan.consumers):
            self._seats.add()
        self._tick()

    def _consumer_command(self):
        return self._plan.consumer

    def _spawn(self, name, argv, identity):
        return Child(name, [*argv, "--lifeline-fd", str(self._lifeline_read)], self._plan.run_dir.log(name), (self._lifeline_read,), **identity)

    def _others(self):
        """Children that are not consumers."""
        return []

    def _alive(self):
        return [child for child in (*self._others(), *self._seats.children()) if child and child.status is None]

    def _between_looks(self):
        if self._reload:
            self._continue_reload()
        if self.wants_consumers() and not self._draining and not (self._reload and self._reload.is_under_way):
            self._follower.look(self._status)

    def _look(self):
        """Reads what the programs say, and shows it."""
        self._status = self._plan.run_dir.status(self._note_left_out) or self._status
        self._seats.relay_logs()
        self._stories.complete()
        self._display.show(self._status)
        self._end_where_every_slab_fails()

    def _note_left_out(self, names):
        """Once."""
        if new := [name for name in names if name not in self._left_out]:
            self._left_out.update(new)
            self._display.note(f"status.json tells {', '.join(new)} in a form that is not known: that is passed over")

    def _end_where_every_slab_fails(self):
        if not self.failure and self._failures.is_spent(self.completed(), (self._status.get("releases") or {}).get("failed") or 0):
            why = ((self._status.get("last_failure") or "").strip() or "its consumer gave no reason").splitlines()
            self.fail(LaunchError(f"slabs failed {FAILURES_WITHOUT_PROGRESS} times in a row and nothing was completed in between; the last: {why[-1]}",
                                  f"The whole of it stands in the consumers' logs: {self._plan.run_dir.logs.folder}", ExitCode.DEAD_LETTERS))

    # -- what the seats ask of a run --------------------------------------------------------------------------------

    def wants_consumers(self):
        return self._takes_consumers() and not (self._abandoned or self.failure)

    def has_work_for_consumers(self):
        return is_work_left(self._status, self._draining)

    def is_draining(self):
        return self._draining

    def completed(self):
        """By consumers: what was dead-lettered or skipped is not progress of theirs."""
        return self._status.get("released_samples") or 0

    # -- ending -----------------------------------------------------------------------------------------------------

    def _terminate_children(self):
        self._signal_children(signal.SIGTERM)
        self._timers.after(TERMINATE_SECONDS, self._kill_children)

    def _abandon(self):
        if not self._abandoned:
            self._timers.after(ABANDONED_END_SECONDS, self._kill_children)
        super()._abandon()

    # -- control ----------------------------------------------------------------------------------------------------

    def _scale(self, text):
        """To a number; or to follow the work, within MIN..MAX or the bounds of `auto`."""
        bounds = bounds_of(text)
        wanted = bounds.within(len(self._seats.staying())) if bounds else count(text, "scale")
        if not bounds and not 1 <= wanted <= MOST_CONSUMERS:
            raise LaunchError(f"scale {wanted} is out of bounds",
                              f"From 1 to {MOST_CONSUMERS}; ./launch/offramp stop ends the run", ExitCode.USAGE)
        self._require_that_it_takes_consumers()
        before, followed = len(self._seats.staying()), self._follower.bounds
        if bounds:
            self._follower.take_up(bounds)
            more = f", which follow the work from now on, within {bounds}"
        else:
            self._follower.leave_off()
            more = f", which do not follow the work any more; scale {followed} has them do so" if followed else ""
        self._display.note(f"scale: {before} -> {wanted} consumers{more}")
        self._seats.bring_to(wanted)
        return {"before": before, "consumers": wanted, "more": more, **self._describe()}

    def _require_that_it_takes_consumers(self):
        if self._draining or not self._takes_consumers():
            raise LaunchError("the run is ending; it takes no consumers any more", "", ExitCode.NO_SUCH_RUN)

    def _begin_reload(self):
        """One that is under way ends with it: its newcomers may have begun before the latest change."""
        self._require_that_it_takes_consumers()
        if not self._seats.staying():
            raise LaunchError("the run has no consumers that could be replaced", "Only its producer works", ExitCode.USAGE)
        if len(self._seats.children()) >= MOST_CONSUMERS:
            raise LaunchError(f"the run has {MOST_CONSUMERS} consumers, as many as it can hold, and a reload starts a new one before an old one ends",
                              f"./launch/offramp scale {MOST_CONSUMERS - 1}, then reload", ExitCode.USAGE)
        number = 1
        if self._reload:
            self._reload.give_up("another reload has taken its place", ExitCode.INTERRUPTED)
            number = self._reload.number + 1
        self._reload = Reload(number, self._seats, self._timers, self._display.note)
        self._continue_reload()
        return self._describe()

    def _continue_reload(self):
        if self._draining or not self.wants_consumers():
            self._reload.give_up("the run is ending", ExitCode.NO_SUCH_RUN)
        self._reload.look(self._consumers_that_are("ready"), self._consumers_that_are("stalled"))

    def _begin_trace(self, seconds):
        """Of the producer and, unless they are another user's, of all consumers that it knows."""
        self._look()    # who has just come is to answer as well
        producer = [("producer", self._status["pid"])] if self._status.get("pid") and self._status.get("state") not in ENDS else []
        consumers = [] if self._plan.account else [("consumer", consumer["pid"]) for consumer in self._status.get("consumers") or []]
        return {"run_id": self._plan.run_id, "trace": self._traces.begin(seconds, producer + consumers)}

    def _consumers_that_are(self, what):
        """Their processes, by what the run said last."""
        return {consumer.get("pid") for consumer in self._status.get("consumers") or [] if consumer.get(what)}

    def _describe(self):
        return {"run_id": self._plan.run_id, "run_dir": str(self._plan.run_dir.path), "consumers_wanted": len(self._seats.staying()),
                "consumers_alive": len(self._seats.children()), "launcher_pid": os.getpid(), **self._facts(), **self._logbook.told(),
                "ending": self._draining, "status_seconds": self._plan.status_seconds, "following": self._follower.account(),
                "reload": self._reload.describe() if self._reload else None, "status": self._status}

    def _facts(self):
        """What else it tells of the run."""
        return {}
