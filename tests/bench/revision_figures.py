#!/usr/bin/env python3
"""
The tables of rows that were all measured of one revision, on machines of one kind: that of revision.md, and the short one of the root README. They are made of
measured/revision.json; check_figures.py holds both pages against it, and refuses a file with rows of several revisions or machines.

    revision_figures.py                    prints both tables: for the pages
    revision_figures.py --merge FILE...    what `bench --json` wrote, into measured/revision.json: each row as the last file has it
"""

import json
import pathlib
import sys
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
SAVED, PAGE, README = "revision", "tests/bench/revision.md", "README.md"
BEGIN, END = "<!-- revision_figures.py: begin -->", "<!-- revision_figures.py: end -->"
ALONE, TRANSFORMED, COPIES, PINNED, PEER_ALONE = "compute alone", "model and transform alone", "copy ceiling", "article 4-pinned", "article, compute alone"
QUEUE, PLAIN = "multiprocessing.Queue", "plain PyTorch"


class Row(NamedTuple):
    """`limit`, `peer`, `peer_alone`: contestants; none where the row has no such. `items`: what a batch's items are called, where these are counted."""
    id: str
    what: str
    limit: str = None
    peer: str = None
    peer_alone: str = None
    items: str = None
    short: str = None       # in the root README; none: not there


ROWS = (
    Row("W1-host-write", "DeepLabV3 TF32, fp32 from the host; consumers write a copy", ALONE, PINNED, short="DeepLabV3 TF32, {readers} consumers"),
    Row("W2-device", "DeepLabV3 bf16, input resident; every byte read", ALONE, PINNED, PEER_ALONE, short="DeepLabV3 bf16, {readers} consumers"),
    Row("W3-class-map", "the same, each pixel's class in 8 bits", TRANSFORMED),
    Row("W4a-4-readers", "embeddings, 256 KiB a batch", None, PINNED, short="embeddings, 256 KiB a batch, {readers} consumers"),
    Row("W4a-1-reader", "the same, one consumer", None, PINNED),
    Row("W6", "no model: the link; every byte read", COPIES, PINNED, short="no model: the link, {readers} consumers"),
    Row("W7", "made JPEG files in, PNG masks out", TRANSFORMED, PLAIN, items="images", short="made JPEG files in, PNG masks out"),
    Row("W10-cut-out", "rendered JPEG pictures in, masks and cut-outs out as PNG", "encode limit", PLAIN, items="images"),
    Row("W8-1-reader", "messages alone, one consumer", None, QUEUE),
    Row("W8-4-readers", "messages alone", None, QUEUE, short="messages alone, {readers} consumers"),
    Row("latency", "a slab's number through an idle channel: p50; p99", "libzmq alone", QUEUE),
    Row("E", "W2-device with 4, 6 and 12 consumers", ALONE),
    Row("start", "the first batch; all 8 slabs of 1.41 GB; the first slab"))
SHOWN_OF_CURVE = (4, 6, 12)     # consumers


def number(value):
    """Three digits that count, thousands apart."""
    if value >= 1000:
        step = 10 ** (len(str(int(value))) - 3)
        return f"{round(value / step) * step:,}"
    return f"{value:.{max(0, 3 - len(str(int(value))))}f}"


def interval(ratio):
    return f"{ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"


def times(ratio):
    return f"{number(ratio['median'])}× [{number(ratio['low'])}, {number(ratio['high'])}]"


def delivered(row, found):
    ours = found["contestants"][found["ours"]]
    rate = ours["rate"]["median"]
    if row.items:
        return f"{number(rate * found['batch'])} {row.items}/s"
    bytes_of_batch = ours["bytes_per_batch"]["median"]
    bandwidth = f", {number(rate * bytes_of_batch / 1e9)} GB/s" if rate * bytes_of_batch > 1e9 else ""
    return f"{number(rate)} {found['unit']}/s{bandwidth}"


def latency(row, found):
    """Of the medians of both, in µs: ours, its limit's, and ours over each."""
    figures = {name: [contestant["figures"][part]["median"] for part in ("p50_us", "p99_us")] for name, contestant in found["contestants"].items()}

    def over(other):
        return "; ".join(f"{mine / theirs:.2f}" for mine, theirs in zip(figures[found["ours"]], figures[other]))

    def both(name):
        return "; ".join(number(value) for value in figures[name])
    return f"{both(found['ours'])} µs", f"{row.limit} {both(row.limit)}", over(row.limit), f"{over(row.peer)} of its time", "–"


def curve(row, found):
    points = {point["consumers"]: point for point in found["curve"]}
    shown = [points[consumers] for consumers in SHOWN_OF_CURVE]
    limits = [point["limit"]["median"] for point in shown]
    return (f"{'; '.join(number(point['rate']['median']) for point in shown)} batches/s", f"{row.limit} {number(min(limits))} to {number(max(limits))}",
            "; ".join(interval(point["ratio"]) for point in shown), "–", "–")


def start(row, found):
    """In seconds: ours; the smallest pool's first batch, and one object of the pool's size, made at once."""
    def figure(name, part):
        return found["contestants"][name]["figures"][part]["median"]
    batch, slabs, first = (figure(found["ours"], part) for part in ("first_batch_seconds", "all_slabs_seconds", "first_slab_seconds"))
    smallest, one = figure("smallest pool", "first_batch_seconds"), figure("one object", "all_slabs_seconds")
    return (f"{batch:.2f}; {slabs:.2f}; {first:.2f} s", f"smallest pool {smallest:.2f}; one object {one:.2f} s", f"{batch / smallest:.2f}; {slabs / one:.2f} of its time", "–", "–")


def cells(row, found):
    """What is delivered; the limit; ours over it; ours over the peer as a whole; of that the egress: each over its own model alone."""
    if found["kind"] in OF_A_KIND:
        return OF_A_KIND[found["kind"]](row, found)
    ratios, ours = found["ratios_of"], found["ours"]
    limit = f"{row.limit} {number(found['contestants'][row.limit]['rate']['median'])}" if row.limit else "–"
    of_limit = interval(ratios[ours][row.limit]) if row.limit else "–"
    over_peer = times(ratios[ours][row.peer]) if row.peer else "–"
    egress = "–"
    if row.peer_alone:
        egress = f"{ratios[ours][row.limit]['median'] / ratios[row.peer][row.peer_alone]['median']:.3f}"
    elif row.peer and row.limit in (None, COPIES):
        egress = "all of it"        # neither side has a model
    return delivered(row, found), limit, of_limit, over_peer, egress


OF_A_KIND = {"latency": latency, "curve": curve, "start": start}


def table(saved):
    """The lines of revision.md."""
    by_id = {found["row"]: found for found in saved["rows"]}
    lines = ["| row | what | delivered | limit | ours over it | ours over the peer | of that, egress | revision |", "|" + "---|" * 8]
    for row in ROWS:
        if row.id in by_id:
            lines.append(f"| {row.id} | {row.what} | " + " | ".join(cells(row, by_id[row.id])) + f" | `{by_id[row.id]['revision']}` |")
    return lines


def short_table(saved):
    """The lines of the root README."""
    by_id = {found["row"]: found for found in saved["rows"]}
    lines = ["| what | delivered | of the limit | over the peer |", "|" + "---|" * 4]
    for row in ROWS:
        if row.short and row.id in by_id:
            found = by_id[row.id]
            all_delivered, _, of_limit, over_peer, _ = cells(row, found)
            over_peer = over_peer.partition(" ")[0]     # without its interval: lines of a README are short
            lines.append(f"| {row.short.format(readers=found['started_as'][found['ours']]['readers'])} | {all_delivered} | {of_limit} | {over_peer} |")
    return lines


def mixed(saved):
    """Why these rows are not of one table, or nothing."""
    anew = "Measure all rows of one anew: bench ROW... --json FILE, then revision_figures.py --merge FILE..."
    if not saved["rows"]:
        return f"measured/{SAVED}.json has no rows. {anew}"
    for what in ("revision", "device"):
        found = sorted({str(row.get(what)) for row in saved["rows"]})
        if len(found) > 1:
            return f"measured/{SAVED}.json has rows of several {what}s: {', '.join(found)}. {anew}"
    revision = saved["rows"][0].get("revision") or "unknown"
    if revision == "unknown" or revision.endswith("-dirty"):
        return f"measured/{SAVED}.json has rows of the revision '{revision}', which nobody can build again. {anew}"
    if saved["build"]["revision"] != revision:
        return f"measured/{SAVED}.json has rows of {revision} and tells of a build of {saved['build']['revision']}. {anew}"
    return ""


def between(text):
    """The lines that the program made, of a page."""
    return text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()


def check(measured, page, readme):
    """What is wrong; a list of texts."""
    saved = measured[SAVED]
    if problem := mixed(saved):
        return [problem]
    return [f"{path}: its table is not what measured/{SAVED}.json has; revision_figures.py prints it" for path, text, wanted in
            ((PAGE, page, table(saved)), (README, readme, short_table(saved))) if between(text) != wanted]


def condensed(row, whole):
    """Of a row as bench.py tells it: figures, not each window's."""
    kept = {name: value for name, value in row.items() if name not in ("contestants", "failure", "left_out", "cores")}
    kept["contestants"] = {name: {**{what: value for what, value in contestant.items() if what not in ("windows", "facts")},
                                  **({"rate_of_each_window": [window["batches_per_second"] for window in contestant["windows"]]} if row["kind"] == "contest" else {})}
                           for name, contestant in row["contestants"].items()}
    return rounded({**kept, "windows": whole["pace"]["windows"], "seconds_of_a_window": whole["pace"]["seconds"], "revision": whole["build"]["revision"],
                    "device": whole["machine"]["device"]})


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def merge(paths):
    rows, about = {}, {}
    for path in paths:
        whole = json.loads(pathlib.Path(path).read_text())
        about = {"machine": {name: value for name, value in whole["machine"].items() if name != "probe"}, "build": whole["build"]}
        rows.update({row["row"]: condensed(row, whole) for row in whole["rows"] if not row["failure"] and not row["left_out"]})
    for name in sorted(rows.keys() - {row.id for row in ROWS}):
        print(f"{name} has no place in the table, and is left out", file=sys.stderr)
    pathlib.Path(HERE, "measured", f"{SAVED}.json").write_text(json.dumps({**about, "rows": [rows[row.id] for row in ROWS if row.id in rows]}, indent=1) + "\n")


def main(argv):
    if argv[:1] == ["--merge"]:
        merge(argv[1:])
    saved = json.loads(pathlib.Path(HERE, "measured", f"{SAVED}.json").read_text())
    if problem := mixed(saved):
        sys.exit(problem)
    print("\n".join([*table(saved), "", *short_table(saved)]))


if __name__ == "__main__":
    main(sys.argv[1:])
