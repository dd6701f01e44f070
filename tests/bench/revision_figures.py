#!/usr/bin/env python3
"""
The tables of rows that were all measured of one revision, on machines of one kind: those of revision.md, with a GPU and without. They are made of
measured/revision.json and revision-without-gpu.json; check_figures.py holds the page against them, and refuses a file with rows of several revisions or machines.

    revision_figures.py                    prints the tables: for the pages
    revision_figures.py --merge FILE...    what `bench --json` wrote on machines with a GPU, or without, into the file of such: each row as the last FILE has it;
                                           rows that are there stay, if they are of the last FILE's revision
"""

import json
import pathlib
import sys
from typing import NamedTuple

from targets import allowed_by_cores, slowest_of

HERE = pathlib.Path(__file__).resolve().parent
SAVED, PAGE = "revision", "tests/bench/revision.md"
WITHOUT_GPU = "revision-without-gpu"
BEGIN, END = "<!-- revision_figures.py: begin -->", "<!-- revision_figures.py: end -->"
BEGIN_WITHOUT_GPU = "<!-- revision_figures.py, without a GPU: begin -->"
ALONE, TRANSFORMED, COPIES, PINNED, PEER_ALONE = "compute alone", "model and transform alone", "copy ceiling", "article 4-pinned", "article, compute alone"
QUEUE, PLAIN, LIBRARY, DECODE, ENCODE = "multiprocessing.Queue", "plain PyTorch", "sentence-transformers", "decode limit", "encode limit"
TABLE = "executemany from a file"


class Row(NamedTuple):
    """`limit`, `peer`, `peer_alone`: contestants; none where the row has no such. Of several limits the slowest counts, of several peers each is told. `items`:
    what a batch's items are called, where these are counted. `no_model`: on neither side, so that all of a gain is the egress's."""
    id: str
    what: str
    limit: str | tuple = None
    peer: str | tuple = None
    peer_alone: str = None
    items: str = None
    no_model: bool = False


def long_windows(row, seconds):
    """What a row is called that was measured again, in longer windows."""
    return f"{row}, windows of {seconds:g} s"


ROWS = (
    Row("W1-host-write", "DeepLabV3 TF32, fp32 from the host; consumers write a copy", ALONE, PINNED),
    Row("W1-host-read", "the same, every byte read in place", ALONE, PINNED, PEER_ALONE),
    Row("W1-device-write", "DeepLabV3 TF32, input resident; consumers write a copy", ALONE, PINNED),
    Row("W1-device-read", "the same, every byte read in place", ALONE, PINNED, PEER_ALONE),
    *(Row(long_windows(f"W1-{way}", 7), "the same in longer windows", ALONE) for way in ("host-write", "host-read", "device-write", "device-read")),
    Row("W1-rungs-0-1", "W1-host-write; over the article's rungs 0 and 1", None, ("article 0", "article 1")),
    Row("W1-rungs-2-3", "the same; over its rungs 2 and 3", None, ("article 2", "article 3")),
    Row("W2-device", "DeepLabV3 bf16, input resident; every byte read", ALONE, PINNED, PEER_ALONE),
    Row("W2-host", "the same, fp32 from the host", ALONE, PINNED, PEER_ALONE),
    Row("W3-class-map", "W2-device, each pixel's class in 8 bits", TRANSFORMED),
    Row("W3-low-res-fp32", "logits before the last enlargement, fp32", TRANSFORMED),
    Row("W3-low-res-fp16", "the same in fp16", TRANSFORMED),
    Row("W4a-4-readers", "embeddings, 256 KiB a batch", None, PINNED, no_model=True),
    Row("W4a-1-reader", "the same, one consumer", None, PINNED, no_model=True),
    Row("W4b", "a small encoder as a CUDA graph, on both sides", ALONE, PINNED, PEER_ALONE),
    Row("W5", "four feature maps a batch, no model", COPIES),
    Row("W6", "no model: the link; every byte read", COPIES, PINNED, no_model=True),
    Row("W7", "made JPEG files in, PNG masks out", (TRANSFORMED, DECODE, ENCODE), PLAIN, items="images"),
    Row("W9-model", "DeepLabV3 bf16, fp32 from the host, outputs dropped", "resident"),
    Row("W9-link", "nothing but the upload; over pageable memory, async and blocking", None, ("pageable, async", "pageable, blocking")),
    Row("W10-cut-out", "rendered JPEG pictures in, masks and cut-outs out as PNG", ("model alone", DECODE, ENCODE), PLAIN, items="images"),
    Row("W11-sqlite", "lines of text to MiniLM's vectors in SQLite", ("model alone", TABLE), LIBRARY, items="lines"),
    Row("W12-nothing", "a function in Python that does nothing, one consumer", "built in"),
    Row("W12-readers", "the same, four consumers", "built in"),
    Row("W12-hash", "a shared object that reads every byte, one consumer", "compiled in"),
    Row("W12-copy", "W6, Python copies every byte", "shared object"),
    Row("W8-1-reader", "messages alone, one consumer", None, QUEUE, no_model=True),
    Row("W8-4-readers", "messages alone", None, QUEUE, no_model=True),
    Row("latency", "a slab's number through an idle channel: p50; p99", "libzmq alone", QUEUE),
    Row("E", "W2-device with 4, 6 and 12 consumers", ALONE),
    Row("start", "the first batch; all 8 slabs of 1.41 GB; the first slab"))
SHOWN_OF_CURVE = (4, 6, 12)     # consumers


class FilesRow(NamedTuple):
    """From files to files, on a CPU: `parts` are the contestants that do each a part of the work, and share the cores."""
    id: str
    what: str
    parts: tuple
    peer: str
    items: str


FILES_ROWS = (
    FilesRow("W7", "DeepLabV3: JPEG files in, PNG masks out", (TRANSFORMED, DECODE, ENCODE), PLAIN, "images"),
    FilesRow("W10-cut-out", "rendered JPEG pictures in, masks and cut-outs out as PNG", ("model alone", DECODE, ENCODE), PLAIN, "images"),
    FilesRow("W11-sqlite", "lines of text to MiniLM's vectors in SQLite", ("model alone", "tokenizer alone", TABLE), LIBRARY, "lines"),
    FilesRow("W11-postgres", "the same in PostgreSQL", ("model alone", "tokenizer alone", "COPY from memory"), LIBRARY, "lines"))


def number(value):
    """Three digits that count, thousands apart; three decimals below 1."""
    if value >= 999.5:
        step = 10 ** (len(str(round(value))) - 3)
        return f"{round(value / step) * step:,}"
    return f"{value:.{3 - len(str(int(value))) if value >= 1 else 3}f}"


def small(value):
    """Of what is to be none."""
    return f"{value:.2g}" if value < 10 else number(value)


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
    least, most = number(min(limits)), number(max(limits))
    return (f"{'; '.join(number(point['rate']['median']) for point in shown)} batches/s", f"{row.limit} {least if least == most else f'{least} to {most}'}",
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
    limits = found["contestants"]
    slowest = slowest_of(limits, row.limit) if isinstance(row.limit, tuple) else row.limit
    limit = f"{slowest} {number(limits[slowest]['rate']['median'] * (found['batch'] if row.items else 1))}" if slowest else "–"
    of_limit = interval(ratios[ours][slowest]) if slowest else "–"
    peers = row.peer if isinstance(row.peer, tuple) else (row.peer,) if row.peer else ()
    over_peer = "; ".join(times(ratios[ours][peer]) for peer in peers) or "–"
    egress = "–"
    if row.peer_alone:
        egress = f"{ratios[ours][row.limit]['median'] / ratios[row.peer][row.peer_alone]['median']:.3f}"
    elif row.no_model:
        egress = "all of it"
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


def files_cells(row, found, cores):
    """What is delivered; the slowest part, and ours over it; what the cores allow for all parts together, and ours of that; ours over the peer; page faults."""
    def median(name, part):
        return found["contestants"][name][part]["median"]
    def faults(name):
        """A batch of the program's, the producer's and all consumers'; lines are counted one by one."""
        of_a_batch = 1 if found["unit"] == "batches" else found["started_as"][name]["flags"]["batch"]
        return ", ".join(small(median(name, part) * of_a_batch) for part in ("producer_faults_per_batch", "readers_faults_per_batch"))
    ours = found["ours"]
    items = found["batch"] if found["unit"] == "batches" else 1
    slowest, allowed = slowest_of(found["contestants"], row.parts), allowed_by_cores(found["contestants"], row.parts, cores)
    of_allowed = f"{number(allowed * items)}; {median(ours, 'rate') / allowed:.2f}" if allowed < median(slowest, "rate") else "no less"
    return (f"{number(median(ours, 'rate') * items)} {row.items}/s", f"{slowest} {number(median(slowest, 'rate') * items)}",
            interval(found["ratios_of"][ours][slowest]), of_allowed, times(found["ratios_of"][ours][row.peer]),
            f"{faults(ours)}; {faults(row.peer)}")


def files_table(saved):
    """The lines of revision.md about machines without a GPU."""
    by_id = {found["row"]: found for found in saved["rows"]}
    lines = ["| row | what | delivered | slowest part | ours over it | what the cores allow; ours of it | ours over the peer | page faults a batch, producer's and consumers': "
             "ours; peer's | revision |", "|" + "---|" * 9]
    for row in FILES_ROWS:
        if row.id in by_id:
            lines.append(f"| {row.id} | {row.what} | " + " | ".join(files_cells(row, by_id[row.id], saved["machine"]["cores"])) + f" | `{by_id[row.id]['revision']}` |")
    return lines


def mixed(saved, name=SAVED):
    """Why these rows are not of one table, or nothing."""
    anew = "Measure all rows of one anew: bench ROW... --json FILE, then revision_figures.py --merge FILE..."
    if not saved["rows"]:
        return f"measured/{name}.json has no rows. {anew}"
    for what in ("revision", "device"):
        found = sorted({str(row.get(what)) for row in saved["rows"]})
        if len(found) > 1:
            return f"measured/{name}.json has rows of several {what}s: {', '.join(found)}. {anew}"
    revision = saved["rows"][0].get("revision") or "unknown"
    if revision == "unknown" or revision.endswith("-dirty"):
        return f"measured/{name}.json has rows of the revision '{revision}', which nobody can build again. {anew}"
    if saved["build"]["revision"] != revision:
        return f"measured/{name}.json has rows of {revision} and tells of a build of {saved['build']['revision']}. {anew}"
    return ""


def between(text, begin=BEGIN):
    """The lines that the program made, of a page."""
    return text.partition(begin)[2].partition(END)[0].strip().splitlines()


def check(measured, page):
    """What is wrong; a list of texts."""
    problems = [problem for name in (SAVED, WITHOUT_GPU) if (problem := mixed(measured[name], name))]
    return problems or [f"{path}: its table is not what measured/{name}.json has; revision_figures.py prints it" for path, found, name, wanted in
                        ((PAGE, between(page), SAVED, table(measured[SAVED])), (PAGE, between(page, BEGIN_WITHOUT_GPU), WITHOUT_GPU, files_table(measured[WITHOUT_GPU]))) if found != wanted]


OF_EACH_WINDOW = (("batches_per_second", "rate_of_each_window"), ("readers_faults_per_batch", "readers_faults_of_each_window"))


def condensed(row, whole):
    """Of a row as bench.py tells it: figures, not each window's."""
    kept = {name: value for name, value in row.items() if name not in ("contestants", "failure", "left_out", "cores")}
    kept["contestants"] = {name: {**{what: value for what, value in contestant.items() if what not in ("windows", "facts")},
                                  **({kept_as: [window[what] for window in contestant["windows"]] for what, kept_as in OF_EACH_WINDOW} if row["kind"] == "contest" else {})}
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
    wholes = [json.loads(pathlib.Path(path).read_text()) for path in paths]
    for name, places, of_it in ((SAVED, ROWS, [whole for whole in wholes if whole["machine"]["gpu"]]),
                                (WITHOUT_GPU, FILES_ROWS, [whole for whole in wholes if not whole["machine"]["gpu"]])):
        if of_it:
            merge_into(name, places, of_it)


def merge_into(name, places, wholes):
    file = pathlib.Path(HERE, "measured", f"{name}.json")
    found = merged(json.loads(file.read_text()), wholes)
    for row in sorted(found["rows"].keys() - {row.id for row in places}):
        print(f"{row} has no place in the table, and is left out", file=sys.stderr)
    found["rows"] = [found["rows"][row.id] for row in places if row.id in found["rows"]]
    if problem := mixed(found, name):
        sys.exit(f"Merged so, {problem} Nothing was written.")
    file.write_text(written(found))


def merged(saved, wholes):
    """What is saved, of the last one's revision, and these: rows by their names. In longer windows a row has a name of its own, if it has a place by it."""
    last, named = wholes[-1], {row.id for row in ROWS}
    rows = {row["row"]: row for row in saved["rows"] if row["revision"] == last["build"]["revision"]}
    for whole in wholes:
        for row in whole["rows"]:
            if not row["failure"] and not row["left_out"]:
                found = condensed(row, whole)
                long = long_windows(row["row"], found["seconds_of_a_window"])
                found["row"] = long if long in named else row["row"]
                rows[found["row"]] = found
    return {"machine": {part: value for part, value in last["machine"].items() if part != "probe"}, "build": last["build"], "rows": rows}


def written(saved):
    """A row a line."""
    about = json.dumps({name: value for name, value in saved.items() if name != "rows"}, indent=1).removesuffix("\n}")
    return about + ',\n "rows": [\n' + ",\n".join(json.dumps(row) for row in saved["rows"]) + "\n ]\n}\n"


def main(argv):
    if argv[:1] == ["--merge"]:
        merge(argv[1:])
    saved, without_gpu = (json.loads(pathlib.Path(HERE, "measured", f"{name}.json").read_text()) for name in (SAVED, WITHOUT_GPU))
    if problem := mixed(saved) or mixed(without_gpu, WITHOUT_GPU):
        sys.exit(problem)
    print("\n".join([*table(saved), "", *files_table(without_gpu)]))


if __name__ == "__main__":
    main(sys.argv[1:])
