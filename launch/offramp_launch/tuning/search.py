"""The search of `tune`: which setting is tried next, by what was seen of those before. Without runs or a clock, so that tests have machines of their own."""

import dataclasses
import itertools

TUNED = ("batch", "decode-workers", "slabs")     # consumers are found within a trial, whose number of them follows the work
GAIN = 0.02             # of the rate, or it is not worth it
CLEAR = 0.1             # a gain that one trial shows; a smaller one is measured once more before it counts
CLOSE = 0.06            # of the best: what is so close is measured once more, as one short trial may be wrong by that much
MOST = {"batch": 65536, "decode-workers": 1024, "slabs": 256}
LEAST = {"batch": 1, "decode-workers": 1, "slabs": 2}
# What may help where a stage holds the run back: (setting, factor), the likeliest first. Of a factor below 1 the setting is divided.
REMEDIES = {
    "input": (("decode-workers", 2), ("batch", 2), ("decode-workers", 0.5), ("batch", 0.5), ("slabs", 2)),
    "compute": (("batch", 2), ("batch", 0.5), ("decode-workers", 0.5), ("decode-workers", 2), ("slabs", 2)),
    "consumers": (("slabs", 2), ("batch", 2), ("batch", 0.5), ("decode-workers", 0.5), ("decode-workers", 2)),
    "copy to host": (("slabs", 2), ("batch", 2), ("batch", 0.5), ("decode-workers", 2), ("decode-workers", 0.5)),
}
# Larger batches in fewer slabs, where they do not run in as many: memory is short.
INSTEAD = {("batch", 2): ("slabs", 0.5)}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of a trial: samples a second with the number of consumers that it came to, what held it back, and why it did not run, where it did not."""

    rate: float = 0.0
    limiting: str = ""
    consumers: int = 0
    slabs: int = 0          # as there were, where the number was left to the programs
    busy: float = 0.0       # consumers at work, in the mean
    error: str = ""
    code: int = 0           # its exit code


def key_of(setting):
    return tuple(sorted(setting.items()))


class Search:
    """
    From what the programs choose on, one setting is doubled or halved at a time: first what may help the stage that holds the best so far back, then the others.
    A step that gains goes on in its direction. It ends where no step from the best gains any more.
    """

    def __init__(self, start, fixed=(), most=None):
        """`start`: {setting: number}, slabs 0 where they are left to the programs; `fixed`: what the user has given; `most`: as MOST, where it is less."""
        self.best, self.best_outcome = None, Outcome()
        self._fixed, self._most = set(fixed), {**MOST, **(most or {})}
        self._next = dict(start)
        self._step = None
        self._tried = {}        # key: [outcome, ...]
        self.trials = []        # (setting, outcome), in order

    def next(self):
        """The setting to be tried; None: the search is over."""
        return dict(self._next) if self._next else None

    def note(self, outcome):
        """Of the setting that was to be tried."""
        setting, step = self._next, self._step
        if outcome.slabs and not setting.get("slabs"):
            setting = {**setting, "slabs": outcome.slabs}
        self.trials.append((setting, outcome))
        self._tried.setdefault(key_of(setting), []).append(outcome)
        goes_on, gain = None, self.rate_of(setting) / self.best_outcome.rate - 1 if self.best_outcome.rate else CLEAR + 1
        if not outcome.error and GAIN < gain <= CLEAR and len(self._tried[key_of(setting)]) == 1:
            self._next = setting
            return
        if not outcome.error and (self.best is None or gain > GAIN):
            self.best, self.best_outcome = setting, dataclasses.replace(outcome, rate=self.rate_of(setting))
            goes_on = step
        elif setting == self.best:
            self.best_outcome = dataclasses.replace(outcome, rate=self.rate_of(setting))
            self._take_a_better_one()
        self._choose(goes_on)

    def rate_of(self, setting):
        """The mean of its trials."""
        outcomes = [outcome for outcome in self._tried.get(key_of(setting), ()) if not outcome.error]
        return sum(outcome.rate for outcome in outcomes) / len(outcomes) if outcomes else 0.0

    def _take_a_better_one(self):
        """The best was measured once more, and another may be better than it by now."""
        for setting, outcome in self.trials:
            if not outcome.error and self.rate_of(setting) > self.best_outcome.rate * (1 + GAIN):
                self.best, self.best_outcome = setting, dataclasses.replace(outcome, rate=self.rate_of(setting))

    def _choose(self, goes_on):
        self._next = self._step = None
        if self.best is None:
            return      # even what the programs choose does not run
        steps = REMEDIES.get(self.best_outcome.limiting, REMEDIES["compute"])
        for step in itertools.chain([goes_on] if goes_on else (), steps):
            setting = self._after(step)
            if setting and step in INSTEAD and self._failed(setting):
                setting = self._after(INSTEAD[step], setting)
            if setting and key_of(setting) not in self._tried:
                self._next, self._step = setting, step
                return
        self._next = self._from_beside() or self._once_more()

    def _from_beside(self):
        """A setting as good as the best that another stage holds back, with what helps that one: two stages that are even gain only together."""
        for setting, outcome in self.trials:
            if outcome.error or outcome.limiting == self.best_outcome.limiting or self.rate_of(setting) < self.best_outcome.rate * (1 - CLOSE):
                continue
            after = self._after(REMEDIES.get(outcome.limiting, REMEDIES["compute"])[0], setting)
            if after and key_of(after) not in self._tried:
                return after
        return None

    def _failed(self, setting):
        return any(outcome.error for outcome in self._tried.get(key_of(setting), ()))

    def _after(self, step, setting=None):
        """`setting`, or the best, after a step; None where that is the user's to make."""
        setting = setting or self.best
        name, factor = step
        if name in self._fixed or not setting.get(name):
            return None
        return {**setting, name: max(LEAST[name], min(self._most[name], int(setting[name] * factor)))}

    def _once_more(self):
        """The best, or one that is close to it, that was measured once only: one short trial may be far off."""
        close = {key_of(setting): setting for setting, outcome in self.trials if not outcome.error and self.rate_of(setting) >= self.best_outcome.rate * (1 - CLOSE)}
        once = [setting for key, setting in close.items() if len(self._tried[key]) == 1]
        return max(once, key=self.rate_of, default=None)
