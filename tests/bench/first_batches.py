"""
How long after its start a run delivers its first batch, in each shipped profile and precision, and how fast it is then, on this machine's GPU.

    python3 tests/bench/first_batches.py [--device cuda:0] [--beside BUILD/bin] [--json FILE] [NAME...]

Names, all by default: tf32, bf16 and fp32, DeepLabV3 in that precision; article, that profile; cutout, the shipped model; encoder. Each is a run of the launch
script by itself, so the first one also loads CUDA and LibTorch from the disk: a run that is not told goes before. BUILD/bin: another build's programs, by turns.
OFFRAMP_BIN_DIR names the folder of the programs, default build/release/bin.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from machine import describe_build, describe_machine
from processes import end_on_sigterm

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR", ROOT / "build/release/bin"))
MADE = ("--source", "synthetic", "--synthetic-on", "device", "--random-weights")
DEEPLAB = ("--model", "deeplabv3-resnet50", "--batch", "64", "--image-size", "512", *MADE)
RUNS = {     # flags, and how many batches tell the rate
    "tf32": ((*DEEPLAB, "--precision", "tf32"), 60), "bf16": ((*DEEPLAB, "--precision", "bf16"), 60), "fp32": ((*DEEPLAB, "--precision", "fp32"), 16),
    "article": (("--profile", "article", "--random-weights"), 60),
    "cutout": (("--model", "cutout", "--weights", str(ROOT / "launch/demo/cutout.safetensors"), "--batch", "64", *MADE[:4]), 60),
    "encoder": (("--model", "encoder", *MADE), 60)}
CONSUMERS = 8


def run(name, device, binaries, batches):
    """What its summary says."""
    flags, most = RUNS[name]
    with tempfile.TemporaryDirectory(prefix="offramp-first-batch-") as folder:
        run_dir = pathlib.Path(folder, "run")
        command = [ROOT / "launch/offramp", "run", "--device", device, *flags, "--batches", batches or most, "--processor", "checksum", "--consumers", CONSUMERS,
                   "--output", pathlib.Path(folder, "output"), "--run-dir", run_dir]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
                              env={**os.environ, "OFFRAMP_BIN_DIR": str(binaries), "OFFRAMP_PYTHON": sys.executable, "OFFRAMP_SKIP_PACKAGES": "1"})
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        summary = json.loads((run_dir / "producer-summary.json").read_text())
    return {what: summary[what] for what in ("precision", "memory_format", "batch", "first_batch_seconds", "batches_per_second")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("names", nargs="*", choices=[*RUNS, []], metavar="NAME")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--beside", type=pathlib.Path, metavar="FOLDER", help="programs of another build")
    parser.add_argument("--batches", type=int, default=0, help="of each run (default: enough for a rate)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    end_on_sigterm()
    names = options.names or list(RUNS)
    builds = {"ours": BINARIES, **({"beside": options.beside.absolute()} if options.beside else {})}
    run(names[0], options.device, BINARIES, options.batches or 2)
    found = []
    for name in names:
        for build, binaries in builds.items():
            found.append({"run": name, "build": build, **run(name, options.device, binaries, options.batches)})
            told = found[-1]
            print(f"{name:8} {build:6} {told['precision']} {told['memory_format']}: first batch after {told['first_batch_seconds']:.2f} s, then "
                  f"{told['batches_per_second']:.4g} batches/s", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": describe_machine(BINARIES), "build": describe_build(BINARIES, ROOT), "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
