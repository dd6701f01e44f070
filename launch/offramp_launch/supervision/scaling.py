"""Has the number of a run's consumers follow its work, for as long as it is to."""

import dataclasses
import math
import os
import signal
import time

from offramp_launch import memory
from offramp_launch.arguments import setting_given
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.supervision import control_groups, memory_kills
from offramp_launch.supervision.autoscaler import Bounds, Autoscaler
from offramp_launch.supervision.seats import words_of

MOST_CONSUMERS = 64     # a run's table of consumers holds so many
LEAST_OF_A_MACHINE = 4  # of the most on it: consumers that wait for a disk or a server need no core
SOON_SECONDS = 30       # from the first slab on: then a consumer's death is its slab's, and not for want of room
# Of a consumer that was sent away, or whose run or sink is.
NO_FAILURES = (ExitCode.OK, ExitCode.NO_SUCH_RUN, ExitCode.SINK_UNAVAILABLE, ExitCode.PRODUCER_GONE, ExitCode.INTERRUPTED, -signal.SIGTERM)
CONSUMER_BYTES = 256 << 20      # of memory, beside the slabs, which all of them share


def most_of_this_machine(cores=None, memory_bytes=None):
    """Consumers that `auto` may come to: two for each core, as far as there is memory for them."""
    cores = cores_of_this_machine() if cores is None else cores
    memory_bytes = available_memory() if memory_bytes is None else memory_bytes
    return max(1, min(MOST_CONSUMERS, max(LEAST_OF_A_MACHINE, 2 * cores), int(min(memory_bytes / CONSUMER_BYTES, MOST_CONSUMERS))))


def cores_of_this_machine():
    """As many as this process may use, by affinity and by what its container is given of their time."""
    return max(1, math.ceil(min(len(os.sched_getaffinity(0)), control_groups.cores())))


def available_memory():
    """Bytes, of the machine and of the container; endless where the kernel does not say."""
    of_the_machine = memory.available()
    return min(math.inf if of_the_machine is None else of_the_machine, control_groups.memory_room())


def bounds_of(text):
    """Of `auto` or MIN..MAX; None of a number. Errors: LaunchError (USAGE)."""
    return Bounds.of(text, most_of_this_machine(), MOST_CONSUMERS)


def bounds_given(argv):
    """As --consumers has them, by flag, variable or file; None where a number stands there, or nothing. Errors: LaunchError (USAGE)."""
    return bounds_of(setting_given("consumers", argv))


@dataclasses.dataclass
class Newcomer:
    """A consumer that was added because of the work, and may have to go for its own sake."""

    seat: object
    child: object
    before: int             # consumers that there were
    memory_kills: int       # in this control group by then; None: the kernel does not say
    ready_at: float = None  # since when it takes slabs

    def failure_reason(self):
        """Nothing where it did not, or ended as it was told to."""
        status = self.child.status
        if self.ready_at is None and status is not None and status not in NO_FAILURES:
            return f"{self.seat.name} {self.child.ending()}: {words_of(self.child)}"
        if status == -signal.SIGKILL:
            return f"{self.seat.name} {self.child.ending()}"
        killed = memory_kills.count()[0]
        return "memory is short" if None not in (killed, self.memory_kills) and killed > self.memory_kills else ""


class ConsumerScaling:
    """
    Owns the account of what it did. Borrows: the seats. `note`: tells a line.
    Nobody has asked for the consumers that it adds: those that cannot be started, or end before they take slabs, or are killed soon after are not a failure
    of the run; the number goes back, and no more are tried.
    Thread: the supervisor's. Blocks: never. The clock is a seam for tests.
    """

    def __init__(self, seats, note, clock=time.monotonic):
        self._seats, self._note, self._clock = seats, note, clock
        self._following = None
        self._bounds = None     # the latest
        self._changes = 0
        self._seconds = self._consumer_seconds = 0.0
        self._looked_at = None
        self._newcomers = []

    bounds = property(lambda self: self._following.bounds if self._following else None, doc="None where the number stays as it is.")

    def take_up(self, bounds):
        """Anew, also where it does already."""
        self._following, self._bounds, self._looked_at = Autoscaler(bounds), bounds, None
        self._keep_all()

    def leave_off(self):
        self._following = None
        self._keep_all()

    def _keep_all(self):
        """Whoever gives a number, or bounds, wants those that are there."""
        for newcomer in self._newcomers:
            self._seats.keep(newcomer.seat)
        self._newcomers = []

    def look(self, status):
        """Where consumers are wanted. A status that is none of a run's, as a program of another version may tell it, ends it, and not the run."""
        if not self._following:
            return
        try:
            self._look(status)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            self._note(f"consumers do not follow the work any more: the run's status.json is not what it should be ({type(problem).__name__}: {problem})\n"
                       f"    scale {self.bounds} has them do so anew")
            self.leave_off()

    def _look(self, status):
        wanted, now = len(self._seats.staying()), self._clock()
        if self._looked_at is not None:
            self._seconds += now - self._looked_at
            self._consumer_seconds += wanted * (now - self._looked_at)
        self._looked_at = now
        if self._look_at_newcomers(status, now):
            return
        if change := self._following.look(status, wanted):
            self._changes += 1
            self._note(f"consumers: {wanted} -> {change.wanted}: {change.reason}")
            self._bring_to(change.wanted, wanted)

    def _bring_to(self, number, before):
        if number <= max(before, self._following.bounds.least):
            self._seats.bring_to(number)
            return
        try:
            for _ in range(number - before):
                seat = self._seats.add_on_trial(counts=True)
                self._newcomers.append(Newcomer(seat, seat.child, before, memory_kills.count()[0]))
        except LaunchError as problem:
            self._go_back(before, problem.in_one_line())

    def _look_at_newcomers(self, status, now):
        """Whether the number went back because of one."""
        taking = {each.get("pid") for each in status.get("consumers") or [] if each.get("ready", True) and not each.get("end")}
        for newcomer in self._newcomers:
            if why := newcomer.failure_reason():
                self._go_back(newcomer.before, why)
                return True
            if newcomer.ready_at is None and newcomer.child.status is None and newcomer.child.pid in taking:
                newcomer.ready_at = now
                self._seats.keep(newcomer.seat)
        self._newcomers = [each for each in self._newcomers if each.child.status is None and (each.ready_at is None or now - each.ready_at < SOON_SECONDS)]
        return False

    def _go_back(self, number, why):
        wanted, number = len(self._seats.staying()), max(number, self._following.bounds.least)
        self._keep_all()
        self._following.hold_at(number)
        if number < wanted:
            self._seats.bring_to(number)
        self._note(f"consumers: no more than {number} from now on: {why}\n    scale {self.bounds} tries it anew")

    def account(self):
        """For status and summary; None where it never did."""
        if not self._bounds:
            return None
        return {"bounds": str(self._bounds), "follows": self._following is not None, "changes": self._changes,
                "mean_consumers": round(self._consumer_seconds / self._seconds, 2) if self._seconds else None}
