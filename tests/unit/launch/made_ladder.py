"""Writes the files of a measured ladder with round numbers, without measuring."""

import json

from offramp_launch.ladder.rungs import LIMIT, RUNGS
from offramp_launch.ladder.saved import Saved

MS = 1_000_000
ORIGIN = 5_000_000 * MS
# Milliseconds of a step: read, h2d, compute, d2h, process, and the rest of the step beyond its compute.
STEP = {
    "sequential": (4, 4, 90, 108, 600, 708),
    "workers": (4, 4, 90, 300, 620, 310),
    "pool": (4, 4, 90, 108, 600, 110),
    "async-pageable": (4, 4, 90, 104, 600, 104),
    "async": (4, 4, 90, 26, 600, 26),
    "streams": (4, 4, 90, 26, 600, 0.5),
    LIMIT: (4, 4, 90, 0, 0, 0),
}
BATCH_BYTES = 1_400_000_000
LIMITS = {"copy_gigabytes_per_second": 55.0}


def make_ladder(folder, keys=None, batches=20, warmup=2, consumers=8, differs=""):
    """`differs`: the rung with results unlike the others."""
    saved = Saved(folder)
    keys = keys or [rung.key for rung in RUNGS]
    for key in keys:
        saved.clear(key)
        summary = write_run(saved.trace_dir(key), key, batches, warmup, consumers)
        (saved.rung(key) / "summary.json").write_text(json.dumps(summary))
        if key != LIMIT:
            write_check(saved.check_dir(key), differs=key == differs)
            (saved.check_dir(key) / "summary.json").write_text(
                json.dumps({"limits": LIMITS if key == "streams" else None})
            )
    saved.write_header(
        {
            "made": "2026-01-01 12:00",
            "machine": "a GPU, driver 580.1, PCIe 5 x16, 16 cores",
            "build": "offramp-producer 0.1.0",
            "workload": {
                "model": "deeplabv3-resnet50",
                "batch": 64,
                "image-size": 512,
                "precision": "tf32",
                "memory-format": "channels-last",
                "synthetic-on": "host",
                "slabs": 8,
                "consumers": consumers,
                "processor": "write",
                "write-copy": True,
                "warmup_batches": warmup,
                "measured_batches": batches,
            },
            "rungs": {key: {"exit": 0} for key in keys},
        }
    )
    return saved


def write_check(folder, differs=False):
    text = "other" if differs else "same"
    (folder / "checksums.tsv").write_text(
        "".join(f"{item}\t0\tsynthetic-{item}\tout\t{text}{item}\n" for item in range(6))
    )


def write_run(trace_dir, key, batches, warmup, consumers):
    """Writes the traces of a run's programs and returns its summary."""
    read, h2d, compute, d2h, process, longer = STEP[key]
    step = compute + longer
    producer = [{"process": "producer", "pid": 100, "strategy": key}]
    workers = [[{"process": "consumer", "pid": 200 + number, "strategy": key}] for number in range(consumers)]

    def note(lines, lane, name, batch, begin_ms, length_ms, device=False):
        begin = ORIGIN + round(begin_ms * MS)
        lines.append(
            {
                "lane": lane,
                "name": name,
                "batch": batch,
                "begin_ns": begin,
                "end_ns": begin + round(length_ms * MS),
                **({"clock": "device"} if device else {}),
            }
        )

    for batch in range(warmup + batches):
        at = batch * step
        note(producer, "main", f"Batch {batch}", batch, at, step)
        note(producer, "upload", "stage_batch", batch, at, read + h2d)
        for row in range(4):
            note(producer, f"decode-{row % 2}", "decode", batch, at + row // 2 * read / 2, read / 2)
        note(producer, "h2d", "h2d", batch, at + read, h2d, device=True)
        note(producer, "compute", "compute", batch, at, compute, device=True)
        if d2h:
            note(producer, "d2h", "d2h", batch, at + compute, d2h, device=True)
        done = at + compute + d2h
        if key == "sequential":
            note(producer, "main", "process_output", batch, done, process)
        elif process:
            lines = workers[batch % consumers]
            note(lines, "consumer", "hand_over", batch, done, 0.1)
            if key == "workers":
                note(lines, "consumer", "map", batch, done, 40)
                note(lines, "consumer", "unmap", batch, done + 40 + process, 60)
            note(lines, "consumer", "process_output", batch, done + (40 if key == "workers" else 0.1), process)
    note(producer, "main", "measure_begin", 0, warmup * step, 0)
    note(producer, "main", "measure_end", 0, (warmup + batches) * step, 0)

    programs = {"producer-100": producer}
    if key not in ("sequential", LIMIT):
        programs.update({f"consumer-{lines[0]['pid']}": lines for lines in workers})
    for name, lines in programs.items():
        (trace_dir / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    seconds = batches * step / 1e3
    return {
        "strategy": key,
        "batches_per_second": batches / seconds,
        "first_batch_seconds": 1.5,
        "pinned": key in ("async", "streams"),
        "precision": "tf32",
        "memory_format": "channels-last",
        "measured": {
            "batches": batches,
            "seconds": seconds,
            "compute_seconds": compute * batches / 1e3,
            "copy_seconds": d2h * batches / 1e3,
            "copy_bytes": BATCH_BYTES * batches if d2h else 0,
            "h2d_seconds": h2d * batches / 1e3,
            "producer_cpu_seconds": 0.02 * batches,
        },
    }
