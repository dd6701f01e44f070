"""
Pictures to masks, by this system and by Ray Data, one after the other, several times: the same JPEG files, network, precision and sizes, PNG masks in a folder.

    RAY_PYTHON tests/bench/ray_data_contest.py [--device cpu] [--pictures 600] [--rounds 3] [--consumers 1] [--json FILE]

RAY_PYTHON has Ray with its data package, PyTorch, safetensors, NumPy and Pillow. The launch script's build is used. Told are pictures a second of whole runs,
from exec to exit, and of what is between a run's first and last mask, by the files' own times: a run's start is not in the latter.
"""

import argparse
import itertools
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE)]

from intervals import ratio  # noqa: E402: found beside this file

WANTED = 1.5
SHOT_SECONDS = 1800
LEFT_OUT = 0.1      # of a run's masks, at its begin and at its end: there not all of its parts are at work


def pictures_in(folder, count):
    """So many links to the demo's pictures."""
    originals = sorted((ROOT / "launch/demo/images").glob("*.jpg"))
    for number, original in zip(range(count), itertools.cycle(originals)):
        os.link(original, folder / f"{number:06}.jpg") if same_disk(original, folder) else shutil.copy(original, folder / f"{number:06}.jpg")


def same_disk(file, folder):
    return file.stat().st_dev == folder.stat().st_dev


def ours(options, pictures, output):
    return [str(ROOT / "launch/offramp"), "run", "--input", pictures, "--output", output, "--model", "cutout", "--device", options.device, "--precision",
            options.precision, "--batch", options.batch, "--image-size", options.image_size, "--processor", "mask-png", "--mask-size", "model",
            "--consumers", options.consumers]


def ray_data(options, pictures, output):
    return [sys.executable, HERE / "peers/ray_data.py", "--input", pictures, "--output", output, "--device", options.device, "--precision",
            options.precision, "--batch", options.batch, "--image-size", options.image_size, "--writers", options.consumers]


def shot(command, options, pictures):
    """{"whole", "steady"}: pictures a second."""
    with tempfile.TemporaryDirectory(prefix="offramp-bench-", dir=options.folder) as folder:
        output = pathlib.Path(folder, "masks")
        begin = time.time()
        done = subprocess.run([*map(str, command(options, pictures, output))], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
                              timeout=SHOT_SECONDS)
        seconds = time.time() - begin
        masks = sorted(file.stat().st_mtime for file in output.rglob("*.png"))
        if done.returncode != 0 or len(masks) != options.pictures:
            sys.exit(f"{command.__name__} ended with {done.returncode} and {len(masks)} of {options.pictures} masks:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        inner = masks[int(len(masks) * LEFT_OUT):int(len(masks) * (1 - LEFT_OUT))]
        return {"whole": len(masks) / seconds, "steady": (len(inner) - 1) / (inner[-1] - inner[0])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "tf32", "bf16"))
    parser.add_argument("--pictures", type=int, default=600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--image-size", type=int, default=256)
    parser.add_argument("--consumers", type=int, default=1, help="of ours, and Ray Data's writers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path, default=tempfile.gettempdir(), help="for pictures and masks")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    contestants = {"Offramp": ours, "Ray Data": ray_data}
    with tempfile.TemporaryDirectory(prefix="offramp-bench-", dir=options.folder) as folder:
        pictures_in(pathlib.Path(folder), options.pictures)
        rounds = {name: [] for name in contestants}
        for number in range(options.rounds):
            for name, command in (list(contestants.items()) if number % 2 == 0 else reversed(contestants.items())):
                rounds[name].append(shot(command, options, folder))
    report(options, rounds)


def report(options, rounds):
    import ray
    import torch
    told = {"machine": platform.processor() or platform.machine(), "cores": len(os.sched_getaffinity(0)), "device": options.device,
            "ray": ray.__version__, "torch": torch.__version__, "commit": commit(), "precision": options.precision,
            "pictures": options.pictures, "batch": options.batch, "image size": options.image_size, "consumers and writers": options.consumers,
            "rounds": rounds, "ratios": {}}
    print(", ".join(f"{name} {value}" for name, value in told.items() if name not in ("rounds", "ratios")))
    for kind in ("whole", "steady"):
        of = {name: [round_[kind] for round_ in shots] for name, shots in rounds.items()}
        told["ratios"][kind] = found = ratio(of["Offramp"], of["Ray Data"])
        rates = ", ".join(f"{name} {statistics.median(rates):.1f}" for name, rates in of.items())
        print(f"{kind}: {rates} pictures/s; over Ray Data {found['median']:.2f} [{found['low']:.2f}, {found['high']:.2f}], wanted {WANTED}")
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n")


def commit():
    return subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
