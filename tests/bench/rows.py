"""Runs one row of any kind and returns its result: plain data, as in the JSON."""

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import tempfile
import time

from contest import hold_contest, load, rounds_of
from contestants import ContestantError, LoopRun, OfframpRun, Peer
from intervals import ratio, spread
from materials import Materials, Missing
from one_shots import MessageBench, run_python_for_json
from other_build import flags_it_lacks, program_of, with_older_names
from specs import Loop, Messages, Ours, PeerProgram

PER_WINDOW = (
    "bytes_per_batch",
    "producer_cpu_ms_per_batch",
    "readers_cpu_ms_per_batch",
    "producer_faults_per_batch",
    "readers_faults_per_batch",
    "producer_private_mib",
    "readers_private_mib",
)
HOPS = ("filled_to_broker_awake_p50_us", "broker_step_p50_us")  # parts of our latency


def run_row(row, settings, pace, log=lambda text: None):
    """
    The row's result: "failure" has the reason if it failed, "left_out" if this machine cannot run it. Ends every
    program it started.
    """
    began = time.monotonic()
    result = {
        "row": row.id,
        "workload": row.workload,
        "description": row.description,
        "kind": row.kind,
        "unit": row.unit,
        "batch": row.batch,
        "raw_bytes": row.raw_bytes,
        "ours": row.contestants[0].name,
        "started_as": {},
        "contestants": {},
        "ratios_of": {},
        "beside": row.beside,
        "targets": [],
        "curve": [],
        "notes": [],
        "cores": len(os.sched_getaffinity(0)),
        "left_out": None,
        "failure": None,
    }
    settings.row = row.id
    pace = pace_of(row, pace)
    result["settle_seconds"] = pace.settle_seconds
    with (
        failures_into(result),
        tempfile.TemporaryDirectory(prefix="offramp-bench-row-") as folder,
        contextlib.ExitStack() as stack,
    ):
        with failures_into(result):  # the row's failure comes before one of its end
            builder = RowBuilder(settings, pathlib.Path(folder), stack)
            builder.require(row.needs)
            result["started_as"] = {spec.name: builder.describe(spec) for spec in row.contestants}
            if row.curve:
                result["started_as"][result["ours"]]["readers"] = row.curve
            {"contest": contest, "latency": latency, "start": start, "curve": curve}[row.kind](
                row, builder, pace, result, log
            )
            for target in row.targets:
                found = target.judge(result)
                result["targets"].append({**dataclasses.asdict(found), "reason": "" if found.reached else hint(result)})
            result["notes"] += builder.notes
    result["seconds"] = time.monotonic() - began
    return result


@contextlib.contextmanager
def failures_into(result):
    """An error of a program or of this machine ends the row; an error of the driver ends the benchmark."""
    try:
        yield
    except (ContestantError, OSError, subprocess.SubprocessError) as problem:
        reason = str(problem) if isinstance(problem, ContestantError) else f"{type(problem).__name__}: {problem}"
        result["failure"] = "\n".join(filter(None, [result["failure"], reason]))
    except Missing as problem:
        result["left_out"] = str(problem)


class RowBuilder:
    """Makes a row's contestants and closes them at the end of the row."""

    def __init__(self, settings, folder, stack):
        self._settings, self._stack = settings, stack
        self._materials = Materials(
            folder, settings.shared or folder, stack, settings.given, settings.gpu, settings.small, settings.binaries
        )
        self.notes = []
        settings.servers = self._materials.servers

    def require(self, needs):
        self._materials.require(needs)

    def make(self, spec):
        if isinstance(spec, Messages):
            program = MessageBench(
                spec.name,
                self._settings_for(spec),
                spec.consumers,
                spec.slabs,
                spec.bare,
                self._materials.fill_in(spec.consumer_flags),
                spec.payload_bytes,
            )
        elif isinstance(spec, Ours):
            program = OfframpRun(
                spec.name,
                self._settings_for(spec),
                self._materials.fill_in(spec.flags),
                spec.consumers,
                self._materials.fill_in(spec.consumer_flags, spec.flags),
                program_of(spec),
                self._adapting(spec),
                spec.cores,
            )
        elif isinstance(spec, Loop):
            program = LoopRun(
                spec.name,
                self._settings,
                spec.program,
                self._materials.fill_in(spec.flags),
                spec.consumers,
                spec.consumer_flags,
                spec.kill_seconds,
            )
        else:
            program = Peer(
                spec.name, self._settings, spec.program, self._materials.fill_in(self._with_reader(spec)), spec.readers
            )
        self._stack.callback(program.close)
        return program

    def describe(self, spec):
        """How a contestant was started: program, flags, number of consumers and how they read."""
        program = (
            "offramp-message-bench"
            if isinstance(spec, Messages)
            else program_of(spec)
            if isinstance(spec, Ours)
            else spec.program
        )
        flags = (
            {"slabs": spec.slabs, "bare": spec.bare, "payload-bytes": spec.payload_bytes}
            if isinstance(spec, Messages)
            else {name: value for name, value in spec.flags.items() if value is not None}
        )
        readers = spec.readers if isinstance(spec, PeerProgram) else spec.consumers
        native = "our consumers' loop" if self._settings.native_reader() else "NumPy"
        return {
            "program": program,
            "flags": flags,
            "readers": readers,
            "reads_with": native if reads_all(spec) else None,
            "readers_flags": {} if isinstance(spec, PeerProgram) else spec.consumer_flags,
        }

    def _settings_for(self, spec):
        return dataclasses.replace(self._settings, binaries=spec.build) if spec.build else self._settings

    def _adapting(self, spec):
        """
        A function that renames flags for an older program, drops missing ones and adds a note; None for this build.
        """

        def adapt(program, flags):
            flags = with_older_names(program, flags)
            lacking = sorted(flags_it_lacks(program, flags, {*spec.flags, *spec.consumer_flags}))
            if lacking:
                self._note(
                    f"{spec.name}: {program.name} does not support {', '.join(f'--{name}' for name in lacking)} and ran without"
                )
            return {name: value for name, value in flags.items() if name not in lacking}

        return adapt if spec.build else None

    def _note(self, note):
        if note not in self.notes:
            self.notes.append(note)

    def _with_reader(self, spec):
        if not reads_all(spec):
            return spec.flags
        library = self._settings.native_reader()
        if library:
            return {**spec.flags, "native-reader": library}
        self._note("peers read with NumPy's sum: the native reader was not built")
        return spec.flags


def reads_all(spec):
    return (
        isinstance(spec, PeerProgram)
        and spec.flags.get("reader") == "read-all"
        and spec.flags.get("rung") != "compute-alone"
    )


def pace_of(row, pace):
    return dataclasses.replace(pace, settle_seconds=max(pace.settle_seconds, row.settle_seconds))


def least_seconds(row, pace):
    """The least duration of a row: its windows, without the start and the end of its programs."""
    pace = pace_of(row, pace)
    windows = pace.windows * (pace.settle_seconds + pace.seconds)
    return {
        "contest": len(row.contestants) * (pace.warm_seconds + windows),
        "latency": 2 * pace.windows * pace.seconds,
        "start": 0,
        "curve": 2 * pace.warm_seconds + len(row.curve) * (pace.warm_seconds + 2 * windows),
    }[row.kind]


def contest(row, builder, pace, result, log):
    programs = [builder.make(spec) for spec in row.contestants]
    windows = hold_contest(programs, row.batch, pace, log)
    rates = {name: [window.batches_per_second for window in own] for name, own in windows.items()}
    for program in programs:
        program.end()  # completes the program's summary
    for program in programs:
        own = windows[program.name]
        result["contestants"][program.name] = {
            "rate": spread(rates[program.name]),
            **{field: spread([getattr(window, field) for window in own]) for field in PER_WINDOW},
            "compute_ms_per_batch": computed_by(own),
            "producer_threads_cpu_ms_per_batch": threads_of(own),
            "stages": sorted({window.stage for window in own if window.stage}),
            "windows": [dataclasses.asdict(window) for window in own],
            "facts": program.facts(),
        }
    result["ratios_of"] = {
        mine: {other: ratio(rates[mine], rates[other]) for other in rates if other != mine} for mine in rates
    }


def computed_by(windows):
    """The device's time per batch; None if the program does not report it."""
    known = [window.compute_ms_per_batch for window in windows if window.compute_ms_per_batch is not None]
    return spread(known) if known else None


def threads_of(windows):
    """The producer's CPU time per batch by kind of thread, median over the windows, largest first."""
    names = {name for window in windows for name in window.producer_threads_cpu_ms_per_batch}
    middles = {
        name: spread([window.producer_threads_cpu_ms_per_batch.get(name, 0) for window in windows])["median"]
        for name in names
    }
    return dict(sorted(middles.items(), key=lambda item: -item[1]))


def latency(row, builder, pace, result, log):
    """
    Contestants alternate, each passing one number at a time. Figures are medians over the rounds, histograms are sums.
    """
    runs_of = {spec.name: [] for spec in row.contestants}
    for number in range(pace.windows):
        for spec in row.contestants:
            if isinstance(spec, Messages):
                figures = builder.make(spec).latency(pace.seconds)
            else:
                figures = run_python_for_json(spec.name, spec.program, {**spec.flags, "latency": True})
            runs_of[spec.name].append(figures)
        log(
            f"round {number + 1}: "
            + ", ".join(f"{name} p50 {runs[-1]['p50_us']:.4g} µs" for name, runs in runs_of.items())
        )
    for name, runs in runs_of.items():
        histogram = {}
        for run in runs:
            for upper, count in run["histogram"]:
                histogram[upper] = histogram.get(upper, 0) + count
        keys = ["p50_us", "p99_us", *(key for key in HOPS if all(key in run for run in runs))]
        result["contestants"][name] = {
            "figures": {key: spread([run[key] for run in runs]) for key in keys},
            "histogram": sorted(histogram.items()),
            "windows": runs,
        }


def start(row, builder, pace, result, log):
    """Programs alternate, each from start to end. Times count from the start of the program."""
    runs_of = {spec.name: [] for spec in row.contestants}
    for number in range(pace.windows):
        for spec in row.contestants:
            if isinstance(spec, Ours):
                program = builder.make(spec)
                program.start()
                program.wait_until_warm(row.start_batches * row.batch)
                program.end()
                figures = program.facts()
                program.close()
            else:
                figures = run_python_for_json(spec.name, spec.program, spec.flags)
            runs_of[spec.name].append(figures)
        log(
            f"round {number + 1}: "
            + ", ".join(
                f"{name} all slabs {runs[-1].get('all_slabs_seconds', 0):.3g} s" for name, runs in runs_of.items()
            )
        )
    for name, runs in runs_of.items():
        keys = [
            key
            for key in ("first_batch_seconds", "first_slab_seconds", "all_slabs_seconds")
            if all(key in run for run in runs)
        ]
        result["contestants"][name] = {
            "figures": {key: spread([run[key] for run in runs]) for key in keys},
            "windows": runs,
        }


def curve(row, builder, pace, result, log):
    """One run to which consumers are added, beside compute alone. Each number of consumers is a separate contest."""
    ours, limit = (builder.make(spec) for spec in row.contestants)
    load([ours, limit], row.batch, pace)
    programs = {program.name: program for program in (ours, limit)}
    every = {name: [] for name in programs}
    for consumers in row.curve:
        ours.resume()
        ours.scale(consumers)
        ours.wait_until_connected(consumers)
        ours.run_on(pace.warm_seconds)
        ours.pause()
        windows = {name: [] for name in programs}
        for order in rounds_of(list(programs), pace.windows):
            for name in order:
                windows[name].append(programs[name].window(row.batch, pace))
        rates = {name: [window.batches_per_second for window in own] for name, own in windows.items()}
        point = {
            "consumers": consumers,
            "rate": spread(rates[ours.name]),
            "limit": spread(rates[limit.name]),
            "ratio": ratio(rates[ours.name], rates[limit.name]),
            "compute": computed_by(windows[ours.name]),
            "compute_of_limit": computed_by(windows[limit.name]),
        }
        result["curve"].append(point)
        for name, own in windows.items():
            every[name] += [{"consumers": consumers, **dataclasses.asdict(window)} for window in own]
        log(f"{consumers} consumers: {point['ratio']['median']:.4f} of compute alone")
    result["contestants"] = {name: {"windows": own} for name, own in every.items()}


def hint(result):
    """The limiting stage that the programs report: a hint at why a target was missed."""
    stages = result["contestants"][result["ours"]].get("stages")
    return f"held back by: {', '.join(stages)}" if stages else ""
