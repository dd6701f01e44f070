"""When a dead consumer is restarted, and when the launcher gives up."""

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
HEALTHY_SECONDS = 10.0
DEATHS_WITHOUT_PROGRESS = 20
FAILURES_WITHOUT_PROGRESS = 20


class Backoff:
    """Waits that double from 0.1 s to 5 s, or another longest one, and start over after a life of 10 s."""

    def __init__(self, longest=LONGEST_SECONDS):
        self._next, self._longest = FIRST_SECONDS, longest

    def after_life_of(self, seconds):
        if seconds >= HEALTHY_SECONDS:
            self._next = FIRST_SECONDS
        delay = self._next
        self._next = min(self._next * 2, self._longest)
        return delay


class FailureBudget:
    """Counts failures, such as deaths of consumers, since work was last completed."""

    def __init__(self, limit=FAILURES_WITHOUT_PROGRESS):
        self._limit = limit
        self._completed = None
        self._failed_then = self._deaths = 0

    def is_spent(self, completed, failed):
        """`completed`: a number that only grows when consumers complete work; `failed`: the number of all failures."""
        if completed != self._completed:
            self._completed, self._failed_then = completed, failed
        return failed - self._failed_then >= self._limit

    def note_death(self, completed):
        """Counts a failure itself. True when the budget is spent."""
        self.is_spent(completed, self._deaths)
        self._deaths += 1
        return self.is_spent(completed, self._deaths)
