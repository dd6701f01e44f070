"""Watches a run: one producer and its consumers. Starts, restarts, scales, drains and abandons them."""

import dataclasses
import json
import os
import selectors
import signal
import socket

from offramp_launch.arguments import count
from offramp_launch.backoff import Backoff, DeathBudget
from offramp_launch.children import Child
from offramp_launch.control import ControlServer
from offramp_launch.exit_code import FATAL_FOR_A_CONSUMER, ExitCode, LaunchError, shell_code
from offramp_launch.log_follower import LogFollower
from offramp_launch.quarantine import StoryTeller
from offramp_launch.run_dir import CONTROL_SOCKET
from offramp_launch.succession import RunHold, Succession
from offramp_launch.timers import Timers

TICK_SECONDS = 0.5
CONSUMERS_END_SECONDS = 1.5     # after the producer, which waited for the goodbyes of all that it had let in
FAILED_END_SECONDS = 10         # for a producer that was asked to abandon
TERMINATE_SECONDS = 10          # from SIGTERM, on which a consumer finishes its slab, to SIGKILL
UNASKED_END_SECONDS = 2         # a consumer that ended with 0: by then the producer says whether the run is over
MOST_CONSUMERS = 64             # the producer's table of consumers holds so many
SECOND_WORD_SECONDS = 0.5       # between two signals to the producer: two at once would be one
ABANDONED_END_SECONDS = 5       # for a producer that abandons, before it is killed
ABANDON_SECONDS = 2             # from asking the producer to drain to asking it to abandon, when a drain may have no end
EXPLAINED_BY_THE_SUMMARY = (ExitCode.OK, ExitCode.SET_ASIDE, ExitCode.INTERRUPTED)
SHOWN_WARNINGS = 20             # of one program's log


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


@dataclasses.dataclass
class Seat:
    """The place of one consumer: who sits there changes when it dies."""

    number: int
    child: Child = None
    leaving: bool = False
    backoff: Backoff = dataclasses.field(default_factory=Backoff)
    follower: LogFollower = None
    shown: int = 0

    name = property(lambda self: f"consumer-{self.number}")


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
        self._succession = Succession(plan.producer_restarts)
        self._hold = RunHold(plan.run_dir)
        self._spent_cpu_seconds = 0.0  # by producers before this one
        self._producer_log = Seat(0, follower=LogFollower(plan.run_dir.log("producer")))
        self._seats = []
        self._next_number = 1
        self._budget = DeathBudget()
        self._status = {}
        self._draining = False
        self._abandoned = False
        self._stories = StoryTeller(plan.run_dir.path)
        self.records = []       # {pid, number, exit, cpu_seconds} of every consumer that ended
        self.failure = None     # LaunchError: why the launcher itself stopped the run

    # -- the life of a run ------------------------------------------------------------------------------------------

    def run(self):
        """Returns the run's exit code."""
        with _SignalInbox(self._selector, self._on_signal):
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
        return int(ExitCode.INTERRUPTED) if self._abandoned else shell_code(self._producer.status)

    def close(self):
        """The last thing of a run: whoever waits on the control socket now learns that it is over."""
        self._control.close()
        self._selector.close()
        os.close(self._lifeline_write)
        os.close(self._lifeline_read)

    producer_status = property(lambda self: self._producer.status if self._producer else None)
    producer_cpu_seconds = property(lambda self: self._spent_cpu_seconds + (self._producer.cpu_seconds if self._producer else 0.0))
    producer_restarts = property(lambda self: self._succession.restarts)
    status = property(lambda self: self._status)

    def _start(self):
        self._producer_log.follower = LogFollower(self._plan.run_dir.log("producer"), _size(self._plan.run_dir.log("producer")))
        self._start_producer([])
        for _ in range(self._plan.consumers):
            self._add_seat()
        self._tick()

    def _start_producer(self, more):
        self._producer = self._spawn("producer", [*self._plan.producer, *more], None)
        self._producer_pids.append(self._producer.pid)
        self._selector.register(self._producer.pidfd, selectors.EVENT_READ, self._on_producer_end)

    def _spawn(self, name, argv, account):
        return Child(name, [*argv, "--lifeline-fd", str(self._lifeline_read)], self._plan.run_dir.log(name),
                     (self._lifeline_read, *self._plan.kept_open), account)

    def _alive(self):
        return [child for child in (self._producer, *(seat.child for seat in self._seats)) if child and child.status is None]

    def _tick(self):
        self._look()
        self._hold.take()
        if self._alive() or self._successor_is_due:
            self._timers.after(TICK_SECONDS, self._tick)

    def _look(self):
        """Reads what the programs say, and shows it."""
        try:
            status = json.loads(self._plan.run_dir.file("status.json").read_text())
            self._status = status if isinstance(status, dict) else self._status
        except (OSError, ValueError):
            pass
        self._relay("producer", self._producer_log)
        for seat in self._seats:
            self._relay(seat.name, seat)
        self._stories.complete()
        self._display.show(self._status)

    def _relay(self, name, source):
        for level, message in source.follower.new_warnings():
            source.shown += 1
            if source.shown <= SHOWN_WARNINGS:
                self._display.note(f"{name}: {level}: {message}")
            elif source.shown == SHOWN_WARNINGS + 1:
                self._display.note(f"{name}: further warnings stand in {self._plan.run_dir.log(name)}")

    # -- consumers --------------------------------------------------------------------------------------------------

    def _add_seat(self):
        seat = Seat(self._next_number)
        self._next_number += 1
        log = self._plan.run_dir.log(seat.name)
        seat.follower = LogFollower(log, _size(log))
        self._seats.append(seat)
        self._seat_consumer(seat)

    def _seat_consumer(self, seat):
        try:
            seat.child = self._spawn(seat.name, self._plan.consumer, self._plan.account)
        except LaunchError as problem:
            self._fail(problem)
            return
        self._selector.register(seat.child.pidfd, selectors.EVENT_READ, lambda: self._on_consumer_end(seat))

    def _reseat(self, seat):
        if seat in self._seats and not seat.leaving and not self._producer_over and not self.failure:
            self._seat_consumer(seat)

    def _reseat_if_the_run_goes_on(self, seat):
        if not self._draining and self._status.get("state", "running") in ("starting", "running"):
            self._reseat(seat)

    def _on_consumer_end(self, seat):
        child = seat.child
        self._selector.unregister(child.pidfd)
        child.reap()
        seat.child = None
        self._relay(seat.name, seat)
        if child.status != ExitCode.OK:
            self._stories.note_death(child, last_words(child))
        self.records.append({"pid": child.pid, "number": seat.number, "exit": child.status,
                             "cpu_seconds": round(child.cpu_seconds, 3)})
        if seat.leaving or self._abandoned or self._producer_over:
            return
        if child.status == ExitCode.OK:
            self._timers.after(UNASKED_END_SECONDS, lambda: self._reseat_if_the_run_goes_on(seat))
        elif child.status in FATAL_FOR_A_CONSUMER:
            self._fail(LaunchError(f"{seat.name} (pid {child.pid}) {child.ending()}, and would end so again:\n{last_words(child)}",
                                   f"Its log: {child.log_path}", child.status))
        elif self._counts_as_death(child) and self._budget.note_death(self._completed()):
            self._fail(LaunchError(
                f"consumers died 20 times in a row and nothing was completed in between; the last, {seat.name}, "
                f"{child.ending()}:\n{last_words(child)}", f"Its log: {child.log_path}",
                child.status if child.status > 0 else ExitCode.SYSTEM))
        else:
            delay = seat.backoff.after_life_of(child.lived_seconds())
            self._display.note(f"{seat.name} (pid {child.pid}) {child.ending()}; starting it again in {delay:.1f} s")
            self._timers.after(delay, lambda: self._reseat(seat))

    @staticmethod
    def _counts_as_death(child):
        """
        A consumer that found no run, or no place in it, did not die: it was too early, too late or one too many. Nor did one
        whose sink is away: a run waits for its database, however long that takes.
        """
        return child.status not in (ExitCode.NO_SUCH_RUN, ExitCode.SINK_UNAVAILABLE)

    def _completed(self):
        return self._status.get("done_samples") or 0, self._status.get("batches") or 0

    # -- ending -----------------------------------------------------------------------------------------------------

    def _on_producer_end(self):
        self._selector.unregister(self._producer.pidfd)
        self._producer.reap()
        self._look()
        if self._producer.status not in EXPLAINED_BY_THE_SUMMARY and not self._abandoned and not self.failure:
            self._display.note(f"producer {self._producer.ending()}; the end of its log:\n{last_words(self._producer)}")
        if not self._producer_follows():
            self._end_without_producer()

    def _end_without_producer(self):
        self._producer_over = True
        self._timers.after(CONSUMERS_END_SECONDS, self._terminate_children)

    # -- after a producer's death -------------------------------------------------------------------------------------

    def _producer_follows(self):
        """True when another one will take over; it is due by then. The dead one has been reaped: nothing of it writes any more."""
        self._hold.take()
        ending = self._draining or self._abandoned or self.failure
        if ending or not self._succession.is_death(self._producer.status, self._hold.is_met_at(self._producer_pids)):
            return False
        if self._plan.not_taken_over:
            self._display.note(self._plan.not_taken_over)
            return False
        if self._succession.used_up():
            if self._succession.limit > 0:
                self._display.note(f"the producer died {self._succession.restarts + 1} times: the {self._succession.limit} of "
                                   "--producer-restarts are used up, and the run ends")
            return False
        delay = self._succession.next_delay(self._producer.lived_seconds())
        self._display.note(f"another producer takes over in {delay:.1f} s ({self._succession.restarts} of {self._succession.limit}); "
                           "consumers stay")
        self._successor_is_due = True
        self._timers.after(delay, self._start_successor)
        return True

    def _start_successor(self):
        self._successor_is_due = False
        if self._draining or self.failure:
            self._end_without_producer()
            return
        # One that had not come so far that consumers could join has published nothing: there is nothing to take over.
        more = ["--adopt"] if self._hold.is_met_at(self._producer_pids) else []
        spent = self._spent_cpu_seconds + self._producer.cpu_seconds
        try:
            self._start_producer(more)
            self._spent_cpu_seconds = spent
        except LaunchError as problem:
            self._fail(problem)
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

    def _fail(self, problem):
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
        before = self._staying()
        for _ in range(wanted - len(before)):
            self._add_seat()
        for seat in reversed(before[wanted:]):
            seat.leaving = True
            if seat.child:
                seat.child.signal(signal.SIGTERM)
        self._display.note(f"scale: {len(before)} -> {wanted} consumers")
        return {"before": len(before), "consumers": wanted, **self._describe()}

    def _staying(self):
        return [seat for seat in self._seats if not seat.leaving]

    def _describe(self):
        return {"run_id": self._plan.run_id, "run_dir": str(self._plan.run_dir.path), "consumers_wanted": len(self._staying()),
                "consumers_alive": sum(seat.child is not None for seat in self._seats), "launcher_pid": os.getpid(),
                "producer_pid": self._producer.pid, "producer_restarts": self._succession.restarts, "ending": self._draining, "status": self._status}


def last_words(child, lines=12):
    """The end of what a child wrote in this life."""
    try:
        with open(child.log_path, "rb") as log:
            log.seek(max(child.log_begin, _size(child.log_path) - 16384))
            text = log.read().decode(errors="replace")
    except OSError:
        text = ""
    return "\n".join("    " + line for line in text.splitlines()[-lines:]) or "    (it wrote nothing)"


def _size(path):
    try:
        return path.stat().st_size
    except OSError:
        return 0


class _SignalInbox:
    """Turns Ctrl-C, SIGTERM and SIGHUP into events of the selector while it is entered."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, selector, deliver):
        self._selector = selector
        self._deliver = deliver

    def __enter__(self):
        self._inbox, self._wakeup = socket.socketpair()
        self._inbox.setblocking(False)
        self._wakeup.setblocking(False)
        self._before_fd = signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        # A function, if an idle one: a signal that is ignored or left to its default wakes nobody.
        self._before = {number: signal.signal(number, lambda *_: None) for number in self.SIGNALS}
        self._selector.register(self._inbox, selectors.EVENT_READ, self._receive)
        return self

    def __exit__(self, *_):
        self._selector.unregister(self._inbox)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)
        self._inbox.close()
        self._wakeup.close()

    def _receive(self):
        for number in self._inbox.recv(64):
            if number in self.SIGNALS:
                self._deliver(number)
