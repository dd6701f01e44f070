#!/usr/bin/env python3
"""Checks the model with Spin: see model.md.

check.py exhaustive|cycles|bitstate [--long]   the promises hold in every history within the bounds
check.py variants [NAME ...]                   each known-bad variant breaks its promise
check.py trail NAME                            a variant's shortest counterexample, step by step
check.py table [--write]                       the model's ledger matches transitions.txt
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TRANSITIONS = HERE / "transitions.txt"
STATES = ["free", "filling", "ready", "leased", "retired", "dead_letters"]
SMALL = {"SLABS": 2, "CONSUMERS": 2}
LARGE = {"SLABS": 3, "CONSUMERS": 3, "MAX_HOLDERS": 2}
MEMORY_LIMIT = "-DMEMLIM=3500"  # MiB
LONG_MEMORY_LIMIT = "-DMEMLIM=60000"

# Bounds of the model; for a bitstate search, also its size.
EXHAUSTIVE = {
    "two faults": {**SMALL, "BATCHES": 2, "FAULTS": 2},
    "every slab filled again": {**SMALL, "BATCHES": 3, "FAULTS": 1},
    "one slab at a time": {**SMALL, "BATCHES": 3, "FAULTS": 1, "WINDOW": 1},
}
EXHAUSTIVE_LONG = {
    "two faults, one slab at a time": {**SMALL, "BATCHES": 3, "FAULTS": 2, "WINDOW": 1},
    "two faults, every slab filled again": {**SMALL, "BATCHES": 3, "FAULTS": 2},
    "three faults": {**SMALL, "BATCHES": 2, "FAULTS": 3},
}
GROUPS = {
    "two groups": {"GROUPS": 2, "BATCHES": 3, "FAULTS": 2, "SPILLS": 2},
    "three groups": {"GROUPS": 3, "BATCHES": 3, "FAULTS": 2, "SPILLS": 1},
}
GROUPS_LONG = {"three groups, three faults": {"GROUPS": 3, "BATCHES": 4, "FAULTS": 3, "SPILLS": 2}}
CYCLES = {"no history goes round": {**SMALL, "BATCHES": 2, "FAULTS": 1}}
CYCLES_LONG = {"no history goes round": {**SMALL, "BATCHES": 2, "FAULTS": 2}}
BITSTATE = {"three and three": ({**LARGE, "BATCHES": 3, "FAULTS": 1, "WINDOW": 1}, ["-w27", "-k3"])}
BITSTATE_LONG = {"three and three": ({**LARGE, "BATCHES": 4, "FAULTS": 3}, ["-w35", "-k3"])}

# Known-bad variants: (switch, judged promise, assertion that it must break).
VARIANTS = {
    "recycle-on-expiry": ("RECYCLE_ON_EXPIRY", "MEMORY", "memory_is_reused_only_without_readers"),
    "release-without-generation": ("RELEASE_WITHOUT_GENERATION", "LOST", "no_batch_is_lost"),
    "holder-after-ticket": ("HOLDER_AFTER_TICKET", "MEMORY", "memory_is_reused_only_without_readers"),
    "release-once": ("RELEASE_ONCE", "LEAKS", "no_slab_leaks"),
    "push-pull": ("PUSH_PULL", "LOST", "no_batch_is_lost"),
    "only-the-last-completes": ("ONLY_THE_LAST_COMPLETES", "COUNTS", "finished_work_counts"),
    "old-releases-count": ("OLD_RELEASES_COUNT", "LOST", "no_batch_is_lost"),
    "messages-name-no-run": ("MESSAGES_NAME_NO_RUN", "MEMORY", "memory_is_reused_only_without_readers"),
}
# The same of groups.pml: (switch, assertion).
VARIANTS_OF_GROUPS = {
    "free-in-one-group": ("FREE_IN_ONE", "no_reader_sees_a_refill"),
    "half-given-stays": ("SKIP_HALF_GIVEN", "no_group_is_skipped"),
    "generations-stay-apart": ("KEEP_GENERATIONS", "generations_agree"),
    "others-keep-their-generation": ("PASS_OVER_NONE", "generations_agree"),
    "file-removed-first": ("REMOVE_FILE_FIRST", "no_group_is_skipped"),
    "file-and-slab-both-count": ("KEEP_COPIES", "no_group_is_skipped"),
}
ALL_VARIANTS = [*VARIANTS, *VARIANTS_OF_GROUPS]


class Checker:
    """One model as a compiled program that searches it. Owns: its working folder."""

    def __init__(self, model, definitions, compile_options, optimise="-O1"):
        self.folder = tempfile.TemporaryDirectory(prefix="offramp-model-")
        for source in HERE.glob("*.pml"):  # Spin looks for a trail beside its model
            shutil.copy(source, self.folder.name)
        self.model = model
        self.definitions = [
            f"-D{name}={value}" if value is not None else f"-D{name}" for name, value in definitions.items()
        ]
        run(["spin", *self.definitions, "-a", model], self.folder.name)
        run(["cc", optimise, "-w", "-DNOREDUCE", *compile_options, "-o", "pan", "pan.c"], self.folder.name)

    def search(self, arguments):
        return run(["./pan", *arguments], self.folder.name)

    def trail(self):
        """The steps to the error that the search found, one line each."""
        shown = run(["spin", *self.definitions, "-t", "-T", self.model], self.folder.name, may_fail=True)
        happened = shown.split("spin: ")[0].splitlines()
        broken = re.search(r"text of failed assertion: assert\((\w+)\)", shown)
        return [*happened, f"BROKEN: {broken.group(1)}" if broken else shown]


def run(command, folder, may_fail=False):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0 and not may_fail:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("check", choices=["exhaustive", "cycles", "bitstate", "variants", "trail", "table"])
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL_VARIANTS))
    options.add_argument(
        "--long", action="store_true", help="wider bounds: minutes to hours, and up to 60 GB of memory"
    )
    options.add_argument("--write", action="store_true", help="write transitions.txt from the model")
    chosen = options.parse_args()
    unknown = [name for name in chosen.names if name not in ALL_VARIANTS]
    if unknown:
        options.error(f"no variant is called {', '.join(unknown)}; there are {', '.join(ALL_VARIANTS)}")
    if chosen.check == "exhaustive":
        bounds, of_groups = (EXHAUSTIVE_LONG, GROUPS_LONG) if chosen.long else (EXHAUSTIVE, GROUPS)
        holds = all_hold(bounds, chosen.long, ["-DSAFETY"], [])
        return all_hold(of_groups, chosen.long, ["-DSAFETY"], [], "groups.pml") and holds
    if chosen.check == "cycles":
        return all_hold(CYCLES_LONG if chosen.long else CYCLES, chosen.long, ["-DNP"], ["-l"])
    if chosen.check == "bitstate":
        return bitstate_holds(BITSTATE_LONG if chosen.long else BITSTATE)
    if chosen.check == "variants":
        return all([breaks(name) for name in chosen.names or ALL_VARIANTS])
    if chosen.check == "trail":
        if len(chosen.names) != 1:
            options.error("name one variant")
        return breaks(chosen.names[0], show=True)
    return table_agrees(chosen.write)


# --- the promises ---


def all_hold(bounds, long, compile_options, arguments, model="broker.pml"):
    limit = LONG_MEMORY_LIMIT if long else MEMORY_LIMIT
    good = True
    for name, definitions in bounds.items():
        checker = Checker(model, definitions, [*compile_options, limit])
        found = checker.search(["-m1000000", *arguments])
        good = judged(name, definitions, checker, found, unreached_matters=not arguments) and good
    return good


def bitstate_holds(bounds):
    good = True
    for name, (definitions, arguments) in bounds.items():
        checker = Checker("broker.pml", definitions, ["-DSAFETY", "-DBITSTATE"])
        good = (
            judged(name, definitions, checker, checker.search(["-m1000000", *arguments]), unreached_matters=False)
            and good
        )
    return good


def judged(name, definitions, checker, found, unreached_matters):
    """Prints the result of the search. Returns True for a complete search without a broken promise."""
    bounds = ", ".join(f"{key.lower()} {value}" for key, value in definitions.items())
    states = re.search(r"(\S+) states, stored", found)
    errors = re.search(r"errors: (\d+)", found)
    whole = states and errors and "max search depth too small" not in found and "Search not completed" not in found
    unreached = unreached_lines(found) if unreached_matters else []
    print(
        f"{name} ({bounds}): {states.group(1) if states else '?'} states, errors: {errors.group(1) if errors else '?'}",
        flush=True,
    )
    if not whole:
        print(f"the search is incomplete:\n{found}")
        return False
    if errors.group(1) != "0":
        print("\n".join([*re.findall(r"pan:\d*:? ?(.*)", found)[:1], *checker.trail()]))
        return False
    for line in unreached:
        print(f"unreached, so nothing is proved of it: {line}")
    return not unreached


def unreached_lines(found):
    return [line.strip() for line in re.findall(r"^\t.*state \d+, \".*\"$", found, re.MULTILINE) if "-end-" not in line]


# --- the known-bad variants ---


def breaks(name, show=False):
    of_groups = name in VARIANTS_OF_GROUPS
    switch, promise = VARIANTS_OF_GROUPS[name] if of_groups else VARIANTS[name][::2]
    for faults in (1, 2):  # breadth first: the shortest counterexample of the fewest faults
        definitions = {"BATCHES": 2, "FAULTS": faults, switch: None}
        if not of_groups:
            definitions.update({**SMALL, "WINDOW": 1, "ONLY": VARIANTS[name][1], "SCRATCH": ""})
        model = "groups.pml" if of_groups else "broker.pml"
        checker = Checker(model, definitions, ["-DSAFETY", "-DBFS", MEMORY_LIMIT], optimise="-O0")
        found = checker.search(["-m1000000"])
        violated = re.search(r"assertion violated (\w+)", found)
        if violated:
            break
    else:
        print(f"{name}: no counterexample, so the model does not notice the variant\n{found}")
        return False
    print(f"{name}: {violated.group(1)} is broken with {faults} fault{'s' if faults > 1 else ''}", flush=True)
    if show:
        print("\n".join(checker.trail()))
    if violated.group(1) != promise:
        print(f"{name}: expected {promise} to be broken")
    return violated.group(1) == promise


# --- the table of transitions ---


def table_agrees(write):
    checker = Checker("table.pml", {}, ["-DSAFETY", "-DPRINTF"], optimise="-O0")
    found = checker.search(["-m1000000"])
    if "errors: 0" not in found:
        sys.exit(f"the listing failed:\n{found}")
    rows = {row_text(line) for line in found.splitlines() if line.startswith("ROW") and line.endswith("END")}
    rows = sorted(row for row in rows if row)
    if write:
        head = (
            "# What the ledger does, store by store: state attempt [holds of consumers 0 and 1] failures | event | stores.\n"
            "# An event that is not listed for a slab stores nothing, or is a caller's bug. Written by check.py table --write.\n"
        )
        TRANSITIONS.write_text(head + "\n".join(rows) + "\n")
        print(f"{TRANSITIONS}: {len(rows)} transitions")
        return True
    written = {line for line in TRANSITIONS.read_text().splitlines() if line and not line.startswith("#")}
    drift = [f"only the model: {row}" for row in rows if row not in written]
    drift += [f"not the model:  {row}" for row in sorted(written.difference(rows))]
    print("\n".join([*drift, f"{len(rows)} transitions, {len(drift)} differences from {TRANSITIONS.name}"]))
    return not drift


def row_text(line):
    """ROW 2 1 1 0 0 | 3 1 0 0 | h 1 2 s 3 2 1 | END  →  ready 1 [1 .] 0 | lease 1 | holder 1 2; leased 2"""
    before, event, stores, _ = (part.split() for part in line.removeprefix("ROW").split("|"))
    if not stores:
        return None
    state, attempt, first, second, failures = map(int, before)
    texts = []
    while stores:
        kind = stores.pop(0)
        values = [int(stores.pop(0)) for _ in range({"s": 3, "h": 2, "c": 1}[kind])]
        if kind == "s":
            texts.append(f"{STATES[values[0]]} {values[1]}" + (", next generation" if values[2] > 1 else ""))
        elif kind == "h":
            texts.append(f"holder {values[0]} {dots(values[1])}")
        else:
            texts.append(f"failures {values[0]}")
    return f"{STATES[state]} {attempt} [{dots(first)} {dots(second)}] {failures} | {event_text(*map(int, event))} | {'; '.join(texts)}"


def dots(attempt):
    return str(attempt) if attempt else "."


def event_text(event, consumer, attempt, kind):
    names = [
        "acquire",
        "abandon",
        "publish",
        "lease",
        "take-back",
        "expire",
        "release",
        "revoke",
        "dead-letter",
        "discard",
        "adopt",
        "vacate",
    ]
    name = names[event]
    if name == "release":
        return f"release {consumer} {attempt} {['completed', 'returned', 'failed'][kind - 1]}"
    if name == "revoke":
        return f"revoke {consumer}" + (" counted" if kind else "")
    return f"{name} {consumer}" if name in ("lease", "take-back") else name


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
