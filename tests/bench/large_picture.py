"""
What one large picture in tiles takes (launch/guide/runner.md): seconds, CPU seconds, and the peak memory of the programs and of the working file.

    python3 tests/bench/large_picture.py [--side 20000] [--tile 1024] [--picture FILE] [--bin build/release/bin]

The picture is made here, as a PNG, unless one is given. The network looks at each pixel alone and has 4 classes; two consumers write the mask. In a Python
that has torch, NumPy and Pillow. Seconds depend on what else the machine does; CPU seconds and memory do not.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import numpy
import torch
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.05


class Colours(torch.nn.Module):
    """Scores of the background and of three colours."""

    def forward(self, x):
        return torch.cat((x.mean(1, keepdim=True) + 0.02, x), 1)


def make_picture(path, side):
    Image.MAX_IMAGE_PIXELS = None
    coarse = numpy.random.default_rng(7).integers(0, 256, (60, 60, 3), dtype=numpy.uint8)
    Image.fromarray(coarse).resize((side, side), Image.BICUBIC).save(path, compress_level=3)


def make_network(folder):
    torch.jit.trace(Colours().eval(), torch.zeros(1, 3, 64, 64)).save(str(folder / "colours.pt"))
    (folder / "colours.toml").write_text('mean = "0, 0, 0"\nstd = "1, 1, 1"\n')
    return folder / "colours.pt"


def memory(pid, name):
    """In MiB; 0 once it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), 0)


def disk(folder):
    """What its files take, in MiB."""
    total = 0
    for path in folder.glob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:
            continue
    return total / 1048576


def measure(programs, model, picture, tile, folder):
    flags = ["--model", str(model), "--input", str(picture), "--tile", str(tile), "--device", "cpu", "--consumers", "2", "--run-dir", str(folder / "run"),
             "--output", str(folder / "output"), "--run-id", f"large-{os.getpid()}"]
    peak = dict.fromkeys(("producer", "producer_own", "consumer_own", "working_file"), 0)
    began = time.monotonic()
    with open(folder / "log", "wb") as log:
        producer, *consumers = children = [subprocess.Popen([str(programs / f"offramp-{name}"), *flags], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
                                           for name in ("producer", "consumer", "consumer")]
        ended = None
        while ended is None:
            peak["producer"] = max(peak["producer"], memory(producer.pid, "VmHWM"))
            peak["producer_own"] = max(peak["producer_own"], memory(producer.pid, "RssAnon"))
            peak["consumer_own"] = max(peak["consumer_own"], *(memory(child.pid, "RssAnon") for child in consumers))
            peak["working_file"] = max(peak["working_file"], disk(folder / "output/.offramp-tiles"))
            time.sleep(POLL_SECONDS)
            ended = waited(producer, os.WNOHANG)
        seconds = time.monotonic() - began
        spent = [ended, *(waited(child) for child in consumers)]
    if any(child.returncode for child in children):
        raise SystemExit((folder / "log").read_text(errors="replace"))
    told = json.loads((folder / "run/producer-summary.json").read_text())
    return {"seconds": round(seconds, 1), "cpu_seconds_producer": round(spent[0], 1), "cpu_seconds_consumers": round(sum(spent[1:]), 1),
            "tiles": told["samples"]["released"], **{f"{name}_mib": round(value) for name, value in peak.items()}}


def waited(child, how=0):
    """Its CPU seconds once it has ended; None before that."""
    pid, status, usage = os.wait4(child.pid, how)
    if pid == 0:
        return None
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 2)[1], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=20000)
    parser.add_argument("--tile", type=int, default=1024)
    parser.add_argument("--picture", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="offramp-large-") as scratch:
        folder = pathlib.Path(scratch)
        picture = options.picture
        if picture is None:
            picture = folder / "large.png"
            make_picture(picture, options.side)
        print(json.dumps(measure(options.bin.absolute(), make_network(folder), picture.absolute(), options.tile, folder)))


if __name__ == "__main__":
    main()
