"""
Replaces a run's consumers one by one, so that those who come have what changed meanwhile, as a processor's file: a new one first, and when the run
says that it takes slabs, an old one is sent away, which finishes the slab at hand, or is killed once the run calls it stalled.
"""

import signal

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.supervision.seats import words_of

NEWCOMER_ENDS_SECONDS = 2       # from SIGTERM to SIGKILL, for one that takes no slabs yet


class Reload:
    """
    Borrows: the seats, timers. Thread: the supervisor's, which calls look() now and then. Blocks: never.
    A newcomer that ends before it takes slabs ends the reload, and not the run: the old consumers that are left stay.
    """

    def __init__(self, number, seats, timers, note):
        self.number = number
        self._seats, self._timers, self._note = seats, timers, note
        self._old = [(seat, seat.child) for seat in seats.staying() if seat.child]
        self._of = len(self._old)
        self._newcomer = self._newcomers_child = None
        self._killed = set()
        self._state, self._why, self._code = "running", "", ExitCode.OK
        note(f"reload: {self._of} consumers are replaced, one after another")

    is_under_way = property(lambda self: self._state == "running")

    def describe(self):
        return {"number": self.number, "state": self._state, "of": self._of, "left": len(self._left()), "why": self._why, "code": int(self._code)}

    def look(self, ready, stalled):
        """The processes that take slabs, and those that make no progress with theirs, as the run says."""
        if self._state != "running":
            return
        self._kill_unfinished(stalled)
        if self._newcomer:
            self._look_at_newcomer(ready)
        if self._state == "running" and not self._newcomer and not self._is_one_on_its_way():
            self._begin_next()

    def give_up(self, why, code):
        """Nothing where it has ended. The newcomer, if there is one that takes no slabs yet, goes."""
        if self._state != "running":
            return
        self._end("failed", why, code)
        if self._newcomer:
            child = self._newcomers_child
            self._seats.send_away([self._newcomer])
            self._timers.after(NEWCOMER_ENDS_SECONDS, lambda: child.signal(signal.SIGKILL))

    def _left(self):
        """What has not been replaced: whose seat has another by now, since it died or was scaled away, has nothing of old in it."""
        return [(seat, child) for seat, child in self._old if seat.child is child]

    def _is_one_on_its_way(self):
        return any(seat.leaving for seat, _ in self._left())

    def _kill_unfinished(self, stalled):
        """Its slabs are given to others by then."""
        for seat, child in self._left():
            if seat.leaving and child.pid in stalled and child.pid not in self._killed:
                self._killed.add(child.pid)
                self._note(f"reload: {seat.name} (pid {child.pid}) was to leave, and is stalled with the slab at hand: it is killed, and others take that")
                child.signal(signal.SIGKILL)

    def _begin_next(self):
        if not self._left():
            self._end("done", "", ExitCode.OK)
            self._note(f"reload: {self._of} consumers are replaced")
            return
        try:
            self._newcomer = self._seats.add_on_trial(counts=False)
            self._newcomers_child = self._newcomer.child
        except LaunchError as problem:
            self._fail(str(problem), problem.code)

    def _look_at_newcomer(self, ready):
        newcomer, child = self._newcomer, self._newcomers_child
        if child.status is not None:
            self._newcomer = None
            room = "./launch/offramp scale makes room, by one consumer fewer. " if child.status == ExitCode.NO_SUCH_RUN else ""
            self._fail(f"{newcomer.name}, which was to take an old one's place, {child.ending()}: {words_of(child)}\n    {room}Its log: {child.log_path}",
                       ExitCode.SYSTEM if child.status <= 0 else child.status)
        elif child.pid in ready:
            self._newcomer = None
            self._seats.keep(newcomer)
            self._send_one_away(newcomer, child)

    def _send_one_away(self, newcomer, child):
        # The others have died or were scaled away meanwhile: then it is one too many.
        seat, old = next(((seat, old) for seat, old in self._left() if not seat.leaving), (newcomer, child))
        if seat is not newcomer:
            self._note(f"reload: {newcomer.name} (pid {child.pid}) is at work, {seat.name} (pid {old.pid}) leaves")
        self._seats.send_away([seat])

    def _fail(self, why, code):
        self._end("failed", f"{len(self._left())} of {self._of} consumers stay as they were: {why}", code)
        self._note(f"reload: {self._why}")

    def _end(self, state, why, code):
        self._state, self._why, self._code = state, why, code
