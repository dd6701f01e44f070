#!/usr/bin/env python3
"""What delivery costs: each row is one run that also measures its own limits, with the same model, buffers and slabs.

    tests/bench/delivery.py [--bin build/release/bin] [--rows copy,tf32,...] [--small] [--json FILE]

Prints machine, build, sizes, and for each row the delivered rate, the limit measured in the same run, and their ratio. The first 5
batches are left out. Delivered means released: every byte was read by a consumer, in another process. --small is for machines
without a GPU: it shows that the benchmark runs, not how fast anything is.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARTICLE_BYTES = 64 * 21 * 512 * 512 * 4
DEEPLAB = ["--model", "deeplabv3-resnet50", "--batch", "64", "--image-size", "512", "--processor", "checksum", "--slabs", "8"]
# The same 11.3 GB as 8 slabs of a whole batch, cut finer: 63 of 64 can be read while one is filled, instead of 7 of 8.
COPY = ["--model", "copy", "--copy-bytes", str(ARTICLE_BYTES), "--batch", "64", "--processor", "checksum", "--samples-per-slab", "8", "--slabs", "64"]

# name: (what is run, its limit, wanted ratio, consumers, flags, flags of --small)
SMALL = ["--batch", "4", "--batches", "12", "--slabs", "4", "--measure-limits", "3"]
SMALL_COPY = ["--copy-bytes", "4MiB", *SMALL]
SMALL_DEEPLAB = ["--image-size", "64", "--precision", "fp32", *SMALL]
ROWS = {
    "copy-8": ("copy, 1.41 GB a batch, 8 readers of every byte", "copy", 0.97, 8, [*COPY, "--batches", "605", "--measure-limits", "20"], SMALL_COPY),
    "copy-12": ("copy, 1.41 GB a batch, 12 readers of every byte", "copy", 0.97, 12, [*COPY, "--batches", "605", "--measure-limits", "20"], SMALL_COPY),
    "tf32": ("DeepLabV3 TF32, raw fp32 logits, resident input", "compute", 0.98, 8,
             [*DEEPLAB, "--precision", "tf32", "--synthetic-on", "device", "--batches", "105", "--measure-limits", "25"], SMALL_DEEPLAB),
    "tf32-host": ("DeepLabV3 TF32, raw fp32 logits, fp32 input from the host", "compute", 0.98, 8,
                  [*DEEPLAB, "--precision", "tf32", "--synthetic-on", "host", "--batches", "105", "--measure-limits", "25"], SMALL_DEEPLAB),
    "bf16": ("DeepLabV3 bf16 channels-last, raw fp32 logits, resident input", "compute", 0.96, 8,
             [*DEEPLAB, "--precision", "bf16", "--synthetic-on", "device", "--batches", "205", "--measure-limits", "40"], SMALL_DEEPLAB),
    "bf16-host": ("DeepLabV3 bf16 channels-last, raw fp32 logits, fp32 input from the host", "compute", 0.96, 8,
                  [*DEEPLAB, "--precision", "bf16", "--synthetic-on", "host", "--batches", "205", "--measure-limits", "40"], SMALL_DEEPLAB),
    "bf16-class-map": ("DeepLabV3 bf16 channels-last, class map on the GPU, resident input", "compute", 0.96, 4,
                       [*DEEPLAB, "--precision", "bf16", "--synthetic-on", "device", "--transform", "class-map", "--batches", "205", "--measure-limits", "40"],
                       SMALL_DEEPLAB),
    "memory-1000": ("copy, 256 MiB a batch, 1,000 batches: what stays flat", "copy", None, 8,
                    [*COPY, "--copy-bytes", "256MiB", "--batches", "1000"], SMALL_COPY),
}


def faults_and_memory(pid):
    """Minor and major page faults so far, and resident private bytes, of one process."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        return {"faults": int(stat[7]) + int(stat[9]), "private_kib": int(status["RssAnon"].split()[0])}
    except (OSError, KeyError, IndexError):
        return None


def run_row(name, binaries, small):
    what, limit, wanted, consumers, flags, small_flags = ROWS[name]
    if small:
        flags, consumers = [*flags, *small_flags], 2
    with tempfile.TemporaryDirectory(prefix="offramp-bench-") as folder:
        run_dir = f"{folder}/run"
        flags = [*flags, "--run-dir", run_dir, "--log-level", "warning"]
        children = [subprocess.Popen([f"{binaries}/offramp-producer", *flags, "--run-id", f"bench-{os.getpid()}"])]
        children += [subprocess.Popen([f"{binaries}/offramp-consumer", *flags]) for _ in range(consumers)]
        steady = watch(children, run_dir)
        code = children[0].wait(timeout=600)
        for child in children[1:]:
            child.terminate()
            child.wait(timeout=30)
        if code != 0:
            sys.exit(f"row {name}: the producer ended with {code}")
        summary = json.loads(pathlib.Path(run_dir, "producer-summary.json").read_text())
    ratio = (summary["limits"] or {}).get("delivered_over_copy_ceiling" if limit == "copy" else "delivered_over_compute")
    return {"row": name, "what": what, "limit": limit, "wanted": wanted, "ratio": ratio, "steady": steady, "consumers": consumers, "summary": summary}


def watch(children, run_dir):
    """Page faults and private memory between the warm-up's end and the last look."""
    first = last = None
    while children[0].poll() is None:
        try:
            status = json.loads(pathlib.Path(run_dir, "status.json").read_text())
            done = status["batches"] if status["done_samples"] < 0.9 * status["total_samples"] else 0
        except (OSError, ValueError, KeyError):
            done = 0
        if done >= 20:   # and the end, where the limits are measured again, is left out
            look = {"batches": done, "producer": faults_and_memory(children[0].pid), "consumers": [faults_and_memory(c.pid) for c in children[1:]]}
            if look["producer"] and None not in look["consumers"]:
                first, last = first or look, look
        time.sleep(0.05)
    if not first or not last or last["batches"] <= first["batches"]:
        return None
    batches = last["batches"] - first["batches"]
    return {"batches": batches,
            "producer_faults_per_batch": (last["producer"]["faults"] - first["producer"]["faults"]) / batches,
            "producer_private_mib": [first["producer"]["private_kib"] / 1024, last["producer"]["private_kib"] / 1024],
            "consumer_faults_per_batch": sum(b["faults"] - a["faults"] for a, b in zip(first["consumers"], last["consumers"])) / batches,
            "consumers_private_mib": [sum(c["private_kib"] for c in look["consumers"]) / 1024 for look in (first, last)]}


def describe_machine(binaries):
    probe = json.loads(subprocess.run([f"{binaries}/offramp-producer", "--probe"], capture_output=True, text=True, check=True).stdout)
    device, pinning = probe["device"], probe["pinning"]
    link = f"PCIe {device['pcie_generation']} x{device['pcie_width']}" if device.get("pcie_generation") else "link unknown"
    return (f"machine: {device['name']}, driver {device['driver_version']}, CUDA {device['runtime_version']}, {link}, {probe['cores']} cores, "
            f"{platform.release()}; page-locked copy {pinning['gigabytes_per_second']:.1f} GB/s (registered: {pinning['registered']})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    print(describe_machine(options.bin))
    print(f"build: {options.bin}; {'SMALL sizes, no measurement' if options.small else 'full sizes'}\n")
    print("| row | what | delivered | limit in the same run | ratio | wanted |\n|---|---|---|---|---|---|")
    rows = []
    for name in options.rows.split(","):
        row = run_row(name, options.bin, options.small)
        rows.append(row)
        summary, limits = row["summary"], row["summary"]["limits"] or {}
        delivered = f"{summary['batches_per_second']:.2f} batches/s, {summary['gigabytes_per_second']:.1f} GB/s"
        limit = (f"{limits.get('copy_gigabytes_per_second', 0):.1f} GB/s" if row["limit"] == "copy" else f"{limits.get('compute_batches_per_second', 0):.2f} batches/s")
        ratio = f"{row['ratio']:.3f}" if row["ratio"] else "-"
        print(f"| {name} | {row['what']}, {row['consumers']} consumers | {delivered} | {limit} | {ratio} | {'>= ' + str(row['wanted']) if row['wanted'] else '-'} |", flush=True)
        if row["steady"]:
            print(f"|  | steady: {json.dumps(row['steady'])} | | | | |", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
