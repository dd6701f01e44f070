"""
The summary and the dead letters of a run with --gpus: joins the summaries of its shards' runs into one, in the form of
a single run's, and moves their dead letters to the whole run's directory, where users look for them.
"""

import contextlib
import os
import pathlib

from offramp_launch import summary
from offramp_launch.gpus.status import counted, describe, summed, summed_tokens, total_of
from offramp_launch.groups import FOLDER as GROUPS
from offramp_launch.incidents import FOLDER, write_incident
from offramp_launch.jobs.merge import lines_not_merged
from offramp_launch.jobs.shard_record import LISTS, counts_of_summary
from offramp_launch.run_dir import SUMMARY, read_object

SUMS = ("bytes", "producer_restarts", "producer_cpu_seconds", "decoded_on_gpu")
OF_ANY = ("model", "precision", "transform", "device_kind", "batch", "strategy", "failure_cause")


def summaries_of(job, supervisor):
    """The summary of each done shard, and of the last attempt here at each other one. Call it before put_away()."""
    records = job.records()
    for index, run_dir in dict(supervisor.attempts).items():
        if index not in records:
            bring_dead_letters(run_dir)
    found = {index: each for index, run_dir in supervisor.attempts if (each := read_object(run_dir / SUMMARY))}
    return {**found, **{index: record["report"] for index, record in records.items()}}


def join(about, job, supervisor, summaries, seconds):
    """`summaries`: by shard. Rates and sums cover this launcher's attempts only."""
    ours = [each for _, run_dir in supervisor.attempts if (each := read_object(run_dir / SUMMARY))]
    done = job.records()
    # The last status of an unfinished shard may be older than its summary.
    for index, each in summaries.items():
        if index not in done and each.get("samples"):
            supervisor.counts[index] = counts_of_summary(each)
    total = total_of(supervisor.counts.values())
    groups = [dict(group) for group in supervisor.status.get("groups") or []]
    summary.note_autoscaling(groups, supervisor)
    released = max(0, total["done"] - supervisor.done_before)
    return {
        **about,
        "job": job.id,
        "items": job.items,
        "seconds": round(seconds, 3),
        "incomplete": not ours and not total["done"] and bool(supervisor.failure),
        **{name: next((each[name] for each in ours if each.get(name) is not None), None) for name in OF_ANY},
        "device": devices(ours, supervisor.workers),
        "samples": {
            **summed(each.get("samples") for each in ours),
            "done_before": supervisor.done_before,
            "released": released,
            "skipped": total["skipped"],
            "dead_letters": total["dead_letters"],
            "dropped_when_full": total["dropped"],
        },
        "batches": summed(each.get("batches") for each in ours),
        "samples_per_second": released / seconds if seconds > 0 else None,
        "steady": False,
        # 0: no batch
        "first_batch_seconds": min(
            (seconds for each in ours if (seconds := each.get("first_batch_seconds"))), default=None
        ),
        **{name: sum(each.get(name) or 0 for each in ours) for name in SUMS},
        "skipped_samples": total["skipped"],
        "tokens": summed_tokens(each.get("tokens") for each in ours),
        "consumers": [consumer for each in ours for consumer in each.get("consumers") or []],
        # The lists cover the whole input, including shards that earlier launchers completed.
        **{
            name: [in_its_place(entry) for index in sorted(summaries) for entry in summaries[index].get(name) or []]
            for name in LISTS
        },
        **({"groups": groups} if groups else {}),
        "dead_letters_in": directories_with(summaries.values()),
        "random_weights": any(each.get("random_weights") for each in ours),
        "conserved": sum(total.values()) == job.items if len(done) == job.shards else sum(total.values()) <= job.items,
        "shards": [
            {"index": index, "items": job.items_of(index), **supervisor.counts[index], "is_done": index in done}
            for index in range(job.shards)
        ],
        "workers": [describe(worker) for worker in supervisor.workers],
    }


def bring_dead_letters(run_dir):
    """Moves a shard run's dead letters to the whole run's directory. If interrupted, another call completes it."""
    for folder in (run_dir, *run_dir.glob(f"{GROUPS}/*")):
        bring_from(run_dir, folder.relative_to(run_dir) / FOLDER)


def bring_from(run_dir, folder):
    """`folder`: in both directories."""
    source, whole = run_dir / folder, run_dir.parent / folder
    with contextlib.suppress(OSError):  # then they stay, and in_its_place() keeps their path
        for report in sorted(source.glob("*.json")):
            if (incident := read_object(report)) is None:
                continue
            whole.mkdir(mode=0o700, parents=True, exist_ok=True)
            if payload := incident.get("payload"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(source / payload, whole / named(run_dir, payload))
                incident["payload"] = named(run_dir, payload)
            write_incident(whole / named(run_dir, report.name), incident)
            report.unlink()


def named(run_dir, name):
    """Prefixed, as a slab at the border of two shards has the same name in both."""
    return f"{run_dir.name}-{name}"


def in_its_place(entry):
    """A dead letter's entry in a shard's summary, with the path it was moved to."""
    if not entry.get("payload"):
        return entry
    path = pathlib.Path(entry["payload"])
    run_dir = path.parents[3] if path.parents[2].name == GROUPS else path.parents[1]
    moved = run_dir.parent / path.parent.relative_to(run_dir) / named(run_dir, path.name)
    return {**entry, "payload": str(moved)} if moved.exists() else entry


def directories_with(summaries):
    """The run directories that hold dead letters. `summaries`: of shards."""
    found: set[str] = set()
    for each in summaries:
        if not each.get("run_dir"):
            continue
        run_dir = pathlib.Path(each["run_dir"])
        if each.get("groups"):  # also of optional groups
            inner = [pathlib.Path(folder).relative_to(run_dir) for folder in each.get("dead_letters_in") or []]
        else:
            inner = [pathlib.Path()] if (each.get("samples") or {}).get("dead_letters") else []
        found.update(str(run_dir.parent / folder) for folder in inner)
    return sorted(found)


def devices(ours, workers):
    kinds = sorted({each["device"] for each in ours if each.get("device")})
    return f"{', '.join(kinds)} ({counted(len(workers), 'worker')})" if kinds else None


def lines(whole, unit, job, go_on):
    """A single run's lines, plus the GPUs that were given up, and the groups that were not merged."""
    first, *rest = summary.describe(whole, unit, str(job.output), go_on).splitlines()
    lost = [
        ("given up", f"{worker['name']}: {worker['why_lost']}") for worker in whole["workers"] if worker["why_lost"]
    ]
    return "\n".join([first, *summary.labelled(*lost), *lines_not_merged(job, whole.get("not_merged") or {}), *rest])
