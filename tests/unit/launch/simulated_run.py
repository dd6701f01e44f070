"""Simulates a run as a queue of slabs between a producer and consumers, with the status of a real run."""

import collections
import heapq
import itertools
import random
import types

TICK_SECONDS = 0.5
LATE = 0.05  # share of a tick by which a real one may be late


class SimulatedRun:
    """
    `make_seconds(now)`: the producer's time for a slab. `take_seconds(now)`: a consumer's time for a slab.
    `cores`: the cores that all programs share (None: each has its own). `join_seconds`: from a consumer's start to its
    first slab.
    `ahead`: batches that the producer makes while it waits for a slab. `noise`: each time varies by a factor between 1
    - noise and 1 + noise.
    """

    def __init__(
        self, make_seconds, take_seconds, consumers, slabs=8, cores=None, join_seconds=0.3, ahead=0, noise=0.0, seed=1
    ):
        self.make_seconds, self.take_seconds, self.cores, self.join_seconds, self.noise = (
            make_seconds,
            take_seconds,
            cores,
            join_seconds,
            noise,
        )
        self.random, self.ticks = random.Random(seed), random.Random(seed)
        self.now, self.slabs, self.free, self.ready = 0.0, slabs, slabs, 0
        # batches without a slab; whether the producer has stopped
        self.ahead, self.held, self.stalled = (
            ahead,
            0,
            False,
        )
        self.events, self.order, self.sessions = [], itertools.count(), itertools.count(1)
        self.consumers = {}  # session -> its counts, and whether it is connected, idle or leaving
        self.waiting_since = None  # start of the producer's wait for a slab
        self.slab_wait, self.released, self.last_release, self.computing = 0.0, 0, 0.0, 0.0
        self.pid, self.state, self.changes = 1, "running", []
        self.scale(consumers)
        self._make()

    def _after(self, seconds, action):
        heapq.heappush(self.events, (self.now + seconds, next(self.order), action))

    def _seconds(self, mean):
        busy = 1 + sum(not each["idle"] for each in self.consumers.values())
        slowed = max(1.0, busy / self.cores) if self.cores else 1.0
        return mean(self.now) * slowed * (1 + self.noise * self.random.uniform(-1, 1))

    def _make(self):
        seconds = self._seconds(self.make_seconds)
        self.computing += seconds
        self._after(seconds, self._made)

    def _made(self):
        if self.free:
            self.free -= 1
            self._publish()
            self._hand_out()
        else:
            self.held += 1
            self.waiting_since = self.now if self.waiting_since is None else self.waiting_since
        self.stalled = self.held > self.ahead
        if not self.stalled:
            self._make()

    def _publish(self):
        self.ready += 1

    def _hand_out(self):
        for session, each in self.consumers.items():
            if self.ready and each["there"] and each["idle"] and not each["leaving"]:
                self.ready -= 1
                each["idle"] = False
                seconds = self._seconds(self.take_seconds)
                self._after(seconds, lambda session=session, seconds=seconds: self._taken(session, seconds))

    def _taken(self, session, seconds):
        each = self.consumers[session]
        each["slabs"] += 1
        each["busy"] += seconds
        each["idle"] = True
        self._finish_slab(each)
        if each["leaving"]:
            del self.consumers[session]
        self._hand_out()

    def _finish_slab(self, consumer):
        self.released += 4
        self.last_release = self.now
        if self.held:
            self.held -= 1
            self._publish()
            self.slab_wait += self.now - self.waiting_since
            self.waiting_since = self.now if self.held else None
            if self.stalled:
                self.stalled = False
                self._make()
        else:
            self.free += 1

    def _join(self, session):
        if session in self.consumers:
            self.consumers[session]["there"] = True
            self._hand_out()

    wanted = property(lambda self: sum(not each["leaving"] for each in self.consumers.values()))

    def scale(self, wanted):
        for _ in range(wanted - self.wanted):
            session = next(self.sessions)
            self.consumers[session] = new_consumer()
            self._after(self.join_seconds, lambda session=session: self._join(session))
        staying = [session for session, each in self.consumers.items() if not each["leaving"]]
        for session in staying[wanted:]:
            if self.consumers[session]["idle"]:
                del self.consumers[session]
            else:
                self.consumers[session]["leaving"] = True

    def take_over(self):
        """Another producer takes over and counts its waits from zero."""
        self.pid += 1
        self.slab_wait = 0.0
        if self.waiting_since is not None:
            self.waiting_since = self.now

    def advance(self, until):
        while self.events and self.events[0][0] <= until:
            self.now, _, action = heapq.heappop(self.events)
            action()
        self.now = until

    def status(self):
        waiting = self.now - self.waiting_since if self.waiting_since is not None else 0.0
        leased = sum(not each["idle"] for each in self.consumers.values())
        return {
            "state": self.state,
            "pid": self.pid,
            "now_ns": int(self.now * 1e9),
            "released_samples": self.released,
            "last_release_ns": int(self.last_release * 1e9),
            "slab_wait_seconds": self.slab_wait + waiting,
            "compute_busy_seconds": self.computing,
            "limiting_stage": "compute",
            "slabs": {"free": self.free, "ready": self.ready, "leased": leased},
            "consumers": [
                {
                    "session": session,
                    "slabs": each["slabs"],
                    "samples": 4 * each["slabs"],
                    "busy_seconds": each["busy"],
                    "ready": True,
                    "end": "",
                }
                for session, each in self.consumers.items()
                if each["there"]
            ],
        }

    def follow(self, following, until, observe=lambda status: status):
        """
        Simulates until `until` and applies the decisions. Returns (seconds, new number, reason) of each change.
        `observe`: makes the observed status.
        """
        changes = []
        while self.now < until:
            self.advance(min(until, self.now + TICK_SECONDS * (1 + LATE * self.ticks.random())))
            status = observe(self.status())
            if status and (change := following.look(status, self.wanted)):
                changes.append((self.now, change.wanted, change.reason))
                self.scale(change.wanted)
        return changes


def new_consumer(**more):
    return {"there": False, "idle": True, "leaving": False, "slabs": 0, "busy": 0.0, **more}


class SimulatedGroups(SimulatedRun):
    """
    A run with groups of consumers: a slab is free once every group has finished it. `take_seconds`: {name:
    take_seconds(now)}. `consumers`: {name: number}.
    """

    def __init__(self, make_seconds, take_seconds, consumers, **given):
        self.take_of = take_seconds
        self.waiting = {name: collections.deque() for name in take_seconds}  # slabs by number, the oldest first
        self.unfinished, self.numbers = {}, itertools.count()  # slab -> the groups that have not finished it
        self.done = {name: {"released_samples": 0, "last_release_ns": 0} for name in take_seconds}
        super().__init__(make_seconds, None, consumers, **given)

    def _publish(self):
        slab = next(self.numbers)
        self.unfinished[slab] = set(self.waiting)
        for queue in self.waiting.values():
            queue.append(slab)

    def _hand_out(self):
        for session, each in self.consumers.items():
            queue = self.waiting[each["group"]]
            if queue and each["there"] and each["idle"] and not each["leaving"]:
                each["idle"], each["slab"] = False, queue.popleft()
                seconds = self._seconds(self.take_of[each["group"]])
                self._after(seconds, lambda session=session, seconds=seconds: self._taken(session, seconds))

    def _finish_slab(self, consumer):
        done, slab = self.done[consumer["group"]], consumer["slab"]
        done["released_samples"] += 4
        done["last_release_ns"] = int(self.now * 1e9)
        self.unfinished[slab].remove(consumer["group"])
        if not self.unfinished[slab]:
            del self.unfinished[slab]
            super()._finish_slab(consumer)

    def of_group(self, name):
        return {session: each for session, each in self.consumers.items() if each["group"] == name}

    def wanted_of(self, name):
        return sum(not each["leaving"] for each in self.of_group(name).values())

    def scale(self, wanted):
        for name, number in wanted.items():
            for _ in range(number - self.wanted_of(name)):
                session = next(self.sessions)
                self.consumers[session] = new_consumer(group=name)
                self._after(self.join_seconds, lambda session=session: self._join(session))
            staying = [session for session, each in self.of_group(name).items() if not each["leaving"]]
            for session in staying[number:]:
                if self.consumers[session]["idle"]:
                    del self.consumers[session]
                else:
                    self.consumers[session]["leaving"] = True

    def status(self):
        status, groups = super().status(), []
        for each in status["consumers"]:
            each.update(group=self.consumers[each["session"]]["group"], pid=each["session"])
        for name, done in self.done.items():
            leased = sum(not each["idle"] for each in self.of_group(name).values())
            numbers = {"waiting_slabs": len(self.waiting[name]), "leased_slabs": leased}
            groups.append({"name": name, "optional": False, **done, **numbers})
        taken = len(self.unfinished)
        return {**status, "groups": groups, "slabs": {"free": self.free, "ready": 0, "leased": taken}}

    def follow(self, scalings, until, observe=lambda status: status):
        """Simulates until `until`; the ConsumerScaling of each group applies its decisions."""
        while self.now < until:
            self.advance(min(until, self.now + TICK_SECONDS * (1 + LATE * self.ticks.random())))
            status = observe(self.status())
            for scaling in scalings:
                scaling.look(status)


class SimulatedSlots:
    """A group's consumers, as ConsumerScaling sees its slots."""

    def __init__(self, run, name):
        self.run, self.name = run, name

    def staying(self):
        return [None] * self.run.wanted_of(self.name)

    def bring_to(self, wanted):
        self.run.scale({self.name: wanted})

    def add_on_trial(self, counts):
        self.bring_to(self.run.wanted_of(self.name) + 1)
        return types.SimpleNamespace(child=types.SimpleNamespace(status=None, pid=max(self.run.consumers)))

    def keep(self, slot):
        pass


def rate_with(number, make, take, seconds=60, warm=10, **given):
    """Samples per second of a run with a fixed number of consumers, measured from `warm` seconds after its start."""
    run = SimulatedRun(lambda _: make, lambda _: take, number, **given)
    run.advance(warm)
    before = run.released
    run.advance(warm + seconds)
    return (run.released - before) / seconds


def best_rate(most, make, take, **given):
    return max(rate_with(number, make, take, **given) for number in range(1, most + 1))
