"""
Replaces a run's consumers one by one, so that the new ones load what changed, such as a processor's file. It starts a
new consumer first. Once the run reports that this one takes slabs, an old one is dismissed: it finishes its current
slab, or is killed once the run reports it as stalled.
"""

from __future__ import annotations

import signal

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.consumer_slots import ConsumerSlot, ConsumerSlots, reason_of

NEWCOMER_ENDS_SECONDS = 2  # from SIGTERM to SIGKILL, for a newcomer that takes no slabs yet


class Reload:
    """
    Borrows: the slots, of each group in turn, and timers. Thread: the supervisor's, which calls look() periodically.
    Blocks: never. A newcomer that ends before it takes slabs ends the reload, not the run: the remaining old consumers
    stay.
    """

    def __init__(self, number, groups, timers, note):
        """`groups`: the ConsumerSlots of each; several in a run with groups."""
        self.number = number
        self._timers, self._note = timers, note
        self._old = [(slots, slot, slot.child) for slots in groups for slot in slots.staying() if slot.child]
        self._of = len(self._old)
        self._newcomer: tuple[ConsumerSlots, ConsumerSlot, Child] | None = None
        self._killed = set()
        self._state, self._why, self._code = "running", "", ExitCode.OK
        note(f"reload: replacing {self._of} consumers, one after another")

    is_under_way = property(lambda self: self._state == "running")

    def describe(self):
        return {
            "number": self.number,
            "state": self._state,
            "of": self._of,
            "left": len(self._left()),
            "why": self._why,
            "code": int(self._code),
        }

    def look(self, ready, stalled):
        """`ready`: processes that take slabs; `stalled`: those without progress; both from the run's status."""
        if self._state != "running":
            return
        self._kill_unfinished(stalled)
        if self._newcomer:
            self._look_at_newcomer(*self._newcomer, ready)
        if self._state == "running" and not self._newcomer and not self._is_one_leaving():
            self._begin_next()

    def give_up(self, why, code):
        """Does nothing once the reload has ended. Dismisses a newcomer that takes no slabs yet."""
        if self._state != "running":
            return
        self._end("failed", why, code)
        if self._newcomer:
            slots, slot, child = self._newcomer
            slots.send_away([slot])
            self._timers.after(NEWCOMER_ENDS_SECONDS, lambda: child.signal(signal.SIGKILL))

    def _left(self):
        """The old consumers still in their slots; one that died or was scaled away no longer counts."""
        return [each for each in self._old if each[1].child is each[2]]

    def _is_one_leaving(self):
        return any(slot.leaving for _, slot, _ in self._left())

    def _kill_unfinished(self, stalled):
        """By then the broker has given their slabs to others."""
        for _, slot, child in self._left():
            if slot.leaving and child.pid in stalled and child.pid not in self._killed:
                self._killed.add(child.pid)
                self._note(
                    f"reload: killing {slot.name} (pid {child.pid}), which was dismissed but stalls on its slab; another consumer takes the slab"
                )
                child.signal(signal.SIGKILL)

    def _begin_next(self):
        left = self._left()
        if not left:
            self._end("done", "", ExitCode.OK)
            self._note(f"reload: replaced {self._of} consumers")
            return
        try:
            slots = left[0][0]
            slot = slots.add_on_trial(counts=False)
            self._newcomer = slots, slot, slot.child
        except LaunchError as problem:
            self._fail(str(problem), problem.code)

    def _look_at_newcomer(self, slots: ConsumerSlots, newcomer: ConsumerSlot, child: Child, ready: set) -> None:
        if child.status is not None:
            self._newcomer = None
            why = f"{newcomer.name}, the replacement of an old consumer, {child.ending()}: {reason_of(child)}"
            fix = f"Its log: {child.log_path}"
            if child.status == ExitCode.NO_SUCH_RUN:
                fix = f"./launch/offramp scale makes room: scale to one consumer fewer. {fix}"
            self._fail(f"{why}\n    {fix}", ExitCode.SYSTEM if child.status <= 0 else child.status)
        elif child.pid in ready:
            self._newcomer = None
            slots.keep(newcomer)
            self._send_one_away(slots, newcomer, child)

    def _send_one_away(self, slots, newcomer, child):
        # When every other old consumer of the group has died or was scaled away, the newcomer is one too many.
        own = ((slot, old) for group, slot, old in self._left() if group is slots and not slot.leaving)
        slot, old = next(own, (newcomer, child))
        if slot is not newcomer:
            self._note(
                f"reload: {newcomer.name} (pid {child.pid}) has started, {slot.name} (pid {old.pid}) finishes and exits"
            )
        slots.send_away([slot])

    def _fail(self, why, code):
        self._end("failed", f"{len(self._left())} of {self._of} consumers were not replaced: {why}", code)
        self._note(f"reload: {self._why}")

    def _end(self, state, why, code):
        self._state, self._why, self._code = state, why, code
