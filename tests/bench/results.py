#!/usr/bin/env python3
"""
Writes RESULTS.md from measured/summary-*.json, one summary per machine.

    results.py                  write RESULTS.md
    results.py --print          print it instead
    results.py --merge FILE...  put the rows of `bench --json FILE` into the summary of that machine, then write
                                RESULTS.md

A summary has `machine`, `rows` (one line each, all of one revision), `reasons` for missed targets, `ladder`, and
`studies`: measurements other than the benchmark.
"""

import json
import pathlib
import sys
import textwrap
from typing import NamedTuple

from contestants import flag_list
from targets import allowed_by_cores, slowest_of

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE / "RESULTS.md"
MACHINES = {"h200": "One H200", "h100": "H100", "2-cores": "Two CPU cores, no GPU"}
ALONE, TRANSFORMED, COPIES, PINNED, PEER_ALONE = (
    "compute alone",
    "model and transform alone",
    "copy ceiling",
    "article 4-pinned",
    "article, compute alone",
)
QUEUE, PLAIN, LIBRARY, DECODE, ENCODE = (
    "multiprocessing.Queue",
    "plain PyTorch",
    "sentence-transformers",
    "decode limit",
    "encode limit",
)
FILES, ON_CPU, ENCODED_ON_CPU = "files in tmpfs", "decoded on the CPU", "encoded on the CPU"
TABLE, COPY = "executemany from a file", "COPY from memory"
SHOWN_CONSUMERS = (4, 6, 12)
KEPT = (
    "rate",
    "bytes_per_batch",
    "producer_cpu_ms_per_batch",
    "readers_cpu_ms_per_batch",
    "producer_faults_per_batch",
    "readers_faults_per_batch",
    "compute_ms_per_batch",
)


class Row(NamedTuple):
    """
    How a row appears in the table. `limits`: contestants, of which the slowest counts. `peer_alone`: the peer's model
    without its egress.
    """

    id: str
    what: str
    limits: tuple = ()
    peers: tuple = ()
    peer_alone: str = None
    items: str = None  # the parts of a batch, if the rate counts these
    no_model: bool = False  # neither side has a model, so the whole gain is the egress


LONG = "{}, windows of {:g} s"
ROWS = (
    Row("W1-host-write", "DeepLabV3 TF32, fp32 input from the host; consumers write a copy", (ALONE,), (PINNED,)),
    Row("W1-host-read", "the same; consumers read every byte in place", (ALONE,), (PINNED,), PEER_ALONE),
    Row("W1-device-write", "DeepLabV3 TF32, input on the device; consumers write a copy", (ALONE,), (PINNED,)),
    Row("W1-device-read", "the same; consumers read every byte in place", (ALONE,), (PINNED,), PEER_ALONE),
    *(
        Row(LONG.format(f"W1-{way}", 7), "the same in longer windows", (ALONE,))
        for way in ("host-write", "host-read", "device-write", "device-read")
    ),
    Row("W1-rungs-0-1", "W1-host-write, over the article's rungs 0 and 1", (), ("article 0", "article 1")),
    Row("W1-rungs-2-3", "W1-host-write, over its rungs 2 and 3", (), ("article 2", "article 3")),
    Row("W2-device", "DeepLabV3 bf16, input on the device; every byte read", (ALONE,), (PINNED,), PEER_ALONE),
    Row("W2-host", "the same, fp32 input from the host", (ALONE,), (PINNED,), PEER_ALONE),
    Row("W3-class-map", "W2-device, reduced to one class per pixel (8 bits)", (TRANSFORMED,)),
    Row("W3-low-res-fp32", "W2-device, logits before the last upsampling, fp32", (TRANSFORMED,)),
    Row("W3-low-res-fp16", "the same in fp16", (TRANSFORMED,)),
    Row("W4a-4-readers", "embeddings, 256 KiB per batch, 4 consumers", (), (PINNED,), no_model=True),
    Row("W4a-1-reader", "the same, one consumer", (), (PINNED,), no_model=True),
    Row("W4b", "a small encoder as a CUDA graph, on both sides", (ALONE,), (PINNED,), PEER_ALONE),
    Row("W5", "four feature maps per batch, no model", (COPIES,)),
    Row("W6", "no model: the link, every byte read", (COPIES,), (PINNED,), no_model=True),
    Row("W7", "JPEG files to PNG masks (DeepLabV3)", (TRANSFORMED, DECODE, ENCODE), (PLAIN,), items="images"),
    Row("W9-model", "DeepLabV3 bf16, fp32 input from the host, outputs dropped", ("resident",)),
    Row(
        "W9-link",
        "the upload alone, over pageable memory, async and blocking",
        (),
        ("pageable, async", "pageable, blocking"),
    ),
    Row(
        "W10-cut-out",
        "JPEG pictures to masks and cut-outs in PNG",
        ("model alone", DECODE, ENCODE),
        (PLAIN,),
        items="images",
    ),
    *(
        Row(name, f"{title}; the GPU decodes", (model, DECODE, ENCODE), (ON_CPU,), items="images")
        for name, title, model in (
            ("W14-masks", "W7", TRANSFORMED),
            ("W14-cut-outs", "W10-cut-out", "model alone"),
            ("W14-light", "JPEG files of 1024×768 to PNG masks (LRASPP)", TRANSFORMED),
        )
    ),
    Row("W14-jpeg", "pictures of 1024×1024 to JPEG files, encoded on the GPU", (), (ENCODED_ON_CPU,), items="images"),
    Row("W11-sqlite", "lines of text to MiniLM vectors in SQLite", ("model alone", TABLE), (LIBRARY,), items="lines"),
    Row("W11-postgres", "the same in PostgreSQL", ("model alone", COPY), (LIBRARY,), items="lines"),
    Row("W12-nothing", "a Python function that does nothing, one consumer", ("built in",)),
    Row("W12-readers", "the same, four consumers", ("built in",)),
    Row("W12-hash", "a shared object that reads every byte, one consumer", ("compiled in",)),
    Row("W12-copy", "W6 with Python consumers that copy every byte", ("shared object",)),
    Row(
        "W13-100-tokens", "hidden states of texts of 100 tokens on average, packed", (COPIES,), (FILES,), no_model=True
    ),
    Row("W13-1000-tokens", "the same, 1,000 tokens on average", (COPIES,), (FILES,), no_model=True),
    Row("W15-map", "`offramp.map` over a loop that drops its outputs, every byte read", ("outputs dropped",)),
    Row("W15-lightning", "Lightning's Trainer with a `PredictionWriter`, the same", ("outputs dropped",)),
    Row("W8-1-reader", "messages alone, one consumer", (), (QUEUE,), no_model=True),
    Row("W8-4-readers", "messages alone, four consumers", (), (QUEUE,), no_model=True),
    Row("latency", "one slab's number through an idle channel: p50; p99", ("libzmq alone",), (QUEUE,)),
    Row("E", "W2-device with 4, 6 and 12 consumers", (ALONE,)),
    Row("start", "first batch; all 8 slabs of 1.41 GB; first slab"),
)
BY_ID = {row.id: row for row in ROWS}
INTRO = """Generated by `results.py` from `measured/summary-*.json`; do not edit. [METHOD.md](METHOD.md) explains the rows and their targets.
*Limit*: the slowest part of the work alone, in the same run. *Peer*: the best Python design we know, as a whole. *Egress*: ours over the peer, each over its own model
alone; near 1, the whole gain is the model's. Ratios: median, 95 % interval."""


def number(value):
    """Three significant digits with thousands separators, three decimals below 1."""
    if value >= 999.5:
        step = 10 ** (len(str(round(value))) - 3)
        return f"{round(value / step) * step:,}"
    return f"{value:.{3 - len(str(int(value))) if value >= 1 else 3}f}"


def small(value):
    return f"{value:.2g}" if value < 10 else number(value)


def interval(ratio):
    return "{:.3f} [{:.3f}, {:.3f}]".format(*ratio)


def times(ratio):
    return f"{number(ratio[0])}× [{number(ratio[1])}, {number(ratio[2])}]"


def delivered(row, found):
    ours = found["contestants"][found["ours"]]
    rate = ours["rate"]
    if row.items:
        return f"{number(rate * found['batch'])} {row.items}/s"
    bandwidth = rate * ours["bytes_per_batch"]
    return f"{number(rate)} {found['unit']}/s" + (f", {number(bandwidth / 1e9)} GB/s" if bandwidth > 1e9 else "")


def latency(row, found):
    figures = {name: (each["p50_us"], each["p99_us"]) for name, each in found["contestants"].items()}

    def over(other):
        return "; ".join(f"{mine / theirs:.2f}" for mine, theirs in zip(figures[found["ours"]], figures[other]))

    limit, peer = row.limits[0], row.peers[0]
    return (
        f"{'; '.join(map(number, figures[found['ours']]))} µs",
        f"{limit} {'; '.join(map(number, figures[limit]))}",
        f"{over(limit)} of its time",
        f"{over(peer)} of its time",
        "–",
    )


def curve(row, found):
    points = [point for point in found["curve"] if point["consumers"] in SHOWN_CONSUMERS]
    return (
        f"{'; '.join(number(point['rate']) for point in points)} batches/s",
        f"{row.limits[0]} {number(points[0]['limit'])}",
        "; ".join(interval(point["ratio"]) for point in points),
        "–",
        "–",
    )


def start(row, found):
    ours, smallest, one = (found["contestants"][name] for name in (found["ours"], "smallest pool", "one object"))
    batch, slabs = ours["first_batch_seconds"], ours["all_slabs_seconds"]
    return (
        f"{batch:.2f}; {slabs:.2f}; {ours['first_slab_seconds']:.2f} s",
        f"smallest pool {smallest['first_batch_seconds']:.2f}; one object {one['all_slabs_seconds']:.2f} s",
        f"{batch / smallest['first_batch_seconds']:.2f}; {slabs / one['all_slabs_seconds']:.2f} of its time",
        "–",
        "–",
    )


def cells(row, found):
    """Delivered; the limit; ours over the limit; ours over the peer; the egress's share of that."""
    if found["kind"] in ("latency", "curve", "start"):
        return {"latency": latency, "curve": curve, "start": start}[found["kind"]](row, found)
    limit = slowest(found, row.limits) if row.limits else None
    shown = (
        f"{limit} {number(found['contestants'][limit]['rate'] * (found['batch'] if row.items else 1))}"
        if limit
        else "–"
    )
    egress = "all of it" if row.no_model else "–"
    if row.peer_alone:
        egress = f"{found['ratios'][row.limits[0]][0] / found['beside'][0]:.3f}"
    return (
        delivered(row, found),
        shown,
        interval(found["ratios"][limit]) if limit else "–",
        "; ".join(times(found["ratios"][peer]) for peer in row.peers) or "–",
        egress,
    )


def with_medians(found):
    """The contestants as targets.py expects them."""
    return {
        name: {field: {"median": value} for field, value in each.items() if field in KEPT}
        for name, each in found["contestants"].items()
    }


def slowest(found, names):
    return slowest_of(with_medians(found), names)


def cpu_cells(row, found, cores):
    """Page faults per batch, ours and the peer's; and the rate over what the cores allow for all parts together."""
    parts = [name for name in (*row.limits, DECODE, ENCODE, "tokenizer alone") if name in found["contestants"]]
    allowed = allowed_by_cores(with_medians(found), dict.fromkeys(parts), cores)
    ours = found["contestants"][found["ours"]]["rate"]
    limited = allowed < found["contestants"][slowest(found, row.limits)]["rate"]

    def faults(name):
        each = found["contestants"][name]
        per_batch = 1 if found["unit"] == "batches" else each["batch"]
        return ", ".join(small(each[f"{who}_faults_per_batch"] * per_batch) for who in ("producer", "readers"))

    return (
        f"{ours / allowed:.2f}" if limited else "not limited by cores",
        f"{faults(found['ours'])}; {faults(row.peers[0])}",
    )


def row_table(summary):
    cores = None if summary["machine"]["gpu"] else summary["machine"]["cores"]
    head = ["row", "workload", "delivered", "limit", "over the limit", "over the peer", "egress"]
    if cores:
        head = [*head[:-1], "of what the cores allow", "page faults per batch, producer, consumers: ours; peer's"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for found in summary["rows"]:
        row = BY_ID[found["row"]]
        shown = cells(row, found)
        if cores:
            shown = (*shown[:-1], *cpu_cells(row, found, cores))
        lines.append(f"| {' | '.join([row.id, row.what, *shown])} |")
    return lines


def ladder_table(ladder):
    lines = [
        "| rung | batches/s | of compute alone | GPU idle | copy | gain | the article's, on an L40S |",
        "|" + "---|" * 7,
    ]
    for rung in ladder["rungs"]:
        copy = f"{rung['copy_gb_per_second']:.1f} GB/s" if rung["copy_gb_per_second"] else "–"
        gain = rung["gain"]
        gained = "–" if not gain else f"{gain:.1f}×" if gain >= 2 else f"{100 * (gain - 1):+.1f} %".replace("-", "−")
        lines.append(
            f"| {rung['rung']} | {rung['batches_per_second']:.2f} | {100 * rung['share_of_compute_alone']:.1f} % | {100 * rung['gpu_idle']:.1f} % | {copy} | {gained} | "
            f"{rung['article']} |"
        )
    return lines


def missed(summaries):
    """A line for each target that was not reached, in rows and in studies."""
    lines = ["| machine | what | wanted | found | reason |", "|" + "---|" * 5]
    for name, summary in summaries.items():
        measured = {row["row"] for row in summary["rows"]}
        for found in summary["rows"]:
            for target in found["targets"]:
                # otherwise the longer windows decide
                if not target["reached"] and LONG.format(found["row"], 7) not in measured:
                    reason = next(
                        (
                            text
                            for key, text in summary["reasons"].items()
                            if key == f"{found['row']}: {target['what']}" or key == found["row"]
                        ),
                        "–",
                    )
                    lines.append(
                        f"| {MACHINES[name]} | {found['row']}: {target['what']} | {target['wanted']} | {target['found']} | {reason} |"
                    )
        for study in summary["studies"]:
            lines += [
                f"| {MACHINES[name]} | {study['topic']}: {each['what']} | {each['wanted']} | {each['found']} | {each.get('reason', '–')} |"
                for each in study["rows"]
                if each.get("missed")
            ]
    return lines


def topic_of(study):
    return f"{study['topic']} ({study['of']})"


def study_table(studies):
    """Without missed targets, which have a separate table."""
    lines = ["| topic | what | found | wanted |", "|" + "---|" * 4]
    for study in studies:
        reached = [each for each in study["rows"] if not each.get("missed")]
        lines += [
            f"| {'' if place else topic_of(study)} | {each['what']} | {each['found']} | {each.get('wanted', '–')} |"
            for place, each in enumerate(reached)
        ]
    return lines


def page(summaries):
    lines = ["# Results", "", *wrapped(INTRO)]
    for name, summary in summaries.items():
        machine = summary["machine"]
        parts = [
            machine["device"],
            machine["link"],
            machine["driver"] and f"driver {machine['driver']}",
            f"{machine['processor'].removesuffix(' Processor')}, {machine['cores']} cores",
            machine["memory_gib"] and f"{machine['memory_gib']} GiB",
            machine["kernel"] and f"Linux {machine['kernel'].partition('-')[0]}",
        ]
        lines += ["", f"## {MACHINES[name]}", "", *wrapped(", ".join(dict.fromkeys(filter(None, parts))) + ".")]
        if summary["rows"]:
            windows = " or ".join(
                sorted({f"{row['windows']} windows of {row['seconds']:g} s" for row in summary["rows"]})
            )
            lines += [
                "",
                *wrapped(f"Rows of the benchmark, revision {summary['rows'][0]['revision']}, {windows}:"),
                "",
                *row_table(summary),
            ]
        if "ladder" in summary:
            lines += ["", *wrapped(summary["ladder"]["about"]), "", *ladder_table(summary["ladder"])]
        lines += [
            "",
            "Other measurements; targets that were missed are at the end of the page.",
            "",
            *study_table(summary["studies"]),
        ]
    return "\n".join([*lines, "", "## Missed targets", "", *missed(summaries)]) + "\n"


def wrapped(text):
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


def condensed(row, whole):
    """A row of `bench --json` without its windows."""

    def medians(contestant):
        figures = {**contestant, **contestant.get("figures", {})}
        return {
            field: rounded(value["median"])
            for field, value in figures.items()
            if isinstance(value, dict) and "median" in value
        }

    def started(how):
        readers = how["readers"] if isinstance(how["readers"], list) else [how["readers"]]
        return " ".join([how["program"], *flag_list(how["flags"])]) + (
            f"; {', '.join(map(str, readers))} consumers" if any(readers) else ""
        )

    ours = row["ours"]
    kept = {name: row[name] for name in ("row", "kind", "unit", "batch", "ours")}
    kept["contestants"] = {
        name: {
            "started": started(how),
            **({"batch": how["flags"]["batch"]} if "batch" in how["flags"] else {}),
            **medians(row["contestants"][name]),
        }
        for name, how in row["started_as"].items()
    }
    kept["ratios"] = {other: three(ratio) for other, ratio in row["ratios_of"].get(ours, {}).items()}
    if row["beside"]:
        of, over = row["beside"][0]
        kept["beside"] = three(row["ratios_of"][of][over])
    if row["curve"]:
        kept["curve"] = [
            {
                "consumers": point["consumers"],
                "rate": rounded(point["rate"]["median"]),
                "limit": rounded(point["limit"]["median"]),
                "ratio": three(point["ratio"]),
            }
            for point in row["curve"]
        ]
    kept["targets"] = [
        {field: target[field] for field in ("what", "wanted", "found", "reached")} for target in row["targets"]
    ]
    return {
        **kept,
        "windows": whole["pace"]["windows"],
        "seconds": whole["pace"]["seconds"],
        "revision": whole["build"]["revision"],
    }


def rounded(value):
    return float(f"{value:.6g}")


def three(ratio):
    return [rounded(ratio[part]) for part in ("median", "low", "high")]


def merged(summary, wholes):
    """
    The summary with the rows of these runs; older rows stay only if they are of the same revision, so that a table
    never mixes two.
    """
    revision = wholes[-1]["build"]["revision"] or "unknown"
    if revision == "unknown" or revision.endswith("-dirty"):
        raise ValueError(f"cannot keep rows of revision '{revision}': it cannot be built again. Commit first.")
    for whole in wholes:
        if whole["build"]["revision"] != revision or whole["machine"]["device"] != wholes[-1]["machine"]["device"]:
            raise ValueError("cannot merge files of several revisions or devices: give the files of one")
    rows = {row["row"]: row for row in summary.get("rows", ()) if row["revision"] == revision}
    for whole in wholes:
        for row in whole["rows"]:
            long = LONG.format(row["row"], whole["pace"]["seconds"])
            if not row["failure"] and not row["left_out"] and row["row"] in BY_ID:
                name = long if long in BY_ID else row["row"]
                rows[name] = {**condensed(row, whole), "row": name}
    machine = {part: value for part, value in wholes[-1]["machine"].items() if part != "probe"}
    return {
        **{"reasons": {}, "studies": []},
        **summary,
        "machine": machine,
        "build": wholes[-1]["build"],
        "rows": [rows[row.id] for row in ROWS if row.id in rows],
    }


def written(summary):
    """JSON with one line per row, rung and study."""

    def block(items):
        return (
            "[\n" + ",\n".join("  " + json.dumps(item, ensure_ascii=False) for item in items) + "\n ]"
            if items
            else "[]"
        )

    fields = []
    for name, value in summary.items():
        if name == "ladder":
            text = (
                "{"
                + ", ".join(
                    f'"{field}": ' + (block(each) if field == "rungs" else json.dumps(each, ensure_ascii=False))
                    for field, each in value.items()
                )
                + "}"
            )
        elif name == "studies":
            text = (
                "[\n"
                + ",\n".join(
                    f'  {{"topic": {json.dumps(each["topic"], ensure_ascii=False)}, "of": {json.dumps(each["of"], ensure_ascii=False)}, "rows": {block(each["rows"])}}}'
                    for each in value
                )
                + "\n ]"
            )
        else:
            text = (
                block(value)
                if name == "rows"
                else json.dumps(value, indent=2 if name == "reasons" else None, ensure_ascii=False)
            )
        fields.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(fields) + "\n}\n"


def path_of(name):
    return HERE / "measured" / f"summary-{name}.json"


def summaries():
    return {name: json.loads(path_of(name).read_text(encoding="utf-8")) for name in MACHINES}


def name_of(machine):
    """h200, h100 or, without a GPU, 2-cores."""
    name = (
        next((name for name in MACHINES if name in machine["device"].lower().replace(" ", "-")), None)
        if machine["gpu"]
        else f"{machine['cores']}-cores"
    )
    if name not in MACHINES:
        raise ValueError(f"no summary for the machine '{machine['device']}': add it to MACHINES")
    return name


def main(argv):
    if argv[:1] == ["--merge"]:
        wholes = [json.loads(pathlib.Path(path).read_text(encoding="utf-8")) for path in argv[1:]]
        path = path_of(name_of(wholes[-1]["machine"]))
        path.write_text(
            written(merged(json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}, wholes)),
            encoding="utf-8",
        )
    text = page(summaries())
    if argv[:1] == ["--print"]:
        print(text, end="")
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
