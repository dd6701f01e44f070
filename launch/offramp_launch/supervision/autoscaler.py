"""Decides from statuses how many consumers a run needs, without processes or a clock, so that tests can step it."""

import collections
import dataclasses
import math
import re

from offramp_launch.exit_code import UsageError

WAITS = 0.03  # share of time waiting for a free slab; a larger one costs at least that share of the rate
IDLES = 0.01  # below this share, the run does not wait for consumers
GONE = ("retired", "dead_letters")  # states of unusable slabs
FULL, WELL_USED = 0.95, 0.85  # target utilization of a consumer, when adding consumers and when removing them
WINDOW_SECONDS = 2
LONGEST_WINDOW_SECONDS = 60  # for slabs so slow that no shorter window holds several
KEPT_SECONDS = 2 * LONGEST_WINDOW_SECONDS + 10  # two windows, plus the time between statuses
CALM_SECONDS = 10  # consumers idle for so long before one is removed
JOIN_SECONDS = 30  # for added consumers to become ready; after that, measuring goes on without them
SAME = 0.25  # two loads that differ by less count as the same, and keep its findings
GAIN = 0.02  # smallest relative rise of the rate by which added consumers count as helpful
BACKLOGS = 3  # samples that may wait when a load falls, in multiples of what the slabs hold
STEADY = 0.2  # relative difference of the time per sample within one load


def are_bounds(text):
    """Whether the text has the form of bounds; the launcher checks the values."""
    return text == "auto" or bool(re.fullmatch(r"[0-9]+\.\.[0-9]+", text))


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Smallest and largest number of consumers, both included."""

    least: int
    most: int

    @classmethod
    def of(cls, text, most, limit):
        """From `auto` (1 to `most`) or MIN..MAX (up to `limit`); else None. Errors: LaunchError (USAGE)."""
        if text == "auto":
            return cls(1, most)
        if not are_bounds(text):
            return None
        bounds = cls(*map(int, text.split("..")))
        if not 1 <= bounds.least <= bounds.most <= limit:
            raise UsageError(
                f"consumers {text} is out of bounds", f"Give MIN..MAX, from 1 to {limit}, the smaller number first"
            )
        return bounds

    def __str__(self):
        return f"{self.least}..{self.most}"

    def within(self, number):
        return max(self.least, min(self.most, number))


@dataclasses.dataclass(frozen=True)
class Change:
    """The number of consumers to have, and the reason to print."""

    wanted: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Moment:
    """One status of the run: counts since the run's begin, times in seconds."""

    at: float
    released: int  # samples
    last_release: float
    slab_wait: float
    slab_wait_elsewhere: float  # for consumers of other groups
    lost: int  # samples, as no slab was free: dropped, or waiting on the disk
    computing: float  # busy time of the device; None where unknown
    consumers: dict  # session: (slabs, samples, busy seconds)
    reports_work: bool  # whether every consumer reports its busy time
    slabs: int  # number that the run can use
    at_work: bool  # a slab waits for a consumer, or is leased
    tail: bool  # all the input is in slabs

    @classmethod
    def of(cls, status):
        slabs = status.get("slabs") or {}
        there = [each for each in status.get("consumers") or [] if not each.get("end")]
        return cls(
            status["now_ns"] / 1e9,
            status.get("released_samples") or 0,
            (status.get("last_release_ns") or 0) / 1e9,
            status.get("slab_wait_seconds") or 0.0,
            status.get("slab_wait_elsewhere_seconds") or 0.0,
            (status.get("dropped_samples") or 0) + (status.get("spilled_samples") or 0),
            status.get("compute_busy_seconds"),
            {
                each.get("session"): (each.get("slabs") or 0, each.get("samples") or 0, each.get("busy_seconds") or 0.0)
                for each in there
            },
            all(each.get("busy_seconds") is not None for each in there),
            live_slabs(slabs),
            any(slabs.get(state) for state in ("ready", "leased")),
            status.get("limiting_stage") == "consumers",
        )


def live_slabs(slabs):
    """`slabs`: numbers by state; excludes unusable slabs."""
    return sum(number or 0 for state, number in slabs.items() if state not in GONE)


def counted(first, last, which):
    """Slabs (0), samples (1) or busy seconds (2) between two moments, of the consumers present at the later one."""
    return sum(
        now[which] - first.consumers[session][which] if session in first.consumers else now[which]
        for session, now in last.consumers.items()
    )


class Window:
    """What happened between two moments."""

    def __init__(self, first, last):
        self.first, self.last = first, last
        self.seconds = last.at - first.at
        self.samples, self.busy = counted(first, last, 1), counted(first, last, 2)
        self.present = (len(first.consumers) + len(last.consumers)) / 2
        released = last.released - first.released
        lost = max(0, last.lost - first.lost)
        # From release to release, so that the window's edges do not matter; from the edges where releases have stopped.
        span = last.last_release - first.last_release
        is_exact = first.last_release > 0 and span > 0 and last.at - last.last_release < self.seconds / 3
        self.rate = released / (span if is_exact else self.seconds)
        self.waits = min(1.0, max((last.slab_wait - first.slab_wait) / self.seconds, lost / max(1, lost + released)))
        self.waits_elsewhere = (last.slab_wait_elsewhere - first.slab_wait_elsewhere) / self.seconds
        self.seconds_a_sample = self.busy / self.samples if self.samples else 0.0

    slabs = property(lambda self: counted(self.first, self.last, 0))
    load = property(
        lambda self: self.rate * self.seconds_a_sample, doc="Mean number of busy consumers, by Little's law."
    )

    def capacity(self, consumers):
        """Samples per second of so many busy consumers."""
        return consumers / self.seconds_a_sample if self.seconds_a_sample else 0.0

    def most_load(self):
        """Busy consumers without the wait for slabs; the producer's other work takes the rest of the time."""
        return self.load / max(0.02, 1 - self.waits)

    def most_load_of_the_device(self):
        """Busy consumers if the device always computed; infinite where unknown; low while batches queue for slabs."""
        if None in (self.first.computing, self.last.computing) or self.last.computing == self.first.computing:
            return math.inf
        return self.load / max(0.02, (self.last.computing - self.first.computing) / self.seconds)

    def is_like(self, load):
        """`load`: (seconds a sample, samples a second)"""
        return all(abs(now - then) <= SAME * then for now, then in zip((self.seconds_a_sample, self.rate), load))


class Autoscaler:
    """
    Owns: the moments seen. It adds consumers when the run waits for slabs in two windows, each with several slabs per
    consumer: as many as the load needs by Little's law if the rate without waiting is known, else at most twice the
    present number. Added consumers that do not raise the rate are removed and not tried again for the same load. It
    removes consumers when fewer would do in the longest window. Thread: one. Blocks: never.
    """

    def __init__(self, bounds):
        self.bounds = bounds
        self._moments: collections.deque = collections.deque()
        self._pid = None
        self._settling: tuple[int, float] | None = (
            None  # (number wanted, since when): moments count once so many are there
        )
        self._trial: tuple[int, Window, int] | None = None  # (the number before, the window before, the number then)
        self._ceiling: tuple[int, tuple[float, float]] | None = None  # (number, load) above which more did not help
        self._room = bounds.most  # more could not be started, or died for lack of memory
        self._floor: tuple[int, float] | None = None  # (number, busy consumers) below which fewer were too few
        self._lowered: tuple[float, float] | None = None  # (seconds a sample, busy consumers) when some were removed
        self._free_rate = 0.0  # highest samples a second while nothing waited for consumers
        self._waiting_since: float | None = None
        self._backlog_since: Moment | None = None  # the moment when the run began to wait, kept across changes

    def look(self, status, wanted):
        """`status`: the run's; `wanted`: the current target number. Returns a Change, or None."""
        if status.get("state") != "running" or not status.get("now_ns") or not wanted:
            self._forget()
            return None
        now = Moment.of(status)
        last = self._moments[-1] if self._moments else None
        if (
            status.get("pid") != self._pid
            or last
            and (now.at < last.at or now.released < last.released or now.slab_wait < last.slab_wait)
        ):
            self._forget()  # another producer's status
            self._trial = self._backlog_since = None
            self._pid, last = status.get("pid"), None
        if last and now.at == last.at:
            return None
        if not self._is_settled(now, status, wanted):
            return None
        if not now.released:
            return None  # start-up cost is not load
        self._moments.append(now)
        while len(self._moments) > 1 and now.at - self._moments[1].at > KEPT_SECONDS:
            self._moments.popleft()
        change = self._bound(wanted, now) or self._judge(wanted) or self._raise(wanted) or self._lower(wanted)
        if change:
            self._forget()
            self._settling = (change.wanted, now.at)
        return change

    def hold_at(self, number):
        """Caps the number for good."""
        self._room = max(self.bounds.least, number)

    def is_undecided(self, wanted):
        """Whether more consumers may help, or the result of the last change is not known yet."""
        latest = None if self._trial or self._settling else self._latest(max(4, 2 * wanted))
        if not latest:
            return True
        return latest.waits > WAITS and wanted < self._most(latest.last) and not self._is_at_its_ceiling(latest, wanted)

    def _is_at_its_ceiling(self, window, wanted):
        return self._ceiling is not None and self._ceiling[0] <= wanted and window.is_like(self._ceiling[1])

    def _forget(self):
        self._moments.clear()
        self._settling = self._waiting_since = None

    def _is_settled(self, now, status, wanted):
        """Whether the consumers added by the last change are ready, and the removed ones are gone."""
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
        """(The shortest window to moment `end` that holds `slabs`, its first moment's index); None: not yet."""
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
        """The latest two windows, the earlier one first; None: not yet."""
        several = max(4, 2 * wanted)
        found = self._window(len(self._moments) - 1, several)
        before = found and self._window(found[1], several)
        return (before[0], found[0]) if before else None

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _most(self, now):
        """No more than slabs: a consumer without a slab is idle."""
        return max(self.bounds.least, min(self._room, now.slabs or self._room))

    def _bound(self, wanted, now):
        most = self._most(now)
        if wanted < self.bounds.least:
            return Change(self.bounds.least, f"at least {self.bounds.least} are required")
        if wanted > most:
            return Change(
                most, f"at most {most} are allowed" if most == self._room else f"the run has {now.slabs} slabs"
            )
        return None

    def _judge(self, wanted):
        """Removes the consumers added last if they did not help."""
        if not self._trial:
            return None
        number, before, tried = self._trial
        if wanted != tried:
            self._trial = None
            return None
        # their first slabs may arrive only at the end of a window
        now = self._latest(max(16, 6 * wanted), longest=2 * LONGEST_WINDOW_SECONDS)
        if not now:
            return None
        self._trial = None
        if now.rate < before.rate and now.waits <= WAITS and now.load < number * WELL_USED:
            return None  # the load has fallen meanwhile
        if now.waits_elsewhere > WAITS and now.capacity(wanted) >= before.capacity(number) * (1 + GAIN):
            return None  # the run waits for another group, too: the rate shows their help once that one has more
        if now.rate >= before.rate * (1 + min(GAIN, before.waits / 3)):
            return None
        self._ceiling = (number, (before.seconds_a_sample, before.rate))
        return Change(
            number, f"more did not help: {before.rate:.4g} samples/s with {number}, {now.rate:.4g} with {wanted}"
        )

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
        if (
            abs(before.seconds_a_sample - now.seconds_a_sample) > STEADY * now.seconds_a_sample
            and now.last.at - self._waiting_since < 3 * now.seconds
        ):
            return None  # the load is changing: the window mixes two
        if wanted >= most or now.present < wanted - 0.5:
            return None  # consumers are dying: more of them would not help
        if self._is_at_its_ceiling(now, wanted):
            return None
        self._ceiling = None
        self._free_rate *= not self._has_more_than_a_backlog(now, self._backlog_since)
        known = self._free_rate * now.seconds_a_sample
        if known and known <= wanted * FULL:
            # The known rate says that they suffice: the backlog of an earlier load will clear.
            if now.last.at - self._waiting_since < CALM_SECONDS:
                return None
            more = wanted + 1
        else:
            more = min(most, max(wanted + 1, self._number_for(now, wanted, known)))
        if (
            self._lowered
            and abs(now.seconds_a_sample - self._lowered[0]) <= 2 * SAME * self._lowered[0]
            and now.load >= self._lowered[1] * (1 - SAME)
        ):
            self._floor = (more, self._lowered[1])
        self._lowered = None
        self._trial = (wanted, Window(before.first, now.last), more)
        return Change(more, f"the run waits for consumers {100 * now.waits:.0f} % of the time")

    def _has_more_than_a_backlog(self, window: Window, since: Moment) -> bool:
        """Whether more came `since` the wait began than the earlier rate and a full backlog: the load has grown."""
        beyond = window.last.released - since.released - self._free_rate * (window.last.at - since.at)
        return beyond > BACKLOGS * window.last.slabs * window.samples / max(1, window.slabs)

    @staticmethod
    def _number_for(window, wanted, known):
        """`known`: busy consumers at the rate without waiting; 0: not seen yet."""
        return math.ceil(
            min(window.most_load(), known or min(window.most_load_of_the_device(), 2 * wanted * FULL)) / FULL - 1e-6
        )

    def _lower(self, wanted):
        calm = self._latest(max(8, 4 * wanted), CALM_SECONDS) or self._idle(CALM_SECONDS)
        if not calm or calm.waits > IDLES:
            return None
        if not calm.last.reports_work:
            return None
        if calm.last.tail:
            return None  # the last slabs of the input: a change is pointless
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
        return Change(fewer, f"of {wanted} consumers {load:.1f} are busy on average")

    def _is_steady(self, window):
        """Whether both halves of the window have the same load."""
        middle = (window.first.at + window.last.at) / 2
        between = next(moment for moment in self._moments if moment.at >= middle)
        if between is window.last or not window.samples:
            return True
        one, other = Window(window.first, between), Window(between, window.last)
        return abs(one.seconds_a_sample - other.seconds_a_sample) <= STEADY * window.seconds_a_sample

    def _idle(self, seconds):
        """A window of so many seconds with hardly a slab and no busy consumer: they wait for input; else None."""
        last = self._moments[-1]
        for first in reversed(self._moments):
            if first.at_work:
                return None
            if last.at - first.at >= seconds:
                return Window(first, last)
        return None
