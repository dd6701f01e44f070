"""Joins the statuses of all workers of a run with --gpus, for status.json, the control socket and the progress line."""

import collections

from offramp_launch.jobs.shard_record import COUNTS, groups_summed
from offramp_launch.summary import wall_clock
from offramp_launch.watching.timestamps import age_of

SUMMED = "batches released_batches released_bytes redelivered spilled_samples samples_per_second decoded_on_gpu".split()
SHARES = ("gpu_utilization", "consumer_utilization")
TABLES = ("releases", "refused")
GAUGES_OF_A_GROUP = ("waiting_slabs", "leased_slabs", "spilled_samples", "consumers")
TURN = "turn"  # limiting stage of a loaded run while another computes on its device


def counts_of_record(record):
    return {name: record[name] for name in COUNTS}


def counts_of_status(status):
    return {name: status.get(field) or 0 for name, (field, _) in COUNTS.items()}


def total_of(counts):
    """`counts`: one per shard."""
    return {name: sum(each[name] for each in counts) for name in COUNTS}


def whole_status(state, items, total, at_work, workers, groups=()):
    """
    `total`: counts of all shards; `at_work`: (name, its run's status) of working workers; `workers`: described;
    `groups`: of groups_of_all().
    """
    statuses = [status for _, status in at_work if status]
    # those that wait limit nothing, and all their slabs are free
    computing = [status for status in statuses if not waits_for_turn(status)] or statuses
    return {
        "state": state,
        "time": wall_clock(),
        "total_samples": items,
        **{field: total[name] for name, (field, _) in COUNTS.items()},
        "released_samples": total["done"],
        **{name: sum(status.get(name) or 0 for status in statuses) for name in SUMMED},
        **{name: mean([status[name] for status in computing if status.get(name) is not None]) for name in SHARES},
        "slabs": summed(status.get("slabs") for status in computing),
        **{name: summed(status.get(name) for status in statuses) for name in TABLES},
        "tokens": summed_tokens(status.get("tokens") for status in statuses),
        "limiting_stage": most_common(status.get("limiting_stage") for status in computing),
        "message": "; ".join(f"{name}: {status['message']}" for name, status in at_work if status.get("message")),
        "consumers": [consumer for status in statuses for consumer in status.get("consumers") or []],
        "workers": workers,
        **({"groups": groups} if groups else {}),
    }


def groups_of_all(shards, statuses):
    """The run's groups. Counts are of `shards`, as groups_summed() has them; the rest is of runs at work."""
    groups = groups_summed(shards)
    for group in groups:
        live = [each for status in statuses for each in status.get("groups") or [] if each["name"] == group["name"]]
        group.update({name: sum(each.get(name) or 0 for each in live) for name in GAUGES_OF_A_GROUP})
        group["shortage"] = next((each["shortage"] for each in live if each.get("shortage")), "")
    return groups


def describe(worker):
    """A worker's entry in status.json and summary.json."""
    return {
        "name": worker.name,
        "state": "lost" if worker.lost else "left out" if worker.left_out else "at work" if worker.child else "waiting",
        "why_lost": worker.lost or None,
        "waits_for_turn": waits_for_turn(worker.status),
        "silent": worker.silent or None,
        "time": worker.status.get("time"),
        "shard": worker.index if worker.child else None,
        "run_dir": str(worker.run_dir) if worker.child else None,
        "pid": worker.child.pid if worker.child else None,
        "done_samples": worker.status.get("done_samples") or 0,
        "samples_per_second": worker.status.get("samples_per_second") or 0.0,
        "consumers": worker.consumers,
        "shards_done": worker.shards_done,
    }


def waits_for_turn(status):
    return status.get("limiting_stage") == TURN


def consumers_of(status, workers):
    """Counts consumers, without those of workers that wait for their turn."""
    waiting = sum(len(worker.status.get("consumers") or []) for worker in workers if waits_for_turn(worker.status))
    return max(0, len(status.get("consumers") or []) - waiting)


def counted(number, what):
    return f"{number} {what}" + ("" if number == 1 else "s")


def mean(values):
    return sum(values) / len(values) if values else None


def summed(tables):
    """Sums the numeric fields of all tables; a table may be None."""
    whole: collections.Counter[str] = collections.Counter()
    for each in tables:
        whole.update({name: number for name, number in (each or {}).items() if isinstance(number, (int, float))})
    return dict(whole)


def summed_tokens(tables):
    """The token counts of text inputs; None without any."""
    whole = summed(tables)
    if not whole.get("padded"):
        return None
    return {**whole, "padding_share": (whole["padded"] - whole["of_texts"]) / whole["padded"]}


def most_common(words):
    found = collections.Counter(filter(None, words)).most_common(1)
    return found[0][0] if found else ""


def lines_of_workers(status):
    """For `offramp status`; empty for a run with one producer."""
    for worker in status.get("workers") or []:
        age = age_of(worker, status)
        reported = f"reported {age:.1f} s ago, " if age is not None else ""
        rate = "waits for its turn" if worker.get("waits_for_turn") else f"{worker['samples_per_second']:.1f}/s"
        silent = f"{worker['silent']}, " if worker.get("silent") else ""
        at_work = f"shard {worker['shard']}, {rate}, {silent}{reported}--run-dir {worker['run_dir']}"
        yield f"  {worker['name']}: {at_work if worker['run_dir'] else worker['state']}"
