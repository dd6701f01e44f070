#!/usr/bin/env python3
"""
What several GPUs of one host do together, what two producers on one GPU do, and what a producer that is killed again and again costs. gpus.md says how it is
measured.

    several_gpus.py                          all parts, on all GPUs
    several_gpus.py --parts a,b,c --json F   some of them
    several_gpus.py --device cpu             the same in small, with two producers on the CPU: shows that all of it works, and measures nothing

    a  W2 on all GPUs over one          d  slabs on the GPU's NUMA node, and on another
    b  W6 on all links over copies      e  two producers that share a GPU
    c  W7 on all GPUs over one          f  one GPU's producer is killed again and again
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "launch")]

import gpu_shares as shares_of  # noqa: E402: where modules are is said first
from contest import Pace, rounds_of  # noqa: E402
from contestants import ContestantError, Peer, Places, flag_list  # noqa: E402
from given import Given  # noqa: E402
from intervals import ratio, spread  # noqa: E402
from machine import ask, describe_build, describe_machine  # noqa: E402
from materials import Materials, Wanting  # noqa: E402
from processes import end_on_sigterm  # noqa: E402
from offramp_launch.exit_code import LaunchError  # noqa: E402
from offramp_launch.gpus.devices import devices_of  # noqa: E402
from workloads import make_rows  # noqa: E402

PARTS = ("a", "b", "c", "d", "e", "f")
PACE = Pace(windows=4, seconds=3.0)
SMALL_PACE = Pace(windows=2, seconds=0.3, settle_seconds=0.1, warmup_batches=2, warm_seconds=0)
E_SECONDS = 2.0                     # of a window of part e, which has twice as many contests
KEPT_CORES = 2                      # of each GPU's share, for its producer
BATCHES = {"gpu": 100_000, "cpu": 1_000_000}
LEAST_DEATH_ITEMS = 150             # of part f in its small form
HANGING = "alone, the other's consumers hang"
USAGE, FAILED, UNAVAILABLE = 64, 1, 69
GPU_FACTS = "index,name,uuid,pci.bus_id,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,memory.total,driver_version"
COPY_PROBE = """
import sys, time, numpy
a = numpy.ones(1 << 27, numpy.uint8); b = numpy.empty_like(a); b[:] = a
until, count, began = time.monotonic() + float(sys.argv[1]), 0, time.monotonic()
while time.monotonic() < until:
    b[:] = a; count += 1
print(count * a.nbytes / (time.monotonic() - began) / 1e9)
"""


class OutOfTime(ContestantError):
    """A part's time is up."""


def parse(argv):
    parser = argparse.ArgumentParser(prog="several_gpus.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), metavar="A,B,...")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpus", metavar="WHICH", help="as of `run --gpus` (default: all; with --device cpu: 2)")
    parser.add_argument("--small", action="store_true", help="small sizes, no measurement (always with --device cpu)")
    parser.add_argument("--start", choices=("supervised", "driver"), default="supervised", help="of parts a, b and c: `offramp run --gpus`, or producers that this "
                        "program binds as that does; where the first fails the second is tried")
    parser.add_argument("--windows", type=int, metavar="N", help=f"of each kind (default {PACE.windows})")
    parser.add_argument("--seconds", type=float, metavar="S", help=f"least length of a window (default {PACE.seconds:g}, in part e {E_SECONDS:g})")
    parser.add_argument("--consumers", type=int, default=12, metavar="N", help="of a GPU (default 12, fewer where cores are short)")
    parser.add_argument("--death-seconds", type=float, metavar="S", help="part f: of a run, about (default 60)")
    parser.add_argument("--kill-every", type=float, metavar="S", help="part f: from one death to the next (default 10)")
    parser.add_argument("--death-items", type=int, metavar="N", help="part f: pictures (default: as many as take that long, by a look at the rate)")
    parser.add_argument("--death-shards", type=int, default=2, metavar="N", help="part f: of each producer (default 2)")
    parser.add_argument("--part-seconds", type=float, default=240, metavar="S", help="a part that takes longer is given up (default 240)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything that was measured here")
    parser.add_argument("--keep-logs", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR") or ROOT / "build/release/bin"), help="folder of the programs")
    options = parser.parse_args(argv)
    options.parts = [part for part in options.parts.split(",") if part]
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"--parts: '{unknown[0]}' is none; there are {', '.join(PARTS)}")
    if options.windows is not None and options.windows < 2:
        parser.error("--windows: an interval wants two windows or more")
    options.small = options.small or options.device == "cpu"
    options.gpus = options.gpus or ("all" if options.device == "cuda" else "2")
    options.death_seconds = options.death_seconds or (12 if options.small else 60)
    options.kill_every = options.kill_every or (3 if options.small else 10)
    return options


def pace_of(options):
    pace = SMALL_PACE if options.small else PACE
    return dataclasses.replace(pace, **{name: value for name, value in (("windows", options.windows), ("seconds", options.seconds)) if value is not None})


class Bench:
    """What the parts share. Thread: one."""

    def __init__(self, options, devices, places, cores):
        self.options, self.devices, self.places = options, devices, places
        self.pace, self.small, self.gpu = pace_of(options), options.small, options.device == "cuda"
        self.rows = {row.id: row for row in make_rows(self.small, gpu=True)}
        self.consumers = max(1, min(options.consumers if not self.small else 2, cores // len(devices) - KEPT_CORES))
        self._began = time.monotonic()

    def tell(self, text):
        print(f"[{time.monotonic() - self._began:6.1f} s] {text}", flush=True)

    def ours(self, row):
        return self.rows[row].contestants[0]

    def flags_of(self, spec, number, materials=None):
        """Of `number` producers together, as `run --gpus` divides them; of one with 1."""
        flags = materials.fill_in(spec.flags) if materials else dict(spec.flags)
        flags = {**flags, **{name: flags[name] * number for name in ("slabs", "decode-workers") if flags.get(name)}}
        if "batches" not in flags:
            flags["batches"] = BATCHES["gpu" if not self.small else "cpu"]
        return {**flags, "warmup-batches": 0, "device": self.options.device}

    def places_on(self, device, node=None, cores=None, **environment):
        return dataclasses.replace(self.places, environment={**self.places.environment, **device.environment, **environment},
                                   prepare=shares_of.bound(device.cores if cores is None else cores, node))

    def one(self, stack, name, row, device, places=None, materials=None):
        """A producer with consumers that this program starts."""
        spec = self.ours(row)
        share = shares_of.SharedRun(name, places or self.places_on(device), self.flags_of(spec, 1, materials), self.consumers, spec.consumer_flags, spec.program)
        stack.callback(share.close)
        return share

    def copies(self, stack, name, places):
        """The link's limit: copies and nothing else, page-locked."""
        spec = self.rows["W6"].contestants[1]
        if not self.gpu:
            places = dataclasses.replace(places, environment={**places.environment, "CUDA_VISIBLE_DEVICES": ""})
        peer = Peer(name, places, spec.program, spec.flags, spec.readers)
        stack.callback(peer.close)
        return peer

    def all_of(self, stack, row, materials=None):
        """(how they were started, a share for each GPU), warmed up and stopped."""
        batch, spec = self.rows[row].batch, self.ours(row)
        if self.options.start == "supervised":
            flags = {**self.flags_of(spec, len(self.devices), materials), "consumers": self.consumers * len(self.devices)}
            run = shares_of.GpusRun(f"{row} on all", self.places, self.options.gpus, flags, len(self.devices), pathlib.Path(stack.enter_context(self.folder()), "output"))
            stack.callback(run.close)
            try:
                run.start()
                run.wait_until_shared(len(self.devices), self.pace.warmup_batches * batch, self.consumers)
                time.sleep(self.pace.warm_seconds)
                for share in run.shares:
                    share.pause()
                self.tell(f"{row}: `run --gpus` with {len(run.shares)} producers is warm")
                return run.told, run.shares
            except OutOfTime:
                raise
            except ContestantError as problem:
                self.tell(f"{row}: `run --gpus` did not come to work, producers are started one by one: {problem}")
                run.close()
        shares = [self.one(stack, f"{row} {device.name}", row, device, materials=materials) for device in self.devices]
        self.load(shares, batch)
        return "producers bound as `run --gpus` binds them", shares

    def load(self, shares, batch, together=False):
        """One after another, so that none tunes itself beside another."""
        for share in shares if together else ():
            share.start()
        for share in shares:
            if not together:
                share.start()
            share.wait_until_warm(self.pace.warmup_batches * batch)
            share.run_on(self.pace.warm_seconds)
            share.pause()
            self.tell(f"{share.name} is warm")

    def folder(self):
        return tempfile.TemporaryDirectory(prefix="offramp-gpus-", ignore_cleanup_errors=True)

    def materials(self, stack):
        folder = pathlib.Path(stack.enter_context(self.folder()))
        return Materials(folder, folder, stack, self.places.given, self.gpu, self.small, self.places.binaries)

    def contest(self, sets, pace=None):
        """Windows of each set by turns; {name: [window]}. A value is the shares, or what makes a window of them."""
        pace = pace or self.pace
        windows = {name: [] for name in sets}
        for number, order in enumerate(rounds_of(list(sets), pace.windows)):
            for name in order:
                windows[name].append(sets[name](pace) if callable(sets[name]) else shares_of.window_of(sets[name], pace))
            self.tell(f"round {number + 1}: " + ", ".join(f"{name} {windows[name][-1]['rate']:.5g} samples/s ({windows[name][-1]['bytes'] / 1e9:.4g} GB/s)"
                                                          for name in sets))
        return windows


def result_of(windows, batch, ratios, targets=(), **more):
    """`ratios`: {what: (set, over set)}; `targets`: {what: least}."""
    found = {what: ratio([window["rate"] for window in windows[mine]], [window["rate"] for window in windows[other]]) for what, (mine, other) in ratios.items()}
    return {"batch": batch, "sets": {name: {"samples_per_second": spread([window["rate"] for window in own]),
                                            "gigabytes_per_second": spread([window["bytes"] / 1e9 for window in own]), "windows": own} for name, own in windows.items()},
            "ratios": found, "targets": [target_of(what, least, found[what]["median"]) for what, least in dict(targets).items()], **more}


def target_of(what, least, value):
    return {"what": what, "wanted": least, "found": value, "reached": value >= least}


# The parts.

def all_over_one(bench, stack, row, least, materials=None):
    started, shares = bench.all_of(stack, row, materials)
    sets = {"all": shares, "one": shares[:1]}
    windows = bench.contest(sets)
    number = len(shares)
    return result_of(windows, bench.rows[row].batch, {"all over one": ("all", "one")}, {"all over one": least * number / 2} if number > 1 else {},
                     started=started, producers=number, consumers_of_each=bench.consumers)


def part_a(bench, stack):
    return all_over_one(bench, stack, "W2-device", 1.95)


def part_b(bench, stack):
    row = bench.rows["W6"]
    started, shares = bench.all_of(stack, "W6")
    copies = [bench.copies(stack, f"copies {device.name}", bench.places_on(device)) for device in bench.devices]
    bench.load(copies, row.batch, together=True)
    windows = bench.contest({"all": shares, "copies on all": copies, "one": shares[:1], "copies on one": copies[:1]})
    found = result_of(windows, row.batch, {"ours over bare copies, all": ("all", "copies on all"), "ours over bare copies, one": ("one", "copies on one"),
                                           "all over one": ("all", "one"), "copies, all over one": ("copies on all", "copies on one")},
                      {"ours over bare copies, all": 0.99}, started=started, producers=len(shares), consumers_of_each=bench.consumers)
    middle = {name: own["gigabytes_per_second"]["median"] for name, own in found["sets"].items()}
    links, memory = middle["copies on one"] * len(shares), memory_rate(bench)
    bound = min(links, memory) if memory else links
    found.update(sum_of_links=links, memory_copies=memory, bound=bound)
    found["targets"].append(target_of("GB/s over the smaller of the links' sum and the memory's rate", 0.99, middle["all"] / bound))
    return found


def memory_rate(bench):
    """GB/s that all cores together copy within the host's memory: each byte is written once and read once, as by our slabs. None where it cannot be told."""
    seconds = 0.2 if bench.small else 2
    processes = [subprocess.Popen([sys.executable, "-c", COPY_PROBE, str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  preexec_fn=shares_of.die_with_parent) for _ in range(len(os.sched_getaffinity(0)))]
    told = []
    for process in processes:
        try:
            told.append(process.communicate(timeout=30)[0])
        except BaseException:
            for each in processes:
                each.kill()
            raise
    with contextlib.suppress(ValueError):
        return sum(map(float, told))
    return None


def part_c(bench, stack):
    return all_over_one(bench, stack, "W7", 1.95, bench.materials(stack))


def part_d(bench, stack):
    nodes = shares_of.nodes_of_this_machine()
    device, facts = bench.devices[0], bench.facts[0]
    own = facts.get("numa_node")
    own = own if own is not None and own in nodes else None
    others = [node for node in nodes if node != own]
    if bench.small and nodes:
        own, others = min(nodes), [max(nodes)]      # on one node they are the same: only the road is walked
    if own is None or not others:
        return {"left_out": f"this host has {len(nodes)} NUMA node{'s' * (len(nodes) != 1)}, and the GPU is on {'none' if facts.get('numa_node') in (None, -1) else own}: "
                            "there is no other node for slabs to lie on"}
    refused = shares_of.why_memory_cannot_be_bound(others[0])
    cores = sorted(shares_of_cores(nodes[own])) if not bench.small else ()
    if refused and bench.small:
        return {"left_out": f"set_mempolicy: {refused}"}
    if refused:     # memory lies where it is touched first
        bench.tell(f"set_mempolicy: {refused}; programs are bound to the other node's cores instead")
        places = {"own node": bench.places_on(device, cores=cores), "other node": bench.places_on(device, cores=sorted(shares_of_cores(nodes[others[0]])))}
    else:
        places = {"own node": bench.places_on(device, own, cores), "other node": bench.places_on(device, others[0], cores)}
    runs = {name: bench.one(stack, f"W6 {name}", "W6", device, place) for name, place in places.items()}
    bench.load(runs.values(), bench.rows["W6"].batch)
    lie = {name: shares_of.slabs_by_node(run.producer()) for name, run in runs.items()}
    windows = bench.contest({name: [run] for name, run in runs.items()})
    return result_of(windows, bench.rows["W6"].batch, {"own over other": ("own node", "other node")}, slabs_gib_by_node=lie, nodes=nodes, own=own, other=others[0],
                     bound_by="cores" if refused else "set_mempolicy", same_node=own == others[0])


def shares_of_cores(text):
    from offramp_launch.gpus.devices import cores_in
    return cores_in(text) & os.sched_getaffinity(0)


def part_e(bench, stack):
    pace = dataclasses.replace(bench.pace, seconds=bench.options.seconds or min(bench.pace.seconds, E_SECONDS))
    found = {"ways": {}, "targets": [], "notes": []}

    def note(text):
        found["notes"].append(text)
        bench.tell(text)

    def measure(way, environment):
        for row in ("W6", "W2-device"):
            try:
                with contextlib.ExitStack() as inner:
                    told = two_on_one(bench, inner, row, way, environment, pace)
            except OutOfTime as problem:
                note(f"{way}, {row}: {problem}")
                raise PartlyDone(found) from None
            except ContestantError as problem:
                note(f"{way}, {row}: {problem}")
                continue
            found["ways"].setdefault(way, {})[row] = told
            found["targets"] += [{**target, "what": f"{row}, {way}: {target['what']}"} for target in told["targets"]]

    measure("time slices", {})
    if not bench.gpu:
        note("MPS: it is CUDA's, and was not tried on the CPU")
    else:
        through_mps(bench, measure, note, found)
    if not found["ways"]:
        raise ContestantError("; ".join(found["notes"]))
    return found


def through_mps(bench, measure, note, found):
    try:
        with shares_of.mps() as environment:
            bench.tell("MPS: its control daemon has begun")
            measure("MPS", environment)
    except OutOfTime as problem:
        note(f"MPS: {problem}")
        raise PartlyDone(found) from None
    except ContestantError as problem:
        note(f"MPS: {problem}")


class PartlyDone(Exception):
    """Carries what was found before the time was up."""


def two_on_one(bench, stack, row, way, environment, pace):
    device, batch, is_link = bench.devices[0], bench.rows[row].batch, row == "W6"
    places = bench.places_on(device, **environment)
    first, second = (bench.one(stack, f"{row} {way} {number}", row, device, places) for number in (1, 2))
    sets = {"together": [first, second], "alone": [first]}
    ratios = {"together over alone": ("together", "alone")}
    if is_link:
        sets["copies"] = [bench.copies(stack, f"copies {way}", places)]
        ratios |= {"together over copies": ("together", "copies"), "alone over copies": ("alone", "copies")}
    bench.load([first, second, *sets.get("copies", ())], batch, together=is_link)    # without a model nothing is tuned
    in_common = sorted(shares_of.files_written_by(first.pids()) & shares_of.files_written_by(second.pids()))
    if is_link and not environment:
        sets[HANGING] = lambda pace: beside_hanging(first, second, pace)
        ratios["alone beside a producer whose consumers hang"] = (HANGING, "alone")
    windows = bench.contest(sets, pace)
    found = result_of(windows, batch, ratios, {"together over copies": 0.99} if is_link else {"together over alone": 0.9}, files_in_common=in_common,
                      consumers_of_each=bench.consumers)
    found["targets"].append({"what": "files and shared memory that both write", "wanted": 0, "found": len(in_common), "reached": not in_common})
    return found


def beside_hanging(first, second, pace):
    """The first one's window, while the other's consumers hold all its slabs and its producer waits for one."""
    second.resume()
    second.stop_consumers()
    try:
        full = time.monotonic() + pace.settle_seconds + 1
        while time.monotonic() < full and not is_full(second):
            time.sleep(0.02)
        return shares_of.window_of([first], pace)
    finally:
        second.pause()


def is_full(run):
    slabs = (run.status() or {}).get("slabs") or {}
    return bool(slabs) and not slabs.get("free") and not slabs.get("filling")


def part_f(bench, stack):
    options, number = bench.options, len(bench.devices)
    flags = {**bench.flags_of(bench.ours("W7"), number, bench.materials(stack)), "processor": "mask-png,checksum", "deterministic": True,
             "consumers": bench.consumers * number, "producer-restarts": 1000}
    listing = pathlib.Path(flags["input"])
    lines = listing.read_text().splitlines()
    least = LEAST_DEATH_ITEMS if bench.small else 1      # the look at the rate may be at a loaded moment
    items = min(len(lines), options.death_items or max(least, int(options.death_seconds * rate_of(bench, flags))))
    flags["input"] = listing.with_name("short.txt")
    flags["input"].write_text("".join(line + "\n" for line in lines[:items]))
    told, outputs = {}, {}
    for name in ("undisturbed", "killed"):
        run = shares_of.GpusRun(f"deaths {name}", bench.places, options.gpus, flags, options.death_shards * number, pathlib.Path(stack.enter_context(bench.folder()), "output"))
        stack.callback(run.close)
        run.start()
        told[name] = watched(bench, run, items, options.kill_every if name == "killed" else None, told.get("undisturbed"))
        outputs[name] = outputs_of(pathlib.Path(run.output))
        run.close()
        bench.tell(f"{name}: {items} pictures, {told[name]['seconds']:.1f} s after all were warm, exit code {told[name]['code']}, {len(told[name]['deaths'])} deaths")
    span = min(told["undisturbed"]["span"], *(each["timeline"][-1][0] for each in told.values()))
    rates = {name: done_at(each["timeline"], span) / span for name, each in told.items()}
    backs = [death["back_seconds"] for death in told["killed"]["deaths"] if death["back_seconds"] is not None]
    same = compare(outputs["undisturbed"], outputs["killed"])
    of_undisturbed = rates["killed"] / rates["undisturbed"]
    return {"items": items, "span_seconds": span, "rates": rates, "of_undisturbed": of_undisturbed, "whole": told["undisturbed"]["seconds"] / told["killed"]["seconds"],
            "deaths": len(told["killed"]["deaths"]), "kill_every": options.kill_every, "back_seconds": spread(backs) if backs else None, "outputs": same, "runs": told,
            "conserved": {name: each["conserved"] for name, each in told.items()},
            "targets": [target_of("rate with deaths over undisturbed", 0.95, of_undisturbed),
                        {"what": "outputs that differ", "wanted": 0, "found": same["differing"], "reached": same["differing"] == 0 and same["lines"] > 0},
                        {"what": "deaths", "wanted": 1, "found": len(told["killed"]["deaths"]), "reached": bool(told["killed"]["deaths"])}]}


def rate_of(bench, flags):
    """Pictures a second of all producers, at a short look."""
    number, seconds = len(bench.devices), 1 if bench.small else 4
    with contextlib.ExitStack() as inner:
        run = shares_of.GpusRun("deaths rate", bench.places, bench.options.gpus, flags, number, pathlib.Path(inner.enter_context(bench.folder()), "output"))
        inner.callback(run.close)
        run.start()
        run.wait_until_shared(number, bench.pace.warmup_batches * bench.rows["W7"].batch, bench.consumers)
        rate = shares_of.looked_at(run.shares, time.monotonic_ns() + int(1e9 * bench.pace.settle_seconds), seconds)["rate"]
    bench.tell(f"{rate:.5g} pictures/s")
    return rate


def watched(bench, run, items, kill_every, undisturbed):
    """
    One run to its end: how far it was when, from the moment on at which every worker has delivered; with deaths of its last worker's producer until then,
    the first one before the run is far on, however fast it is.
    """
    timeline, deaths, warm, next_death, waiting = [], [], None, None, None
    deadline = time.monotonic() + bench.options.part_seconds
    while not run.is_over():
        now, status = time.monotonic(), run.status()
        workers = {worker["name"]: worker for worker in status.get("workers") or []}
        if warm is None:
            if len(workers) == len(bench.devices) and all(worker["done_samples"] > 0 for worker in workers.values()):
                warm, begun = now, status["done_samples"]
                next_death = now + kill_every / 2 if kill_every else None
                bench.tell(f"{run.name}: all deliver")
        elif not timeline or status.get("done_samples", 0) - begun > timeline[-1][1]:
            timeline.append((now - warm, status["done_samples"] - begun))
        if waiting and (back := has_come_back(run, waiting)):
            deaths[-1]["back_seconds"] = back
            waiting = None
        is_far_on = not deaths and status.get("done_samples", 0) > items / 4
        if next_death and (is_far_on or now >= next_death and now - warm < undisturbed["span"]):
            victim = list(workers)[-1]
            # One that only starts is left alone.
            if waiting and workers[victim]["run_dir"] != waiting["run_dir"]:
                waiting = None
            if not waiting and (pid := run.producer_of(victim)):
                waiting = {"worker": victim, "pid": pid, "at": now, "wall": time.time(), "run_dir": workers[victim]["run_dir"]}
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                deaths.append({"at": now - warm, "pid": pid, "back_seconds": None})
                next_death = now + kill_every
        if now > deadline:
            raise ContestantError(f"{run.name}: no end in {bench.options.part_seconds} s\n{run.logs()}")
        time.sleep(0.02)
    code, seconds, summary = run.wait_for_end(5), time.monotonic() - (warm or time.monotonic()), run.summary()
    if code != 0 or len(timeline) < 2:
        raise ContestantError(f"{run.name} ended with {code}, after {len(timeline)} looks\n{run.logs()}")
    # Towards the end one GPU after another has nothing to do.
    whole = timeline[-1][1]
    span = min(bench.options.death_seconds, next((at for at, done in timeline if done >= 0.9 * whole), timeline[-1][0]))
    return {"code": code, "seconds": seconds, "timeline": timeline, "deaths": deaths, "span": span, "conserved": summary.get("conserved"),
            "samples": summary.get("samples"), "command": run.told}


def has_come_back(run, death):
    """Seconds until another producer of that worker tells of a batch that it has computed itself; nothing before."""
    told, pid = run.workers_told().get(death["worker"]), run.producer_of(death["worker"])
    if not told or not pid or pid == death["pid"] or told["run_dir"] != death["run_dir"]:    # its shard was over by then
        return None
    file = pathlib.Path(told["run_dir"]) / "status.json"
    with contextlib.suppress(OSError):
        if file.stat().st_mtime > death["wall"] and (shares_of.read_json(file) or {}).get("compute_busy_batches"):
            return time.monotonic() - death["at"]
    return None


def done_at(timeline, seconds):
    """Samples by then, between two looks in proportion."""
    before = (0.0, 0)
    for at, done in timeline:
        if at >= seconds:
            return before[1] + (done - before[1]) * (seconds - before[0]) / (at - before[0]) if at > before[0] else done
        before = (at, done)
    return before[1]


def outputs_of(folder):
    """(checksums of every sample, a multiset; {picture: its size})"""
    lines = collections.Counter()
    for file in folder.rglob("checksums.tsv"):
        lines.update(file.read_text().splitlines())
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*.png")}
    names = sorted(sizes)
    taken = random.Random(1).sample(names, min(500, len(names)))
    return lines, sizes, {name: hash((folder / name).read_bytes()) for name in taken}


def compare(wanted, found):
    lacking, more = (wanted[0] - found[0]).total(), (found[0] - wanted[0]).total()
    pictures = len(dict(wanted[1].items() ^ found[1].items()))
    bytes_differ = sum(found[2].get(name) != digest for name, digest in wanted[2].items())
    return {"lines": wanted[0].total(), "lines_lacking": lacking, "lines_too_many": more, "pictures": len(wanted[1]), "pictures_of_other_size": pictures,
            "pictures_compared": len(wanted[2]), "pictures_that_differ": bytes_differ, "differing": lacking + more + pictures + bytes_differ}


RUN = {"a": part_a, "b": part_b, "c": part_c, "d": part_d, "e": part_e, "f": part_f}
TOLD = {"a": "W2, DeepLabV3 in bf16, every byte read: all GPUs over one", "b": "W6, no model: all links at once", "c": "W7, JPEG files in, PNG masks out: all GPUs over one",
        "d": "W6, slabs on the GPU's NUMA node and on another", "e": "Two producers on one GPU", "f": "One GPU's producer killed again and again"}


# What is told.

def table_of(part, found):
    lines = [f"## {part}: {TOLD[part]}", ""]
    if found.get("failure"):
        lines += [f"FAILED: {found['failure'].strip()}", ""]
    if found.get("left_out"):
        return "\n".join([*lines, f"Left out: {found['left_out']}.", ""])
    if "sets" in found:
        lines += sets_table(found)
    for way, rows in found.get("ways", {}).items():
        for row, told in rows.items():
            lines += [f"{row}, {way}:", "", *sets_table(told)]
    for name in ("consumers_of_each", "producers", "sum_of_links", "memory_copies", "bound", "slabs_gib_by_node", "items", "span_seconds", "rates", "deaths", "back_seconds",
                 "of_undisturbed", "whole", "outputs", "conserved", "started"):
        if name in found:
            lines.append(f"- {name.replace('_', ' ')}: {found[name]}")
    if found.get("targets"):
        lines += ["", "| what | to reach | found | |", "|---|---|---|---|"]
        lines += [f"| {each['what']} | {each['wanted']} | {each['found']:.4g} | {'reached' if each['reached'] else 'missed'} |" for each in found["targets"]]
    return "\n".join([*lines, *[f"\nNote: {note}" for note in found.get("notes", ())], ""])


def sets_table(found):
    lines = ["| what runs | samples/s | GB/s |", "|---|---|---|"]
    for name, own in found["sets"].items():
        rate, copied = own["samples_per_second"], own["gigabytes_per_second"]
        lines.append(f"| {name} | {rate['median']:.5g} ({rate['min']:.5g}–{rate['max']:.5g}) | {copied['median']:.4g} ({copied['min']:.4g}–{copied['max']:.4g}) |")
    return [*lines, "", *[f"- {what}: {each['median']:.4g} [{each['low']:.4g}, {each['high']:.4g}]" for what, each in found["ratios"].items()], ""]


def facts_of_gpus(devices):
    """Of each device in their order: what nvidia-smi and the kernel say."""
    rows = {}
    for line in (ask("nvidia-smi", f"--query-gpu={GPU_FACTS}", "--format=csv,noheader,nounits") or "").splitlines():
        row = dict(zip(GPU_FACTS.split(","), (part.strip() for part in line.split(","))))
        rows[row.get("uuid")] = row
    found = []
    for device in devices:
        row = rows.get(device.environment.get("CUDA_VISIBLE_DEVICES"), {})
        folder = pathlib.Path("/sys/bus/pci/devices", row.get("pci.bus_id", "none").lower()[-12:])
        read = {name: ask("cat", str(folder / name)) for name in ("numa_node", "local_cpulist", "current_link_speed", "current_link_width")} if row else {}
        node = read.pop("numa_node", None)
        found.append({"device": device.name, "bound_to_cores": list(device.cores), "numa_node": int(node) if node else None, **row, **read})
    return found


def run_part(bench, part):
    """Its result; a failure of its own stays its own, and its time is limited."""
    began = time.monotonic()
    bench.places.row = part
    bench.tell(f"part {part}: {TOLD[part]}")

    def time_is_up(number, frame):
        raise OutOfTime(f"part {part} took longer than {bench.options.part_seconds:g} s, and was given up")

    signal.signal(signal.SIGALRM, time_is_up)
    found = {}
    try:
        with contextlib.ExitStack() as stack:
            signal.setitimer(signal.ITIMER_REAL, bench.options.part_seconds)
            try:
                found = RUN[part](bench, stack)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)     # its end has limits of its own
    except PartlyDone as partly:
        found = {**partly.args[0], "failure": "the time was up before all was measured"}
    except Wanting as problem:
        found = {"left_out": str(problem)}
    except Exception as problem:    # whatever it is, the other parts are measured
        found = {**found, "failure": str(problem) if isinstance(problem, ContestantError) else f"{type(problem).__name__}: {problem}"}
        if not isinstance(problem, (ContestantError, OSError, subprocess.SubprocessError)):
            import traceback
            traceback.print_exc()
    return {"part": part, "stands_for": TOLD[part], **found, "seconds": time.monotonic() - began}


def main(argv=None):
    options = parse(argv)
    end_on_sigterm()
    binaries = options.bin.absolute()
    os.environ["OFFRAMP_BIN_DIR"] = str(binaries)
    try:
        devices = devices_of(options.gpus, options.device)
    except LaunchError as problem:
        print(f"several_gpus.py: {problem}", file=sys.stderr)
        return UNAVAILABLE
    if options.keep_logs:
        options.keep_logs.mkdir(parents=True, exist_ok=True)
    environment = {"OMP_NUM_THREADS": "1"} if options.small else {}
    places = Places(binaries, logs=options.keep_logs, start_seconds=120, environment=environment, given=Given(), gpu=options.device == "cuda", small=options.small)
    cores = len(os.sched_getaffinity(0))
    bench = Bench(options, devices, places, cores)
    bench.facts = facts_of_gpus(devices)
    machine = {**describe_machine(binaries), "gpus": bench.facts, "numa_nodes": shares_of.nodes_of_this_machine(), "topology": ask("nvidia-smi", "topo", "-m")}
    about = {"machine": machine, "build": describe_build(binaries, ROOT), "small": options.small, "pace": dataclasses.asdict(bench.pace), "producers": len(devices),
             "consumers_of_each": bench.consumers, "sizes": {row: " ".join(flag_list({name: value for name, value in bench.ours(row).flags.items() if value is not None}))
                                                             for row in ("W2-device", "W6", "W7")}}
    print(f"# Several GPUs{': small sizes, no measurement' if options.small else ''}\n\n- machine: {machine['device']}, {len(devices)} producers ("
          f"{', '.join(device.name for device in devices)}), driver {machine['driver']}, {machine['link'] or 'no link'}; {machine['processor']}, {cores} cores, "
          f"{machine['memory_gib']} GiB, {len(machine['numa_nodes'])} NUMA nodes, Linux {machine['kernel']}\n- consumers of each producer: {bench.consumers}"
          + "".join(f"\n- {each['device']}: {each}" for each in bench.facts) + "\n", flush=True)
    parts = []
    for part in options.parts:
        parts.append(run_part(bench, part))
        print(table_of(part, parts[-1]), flush=True)
        if options.json:
            beside = options.json.with_suffix(".new")
            beside.write_text(json.dumps({**about, "parts": {each["part"]: each for each in parts}}, indent=1, default=str) + "\n")
            os.replace(beside, options.json)
    bench.tell("parts: " + ", ".join(f"{each['part']} {'FAILED' if each.get('failure') else 'left out' if each.get('left_out') else 'ok'} {each['seconds']:.0f} s"
                                     for each in parts))
    return FAILED if any(each.get("failure") for each in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
