"""
One loop in PyTorch, and what becomes of its outputs, by turns in one process: dropped; `.cpu()`; worker processes and a queue; the best loop that is written by
hand (page-locked buffers that worker processes have mapped, a stream of its own, an event a copy); offramp.Egress. The last three are read by as many
processes of their own, every byte.

    python3 tests/bench/python_contest.py [--device cuda] [--windows 3] [--seconds 1] [--readers 12] [--json FILE] [WORKLOAD...]

Workloads, all by default: tf32, a network with 1.41 GB of outputs a batch; bf16, the same in bfloat16; copy, those outputs without a network, where the limit are
copies alone. On the CPU all of it is small. OFFRAMP_BIN_DIR names the folder of offramp-consumer, beside whose libraries the peers' reader lies
(libofframp_native_reader.so; without it they read with NumPy), OFFRAMP_LIBRARY the library; both default to build/release.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "peers"), str(HERE)]

import torch

import article
from progress import ProgressReader, make_progress_file
from python_loop import CONSUMER, Consumers, interval, machine_of, model_of, per_second, run_dir, settle
from tests.bench.intervals import ratio

import offramp

PRIMING_SECONDS = 0.4       # before a window
LOOK_SECONDS = 0.002        # between two looks at what is completed
SLABS = 8                   # a batch each, of the peers; the Egress's own choice holds as much
# Of the Egress over what, and what was wanted.
WANTED = {"tf32": {"dropped": 0.99, "by hand": 0.99, ".cpu()": 7, "queue": 5}, "bf16": {"dropped": 0.99, "by hand": 0.99}, "copy": {"copies alone": 0.99, "by hand": 1.2}}


class InFlight:
    """Bounds what is given to the device and not done: a loop would run seconds ahead."""

    def __init__(self, device):
        self._device, self._events = torch.device(device), collections.deque()

    def add(self):
        event = article.make_event(self._device)
        event.record()
        self._events.append(event)
        if len(self._events) > article.IN_FLIGHT:
            self._events.popleft().synchronize()


class Dropped:
    def __init__(self, device):
        self._in_flight = InFlight(device)

    def deliver(self, outputs):
        self._in_flight.add()


class ToTheHost:
    def deliver(self, outputs):
        outputs.cpu()


class CopiesAlone:
    """Into the buffers that the loop by hand has page-locked, one after another, which nobody reads."""

    def __init__(self, peer, device):
        self._buffers, self._next, self._in_flight = peer.buffers, 0, InFlight(device)

    def deliver(self, outputs):
        self._buffers[self._next % len(self._buffers)].copy_(outputs, non_blocking=True)
        self._next += 1
        self._in_flight.add()


class Peer:
    """One of article.py. Owns its processes, which end with this one."""

    def __init__(self, kind, options, outputs, folder):
        cells = f"{folder}/{kind.__name__}"
        make_progress_file(cells, options.readers + 1)
        given = argparse.Namespace(batch=len(outputs), readers=options.readers, reader="read-all", native_reader=native_reader(), slabs=SLABS, progress=cells)
        self._peer, self._progress = kind(given, torch.device(options.device), outputs), ProgressReader(cells)
        self.deliver = self._peer.deliver

    @property
    def buffers(self):
        return self._peer._buffers

    def completed(self):
        return self._progress.read()[0]


class ThroughTheEgress:
    def __init__(self, egress, keys):
        self._egress, self._keys = egress, keys

    def deliver(self, outputs):
        self._egress.submit({"logits": outputs}, self._keys)

    def completed(self):
        return self._egress.figures().samples_completed


class Watch(threading.Thread):
    """Notes when samples were completed, so that a window has no edges: a rate is taken between two completions."""

    def __init__(self, completed):
        super().__init__(daemon=True)
        self._completed, self._ended, self.changes = completed, threading.Event(), []

    def run(self):
        last = self._completed()
        while not self._ended.wait(LOOK_SECONDS):
            if (now := self._completed()) != last:
                last = now
                self.changes.append((time.perf_counter(), now))

    def rate(self):
        self._ended.set()
        self.join()
        (begin, first), (end, last) = self.changes[0], self.changes[-1]
        return (last - first) / (end - begin)


def flowing(contestant, make, seconds, device):
    """Batches a second that are read, while the loop goes on."""
    before, given, rows = contestant.completed(), 0, 0

    def step():
        nonlocal given, rows
        outputs = make()
        rows = len(outputs)
        contestant.deliver(outputs)
        given += 1

    begin = time.perf_counter()
    while time.perf_counter() - begin < PRIMING_SECONDS:
        step()
    watch = Watch(contestant.completed)
    watch.start()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(watch.changes) < 2:
        step()
    rate = watch.rate() / rows
    settle(device)
    while contestant.completed() < before + given * rows:
        time.sleep(0.001)
    return rate


def native_reader():
    for folder in (CONSUMER.parent.parent / "lib", CONSUMER.parent):
        if (folder / "libofframp_native_reader.so").exists():
            return str(folder / "libofframp_native_reader.so")
    return ""


def makers(device):
    """What makes a batch of outputs, by workload: all of one shape and type."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    network, images = model_of(device)
    short, small_images = model_of(device)
    short, small_images = short.to(torch.bfloat16), small_images.to(torch.bfloat16)
    with torch.no_grad():
        made = network(images).contiguous()
    return {"tf32": lambda: network(images).contiguous(), "bf16": lambda: short(small_images).float().contiguous(), "copy": lambda: made}


def contest(options):
    make = makers(options.device)
    rates = {workload: {name: [] for name in (*over, "Egress")} for workload, over in ((each, WANTED[each]) for each in options.workloads or WANTED)}
    with torch.no_grad(), contextlib.ExitStack() as at_end:
        outputs = make["copy"]()
        cells = at_end.enter_context(tempfile.TemporaryDirectory(prefix="offramp-bench-"))
        contestants = {"dropped": Dropped(options.device), ".cpu()": ToTheHost()}
        if any("queue" in each for each in rates.values()):
            contestants["queue"] = Peer(article.Workers, options, outputs, cells)
        contestants["by hand"] = Peer(article.PinnedStreams, options, outputs, cells)      # both before the Egress has threads: on a CPU they fork
        contestants["copies alone"] = CopiesAlone(contestants["by hand"], options.device)
        folder = run_dir()
        at_end.enter_context(Consumers(folder, options.readers, "--processor", "checksum"))
        egress = at_end.enter_context(offramp.Egress(folder, {"logits": (outputs.dtype, outputs.shape)}, options.device))
        contestants["Egress"] = ThroughTheEgress(egress, [f"frame-{row:06d}" for row in range(len(outputs))])
        for workload in rates:      # libraries choose kernels, readers start and map the whole pool
            for name in ("by hand", "Egress"):
                flowing(contestants[name], make[workload], 0.5, options.device)
        for _ in range(options.windows):
            for workload, measured in rates.items():
                for name, windows in measured.items():
                    contestant = contestants[name]
                    windows.append(flowing(contestant, make[workload], options.seconds, options.device) if hasattr(contestant, "completed") else
                                   per_second(lambda: contestant.deliver(make[workload]()), options.seconds, lambda: settle(options.device)))
    return {"bytes": outputs.numel() * outputs.element_size(), "batches_per_second": rates,
            "ratios": {workload: {name: ratio(measured["Egress"], measured[name]) for name in measured if name != "Egress"}
                       for workload, measured in rates.items()}}


def tell(told):
    for workload, measured in told["batches_per_second"].items():
        print(f"{workload}: " + "; ".join(f"{name} {statistics.median(windows):.2f}" for name, windows in measured.items()) + " batches/s")
        for name, over in told["ratios"][workload].items():
            wanted = WANTED[workload][name]
            print(f"    Egress over {name}: {interval(over)}, wanted {wanted}: {'reached' if over['median'] >= wanted else 'missed'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", choices=[*WANTED, []], metavar="WORKLOAD")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--readers", type=int, default=12 if torch.cuda.is_available() else 2)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    machine = {**machine_of(options.device), "readers": options.readers, "peers_read_with": "the consumers' loop" if native_reader() else "NumPy",
               "windows": options.windows, "seconds": options.seconds}
    print(", ".join(f"{name} {value}" for name, value in machine.items()), flush=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE / "peers"), str(HERE), os.environ.get("PYTHONPATH")]))     # the workers'
    torch.multiprocessing.get_context("forkserver").set_forkserver_preload(["readers"])
    begin = time.perf_counter()
    told = contest(options)
    tell(told)
    print(f"{time.perf_counter() - begin:.0f} s")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, **told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
