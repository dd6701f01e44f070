"""When a dead consumer is restarted, and when the launcher gives up."""

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
HEALTHY_SECONDS = 10.0
DEATHS_WITHOUT_PROGRESS = 20
FAILURES_WITHOUT_PROGRESS = 20


class Backoff:
    """Waits that double from 0.1 s to 5 s, and start over after a life of 10 s."""

    def __init__(self):
        self._next = FIRST_SECONDS

    def after_life_of(self, seconds):
        if seconds >= HEALTHY_SECONDS:
            self._next = FIRST_SECONDS
        delay = self._next
        self._next = min(self._next * 2, LONGEST_SECONDS)
        return delay


class DeathBudget:
    """Counts deaths in a row between which nothing was completed, over all consumers of a run."""

    def __init__(self, limit=DEATHS_WITHOUT_PROGRESS):
        self._limit = limit
        self._deaths = 0
        self._completed = None

    def note_death(self, completed):
        """`completed`: a number that only grows when consumers complete work. True when the budget is spent."""
        if completed != self._completed:
            self._completed = completed
            self._deaths = 0
        self._deaths += 1
        return self._deaths >= self._limit


class FailureBudget:
    """Counts slabs that failed while their consumers survived, since the last completed slab."""

    def __init__(self, limit=FAILURES_WITHOUT_PROGRESS):
        self._limit = limit
        self._completed = None
        self._failed_then = 0

    def is_spent(self, completed, failed):
        """`completed`: as in DeathBudget; `failed`: the total number of failed slabs."""
        if completed != self._completed:
            self._completed, self._failed_then = completed, failed
        return failed - self._failed_then >= self._limit
