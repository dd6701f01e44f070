"""Watches a run: one producer and its consumers. Starts, restarts, scales, drains and abandons them."""

from __future__ import annotations

import selectors
import signal
import time

from offramp_launch import summary
from offramp_launch.exit_code import ExitCode, LaunchError, shell_code
from offramp_launch.run_dir import ENDPOINT
from offramp_launch.supervision import control_groups
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.log_follower import LogRelay
from offramp_launch.supervision.recovery import Recovery, RunHold
from offramp_launch.supervision.watch import Watch

SEEK_SECONDS = 0.02  # from one look for the run's lock to the next
FAILED_END_SECONDS = 10  # from asking a producer to abandon to killing it
SECOND_SIGNAL_SECONDS = 0.5  # between two signals to the producer: simultaneous ones would merge
ABANDON_SECONDS = 2  # from asking the producer to drain to asking it to abandon, when draining may never end
TOO_LITTLE_MEMORY = "too little memory for this run"
LESS_MEMORY = (
    "Use a smaller --batch, fewer --slabs, a smaller model, or with --tile a smaller --tile and a model of that size; or give the machine, or its container, "
    "more memory"
)
EXPLAINED_BY_THE_SUMMARY = (ExitCode.OK, ExitCode.DEAD_LETTERS, ExitCode.INTERRUPTED)


def gibibytes(count):
    return "an unknown number of GiB" if count is None else f"{count / 2**30:.1f} GiB"


class Supervisor(Watch):
    """
    Watches a run that the launcher started, including its producer. Owns: the producer, and what Watch owns. Thread,
    Blocks: as Watch.
    """

    FOLLOWS, WITH_CONSUMERS = "another producer takes over", "consumers stay"

    def __init__(self, plan, display):
        self._started: Child | None = None  # the last producer
        self._producer_pids = []
        self._successor_is_due = False
        self._recovery = Recovery(plan.producer_restarts)
        self._hold = RunHold(plan.run_dir.file(ENDPOINT))
        self._spent_cpu_seconds = 0.0  # of earlier producers
        self._died = None  # when the last producer died that gets a successor
        self._status_pid_at_end = None  # process id in the status when a producer ended
        self._reported_exit = None  # exit code in the summary of a producer that died after writing it
        super().__init__(plan, display)
        self._producer_log = LogRelay("producer", plan.run_dir.log("producer"), self._display)

    @property
    def _producer(self) -> Child:
        """The last producer, once one was started."""
        assert self._started
        return self._started

    # -- the life of a run ------------------------------------------------------------------------------------------

    def _is_running(self):
        return bool(self._alive() or self._successor_is_due)

    def _code(self):
        if self._abandoned or self._was_stopped_at_its_start():
            return int(ExitCode.INTERRUPTED)
        return shell_code(self._producer.status) if self._reported_exit is None else self._reported_exit

    def _release(self):
        self._hold.release()

    def producer_end_reason(self):
        """A message; None where it ended well."""
        child = self._started
        if child is None or child.status in (None, ExitCode.OK):
            return None
        if child.status < 0:
            return f"the producer (pid {child.pid}) {child.ending()}"
        return child.reason() or f"the producer (pid {child.pid}) {child.ending()} and wrote nothing"

    def _was_stopped_at_its_start(self):
        """The drain signal ends a producer that does not handle it yet."""
        return self._draining and self._producer.status == -signal.SIGTERM

    producer_status = property(lambda self: self._started.status if self._started else None)
    producer_cpu_seconds = property(
        lambda self: self._spent_cpu_seconds + (self._started.cpu_seconds if self._started else 0.0)
    )
    producer_restarts = property(lambda self: self._recovery.restarts)

    def _begin(self):
        self._start_producer()
        self._begin_consumers()
        self._seek_hold()

    def _start_producer(self, command=()):
        self._started = self._make_producer(command)
        self._producer_pids.append(self._producer.pid)
        self._selector.register(self._producer.pidfd, selectors.EVENT_READ, self._on_producer_end)
        if len(self._producer_pids) > 1:
            self._logbook.count("takeovers")

    def _make_producer(self, command):
        identity = {"group": self._plan.account.gid} if self._plan.account else {}
        program, *flags = self._plan.producer
        return self._spawn("producer", [program, *command, *flags], identity)

    def _others(self):
        return [self._started]

    def _seek_hold(self):
        """Takes the lock once the run is reachable; until then a sweep removes a dead producer's memory."""
        self._hold.take()
        if not self._hold.held and self._is_running():
            self._timers.after(SEEK_SECONDS, self._seek_hold)

    def _look(self):
        self._producer_log.relay()
        super()._look()

    # -- ending -----------------------------------------------------------------------------------------------------

    def _on_producer_end(self):
        self._selector.unregister(self._producer.pidfd)
        self._producer.reap()
        self._look()
        self._understand_its_end()
        explained = self._producer.status in EXPLAINED_BY_THE_SUMMARY or self._was_stopped_at_its_start()
        if not explained and not self._abandoned and not self.failure:
            self._logbook.note_death("producer", self._producer.ending())
            # An error that it reported is repeated as the run's failure.
            log = f"; the end of its log:\n{self._producer.final_messages()}"
            ending = f"producer {self._producer.ending()}"
            self._display.note(ending if self._producer.reported_error() else ending + log)
        self._status_pid_at_end = self._status.get("pid")
        if not self._producer_follows():
            self._end_consumers()

    def _understand_its_end(self):
        """Hook for an exit status that a process in between may have translated."""

    # -- after a producer's death -------------------------------------------------------------------------------------

    def _producer_follows(self):
        """True when a successor is scheduled. The dead producer has been reaped and writes no more."""
        self._hold.take()
        if not self._recovery.is_death(self._producer.status, self._hold.keeps_memory_of(self._producer_pids)):
            return False
        self._reported_exit = summary.producer_exit(self._plan.run_dir)
        if self._reported_exit is not None:
            self._display.note("the run was already over, and its summary is complete")
            return False
        return self._has_successor()

    def _has_successor(self):
        if self._draining or self._abandoned or self.failure:
            return False
        if self._recovery.is_too_large(self._producer, self.completed()):
            used, why = gibibytes(self._producer.peak_bytes), self._producer.ended_for_memory
            whole, free = map(gibibytes, (control_groups.machine_memory(), control_groups.available_memory()))
            what = f"its producer was killed before any batch was done, with {used} in use ({why})"
            memory = f"of this machine's {whole}, {free} are available now"
            self.fail(LaunchError(f"{TOO_LITTLE_MEMORY}: {what}; {memory}", LESS_MEMORY))
            return False
        if self._plan.not_recovered:
            self._display.note(self._plan.not_recovered)
            return False
        if self._recovery.restarts >= self._recovery.limit:
            if self._recovery.limit > 0:
                self._display.note(
                    f"the producer died {self._recovery.restarts + 1} times, more than --producer-restarts "
                    f"{self._recovery.limit} allows, and the run ends"
                )
            return False
        delay = self._recovery.next_delay(self._producer.lived_seconds())
        self._display.note(
            f"{self.FOLLOWS} in {delay:.1f} s ({self._recovery.restarts} of {self._recovery.limit}); {self.WITH_CONSUMERS}"
        )
        self._successor_is_due, self._died = True, time.monotonic_ns()
        self._timers.after(delay, self._start_successor)
        return True

    def _start_successor(self):
        self._successor_is_due = False
        if self._draining or self.failure:
            self._end_consumers()
            return
        # A producer that consumers could not join yet has published nothing: there is nothing to recover. Nor is there
        # when it removed its memory itself, or when no process held the run's lock for a moment: then no consumer had
        # joined, and another run's sweep may have removed the memory.
        command = ["recover"] if self._hold.keeps_memory_of(self._producer_pids) else []
        spent = self._spent_cpu_seconds + self._producer.cpu_seconds
        try:
            self._start_producer(command)
            self._spent_cpu_seconds = spent
        except LaunchError as problem:
            self.fail(problem)
            self._end_consumers()

    def _signal_producer(self):
        self._producer.signal(signal.SIGTERM)

    def _ask_to_drain(self):
        self._signal_producer()

    def _ask_to_abandon(self, asked_before):
        """The producer still writes its summary."""
        self._signal_producer()
        if not asked_before:
            self._timers.after(SECOND_SIGNAL_SECONDS, self._signal_producer)

    def _end_failed(self):
        """Draining would not end without working consumers: the producer is asked to abandon soon, then killed."""
        self._draining = True
        self._signal_producer()
        self._timers.after(ABANDON_SECONDS, self._signal_producer)
        self._timers.after(FAILED_END_SECONDS, self._terminate_children)

    def _facts(self):
        return {
            **super()._facts(),
            "producer_pid": self._started.pid if self._started else None,
            "producer_restarts": self._recovery.restarts,
            "taking_over": self._is_recovered(),
            "taking_over_since_ns": self._died if self._is_recovered() else None,
        }

    def _is_recovered(self):
        """Whether a producer died and its successor has not written a status yet."""
        return not self._over and self._recovery.restarts > 0 and self._status.get("pid") == self._status_pid_at_end
