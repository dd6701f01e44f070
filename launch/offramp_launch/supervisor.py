"""Watches a run: one producer and its consumers. Starts, restarts, scales, drains and abandons them."""

import dataclasses
import os
import selectors
import signal

from offramp_launch import summary
from offramp_launch.arguments import count
from offramp_launch.children import Child
from offramp_launch.control import ControlServer
from offramp_launch.exit_code import ExitCode, LaunchError, shell_code
from offramp_launch.log_follower import LogRelay
from offramp_launch.quarantine import IncidentReporter
from offramp_launch.run_dir import CONTROL_SOCKET
from offramp_launch.seats import Seats, is_work_left
from offramp_launch.signal_inbox import SignalInbox
from offramp_launch.recovery import Recovery, RunHold
from offramp_launch.timers import Timers

TICK_SECONDS = 0.5
SEEK_SECONDS = 0.02             # from one look for the run's lock to the next
CONSUMERS_END_SECONDS = 1.5     # after the producer, which waited for the Disconnects of all that it had let in
FAILED_END_SECONDS = 10         # for a producer that was asked to abandon
TERMINATE_SECONDS = 10          # from SIGTERM, on which a consumer finishes its slab, to SIGKILL
MOST_CONSUMERS = 64             # the producer's table of consumers holds so many
SECOND_WORD_SECONDS = 0.5       # between two signals to the producer: two at once would be one
ABANDONED_END_SECONDS = 5       # for a producer that abandons, before it is killed
ABANDON_SECONDS = 2             # from asking the producer to drain to asking it to abandon, when a drain may have no end
EXPLAINED_BY_THE_SUMMARY = (ExitCode.OK, ExitCode.SET_ASIDE, ExitCode.INTERRUPTED)


@dataclasses.dataclass
class RunPlan:
    """What to start. The lifeline's descriptor is added to both command lines."""

    run_id: str
    run_dir: object
    producer: list
    consumer: list
    consumers: int
    account: object = None
    producer_restarts: int = 0
    not_taken_over: str = ""    # why a run of these settings ends with its producer; empty: it does not
    kept_open: tuple = ()       # descriptors that every program inherits
    log_format: str = "text"    # of what is told meanwhile, as of the programs' logs


class Supervisor:
    """
    Owns: the children, the lifeline, the control socket. Borrows: the display.
    Thread: the main thread, for it handles signals. Blocks: run() until every child has ended.
    Whatever happens in run(), no child is left when it returns; if the launcher itself is killed, the kernel closes the
    lifeline, and the children read that as the order to end.
    """

    def __init__(self, plan, display):
        self._plan = plan
        self._display = display
        self._selector = selectors.DefaultSelector()
        self._timers = Timers()
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._control = ControlServer(plan.run_dir.file(CONTROL_SOCKET), self._selector, self._answer)
        self._producer = None
        self._producer_pids = []
        self._producer_over = False    # it ended, and no other follows
        self._successor_is_due = False
        self._recovery = Recovery(plan.producer_restarts)
        self._hold = RunHold(plan.run_dir.file("endpoint"))
        self._spent_cpu_seconds = 0.0  # by producers before this one
        self._producer_log = LogRelay("producer", plan.run_dir.log("producer"), display)
        self._status = {}
        self._draining = False
        self._abandoned = False
        self._incidents = IncidentReporter(plan.run_dir.path)
        identity = plan.account.of_consumers() if plan.account else {}
        self._seats = Seats(self, lambda name: self._spawn(name, plan.consumer, identity), plan.run_dir.log, self._selector,
                            self._timers, display, self._incidents)
        self._told = None       # by a producer that died after its account: what it was about to end with
        self.failure = None     # LaunchError: why the launcher itself stopped the run

    # -- the life of a run ------------------------------------------------------------------------------------------

    def run(self):
        """Returns the run's exit code."""
        with SignalInbox(self._selector, self._on_signal):
            try:
                self._start()
                while self._alive() or self._successor_is_due:
                    for key, _ in self._selector.select(self._timers.next_in()):
                        key.data()
                    self._timers.run_due()
            finally:
                self._kill_everyone()
                self._look()
                self._hold.release()
        if self.failure:
            return int(self.failure.code)
        if self._abandoned or self._was_stopped_at_its_start():
            return int(ExitCode.INTERRUPTED)
        return shell_code(self._producer.status) if self._told is None else self._told

    def close(self):
        """The last thing of a run: whoever waits on the control socket now learns that it is over."""
        self._control.close()
        self._selector.close()
        os.close(self._lifeline_write)
        os.close(self._lifeline_read)

    def why_the_producer_ended(self):
        """In words; nothing where it ended well."""
        child = self._producer
        if child is None or child.status in (None, ExitCode.OK):
            return None
        if child.status < 0:
            return f"the producer (pid {child.pid}) {child.ending()}"
        return child.reason() or f"the producer (pid {child.pid}) {child.ending()} and wrote nothing"

    def _was_stopped_at_its_start(self):
        """The signal that asks a producer to drain ends one that does not listen yet."""
        return self._draining and self._producer.status == -signal.SIGTERM

    producer_status = property(lambda self: self._producer.status if self._producer else None)
    producer_cpu_seconds = property(lambda self: self._spent_cpu_seconds + (self._producer.cpu_seconds if self._producer else 0.0))
    producer_restarts = property(lambda self: self._recovery.restarts)
    status = property(lambda self: self._status)
    records = property(lambda self: self._seats.records)

    def _start(self):
        self._start_producer([])
        for _ in range(self._plan.consumers):
            self._seats.add()
        self._tick()
        self._seek_hold()

    def _start_producer(self, more):
        identity = self._plan.account.of_the_producer() if self._plan.account else {}
        self._producer = self._spawn("producer", [*self._plan.producer, *more], identity)
        self._producer_pids.append(self._producer.pid)
        self._selector.register(self._producer.pidfd, selectors.EVENT_READ, self._on_producer_end)

    def _spawn(self, name, argv, identity):
        return Child(name, [*argv, "--lifeline-fd", str(self._lifeline_read)], self._plan.run_dir.log(name),
                     (self._lifeline_read, *self._plan.kept_open), **identity)

    def _alive(self):
        return [child for child in (self._producer, *self._seats.children()) if child and child.status is None]

    def _tick(self):
        self._look()
        if self._alive() or self._successor_is_due:
            self._timers.after(TICK_SECONDS, self._tick)

    def _seek_hold(self):
        """Soon after the run can be met: until then a producer that dies leaves it to the next sweep."""
        self._hold.take()
        if not self._hold.held and (self._alive() or self._successor_is_due):
            self._timers.after(SEEK_SECONDS, self._seek_hold)

    def _look(self):
        """Reads what the programs say, and shows it."""
        self._status = self._plan.run_dir.told("status.json") or self._status
        self._producer_log.relay()
        self._seats.relay_logs()
        self._incidents.complete()
        self._display.show(self._status)

    # -- what the seats ask of a run --------------------------------------------------------------------------------

    def wants_consumers(self):
        return not (self._abandoned or self._producer_over or self.failure)

    def has_work_for_consumers(self):
        return is_work_left(self._status, self._draining)

    def is_draining(self):
        return self._draining

    def completed(self):
        """By consumers: what was set aside or skipped is no progress of theirs."""
        return self._status.get("released_samples") or 0

    # -- ending -----------------------------------------------------------------------------------------------------

    def _on_producer_end(self):
        self._selector.unregister(self._producer.pidfd)
        self._producer.reap()
        self._look()
        explained = self._producer.status in EXPLAINED_BY_THE_SUMMARY or self._was_stopped_at_its_start()
        if not explained and not self._abandoned and not self.failure:
            # What it told as an error is repeated as the run's last words.
            self._display.note(f"producer {self._producer.ending()}"
                               + ("" if self._producer.told_an_error() else f"; the end of its log:\n{self._producer.last_words()}"))
        if not self._producer_follows():
            self._end_without_producer()

    def _end_without_producer(self):
        self._producer_over = True
        self._timers.after(CONSUMERS_END_SECONDS, self._terminate_children)

    # -- after a producer's death -------------------------------------------------------------------------------------

    def _producer_follows(self):
        """True when another one will take over; it is due by then. The dead one has been reaped: nothing of it writes any more."""
        self._hold.take()
        if not self._recovery.is_death(self._producer.status, self._hold.keeps_memory_of(self._producer_pids)):
            return False
        self._told = summary.producer_exit(self._plan.run_dir)
        if self._told is not None:
            self._display.note("the run was over by then, and its account is whole")
            return False
        if self._draining or self._abandoned or self.failure:
            return False
        if self._plan.not_taken_over:
            self._display.note(self._plan.not_taken_over)
            return False
        if self._recovery.used_up():
            if self._recovery.limit > 0:
                self._display.note(f"the producer died {self._recovery.restarts + 1} times: the {self._recovery.limit} of "
                                   "--producer-restarts are used up, and the run ends")
            return False
        delay = self._recovery.next_delay(self._producer.lived_seconds())
        self._display.note(f"another producer takes over in {delay:.1f} s ({self._recovery.restarts} of {self._recovery.limit}); "
                           "consumers stay")
        self._successor_is_due = True
        self._timers.after(delay, self._start_successor)
        return True

    def _start_successor(self):
        self._successor_is_due = False
        if self._draining or self.failure:
            self._end_without_producer()
            return
        # One that had not come so far that consumers could join has published nothing: there is nothing to take over. Nor is there
        # when it removed its memory itself, or when nobody of the run was left to hold it, not even for a moment: then no consumer
        # had joined, and another's sweep may have removed it.
        more = ["--adopt"] if self._hold.keeps_memory_of(self._producer_pids) else []
        spent = self._spent_cpu_seconds + self._producer.cpu_seconds
        try:
            self._start_producer(more)
            self._spent_cpu_seconds = spent
        except LaunchError as problem:
            self.fail(problem)
            self._end_without_producer()

    def _terminate_children(self):
        for child in self._alive():
            child.signal(signal.SIGTERM)
        self._timers.after(TERMINATE_SECONDS, self._kill_children)

    def _kill_children(self):
        for child in self._alive():
            child.signal(signal.SIGKILL)

    def _kill_everyone(self):
        """For the way out by an exception: on any other way nobody is left."""
        for child in self._alive():
            child.signal(signal.SIGKILL)
            child.reap()

    def _on_signal(self, number):
        if number == signal.SIGHUP or not self._draining:
            self._drain("the terminal is gone" if number == signal.SIGHUP else "once more abandons what is in flight")
        else:
            self._abandon()

    def _drain(self, remark):
        if not self._draining:
            self._draining = True
            self._display.note(f"draining: what is in flight is finished ({remark})")
            self._producer.signal(signal.SIGTERM)

    def _abandon(self):
        """The producer gives up what is in flight and writes its account; whoever asks once more gets a kill."""
        if self._abandoned:
            self._kill_children()
            return
        asked_before = self._draining
        self._draining = self._abandoned = True
        self._display.note("abandoning what is in flight (once more kills)")
        self._producer.signal(signal.SIGTERM)
        if not asked_before:
            self._timers.after(SECOND_WORD_SECONDS, lambda: self._producer.signal(signal.SIGTERM))
        self._timers.after(ABANDONED_END_SECONDS, self._kill_children)

    def fail(self, problem):
        """
        Ends the run for a reason that the producer does not know. Without able consumers a drain would not end: it is asked
        to drain, then to abandon, and then killed.
        """
        if self.failure:
            return
        self.failure = problem
        self._display.note(str(problem))
        self._draining = True
        self._producer.signal(signal.SIGTERM)
        self._timers.after(ABANDON_SECONDS, lambda: self._producer.signal(signal.SIGTERM))
        self._timers.after(FAILED_END_SECONDS, self._terminate_children)

    # -- control ----------------------------------------------------------------------------------------------------

    def _answer(self, request):
        what = request.get("do")
        if what == "status":
            return self._describe()
        if what == "scale":
            return self._scale(count(str(request.get("consumers")), "scale"))
        if what == "stop":
            if request.get("now"):
                self._abandon()
            else:
                self._drain("asked by stop")
            return self._describe()
        raise LaunchError(f"the run knows no '{what}'", "Known: scale, status, stop", ExitCode.USAGE)

    def _scale(self, wanted):
        if not 1 <= wanted <= MOST_CONSUMERS:
            raise LaunchError(f"scale {wanted} is out of bounds",
                              f"From 1 to {MOST_CONSUMERS}; ./launch/offramp stop ends the run", ExitCode.USAGE)
        if self._draining or self._producer_over:
            raise LaunchError("the run is ending; it takes no consumers any more", "", ExitCode.NO_SUCH_RUN)
        before = self._seats.staying()
        for _ in range(wanted - len(before)):
            self._seats.add()
        self._seats.send_away(reversed(before[wanted:]))
        self._display.note(f"scale: {len(before)} -> {wanted} consumers")
        return {"before": len(before), "consumers": wanted, **self._describe()}

    def _describe(self):
        return {"run_id": self._plan.run_id, "run_dir": str(self._plan.run_dir.path), "consumers_wanted": len(self._seats.staying()),
                "consumers_alive": len(self._seats.children()), "launcher_pid": os.getpid(),
                "producer_pid": self._producer.pid, "producer_restarts": self._recovery.restarts, "ending": self._draining, "status": self._status}
