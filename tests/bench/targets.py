"""The targets of a row. Each checks a row's result (rows.py) and returns the measured and the required value."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Verdict:
    what: str
    wanted: str
    found: str
    value: float | None
    reached: bool


def verdict(what, wanted, value, reached, found=None):
    if value is None:
        return Verdict(what, wanted, "not measured", None, False)
    return Verdict(what, wanted, found or f"{value:.4g}", value, bool(reached))


def contestants_of(target):
    """The contestants that the target compares with."""
    names = [getattr(target, field, None) for field in ("over", "of")]
    return {*filter(None, names), *getattr(target, "limits", ()), *getattr(target, "parts", ())}


@dataclasses.dataclass(frozen=True)
class Ratio:
    """
    Our rate over another contestant's in neighbouring windows: the median and, if given, the lower end of the mean's
    interval.
    """

    over: str
    at_least: float
    lower_bound: float | None = None
    of: str | None = None

    def judge(self, result):
        ratio = result["ratios_of"].get(self.of or result["ours"], {}).get(self.over)
        what = f"{self.of or 'rate'} over {self.over}"
        wanted = f"≥ {self.at_least}" + (f", interval from ≥ {self.lower_bound}" if self.lower_bound else "")
        if not ratio:
            return verdict(what, wanted, None, False)
        reached = ratio["median"] >= self.at_least and (self.lower_bound is None or ratio["low"] >= self.lower_bound)
        return verdict(
            what, wanted, ratio["median"], reached, f"{ratio['median']:.4g} [{ratio['low']:.4g}, {ratio['high']:.4g}]"
        )


@dataclasses.dataclass(frozen=True)
class Reaches:
    """Our rate is not measurably below another contestant's: the ratio's interval reaches 1."""

    over: str

    def judge(self, result):
        ratio = result["ratios_of"].get(result["ours"], {}).get(self.over)
        what, wanted = f"rate over {self.over}", "interval to ≥ 1"
        if not ratio:
            return verdict(what, wanted, None, False)
        return verdict(
            what,
            wanted,
            ratio["median"],
            ratio["high"] >= 1,
            f"{ratio['median']:.4g} [{ratio['low']:.4g}, {ratio['high']:.4g}]",
        )


@dataclasses.dataclass(frozen=True)
class Rate:
    at_least: float

    def judge(self, result):
        value = result["contestants"][result["ours"]]["rate"]["median"]
        return verdict(f"{result['unit']} a second", f"≥ {self.at_least:g}", value, value >= self.at_least)


@dataclasses.dataclass(frozen=True)
class PerSlab:
    """The time per slab of a contestant's single consumer in µs, in total or beyond another contestant's."""

    of: str
    at_most: float
    over: str | None = None

    def judge(self, result):
        took = [1e6 / result["contestants"][name]["rate"]["median"] for name in filter(None, (self.of, self.over))]
        value = took[0] - sum(took[1:])
        found = f"{value:.3g} µs" + (f" ({took[0]:.3g} less {took[1]:.3g})" if self.over else "")
        return verdict(
            f"a slab of {self.of}" + (f" over {self.over}" if self.over else ""),
            f"≤ {self.at_most:g} µs",
            value,
            value <= self.at_most,
            found,
        )


@dataclasses.dataclass(frozen=True)
class Cpu:
    """The producer's CPU time per batch, as a share of a peer's."""

    over: str
    at_most: float

    def judge(self, result):
        ours, other = (
            result["contestants"][name]["producer_cpu_ms_per_batch"]["median"] for name in (result["ours"], self.over)
        )
        value = ours / other if other > 0 else None
        return verdict(
            f"producer's CPU over that of {self.over}",
            f"≤ {self.at_most}",
            value,
            value is not None and value <= self.at_most,
            value is not None and f"{value:.3g} ({ours:.3g} of {other:.3g} ms a batch)",
        )


@dataclasses.dataclass(frozen=True)
class Faults:
    """Page faults per batch of the producer, and of all consumers together; both must be within the limit."""

    at_most: float = 1.0

    def judge(self, result):
        ours = result["contestants"][result["ours"]]
        producer, readers = (ours[f"{who}_faults_per_batch"]["median"] for who in ("producer", "readers"))
        return verdict(
            "page faults a batch, producer's and consumers'",
            f"≤ {self.at_most:g} each",
            max(producer, readers),
            max(producer, readers) <= self.at_most,
            f"{producer:.3g}, {readers:.3g}",
        )


@dataclasses.dataclass(frozen=True)
class NothingLost:
    """A contestant whose consumers were killed completed all samples that it submitted."""

    of: str

    def judge(self, result):
        facts = result["contestants"][self.of]["facts"]
        what, wanted = f"samples lost by {self.of}", "0"
        if not facts:
            return verdict(what, wanted, None, False)
        submitted, killed = facts["samples_submitted"], facts["killed_consumers"]
        lost = submitted - facts["samples_completed"]
        return verdict(
            what,
            wanted,
            lost,
            lost == 0 and killed > 0,
            f"{lost} of {submitted}, {killed} consumers killed, {facts['redelivered_slabs']} slabs redelivered",
        )


@dataclasses.dataclass(frozen=True)
class OnCurve:
    """The ratio at this number of consumers."""

    consumers: int
    at_least: float

    def judge(self, result):
        what, wanted = f"rate of {self.consumers} consumers over the limit", f"≥ {self.at_least}"
        ratio = next((point["ratio"] for point in result["curve"] if point["consumers"] == self.consumers), None)
        if ratio is None:
            return verdict(what, wanted, None, False)
        return verdict(
            what,
            wanted,
            ratio["median"],
            ratio["median"] >= self.at_least,
            f"{ratio['median']:.4g} [{ratio['low']:.4g}, {ratio['high']:.4g}]",
        )


@dataclasses.dataclass(frozen=True)
class Bytes:
    """Bytes that left the device, as a share of the raw outputs'."""

    at_most: float

    def judge(self, result):
        sent = result["contestants"][result["ours"]]["bytes_per_batch"]["median"]
        value = sent / result["raw_bytes"] if sent > 0 else None
        return verdict(
            "bytes over the raw logits'",
            f"≤ {self.at_most:.1%}",
            value,
            value is not None and value <= self.at_most,
            value is not None and f"{value:.2%}",
        )


@dataclasses.dataclass(frozen=True)
class Latency:
    quantile: str
    over: str
    at_most: float

    def judge(self, result):
        ours, other = (
            result["contestants"][name]["figures"][self.quantile]["median"] for name in (result["ours"], self.over)
        )
        value = ours / other if other > 0 else None
        return verdict(
            f"{self.quantile.removesuffix('_us')} over that of {self.over}",
            f"≤ {self.at_most}",
            value,
            value is not None and value <= self.at_most,
            value is not None and f"{value:.3g} ({ours:.3g} of {other:.3g} µs)",
        )


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of our summary, alone or over that of another contestant."""

    name: str
    at_most: float
    over: str | None = None

    def judge(self, result):
        figures = result["contestants"][result["ours"]]["figures"]
        other = result["contestants"][self.over]["figures"].get(self.name) if self.over else {"median": 1.0}
        what = self.name.replace("_", " ") + (f" over that of {self.over}" if self.over else "")
        if self.name not in figures or not other or other["median"] <= 0:
            return verdict(what, f"≤ {self.at_most}", None, False)
        ours = figures[self.name]["median"]
        value = ours / other["median"]
        return verdict(
            what,
            f"≤ {self.at_most}",
            value,
            value <= self.at_most,
            f"{value:.3g} ({ours:.3g} of {other['median']:.3g} s)" if self.over else f"{value:.3g} s",
        )


def slowest_of(contestants, names):
    return min(names, key=lambda name: contestants[name]["rate"]["median"])


def allowed_by_cores(contestants, names, cores):
    """
    Batches per second that the cores allow for the CPU time per batch of all these contestants together; None without
    CPU time.
    """
    spent = sum(
        contestants[name][key]["median"]
        for name in names
        for key in ("producer_cpu_ms_per_batch", "readers_cpu_ms_per_batch")
    )
    return 1000 * cores / spent if spent > 0 else None


@dataclasses.dataclass(frozen=True)
class SmallestOf:
    """Our rate over that of the slowest of these contestants, which limits a row that needs all of them."""

    limits: tuple
    at_least: float

    def judge(self, result):
        smallest = slowest_of(result["contestants"], self.limits)
        ratio = result["ratios_of"][result["ours"]][smallest]
        return verdict(
            f"rate over the smallest of {', '.join(self.limits)}",
            f"≥ {self.at_least}",
            ratio["median"],
            ratio["median"] >= self.at_least,
            f"{ratio['median']:.4g} [{ratio['low']:.4g}, {ratio['high']:.4g}], {smallest}",
        )


@dataclasses.dataclass(frozen=True)
class CoresAllow:
    """
    Our rate over what the machine's cores allow for the CPU time that a batch takes in all these contestants together.
    If one of them alone is slower, cores do not limit the row, and the ratio to that part counts.
    """

    parts: tuple
    at_least: float

    def judge(self, result):
        allowed = allowed_by_cores(result["contestants"], self.parts, result["cores"])
        what, wanted = (
            f"rate over what {result['cores']} cores allow for {', '.join(self.parts)} together",
            f"≥ {self.at_least}",
        )
        if allowed is None:
            return verdict(what, wanted, None, False)
        rates = {name: result["contestants"][name]["rate"]["median"] for name in self.parts} | {"cores": allowed}
        limit = min(rates, key=rates.get)
        ours = result["contestants"][result["ours"]]["rate"]["median"]
        value = ours / rates[limit] if limit == "cores" else result["ratios_of"][result["ours"]][limit]["median"]
        return verdict(
            what, wanted, value, value >= self.at_least, f"{value:.3g} ({ours:.4g} of {rates[limit]:.4g} /s, {limit})"
        )
