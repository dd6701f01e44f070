"""Dead letters of a run with --gpus: each shard's run sets them aside in its own directory, and they are looked for in that of the whole run."""

import contextlib
import os
import pathlib

from offramp_launch.incidents import FOLDER, write_incident
from offramp_launch.run_dir import read_object


def bring(run_dir):
    """To the directory of the whole run, in which that of the shard's lies. Cut off anywhere, and called again, all are there."""
    source, whole = run_dir / FOLDER, run_dir.parent / FOLDER
    with contextlib.suppress(OSError):      # then they stay where they are, and in_its_place() says so
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
    """A slab at a border of two shards has the same name in both."""
    return f"{run_dir.name}-{name}"


def in_its_place(entry):
    """What a shard's summary tells of one, as that of the whole run does."""
    if not entry.get("payload"):
        return entry
    path = pathlib.Path(entry["payload"])
    run_dir = path.parents[1]
    moved = run_dir.parent / FOLDER / named(run_dir, path.name)
    return {**entry, "payload": str(moved)} if moved.exists() else entry


def directories_with(told):
    """The run directories that have them. `told`: summaries of shards."""
    return sorted({str(pathlib.Path(each["run_dir"]).parent) for each in told if each.get("run_dir") and (each.get("samples") or {}).get("dead_letters")})
