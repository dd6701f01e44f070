"""
What `offramp tune` finds, beside the best of a full grid: pictures through the small model that is shipped, on the CPU, with consumers that sleep for each
picture, as those do that wait for a disk or a server. Then both settings by turns, as the grid's best is the luckiest of many.

    python3 tests/bench/tuning.py [--seconds 120] [--rounds 3] [--json FILE]
"""

import argparse
import itertools
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "launch"))

from machine import describe_build, describe_machine  # noqa: E402
from processes import end, end_on_sigterm  # noqa: E402

from offramp_launch.places import here  # noqa: E402
from offramp_launch.supervision.following import Bounds  # noqa: E402
from offramp_launch.tuning.trial import Trials  # noqa: E402

BINARIES = pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR", ROOT / "build/release/bin"))
PICTURES = 12000
GRID = {"batch": (4, 16, 64), "decode-workers": (1, 2, 4), "slabs": (8, 32), "consumers": (1, 2, 4)}
POST = """
import time

def wait(slab):
    time.sleep(0.01 * len(slab.samples))
"""


def make_input(folder):
    """The shipped pictures, again and again."""
    shipped = sorted((ROOT / "launch/demo/images").glob("*.jpg"))
    folder.mkdir()
    for number in range(PICTURES):
        if number < len(shipped):
            (folder / f"{number:05}.jpg").write_bytes(shipped[number].read_bytes())
        else:
            os.link(folder / f"{number % len(shipped):05}.jpg", folder / f"{number:05}.jpg")


def measured(trials, setting, consumers):
    return trials.measure(setting, consumers, Bounds(consumers, consumers), time.monotonic() + 60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="offramp-tuning-") as name:
        folder = pathlib.Path(name)
        make_input(folder / "pictures")
        (folder / "post.py").write_text(POST)
        return compare(folder, given)


def said_by(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        told = process.communicate()[0]
    finally:
        end(process)
    if process.returncode:
        sys.exit(f"{shlex.join(command)} ended with {process.returncode}")
    return told


def compare(folder, given):
    flags = ["--input", str(folder / "pictures"), "--model", "cutout", "--image-size", "64", "--device", "cpu", "--processor", f"{folder / 'post.py'}:wait",
             "--consumer-python", sys.executable]
    began = time.monotonic()
    tuned = json.loads(said_by([str(ROOT / "launch/offramp"), "tune", "--json", "--seconds", str(given.seconds), *flags, "--output", str(folder / "results")]))
    seconds = time.monotonic() - began
    machine = describe_machine(BINARIES)
    del machine["probe"]
    told = {"machine": machine, "build": describe_build(BINARIES, ROOT), "sizes": {"pictures": PICTURES, "image_size": 64, "sleep_seconds": 0.01},
            "tune": {"seconds": round(seconds, 1), **tuned}, "grid": [], "rounds": []}
    setting, consumers = {name: tuned["best"][name] for name in ("batch", "decode-workers", "slabs")}, tuned["best"]["consumers"]
    print(f"tune: {len(tuned['tried'])} trials in {seconds:.0f} s: {setting}, {consumers} consumers: {tuned['best']['rate']:.1f} samples/s", flush=True)
    trials = Trials(here(), flags, {}, folder)
    try:
        best = of_the_grid(trials, told["grid"])
        print(f"grid: {len(told['grid'])} settings: {best}", flush=True)
        ours, theirs = (setting, consumers), ({name: best[name] for name in ("batch", "decode-workers", "slabs")}, best["consumers"])
        for number in range(given.rounds):
            rates = {}
            for who, each in (("tune", ours), ("grid", theirs))[:: 1 if number % 2 == 0 else -1]:
                rates[who] = measured(trials, *each).rate
            told["rounds"].append(rates)
            print(f"by turns: tune's {rates['tune']:.1f}, the grid's {rates['grid']:.1f} samples/s: {rates['tune'] / rates['grid']:.3f}", flush=True)
    finally:
        trials.close()
    print(f"median: {statistics.median(each['tune'] / each['grid'] for each in told['rounds']):.3f}")
    if given.json:
        given.json.write_text(json.dumps(told, indent=1) + "\n")
    return 0


def of_the_grid(trials, rows):
    for values in itertools.product(*GRID.values()):
        row = dict(zip(GRID, values))
        outcome = measured(trials, {name: row[name] for name in ("batch", "decode-workers", "slabs")}, row["consumers"])
        rows.append({**row, "rate": round(outcome.rate, 2) if outcome else None, "limiting": outcome.limiting if outcome else None, "error": outcome.error if outcome else ""})
    return max((row for row in rows if row["rate"]), key=lambda row: row["rate"])


if __name__ == "__main__":
    sys.exit(main())
