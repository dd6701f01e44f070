"""The rows of the ladder: which flags make each, and what the article measured there (steps/s on an L40S); what a run has to know of its rung."""

import dataclasses

from offramp_launch.exit_code import ExitCode, LaunchError


@dataclasses.dataclass(frozen=True)
class Rung:
    """`before` is the rung that its gain is counted from; `article_gain` is in the article's own words."""

    key: str
    title: str
    does: str
    flags: tuple
    has_consumers: bool = True
    survives_producer: bool = True     # another producer can go on where one died: the slabs are there before and after it
    before: str = ""
    article_rate: float = None
    article_gain: str = ""


LIMIT = "compute-alone"
RUNGS = (
    Rung("sequential", "sequential", "compute, blocking copy, process: one after another in the producer",
         ("--strategy", "sequential"), has_consumers=False, survives_producer=False, article_rate=0.45),
    Rung("workers", "workers", "a fresh shared segment per batch, processed by other processes",
         ("--strategy", "workers"), survives_producer=False, before="sequential", article_rate=0.71, article_gain="+58 %"),
    Rung("pool", "pool", "preallocated slabs and a free list, blocking copy",
         ("--strategy", "pool"), before="workers", article_rate=1.51, article_gain="more than 2×"),
    Rung("async-pageable", "async, as the article pins", "asynchronous copy into shared memory that is not really page-locked",
         ("--strategy", "async", "--allow-unpinned"), before="pool", article_rate=1.55, article_gain="+2.6 %"),
    Rung("async", "async, page-locked", "the same copy into page-locked slabs, on the compute stream",
         ("--strategy", "async"), before="async-pageable"),
    Rung("streams", "streams", "the copy on a stream of its own",
         ("--strategy", "streams"), before="async", article_rate=1.85, article_gain="+19.3 %"),
    Rung(LIMIT, "compute alone", "outputs dropped on the device: the limit",
         ("--strategy", LIMIT), has_consumers=False, survives_producer=False),
)
# Of a run that asks for none: its producer knows no other.
USUAL = "streams"
ARTICLE_GAIN_IN_ALL = "over 4×"
# The rung whose short run also measures the bare copy, into the same page-locked slabs.
COPY_CEILING_FROM = ("streams", "async")


def rung_named(key):
    return next(rung for rung in RUNGS if rung.key == key)


def of_run(config):
    """The rung that the settings of a run ask for."""
    wanted = ("--strategy", config.get("strategy", USUAL))
    return next(rung for rung in RUNGS if rung.flags[:2] == wanted)


def program_of(places, config):
    """The producer for these settings: the ladder's own, but for what every run does."""
    return places.producer() if of_run(config).key == USUAL else places.ladder()


def not_recovered(config):
    """Why nobody could go on where a producer of such a run dies; empty when another one could."""
    rung = of_run(config)
    return "" if rung.survives_producer else f"--strategy {rung.key} does not survive its producer: streams, async and pool do"


def choose_rungs(text):
    """The rungs of a comma-separated list, in the ladder's order; all of them for an empty one."""
    wanted = [key.strip() for key in text.split(",")] if text else [rung.key for rung in RUNGS]
    for key in wanted:
        if key not in {rung.key for rung in RUNGS}:
            raise LaunchError(f"--rungs knows no '{key}'", "Known: " + ",".join(rung.key for rung in RUNGS), ExitCode.USAGE)
    return [rung for rung in RUNGS if rung.key in wanted]
