"""Dead letters of a run with --gpus: moves them from each shard's run directory to the whole run's, where users look for them."""

import contextlib
import os
import pathlib

from offramp_launch.incidents import FOLDER, write_incident
from offramp_launch.run_dir import read_object


def bring(run_dir):
    """Moves a shard run's dead letters to its parent, the whole run's directory. After an interruption at any step, another call completes it."""
    source, whole = run_dir / FOLDER, run_dir.parent / FOLDER
    with contextlib.suppress(OSError):      # then they stay, and in_its_place() keeps their path
        for report in sorted(source.glob("*.json")):
            if (incident := read_object(report)) is None:
                continue
            whole.mkdir(mode=0o700, exist_ok=True)
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
    run_dir = path.parents[1]
    moved = run_dir.parent / FOLDER / named(run_dir, path.name)
    return {**entry, "payload": str(moved)} if moved.exists() else entry


def directories_with(summaries):
    """The run directories that hold dead letters. `summaries`: of shards."""
    return sorted({str(pathlib.Path(each["run_dir"]).parent) for each in summaries if each.get("run_dir") and (each.get("samples") or {}).get("dead_letters")})
