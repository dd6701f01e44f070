"""How many consumers a run wants, by what it told while it ran: a decision without processes or a clock, that tests step."""

import collections
import dataclasses
import math
import re

from offramp_launch.exit_code import ExitCode, LaunchError

WAITS = 0.03            # of the time for a free slab: more than that costs the run more than that of its rate
IDLES = 0.01            # so little: consumers are not what it waits for
GONE = ("retired", "dead_letters")       # states of slabs
FULL, WELL_USED = 0.95, 0.85    # the share of its time that a consumer works, where consumers are added for a load, and where they are taken away
WINDOW_SECONDS = 2
LONGEST_WINDOW_SECONDS = 60     # where slabs take so long that no window holds several
KEPT_SECONDS = 2 * LONGEST_WINDOW_SECONDS + 10      # two of them, each longer by as much as statuses come apart
CALM_SECONDS = 10       # of idle consumers, before one leaves
JOIN_SECONDS = 30       # for consumers that were added to be there: then it is measured without them
SAME = 0.25             # two loads that differ by less are one: what was found out of it holds
GAIN = 0.02             # of the rate, by consumers that were added: less did not help
BACKLOGS = 3            # as many samples as slabs hold may wait when a load falls: in them, and before them
STEADY = 0.2            # how far the time for a sample may differ in two windows of one load


def are_bounds(text):
    """Whether it is meant as such; which of them a run takes, its launcher says."""
    return text == "auto" or bool(re.fullmatch(r"[0-9]+\.\.[0-9]+", text))


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Of the number of consumers, both included."""

    least: int
    most: int

    @classmethod
    def of(cls, text, most, limit):
        """Of `auto` (1 to `most`) or MIN..MAX (up to `limit`); None of anything else. Errors: LaunchError (USAGE)."""
        if text == "auto":
            return cls(1, most)
        if not are_bounds(text):
            return None
        bounds = cls(*map(int, text.split("..")))
        if not 1 <= bounds.least <= bounds.most <= limit:
            raise LaunchError(f"consumers {text} is out of bounds", f"MIN..MAX, from 1 to {limit}, the smaller number first", ExitCode.USAGE)
        return bounds

    def __str__(self):
        return f"{self.least}..{self.most}"

    def within(self, number):
        return max(self.least, min(self.most, number))


@dataclasses.dataclass(frozen=True)
class Change:
    """What is to be done, and why, for a reader."""

    wanted: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Moment:
    """What a status says at one time: counts from the run's begin on. Seconds."""

    at: float
    released: int           # samples
    last_release: float
    slab_wait: float
    lost: int               # samples that found no free slab: dropped, or waiting on the disk
    computing: float        # of the device; None where that is not known
    consumers: dict         # session: (slabs, samples, busy seconds)
    tells_work: bool        # of consumers, by how long they are busy
    slabs: int              # that the run can use
    at_work: bool           # something waits for a consumer, or one has it
    tail: bool              # all of the input is in slabs

    @classmethod
    def of(cls, status):
        slabs, there = status.get("slabs") or {}, [each for each in status.get("consumers") or [] if not each.get("end")]
        return cls(status["now_ns"] / 1e9, status.get("released_samples") or 0, (status.get("last_release_ns") or 0) / 1e9, status.get("slab_wait_seconds") or 0.0,
                   (status.get("dropped_samples") or 0) + (status.get("spilled_samples") or 0), status.get("compute_busy_seconds"),
                   {each.get("session"): (each.get("slabs") or 0, each.get("samples") or 0, each.get("busy_seconds") or 0.0)
                    for each in there},
                   all(each.get("busy_seconds") is not None for each in there), live_slabs(slabs), any(slabs.get(state) for state in ("ready", "leased")),
                   status.get("limiting_stage") == "consumers")


def live_slabs(slabs):
    """`slabs`: by state; those that are of no use any more are none."""
    return sum(number or 0 for state, number in slabs.items() if state not in GONE)


def counted(first, last, which):
    """Of slabs, samples or busy seconds, by number, between two moments: of consumers that are there at the later one."""
    return sum(now[which] - first.consumers[session][which] if session in first.consumers else now[which] for session, now in last.consumers.items())


class Window:
    """What happened between two moments."""

    def __init__(self, first, last):
        self.first, self.last = first, last
        self.seconds = last.at - first.at
        self.samples, self.busy = counted(first, last, 1), counted(first, last, 2)
        self.present = (len(first.consumers) + len(last.consumers)) / 2
        released = last.released - first.released
        lost = max(0, last.lost - first.lost)
        # From release to release, so that it does not matter where between two of them the window begins; from its edges where they stopped.
        span = last.last_release - first.last_release
        is_exact = first.last_release > 0 and span > 0 and last.at - last.last_release < self.seconds / 3
        self.rate = released / (span if is_exact else self.seconds)
        self.waits = min(1.0, max((last.slab_wait - first.slab_wait) / self.seconds, lost / max(1, lost + released)))
        self.seconds_a_sample = self.busy / self.samples if self.samples else 0.0

    slabs = property(lambda self: counted(self.first, self.last, 0))
    load = property(lambda self: self.rate * self.seconds_a_sample, doc="How many consumers are at work, in the mean: Little's law.")

    def most_load(self):
        """Consumers that would be at work without the wait: what the producer does besides takes its time."""
        return self.load / max(0.02, 1 - self.waits)

    def most_load_of_the_device(self):
        """As many as its computing alone would feed, where that is told; not so while batches wait in a queue before the slabs."""
        computed = None if None in (self.first.computing, self.last.computing) else (self.last.computing - self.first.computing) / self.seconds
        return self.load / max(0.02, computed) if computed else math.inf

    def is_like(self, load):
        """`load`: (seconds a sample, samples a second)"""
        return all(abs(now - then) <= SAME * then for now, then in zip((self.seconds_a_sample, self.rate), load))


class Autoscaler:
    """
    Owns what it has seen. Consumers are added when the run waits for slabs in two windows, each of which holds several slabs for each of them: as many as
    the load needs by Little's law where the rate without waiting was seen before, else at most twice as many as there are. What was added and did not raise
    the rate is taken away again, and not tried again for the same load. They are taken away when fewer would do in the longest of the windows.
    Thread: one. Blocks: never.
    """

    def __init__(self, bounds):
        self.bounds = bounds
        self._moments = collections.deque()
        self._pid = None
        self._settling = None       # (number wanted, since when): moments count when so many are there
        self._trial = None          # (the number before, the window before, the number then)
        self._ceiling = None        # (number, load): more did not help
        self._room = bounds.most    # more could not be started, or died of want
        self._floor = None          # (number, consumers at work): fewer were too few
        self._lowered = None        # (seconds a sample, consumers at work) when some were taken away
        self._free_rate = 0.0       # samples a second when nothing waited for consumers, at most
        self._waiting_since = None
        self._backlog_since = None      # the moment at which the run began to wait, whatever was changed since

    def look(self, status, wanted):
        """`status`: of the run; `wanted`: consumers, by who decides. Returns a Change, or None."""
        if status.get("state") != "running" or not status.get("now_ns") or not wanted:
            self._forget()
            return None
        now = Moment.of(status)
        last = self._moments[-1] if self._moments else None
        if status.get("pid") != self._pid or last and (now.at < last.at or now.released < last.released or now.slab_wait < last.slab_wait):
            self._forget()      # another producer's
            self._trial = self._backlog_since = None
            self._pid, last = status.get("pid"), None
        if last and now.at == last.at:
            return None
        if not self._is_settled(now, status, wanted):
            return None
        if not now.released:
            return None         # what a start costs is not load
        self._moments.append(now)
        while len(self._moments) > 1 and now.at - self._moments[1].at > KEPT_SECONDS:
            self._moments.popleft()
        change = self._bound(wanted, now) or self._judge(wanted) or self._raise(wanted) or self._lower(wanted)
        if change:
            self._forget()
            self._settling = (change.wanted, now.at)
        return change

    def hold_at(self, number):
        """More than that are not tried any more."""
        self._room = max(self.bounds.least, number)

    def is_undecided(self, wanted):
        """Whether more consumers may come to something, or it is not known yet whether they did."""
        latest = None if self._trial or self._settling else self._latest(max(4, 2 * wanted))
        if not latest:
            return True
        return latest.waits > WAITS and wanted < self._most(latest.last) and not self._is_at_its_ceiling(latest, wanted)

    def _is_at_its_ceiling(self, window, wanted):
        return bool(self._ceiling) and self._ceiling[0] <= wanted and window.is_like(self._ceiling[1])

    def _forget(self):
        self._moments.clear()
        self._settling = self._waiting_since = None

    def _is_settled(self, now, status, wanted):
        """Whether those that a change has brought are there, and those that it has sent away are gone."""
        if self._settling:
            number, since = self._settling
            there = [each for each in status.get("consumers") or [] if not each.get("end")]
            is_there = len(there) == wanted and all(each.get("ready", True) for each in there)
            if number == wanted and not is_there and now.at - since < JOIN_SECONDS:
                return False
            self._settling = None
        return True

    # -- windows ------------------------------------------------------------------------------------------------------

    def _window(self, end, slabs, seconds=WINDOW_SECONDS, longest=LONGEST_WINDOW_SECONDS):
        """The shortest that ends with the moment number `end` and holds so much: (window, the number of its first moment); None: there is none yet."""
        last = self._moments[end]
        for number in range(end - 1, -1, -1):
            first = self._moments[number]
            if last.at - first.at >= seconds and (counted(first, last, 0) >= slabs or last.at - first.at >= longest):
                return Window(first, last), number
        return None

    def _latest(self, slabs, seconds=WINDOW_SECONDS, longest=LONGEST_WINDOW_SECONDS):
        found = self._window(len(self._moments) - 1, slabs, seconds, longest)
        return found[0] if found else None

    def _two(self, wanted):
        """The latest two, the earlier one first; None: they are not there yet."""
        several = max(4, 2 * wanted)
        found = self._window(len(self._moments) - 1, several)
        before = found and self._window(found[1], several)
        return (before[0], found[0]) if before else None

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _most(self, now):
        """A consumer without a slab has nothing to do."""
        return max(self.bounds.least, min(self._room, now.slabs or self._room))

    def _bound(self, wanted, now):
        most = self._most(now)
        if wanted < self.bounds.least:
            return Change(self.bounds.least, f"at least {self.bounds.least} are to be there")
        if wanted > most:
            return Change(most, f"at most {most} are to be there" if most == self._room else f"the run has {now.slabs} slabs")
        return None

    def _judge(self, wanted):
        """Of consumers that were added last: whether it was any use."""
        if not self._trial:
            return None
        number, before, tried = self._trial
        if wanted != tried:
            self._trial = None
            return None
        now = self._latest(max(16, 6 * wanted), longest=2 * LONGEST_WINDOW_SECONDS)      # their first slabs may come only at the end of one
        if not now:
            return None
        self._trial = None
        if now.rate < before.rate and now.waits <= WAITS and now.load < number * WELL_USED:
            return None     # the load has changed meanwhile: there is less to do
        if now.rate >= before.rate * (1 + min(GAIN, before.waits / 3)):
            return None
        self._ceiling = (number, (before.seconds_a_sample, before.rate))
        return Change(number, f"more did not help: {before.rate:.4g} samples/s with {number}, {now.rate:.4g} with {wanted}")

    def _raise(self, wanted):
        windows = self._two(wanted)
        if not windows or min(window.waits for window in windows) <= WAITS:
            self._waiting_since = None
            if windows:
                self._backlog_since = None
            return None
        before, now = windows
        self._backlog_since = self._backlog_since or now.last
        most = self._most(now.last)
        if self._waiting_since is None:
            self._waiting_since = now.last.at
        if abs(before.seconds_a_sample - now.seconds_a_sample) > STEADY * now.seconds_a_sample and now.last.at - self._waiting_since < 3 * now.seconds:
            return None         # the load is about to change: what is seen is half of each
        if wanted >= most or now.present < wanted - 0.5:
            return None         # what dies is not mended by more of it
        if self._is_at_its_ceiling(now, wanted):
            return None
        self._ceiling = None
        self._free_rate *= not self._has_more_than_a_backlog(now)
        known = self._free_rate * now.seconds_a_sample
        if known and known <= wanted * FULL:
            # They are enough by what is known: what waits was left by a load before, and goes.
            if now.last.at - self._waiting_since < CALM_SECONDS:
                return None
            more = wanted + 1
        else:
            more = min(most, max(wanted + 1, self._number_for(now, wanted, known)))
        if self._lowered and abs(now.seconds_a_sample - self._lowered[0]) <= 2 * SAME * self._lowered[0] and now.load >= self._lowered[1] * (1 - SAME):
            self._floor = (more, self._lowered[1])
        self._lowered = None
        self._trial = (wanted, Window(before.first, now.last), more)
        return Change(more, f"the run waits for consumers {100 * now.waits:.0f} % of the time")

    def _has_more_than_a_backlog(self, window):
        """Whether more came, since the run waits for slabs, than the rate of before and what slabs and the producer's queue may hold: then the load has grown."""
        since = self._backlog_since
        beyond = window.last.released - since.released - self._free_rate * (window.last.at - since.at)
        return beyond > BACKLOGS * window.last.slabs * window.samples / max(1, window.slabs)

    @staticmethod
    def _number_for(window, wanted, known):
        """`known`: consumers at work for the rate without waiting; 0: that was not seen yet."""
        return math.ceil(min(window.most_load(), known or min(window.most_load_of_the_device(), 2 * wanted * FULL)) / FULL - 1e-6)

    def _lower(self, wanted):
        calm = self._latest(max(8, 4 * wanted), CALM_SECONDS) or self._idle(CALM_SECONDS)
        if not calm or calm.waits > IDLES:
            return None
        if not calm.last.tells_work:
            return None
        if calm.last.tail:
            return None         # the last slabs of the input: nothing comes of a change
        windows = [calm, *(self._two(wanted) or ())]
        latest = windows[-1]
        if any(window.waits > IDLES for window in windows) or not self._is_steady(calm):
            return None
        self._free_rate = max(self._free_rate, latest.rate)
        load = max(window.load for window in windows)
        if self._floor and load < self._floor[1] * (1 - SAME):
            self._floor = None
        fewer = self.bounds.within(max(math.ceil(load / WELL_USED - 1e-6), self._floor[0] if self._floor else 1))
        if fewer >= wanted:
            return None
        self._lowered, self._trial = (calm.seconds_a_sample, load), None
        return Change(fewer, f"of {wanted} consumers {load:.1f} are at work, in the mean")

    def _is_steady(self, window):
        """Whether its halves are of one load."""
        middle = (window.first.at + window.last.at) / 2
        between = next(moment for moment in self._moments if moment.at >= middle)
        if between is window.last or not window.samples:
            return True
        one, other = Window(window.first, between), Window(between, window.last)
        return abs(one.seconds_a_sample - other.seconds_a_sample) <= STEADY * window.seconds_a_sample

    def _idle(self, seconds):
        """So many in which hardly a slab came, and nobody had one: consumers wait for the input."""
        last = self._moments[-1]
        for first in reversed(self._moments):
            if first.at_work:
                return None
            if last.at - first.at >= seconds:
                return Window(first, last)
        return None
