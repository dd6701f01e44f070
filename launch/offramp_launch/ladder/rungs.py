"""The rungs of the ladder: their flags, the article's rates (steps/s on an L40S), and their properties for a run."""

from __future__ import annotations

import dataclasses

from offramp_launch.exit_code import UsageError


@dataclasses.dataclass(frozen=True)
class Rung:
    """`before`: the rung that its gain is relative to. `article_gain`: in the words of the article."""

    key: str
    title: str
    does: str
    flags: tuple
    has_consumers: bool = True
    survives_producer: bool = True  # another producer can take over after a death: slabs outlive a producer
    before: str = ""
    article_rate: float | None = None
    article_gain: str = ""


LIMIT = "compute-alone"
RUNGS = (
    Rung(
        "sequential",
        "sequential",
        "compute, blocking copy, process: one after another in the producer",
        ("--strategy", "sequential"),
        has_consumers=False,
        survives_producer=False,
        article_rate=0.45,
    ),
    Rung(
        "workers",
        "workers",
        "a fresh shared segment per batch, processed by other processes",
        ("--strategy", "workers"),
        survives_producer=False,
        before="sequential",
        article_rate=0.71,
        article_gain="+58 %",
    ),
    Rung(
        "pool",
        "pool",
        "preallocated slabs and a free list, blocking copy",
        ("--strategy", "pool"),
        before="workers",
        article_rate=1.51,
        article_gain="more than 2×",
    ),
    Rung(
        "async-pageable",
        "async, as the article pins",
        "asynchronous copy into shared memory that is not really page-locked",
        ("--strategy", "async", "--allow-unpinned"),
        before="pool",
        article_rate=1.55,
        article_gain="+2.6 %",
    ),
    Rung(
        "async",
        "async, page-locked",
        "the same copy into page-locked slabs, on the compute stream",
        ("--strategy", "async"),
        before="async-pageable",
    ),
    Rung(
        "streams",
        "streams",
        "the copy on a separate stream",
        ("--strategy", "streams"),
        before="async",
        article_rate=1.85,
        article_gain="+19.3 %",
    ),
    Rung(
        LIMIT,
        "compute alone",
        "outputs dropped on the device: the limit",
        ("--strategy", LIMIT),
        has_consumers=False,
        survives_producer=False,
    ),
)
# The default of --strategy, and the only one that the run's producer has.
USUAL = "streams"
ARTICLE_GAIN_IN_ALL = "over 4×"
# Rungs whose short run can also measure the bare copy, into the same page-locked slabs.
COPY_CEILING_FROM = ("streams", "async")


def rung_named(key):
    return next(rung for rung in RUNGS if rung.key == key)


def of_run(config):
    """The rung of a run's settings."""
    wanted = ("--strategy", config.get("strategy", USUAL))
    return next(rung for rung in RUNGS if rung.flags[:2] == wanted)


def program_of(places, strategy):
    """The ladder's program for other strategies than the default; the producer, also to refuse an unknown one."""
    is_known = ("--strategy", strategy) in {rung.flags[:2] for rung in RUNGS}
    return places.ladder() if is_known and strategy != USUAL else places.producer()


def not_recovered(config):
    """Why no producer can take over in such a run; empty if one can."""
    rung = of_run(config)
    if rung.survives_producer:
        return ""
    return f"--strategy {rung.key} does not survive the death of its producer. Use streams, async or pool"


def choose_rungs(text):
    """The rungs of a comma-separated list, in the ladder's order; all for an empty list."""
    wanted = [key.strip() for key in text.split(",")] if text else [rung.key for rung in RUNGS]
    for key in wanted:
        if key not in {rung.key for rung in RUNGS}:
            raise UsageError(f"--rungs: unknown rung '{key}'", "Known: " + ",".join(rung.key for rung in RUNGS))
    return [rung for rung in RUNGS if rung.key in wanted]
