"""Counters that grow while one producer runs, and are summed when a replacement starts again at 0."""

from offramp_launch.progress import REFUSED_RELEASES
from offramp_launch.watching.exposition import number

PLAIN = """
skipped input_wait_seconds slab_wait_seconds output_wait_seconds visibility_timeouts slab_failures submitted_samples
released_samples released_batches dead_lettered_samples dropped_samples redelivered
""".split()
TABLES = ("totals", "stage_seconds")
COUNTS_OF_A_GROUP = ("released_samples", "released_slabs", "dead_lettered_samples", "dropped_samples")


def counters_of(status):
    found = {name: status[name] for name in (*PLAIN, *TABLES) if status.get(name) is not None}
    releases = {reason: times for reason, times in (status.get("releases") or {}).items() if reason in REFUSED_RELEASES}
    if status.get("refused") is not None or releases:
        found["refused"] = {**releases, **(status.get("refused") or {})}
    if groups := status.get("groups"):
        found["groups"] = {
            each["name"]: {name: each[name] for name in COUNTS_OF_A_GROUP if each.get(name) is not None}
            for each in groups
            if each.get("name")
        }
    return found


def added(one, other):
    """Both tables added number by number. A field that only one of them has is kept."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            name: added(one.get(name), other.get(name)) for name in (*one, *(name for name in other if name not in one))
        }
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [added(*each) for each in zip(one, other)]
    if number(one) is not None and number(other) is not None:
        return one + other
    return one if other is None else other


def grown(earlier, status):
    """`earlier` plus the last status of a producer that has ended."""
    bounds = status.get("stage_bounds_seconds") or earlier.get("stage_bounds_seconds")
    return {**added(earlier, counters_of(status)), **({"stage_bounds_seconds": bounds} if bounds else {})}


class BusySeconds:
    """Busy seconds of all consumers so far: a status lists only those that are alive."""

    def __init__(self):
        self.seconds = 0.0
        self._last = {}

    def look(self, consumers):
        """Adds what they did since the last look. `consumers`: from a status."""
        before, self._last = self._last, {}
        for consumer in consumers or []:
            who, busy = (consumer.get("pid"), consumer.get("session")), number(consumer.get("busy_seconds")) or 0
            self.seconds += busy - before[who] if busy >= before.get(who, busy + 1) else busy
            self._last[who] = busy
