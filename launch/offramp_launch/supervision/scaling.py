"""Scales the number of a run's consumers with its work."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import time

from offramp_launch.arguments import setting_given
from offramp_launch.exit_code import LaunchError, codes
from offramp_launch.supervision import control_groups
from offramp_launch.supervision.autoscaler import Bounds, Autoscaler
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.consumer_slots import ConsumerSlot, reason_of

MOST_CONSUMERS = 64  # capacity of a run's table of consumers
LEAST_OF_A_MACHINE = 4  # smallest maximum: consumers that wait for a disk or a server need no core
SOON_SECONDS = 30  # after its first slab, a consumer's death is due to its slab, not to a lack of room
# Exit statuses of a consumer that was dismissed, or whose run or sink is gone.
NO_FAILURES = codes("OK NO_SUCH_RUN SINK_UNAVAILABLE PRODUCER_GONE INTERRUPTED") | {-signal.SIGTERM}
CONSUMER_BYTES = 256 << 20  # memory of one consumer, without the slabs, which all share


def most_of_this_machine(cores=None):
    """Largest number of consumers under `auto`: two per core, as far as memory allows."""
    cores = cores_of_this_machine() if cores is None else cores
    by_memory = int(min(available_memory() / CONSUMER_BYTES, MOST_CONSUMERS))
    return max(1, min(MOST_CONSUMERS, max(LEAST_OF_A_MACHINE, 2 * cores), by_memory))


def cores_of_this_machine():
    """Cores that this process may use, by affinity and by the CPU quota of its container."""
    return max(1, math.ceil(min(len(os.sched_getaffinity(0)), control_groups.cores())))


def available_memory():
    """Bytes, the smaller of the machine's and the container's; infinite where the kernel reports none."""
    of_the_machine = control_groups.available_memory()
    return min(math.inf if of_the_machine is None else of_the_machine, control_groups.memory_room())


def bounds_of(text):
    """Bounds for `auto` or MIN..MAX; None for a number. Errors: LaunchError (USAGE)."""
    return Bounds.of(text, most_of_this_machine(), MOST_CONSUMERS)


def bounds_given(argv):
    """Bounds from --consumers, its variable or a file; None for a number or no value. Errors: LaunchError (USAGE)."""
    return bounds_of(setting_given("consumers", argv))


@dataclasses.dataclass
class Newcomer:
    """A consumer that autoscaling added, and removes again when it fails."""

    slot: ConsumerSlot
    child: Child
    before: int  # number of consumers before it
    memory_kills: int | None  # of this control group until then; None: the kernel reports none
    ready_at: float | None = None  # when it began to take slabs

    def failure_reason(self):
        """Empty where it did not fail, or ended when asked to."""
        status = self.child.status
        if self.ready_at is None and status is not None and status not in NO_FAILURES:
            return f"{self.slot.name} {self.child.ending()}: {reason_of(self.child)}"
        if status == -signal.SIGKILL:
            return f"{self.slot.name} {self.child.ending()}"
        killed = control_groups.memory_kills()[0]
        if killed is None or self.memory_kills is None:
            return ""
        return "memory is short" if killed > self.memory_kills else ""


class ConsumerScaling:
    """
    Owns: its statistics. Borrows: the slots. `note(text)` logs a message. `group`: whose consumers they are, in a run
    with groups. `see(status)`: the run's status as they see it.
    The consumers that it adds may fail without failing the run: they cannot be started, end before they take slabs, or
    are killed soon after. Then it restores the previous number and tries no more. Thread: the supervisor's. Blocks:
    never. The clock is a seam for tests.
    """

    def __init__(self, slots, note, group="", see=lambda status: status, clock=time.monotonic):
        self._slots, self._note, self._see, self._clock = slots, note, see, clock
        self._whose, self._name = f"consumers{f' of {group}' if group else ''}", f"{group}=" if group else ""
        self._following: Autoscaler | None = None
        self._bounds: Bounds | None = None  # the latest
        self._changes = 0
        self._seconds = self._consumer_seconds = 0.0
        self._looked_at: float | None = None
        self._newcomers: list[Newcomer] = []

    bounds = property(
        lambda self: self._following.bounds if self._following else None, doc="None while the number is fixed."
    )

    def command(self, bounds):
        """The command that starts autoscaling within them."""
        return f"scale {self._name}{bounds}"

    def take_up(self, bounds):
        """Starts autoscaling, or restarts it with new bounds."""
        self._following, self._bounds, self._looked_at = Autoscaler(bounds), bounds, None
        self._keep_all()

    def leave_off(self):
        self._following = None
        self._keep_all()

    def _keep_all(self):
        """A new number or new bounds apply to the consumers that exist now."""
        for newcomer in self._newcomers:
            self._slots.keep(newcomer.slot)
        self._newcomers = []

    def look(self, status):
        """Call while consumers are wanted. A malformed status ends autoscaling, not the run."""
        if not self._following:
            return
        try:
            self._follow(self._following, self._see(status))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            self._note(
                f"autoscaling has ended: the run's status.json is malformed ({type(problem).__name__}: {problem})\n"
                f"    {self.command(self.bounds)} starts it again"
            )
            self.leave_off()

    def _follow(self, following: Autoscaler, status: dict) -> None:
        wanted, now = len(self._slots.staying()), self._clock()
        if self._looked_at is not None:
            self._seconds += now - self._looked_at
            self._consumer_seconds += wanted * (now - self._looked_at)
        self._looked_at = now
        if self._look_at_newcomers(following, status, now):
            return
        if change := following.look(status, wanted):
            self._changes += 1
            self._note(f"{self._whose}: {wanted} -> {change.wanted}: {change.reason}")
            self._bring_to(following, change.wanted, wanted)

    def _bring_to(self, following: Autoscaler, number: int, before: int) -> None:
        if number <= max(before, following.bounds.least):
            self._slots.bring_to(number)
            return
        try:
            for _ in range(number - before):
                slot = self._slots.add_on_trial(counts=True)
                self._newcomers.append(Newcomer(slot, slot.child, before, control_groups.memory_kills()[0]))
        except LaunchError as problem:
            self._go_back(following, before, problem.in_one_line())

    def _look_at_newcomers(self, following: Autoscaler, status: dict, now: float) -> bool:
        """True when one of them failed and the number was restored."""
        taking = {
            each.get("pid") for each in status.get("consumers") or [] if each.get("ready", True) and not each.get("end")
        }
        for newcomer in self._newcomers:
            if why := newcomer.failure_reason():
                self._go_back(following, newcomer.before, why)
                return True
            if newcomer.ready_at is None and newcomer.child.status is None and newcomer.child.pid in taking:
                newcomer.ready_at = now
                self._slots.keep(newcomer.slot)
        alive = [each for each in self._newcomers if each.child.status is None]
        self._newcomers = [each for each in alive if each.ready_at is None or now - each.ready_at < SOON_SECONDS]
        return False

    def _go_back(self, following: Autoscaler, number: int, why: str) -> None:
        wanted, number = len(self._slots.staying()), max(number, following.bounds.least)
        self._keep_all()
        following.hold_at(number)
        if number < wanted:
            self._slots.bring_to(number)
        self._note(f"{self._whose}: at most {number} from now on: {why}\n    {self.command(self.bounds)} tries again")

    def report(self):
        """For status and summary; None where autoscaling was never on."""
        if not self._bounds:
            return None
        return {
            "bounds": str(self._bounds),
            "follows": self._following is not None,
            "changes": self._changes,
            "mean_consumers": round(self._consumer_seconds / self._seconds, 2) if self._seconds else None,
        }
