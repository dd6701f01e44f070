"""What only grows while one producer tells it, and is added up where another one begins again at nothing."""

from offramp_launch.watching.exposition import number

PLAIN = ("skipped", "input_wait_seconds", "slab_wait_seconds", "output_wait_seconds", "visibility_timeouts", "slab_failures")
TABLES = ("totals", "stage_seconds")
# Of a status's `releases`: what becomes of the others is not a refusal.
REFUSED_RELEASES = ("foreign", "stale", "malformed")
# Of a library that tells no totals yet: (what became of it, the unit, the field).
BEFORE_TOTALS = (("completed", "samples", "released_samples"), ("completed", "batches", "released_batches"), ("completed", "bytes", "released_bytes"),
                 ("dead_letters", "samples", "dead_lettered_samples"), ("dropped", "samples", "dropped_samples"))


def counters_of(status):
    """Those of a producer's status."""
    told = {name: status[name] for name in (*PLAIN, *TABLES) if status.get(name) is not None}
    releases = {reason: times for reason, times in (status.get("releases") or {}).items() if reason in REFUSED_RELEASES}
    if status.get("refused") is not None or releases:
        told["refused"] = {**releases, **(status.get("refused") or {})}
    if "totals" not in told:
        told["totals"] = {}
        for state, unit, field in BEFORE_TOTALS:
            if number(status.get(field)) is not None:
                told["totals"].setdefault(state, {})[unit] = status[field]
    return told


def added(one, other):
    """The sums of what both tell, number by number; of what only one of them tells that."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: added(one.get(name), other.get(name)) for name in (*one, *(name for name in other if name not in one))}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [added(*each) for each in zip(one, other)]
    if number(one) is not None and number(other) is not None:
        return one + other
    return one if other is None else other


def grown(earlier, status):
    """`earlier`, with what a producer told last that has ended."""
    bounds = status.get("stage_bounds_seconds") or earlier.get("stage_bounds_seconds")
    return {**added(earlier, counters_of(status)), **({"stage_bounds_seconds": bounds} if bounds else {})}


class BusySeconds:
    """Of all consumers that there ever were: a status tells only of those that live."""

    def __init__(self):
        self.seconds = 0.0
        self._last = {}

    def look(self, consumers):
        """`consumers`: of a status."""
        before, self._last = self._last, {}
        for consumer in consumers or []:
            who, busy = (consumer.get("pid"), consumer.get("session")), number(consumer.get("busy_seconds")) or 0
            self.seconds += busy - before[who] if busy >= before.get(who, busy + 1) else busy
            self._last[who] = busy
