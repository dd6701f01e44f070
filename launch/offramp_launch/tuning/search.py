"""The search of `tune`: the next setting from the results so far, without runs or a clock, so tests can step it."""

import dataclasses
import itertools

TUNED = ("batch", "decode-workers", "slabs")  # consumers are not searched: each trial autoscales them
GAIN = 0.02  # of the rate; less does not count as a gain
CLEAR = 0.1  # a gain that one trial proves; a smaller one is measured again before it counts
CLOSE = 0.06  # of the best: settings this close are measured again, as one short trial may be wrong by that much
MOST = {"batch": 65536, "decode-workers": 1024, "slabs": 256}
LEAST = {"batch": 1, "decode-workers": 1, "slabs": 2}
# Steps that may help if a stage limits the run: (setting, factor), the likeliest first.
REMEDIES = {
    "input": (("decode-workers", 2), ("batch", 2), ("decode-workers", 0.5), ("batch", 0.5), ("slabs", 2)),
    "compute": (("batch", 2), ("batch", 0.5), ("decode-workers", 0.5), ("decode-workers", 2), ("slabs", 2)),
    "consumers": (("slabs", 2), ("batch", 2), ("batch", 0.5), ("decode-workers", 0.5), ("decode-workers", 2)),
    "copy to host": (("slabs", 2), ("batch", 2), ("batch", 0.5), ("decode-workers", 2), ("decode-workers", 0.5)),
}
# If larger batches fail with as many slabs, memory is short: try fewer slabs.
INSTEAD = {("batch", 2): ("slabs", 0.5)}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """
    The result of a trial: samples per second with its final number of consumers, the limiting stage, and the error if
    it did not run.
    """

    rate: float = 0.0
    limiting: str = ""
    consumers: int = 0
    slabs: int = 0  # their actual number, also if the programs chose it
    busy: float = 0.0  # mean number of busy consumers
    error: str = ""
    code: int = 0  # its exit code


def key_of(setting):
    return tuple(sorted(setting.items()))


class Search:
    """
    Starts from the programs' defaults and doubles or halves one setting at a time. Steps that may help the best
    setting's limiting stage come first. A step that gains is repeated. The search ends when no step from the best
    setting gains.
    """

    def __init__(self, start, fixed=(), most=None):
        """`start`: {setting: number}, slabs 0 if programs choose. `fixed`: the user's. `most`: limits below MOST."""
        self.best, self.best_outcome = None, Outcome()
        self._fixed, self._most = set(fixed), {**MOST, **(most or {})}
        self._next: dict | None = dict(start)
        self._step = None
        self._tried = {}  # key: [outcome, ...]
        self.trials = []  # (setting, outcome), in order

    def next(self):
        """The setting to try next; None: the search is over."""
        return dict(self._next) if self._next else None

    def note(self, outcome):
        """Takes the outcome of the setting that next() returned."""
        assert self._next is not None
        setting, step = self._next, self._step
        if outcome.slabs and not setting.get("slabs"):
            setting = {**setting, "slabs": outcome.slabs}
        self.trials.append((setting, outcome))
        self._tried.setdefault(key_of(setting), []).append(outcome)
        repeated, best = None, self.best_outcome.rate
        gain = self.rate_of(setting) / best - 1 if best else CLEAR + 1
        if not outcome.error and GAIN < gain <= CLEAR and len(self._tried[key_of(setting)]) == 1:
            self._next = setting
            return
        if not outcome.error and (self.best is None or gain > GAIN):
            self.best, self.best_outcome = setting, dataclasses.replace(outcome, rate=self.rate_of(setting))
            repeated = step
        elif setting == self.best:
            self.best_outcome = dataclasses.replace(outcome, rate=self.rate_of(setting))
            self._take_better()
        self._choose(repeated)

    def rate_of(self, setting):
        """The mean rate of its trials."""
        outcomes = [outcome for outcome in self._tried.get(key_of(setting), ()) if not outcome.error]
        return sum(outcome.rate for outcome in outcomes) / len(outcomes) if outcomes else 0.0

    def _take_better(self):
        """The best was measured again, so another setting may now be better."""
        for setting, outcome in self.trials:
            if not outcome.error and self.rate_of(setting) > self.best_outcome.rate * (1 + GAIN):
                self.best, self.best_outcome = setting, dataclasses.replace(outcome, rate=self.rate_of(setting))

    def _choose(self, repeated):
        self._next = self._step = None
        if self.best is None:
            return  # even the programs' defaults do not run
        steps = REMEDIES.get(self.best_outcome.limiting, REMEDIES["compute"])
        for step in itertools.chain([repeated] if repeated else (), steps):
            setting = self._after(step)
            if setting and step in INSTEAD and self._failed(setting):
                setting = self._after(INSTEAD[step], setting)
            if setting and key_of(setting) not in self._tried:
                self._next, self._step = setting, step
                return
        self._next = self._from_equal_setting() or self._measured_once()

    def _from_equal_setting(self):
        """A step from a setting as good, but limited by another stage: two even stages gain only together."""
        for setting, outcome in self.trials:
            if (
                outcome.error
                or outcome.limiting == self.best_outcome.limiting
                or self.rate_of(setting) < self.best_outcome.rate * (1 - CLOSE)
            ):
                continue
            after = self._after(REMEDIES.get(outcome.limiting, REMEDIES["compute"])[0], setting)
            if after and key_of(after) not in self._tried:
                return after
        return None

    def _failed(self, setting):
        return any(outcome.error for outcome in self._tried.get(key_of(setting), ()))

    def _after(self, step, setting=None):
        """`setting`, or the best, after a step; None if the user fixed that setting."""
        setting = setting or self.best
        name, factor = step
        if name in self._fixed or not setting.get(name):
            return None
        return {**setting, name: max(LEAST[name], min(self._most[name], int(setting[name] * factor)))}

    def _measured_once(self):
        """The best setting, or one close to it, that was measured only once: one short trial may be far off."""
        close = {
            key_of(setting): setting
            for setting, outcome in self.trials
            if not outcome.error and self.rate_of(setting) >= self.best_outcome.rate * (1 - CLOSE)
        }
        single = [setting for key, setting in close.items() if len(self._tried[key]) == 1]
        return max(single, key=self.rate_of, default=None)
