#!/usr/bin/env python3
"""
The table of gpus.md, from what several_gpus.py measured; check_figures.py holds one against the other.

    gpu_figures.py FILE...      prints the rows: for the page
"""

import json
import pathlib
import sys

PAGE, PREFIX = "tests/bench/gpus.md", "gpus-"       # of the files of measured/ that it is made of


def rows_of(saved):
    """The lines of the table, of one file's parts."""
    told, machine = [], f"{saved['producers']} × {saved['machine']['device']}"
    for name, part in saved["parts"].items():
        if "sets" in part or "ways" in part or "deaths" in part:
            told += [f"| {machine} | {what} | {measured} | {found} | {wanted} |" for what, measured, found, wanted in ROWS[name](part)]
    return told


def contest(part, what, mine, other, found, wanted="–"):
    return what, f"{rate(part, mine)} over {rate(part, other)}", ratio(part["ratios"][found]), wanted


def rate(part, name):
    own = part["sets"][name]
    return f"{own['samples_per_second']['median']:.4g} samples/s ({own['gigabytes_per_second']['median']:.3g} GB/s)"


def ratio(found):
    return f"{found['median']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def wanted_of(part, what):
    return next((f"{target['wanted']:g}" for target in part["targets"] if target["what"] == what), "–")


def all_over_one(what):
    return lambda part: [contest(part, what, "all", "one", "all over one", wanted_of(part, "all over one"))]


def links(part):
    over = "ours over bare copies, all"
    return [contest(part, "W6, all links over bare copies on all", "all", "copies on all", over, wanted_of(part, over)),
            contest(part, "W6, one link over bare copies on one", "one", "copies on one", "ours over bare copies, one"),
            contest(part, "W6, all links over one", "all", "one", "all over one"),
            contest(part, "bare copies, all links over one", "copies on all", "copies on one", "copies, all over one")]


def nodes(part):
    return [contest(part, "W6, slabs on the GPU's own NUMA node over another's", "own node", "other node", "own over other")]


def two_on_one(part):
    told = []
    for way, rows in part["ways"].items():
        for row, found in rows.items():
            what = f"{row.partition('-')[0]}, two producers on one GPU, {way}"
            told += [contest(found, f"{what}: over one alone", "together", "alone", "together over alone", wanted_of(found, "together over alone"))]
            if "copies" in found["sets"]:
                told += [contest(found, f"{what}: over bare copies", "together", "copies", "together over copies", wanted_of(found, "together over copies"))]
            if hanging := next((name for name in found["sets"] if "hang" in name), None):
                told += [contest(found, f"{what}: one, while the other's consumers hang, over one alone", hanging, "alone", "alone beside a producer whose consumers hang")]
    return told


def deaths(part):
    back = part["back_seconds"]
    told = f"; back after {back['median']:.2f} s ({back['min']:.2f}–{back['max']:.2f})" if back else ""
    return [(f"W7, one producer killed every {part['kill_every']:g} s, {part['deaths']} times{told}", f"{part['rates']['killed']:.4g} over {part['rates']['undisturbed']:.4g} images/s",
             f"{part['of_undisturbed']:.3f}", wanted_of(part, "rate with deaths over undisturbed")),
            ("its outputs beside the undisturbed run's", f"{part['outputs']['lines']} checksums, {part['outputs']['pictures']} pictures",
             f"{part['outputs']['differing']} differ", "0")]


ROWS = {"a": all_over_one("W2, all GPUs over one"), "b": links, "c": all_over_one("W7, all GPUs over one"), "d": nodes, "e": two_on_one, "f": deaths}


def check(measured, text):
    """What the page lacks of what was measured, and what it has beside that; a list of texts."""
    wanted = [line for name, saved in measured.items() if name.startswith(PREFIX) for line in rows_of(saved)]
    there = [line for line in text.splitlines() if line.startswith("|") and " over " in line or " differ |" in line]
    return [f"{PAGE}: lacks what was measured: {line}" for line in wanted if line not in there] + \
        [f"{PAGE}: nothing that was measured says so: {line}" for line in there if line not in wanted]


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print("\n".join(rows_of(json.loads(pathlib.Path(path).read_text()))))
