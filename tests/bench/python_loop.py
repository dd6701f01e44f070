"""
What the Python package costs a loop in PyTorch, on a GPU or, in small, on the CPU: the same model with its outputs dropped, with `.cpu()`, and with
offramp.Egress, by turns in one process; how long submit() keeps the loop; how many small batches go through; and what a processor in Python costs a slab.

    python3 tests/bench/python_loop.py [--device cuda] [--windows 5] [--seconds 3] [--json FILE] [PART...]

Parts, all by default: loop submit small processor. OFFRAMP_BIN_DIR names the folder of offramp-consumer, OFFRAMP_LIBRARY the library; both default to
build/release. Consumers read every byte of what they are given (`--processor checksum`).
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "launch" / "python")]

import torch

import offramp
from tests.bench.intervals import ratio

CONSUMER = pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR", ROOT / "build" / "release" / "bin"), "offramp-consumer")


class Consumers:
    """Processes that read a run's slabs. Use as a context; they end with the run."""

    def __init__(self, run_dir, count, *flags):
        self._command = [str(CONSUMER), "--run-dir", run_dir, "--log-level", "error", *flags]
        self._count = count

    def __enter__(self):
        self._all = [subprocess.Popen(self._command) for _ in range(self._count)]

    def __exit__(self, *exception):
        for consumer in self._all:
            try:
                consumer.wait(60)
            except subprocess.TimeoutExpired:
                consumer.kill()


def run_dir():
    return tempfile.mkdtemp(prefix="offramp-bench-") + "/run"


def settle(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def per_second(step, seconds, finish):
    """Steps a second, from the first one on until all of them are finished."""
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        step()
        steps += 1
    finish()
    return steps / (time.perf_counter() - begin)


def model_of(device):
    """A network whose outputs are large beside its work, and its input; nothing of ours is in it."""
    rows, side, classes = (64, 512, 21) if device.startswith("cuda") else (4, 64, 21)
    layers = [torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU()]
    for _ in range(12):
        layers += [torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Conv2d(64, classes, 1)).to(device).eval()
    return network.to(memory_format=torch.channels_last), torch.rand(rows, 3, side, side, device=device).contiguous(memory_format=torch.channels_last)


def loop(options):
    """Batches a second with outputs dropped, with .cpu(), and with an Egress, by turns."""
    network, images = model_of(options.device)
    keys = [f"frame-{row:06d}" for row in range(len(images))]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True

    def outputs():
        return network(images).contiguous()

    with torch.inference_mode():
        first = outputs()
        folder = run_dir()
        rates = {"dropped": [], "cpu": [], "egress": []}
        with Consumers(folder, options.consumers, "--processor", "checksum"), \
                offramp.Egress(folder, {"logits": (first.dtype, first.shape)}, options.device) as egress:
            submitted = 0

            def submit():
                nonlocal submitted
                egress.submit({"logits": outputs()}, keys)
                submitted += 1

            def delivered():
                settle(options.device)
                while egress.figures().samples_completed < submitted * len(images):
                    time.sleep(0.001)

            for _ in range(10):
                submit()
            delivered()
            def flowing(seconds):
                """Batches a second that consumers are done with, while the loop goes on: neither its beginning nor its end is in it."""
                for _ in range(12):
                    submit()
                begin, before = time.perf_counter(), egress.figures().samples_completed
                while time.perf_counter() - begin < seconds:
                    submit()
                after, took = egress.figures().samples_completed, time.perf_counter() - begin
                delivered()
                return (after - before) / len(images) / took

            for _ in range(options.windows):
                rates["dropped"].append(per_second(outputs, options.seconds, lambda: settle(options.device)))
                rates["egress"].append(flowing(options.seconds))
                rates["cpu"].append(per_second(lambda: outputs().cpu(), options.seconds / 2, lambda: settle(options.device)))
    size = first.numel() * first.element_size()
    of_dropped, of_cpu = ratio(rates["egress"], rates["dropped"]), ratio(rates["egress"], rates["cpu"])
    told = {"bytes": size, "consumers": options.consumers, "batches_per_second": {name: statistics.median(each) for name, each in rates.items()},
            "of_dropped": of_dropped, "of_cpu": of_cpu}
    print(f"loop: {size / 1e9:.2f} GB a batch, {options.consumers} consumers that read every byte: {told['batches_per_second']['egress']:.2f} batches/s "
          f"delivered; {interval(of_dropped)} of the loop with its outputs dropped, {interval(of_cpu)} of .cpu()", flush=True)
    return told


def interval(of):
    return f"{of['median']:.3f} [{of['low']:.3f}, {of['high']:.3f}]"


def submit(options):
    """How long submit() keeps a loop of 5 ms a step, so that no slab is waited for; and, by turns with it, how long a call of PyTorch's own does."""
    told = {}
    outputs = [torch.rand(64, 21, 64, 64, device=options.device) for _ in range(3)]
    on_gpu = options.device.startswith("cuda")
    event = torch.cuda.Event() if on_gpu else None

    def step(call):
        begin = time.perf_counter_ns()
        call()
        end = time.perf_counter_ns()
        while time.perf_counter_ns() - begin < 5e6:     # as a loop that computes: awake
            pass
        return (end - begin) / 1e3

    for named in (False, True):
        keys = [f"frame-{row:06d}" for row in range(64)] if named else None
        folder = run_dir()
        with Consumers(folder, 2, "--processor", "none"), offramp.Egress(folder, {"logits": ("float32", outputs[0].shape)}, options.device) as egress:
            times, of_torch = [], []
            for number in range(options.batches + 50):
                times.append(step(lambda: egress.submit({"logits": outputs[number % 3]}, keys)))
                of_torch.append(step(event.record if on_gpu else lambda: torch.empty(64, 64)))
        told["64 keys" if named else "no keys"] = {**percentiles(times[50:]), "torch": percentiles(of_torch[50:])}
    call = "torch.cuda.Event.record()" if on_gpu else "torch.empty()"
    print("submit: " + "; ".join(f"{name}: p50 {each['p50_us']:.1f} us, p99 {each['p99_us']:.1f} us, {call} in the same loop {each['torch']['p50_us']:.1f} "
                                 f"and {each['torch']['p99_us']:.1f} us" for name, each in told.items()), flush=True)
    return told


def percentiles(times):
    times = sorted(times)
    return {"p50_us": times[len(times) // 2], "p99_us": times[int(len(times) * 0.99)]}


def small(options):
    """Batches of 256 KiB a second, through the Egress alone."""
    outputs = [torch.rand(64, 1024, device=options.device) for _ in range(3)]
    folder = run_dir()
    with Consumers(folder, 4, "--processor", "none"), offramp.Egress(folder, {"vectors": ("float32", outputs[0].shape)}, options.device) as egress:
        number = 0

        def step():
            nonlocal number
            egress.submit({"vectors": outputs[number % 3]})
            number += 1

        rates = [per_second(step, options.seconds, lambda: None) for _ in range(options.windows)]
    print(f"small: 256 KiB a batch: median {statistics.median(rates):.0f} batches/s of {len(rates)} windows", flush=True)
    return {"batches_per_second": rates}


def processor(options):
    """Slabs a second of one consumer that does nothing, ours and in Python: the same run, one consumer after the other."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-bench-"))
    (folder / "post.py").write_text("def nothing(slab):\n    pass\n")
    outputs = torch.rand(16, 1024, device=options.device)
    rates = {"none": [], "python": []}
    names = {"none": ("--processor", "none"), "python": ("--processor", f"{folder / 'post.py'}:nothing", "--consumer-python", sys.executable)}
    for _ in range(options.windows):
        for name, flags in names.items():
            path = run_dir()
            with Consumers(path, 1, *flags), offramp.Egress(path, {"vectors": ("float32", outputs.shape)}, options.device, slabs=256,
                                                            samples_per_slab=16) as egress:
                while egress.figures().consumers < 1:
                    time.sleep(0.001)
                for _ in range(300):
                    egress.submit({"vectors": outputs})
                before, begin = egress.figures().samples_completed, time.perf_counter()
                while time.perf_counter() - begin < options.seconds:
                    egress.submit({"vectors": outputs})
                rates[name].append((egress.figures().samples_completed - before) / 16 / (time.perf_counter() - begin))
    medians = {name: statistics.median(each) for name, each in rates.items()}
    print(f"processor: 64 KiB a slab, one consumer: none {medians['none']:.0f} slabs/s, a Python function that does nothing {medians['python']:.0f}: "
          f"{1e6 / medians['python'] - 1e6 / medians['none']:.1f} us a slab more", flush=True)
    return {"slabs_per_second": rates}


PARTS = {"loop": loop, "submit": submit, "small": small, "processor": processor}


def machine_of(device):
    return {"device": torch.cuda.get_device_name(device) if device.startswith("cuda") else "CPU", "cores": len(os.sched_getaffinity(0)),
            "python": platform.python_version(), "torch": torch.__version__, "offramp": offramp.library_version()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--batches", type=int, default=1000, help="of the part submit")
    parser.add_argument("--consumers", type=int, default=8)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    machine = {**machine_of(options.device), "windows": options.windows, "seconds": options.seconds}
    print(", ".join(f"{name} {value}" for name, value in machine.items()), flush=True)
    told = {"machine": machine, **{part: PARTS[part](options) for part in options.parts or PARTS}}
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
