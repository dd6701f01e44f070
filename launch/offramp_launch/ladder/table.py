"""The ladder as Markdown and as JSON."""

import json

from offramp_launch.ladder.rungs import ARTICLE_GAIN_IN_ALL, LIMIT, RUNGS, rung_named

NOTHING = "–"
FIRST = RUNGS[0]
LAST = RUNGS[-2]

RATES = (
    *("rung", "batches/s", "of compute alone", "GPU idle", "copy GB/s"),
    *("producer CPU ms/batch", "first batch s", "results"),
)
GAINS = ("rung", "batches/s", "article steps/s", "gain", "article's gain", "in all", "article's in all")
PER_BATCH = ("rung", "step", "compute", "h2d", "d2h", "idle gap", "process", "map", "unmap")
PER_BATCH_KEYS = ("step", "compute", "h2d", "d2h", "idle", "process", "map", "unmap")


def tables(ladder):
    """(title, head, rows) of each table. All cells are text."""
    gains = [_gains(key, ladder.rungs[key]) for key in ladder.keys if key != LIMIT]
    return [
        ("Rates", RATES, [_rates(key, ladder.rungs[key]) for key in ladder.keys]),
        ("Gains, beside the article's (on an L40S)", GAINS, gains),
        ("Milliseconds per batch", PER_BATCH, [_per_batch(key, ladder.rungs[key]) for key in ladder.keys]),
    ]


def _rates(key, figures):
    title = rung_named(key).title
    if figures["exit"]:
        return (title, f"failed, exit code {figures['exit']}", *[NOTHING] * (len(RATES) - 2))
    return (
        title,
        number(figures["batches_per_second"], 2),
        percent(figures["share_of_compute_alone"]),
        percent(figures["gpu_idle_share"]),
        number(figures["copy_gigabytes_per_second"], 1),
        number(figures["producer_cpu_ms_per_batch"], 1),
        number(figures["first_batch_seconds"], 2),
        figures["results"] or NOTHING,
    )


def _gains(key, figures):
    rung = rung_named(key)
    in_all = NOTHING
    if key == LAST.key:
        in_all = ARTICLE_GAIN_IN_ALL
    elif rung.article_rate and rung is not FIRST:
        in_all = times(rung.article_rate / FIRST.article_rate)
    return (
        rung.title,
        number(figures["batches_per_second"], 2),
        number(rung.article_rate, 2),
        gain(figures["gain_over_the_rung_before"]),
        rung.article_gain or NOTHING,
        times(figures["gain_in_all"]),
        in_all,
    )


def _per_batch(key, figures):
    return (rung_named(key).title, *(number(figures["per_batch_ms"][name], 2) for name in PER_BATCH_KEYS))


def explanations(ladder):
    """Explanations, from this ladder's figures, of gains that differ from the article's."""
    first, second = FIRST.key, "workers"
    if not all(ladder.rungs.get(key, {}).get("per_batch_ms") for key in (first, second)):
        return []
    before, after = ladder.rungs[first]["per_batch_ms"], ladder.rungs[second]["per_batch_ms"]
    known = ("step", "process", "d2h")
    if (
        any(figures[name] is None for figures in (before, after) for name in known)
        or before["process"] >= before["step"]
    ):
        return []
    rate, second_rate = FIRST.article_rate, rung_named(second).article_rate
    assert rate and second_rate
    most = before["step"] / (before["step"] - before["process"])
    return [
        f"`workers` over `sequential`: it takes the processing off the loop, {before['process']:.1f} ms of a step of {before['step']:.1f} ms, "
        f"so it can gain {gain(most)} at most. Both copy into fresh pageable memory, {before['d2h']:.1f} and {after['d2h']:.1f} ms a batch, "
        "and a new segment for every batch adds the time of map and unmap. The article gained "
        f"{rung_named(second).article_gain}: its step became {1e3 / rate - 1e3 / second_rate:.0f} ms shorter."
    ]


def number(value, digits):
    return NOTHING if value is None else f"{value:.{digits}f}"


def percent(share):
    return NOTHING if share is None else f"{100 * share:.1f} %"


def times(ratio):
    return NOTHING if ratio is None else f"{ratio:.2f}×"


def gain(ratio):
    """In the article's style: per cent below 2×, a multiple from 2× on."""
    if ratio is None:
        return NOTHING
    return times(ratio) if ratio >= 2 else f"{100 * (ratio - 1):+.1f} %".replace("-", "−")


def heading(ladder):
    """Machine, build, sizes, limits: a list of lines."""
    header, limits = ladder.header, ladder.limits
    workload = header["workload"]
    ceiling = limits["copy_gigabytes_per_second"]
    copied = next(
        (figures["copy_bytes_per_batch"] for figures in ladder.rungs.values() if figures["copy_bytes_per_batch"]), None
    )
    ceiling_text = f"{ceiling:.1f} GB/s" if ceiling else NOTHING
    if ceiling and copied:
        ceiling_text += f" = {ceiling * 1e9 / copied:.2f} batches/s of {copied / 1e6:.1f} MB"
    return [
        f"machine: {header['machine']}",
        f"build: {header['build']}",
        f"workload: {describe_workload(workload)}",
        f"measured: {workload['measured_batches']} batches after {workload['warmup_batches']} of warm-up, {header['made']}",
        f"limits, same run: compute alone {number(limits['compute_alone_batches_per_second'], 2)} batches/s, bare copies {ceiling_text}",
        f"results: {ladder.check.describe()}",
    ]


def describe_workload(workload):
    parts = [
        workload["model"],
        f"batch {workload['batch']}",
        f"{workload['image-size']}×{workload['image-size']}",
        f"{workload['precision']}, {workload['memory-format']}",
        f"input {workload['synthetic-on']}",
        f"{workload['slabs']} slabs",
        f"{workload['consumers']} consumers",
        f"processor {workload['processor']}" + (" with copy" if workload["write-copy"] else ""),
        *(["deterministic kernels"] if workload.get("deterministic") else []),
    ]
    return ", ".join(str(part) for part in parts)


def markdown(ladder):
    lines = ["# The ladder", "", *(f"- {line}" for line in heading(ladder))]
    for title, head, rows in tables(ladder):
        lines += ["", f"**{title}**", "", *aligned(head, rows)]
    for explanation in explanations(ladder):
        lines += ["", explanation]
    return "\n".join(lines) + "\n"


def aligned(head, rows):
    """The lines of a table, with figures to the right, so that a terminal shows it well."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for row in (head, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])], *rows):
        yield f"| {' | '.join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])} |"


def as_json(ladder):
    article = {
        rung.key: {"steps_per_second": rung.article_rate, "gain": rung.article_gain or None}
        for rung in RUNGS
        if rung.article_rate
    }
    whole = {
        **ladder.header,
        "limits": ladder.limits,
        "results": {"equal": ladder.check.equal, "rungs": ladder.check.verdicts},
        "rungs": {key: {"title": rung_named(key).title, **ladder.rungs[key]} for key in ladder.keys},
        "article": {**article, "gain_in_all": ARTICLE_GAIN_IN_ALL, "machine": "L40S"},
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
