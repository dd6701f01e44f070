"""Splits a run's settings among the workers of --gpus: consumers, decode threads, slabs."""

import os

from offramp_launch.arguments import setting_given
from offramp_launch.exit_code import UsageError
from offramp_launch.groups import parsed, with_number
from offramp_launch.supervision.scaling import MOST_CONSUMERS, bounds_given
from offramp_launch.supervision.autoscaler import Bounds

LEAST = {"consumers": 1, "decode-workers": 1, "slabs": 2}
BEGIN_WITH = "begin-with"  # the number of consumers to start with, beside their bounds: an internal flag of workers
GROUPS = "group"  # instead of a number of consumers: the text of each --group, with the worker's share of the number
SHARDS_A_WORKER = 4
BATCHES_A_SHARD = 4  # at least, if --shards is not given


def flags_of_workers(config, argv, workers, on_the_cpu, cores=None):
    """The settings of each worker's runs. `argv`: of the run's command."""
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    # else the programs chose it, for the whole machine
    whole = {name: int(config[name]) for name in LEAST if config.get(name) and setting_given(name, argv)}
    own = defaults_of(cores // workers, on_the_cpu)
    if lines := (config.get("group") or "").splitlines():
        return [
            {
                **{name: value for name, value in own.items() if name != "consumers"},
                **{name: share(whole[name], workers, number, LEAST[name]) for name in whole if name != "consumers"},
                GROUPS: [shared(line, workers, number) for line in lines],
            }
            for number in range(workers)
        ]
    bounds = bounds_given(argv)
    if bounds:
        whole.pop("consumers", None)
    each = [
        {**own, **{name: share(whole[name], workers, number, LEAST[name]) for name in whole}}
        for number in range(workers)
    ]
    if bounds:  # each worker autoscales within its share
        return [following(shares, bounds, workers, number, own["consumers"]) for number, shares in enumerate(each)]
    if (most := max(shares["consumers"] for shares in each)) > MOST_CONSUMERS:
        raise UsageError(
            f"--consumers {whole['consumers']} is {most} for each of {workers} workers, more than a run can hold",
            f"Give at most {MOST_CONSUMERS} for each",
        )
    return each


def share(whole, workers, number, least=1):
    return max(least, whole // workers + (number < whole % workers))


def shared(line, workers, number):
    """
    A worker's --group, with its share of the group's consumers, or of their bounds: at least one, unless there are none
    in all.
    """
    group = parsed(line)
    if bounds := group.bounds:
        own = Bounds(share(bounds.least, workers, number), share(bounds.most, workers, number))
        return with_number(line, own)
    return with_number(line, share(group.consumers, workers, number) if group.consumers else 0)


def starting_groups(shares):
    """The --group of a worker's next run, which begins with one consumer of each at least."""
    groups = [(line, parsed(line)) for line in shares.get(GROUPS, ())]
    return [line if group.bounds else with_number(line, max(1, group.consumers)) for line, group in groups]


def initial_consumers(shares):
    """The number of consumers that a worker begins with."""
    if GROUPS in shares:
        return sum(parsed(line).consumers for line in shares[GROUPS])
    return int(shares.get(BEGIN_WITH, shares["consumers"]))


def following(shares, bounds, workers, number, first):
    """A worker's shares, with autoscaling within its share of Bounds. `first`: the number that its runs begin with."""
    own = Bounds(share(bounds.least, workers, number), share(bounds.most, workers, number))
    return {**shares, "consumers": str(own), BEGIN_WITH: own.within(first)}


def least_of(consumers):
    """`consumers`: a number, or the text of Bounds."""
    return int(str(consumers).partition("..")[0])


def defaults_of(cores, on_the_cpu):
    """As in runner/run/defaults.cpp for so many cores; but on a small machine each producer has one consumer."""
    if on_the_cpu:
        return {"consumers": min(max(cores, 1), 2), "decode-workers": min(max(cores, 1), 4)}
    return {name: min(max(cores // 2, 2), 8) for name in ("consumers", "decode-workers")}


def shards_for(items, batch, workers):
    """Several per worker, so that all end at nearly the same time; fewer for a small input: each starts a producer."""
    fitting = items // (max(batch, 1) * BATCHES_A_SHARD)
    return max(1, min(items, max(workers, min(workers * SHARDS_A_WORKER, fitting))))
