"""The command `ladder`: measures the rungs or reads a previous measurement, then writes table, picture and traces."""

import os
import pathlib
import time

from offramp_launch.arguments import folder_given, take_switch, take_values
from offramp_launch.exit_code import ExitCode, UsageError, WriteError
from offramp_launch.ladder import nsys, table
from offramp_launch.ladder.measuring import Measuring, print_note
from offramp_launch.ladder.rungs import LIMIT, choose_rungs, rung_named
from offramp_launch.ladder.saved import Ladder, Saved
from offramp_launch.ladder.workload import describe_build, describe_machine, has_gpu, make_workload, probe
from offramp_launch.tracing import chrome_events
from offramp_launch.tracing.drawing import LANE_LABELS, LANES, Panel, View, draw as draw_panels, view_length

FLAGS = ("--rungs", "--output", "--from", "--json")
PICTURES = ("ladder.png", "ladder.svg")
PROGRAMS_OF_A_RUNG = 1000  # in the trace, a group of processes for each rung


def start(places, argv):
    os.environ.setdefault("MPLCONFIGDIR", str(places.build / "matplotlib"))
    own, argv = take_values(argv, FLAGS)
    captures, argv = take_switch(argv, "--nsys")
    if "--from" in own:
        if argv or captures or "--rungs" in own:
            raise UsageError(
                "--from does not measure, so it takes no flags of a run", "Use it only with --output and --json"
            )
        folder = pathlib.Path(own["--from"]).absolute()
        return report(Ladder(Saved(folder)), folder_given(own.get("--output", folder)), own.get("--json"))

    rungs = choose_rungs(own.get("--rungs", ""))
    folder = folder_given(own.get("--output", places.build / "ladder"))
    device = take_values(argv, ["--device"])[0].get("--device", "")
    facts = probe(str(places.producer()), device)
    workload = make_workload(argv, has_gpu(facts, device))
    if captures:
        return nsys.capture(places, workload, rungs, folder)
    return measure(places, workload, rungs, facts, Saved(folder), own.get("--json"))


def measure(places, workload, rungs, facts, saved, json_file):
    measuring = Measuring(places, workload, saved)
    settings = measuring.settings()
    outcome = measuring.measure(rungs)
    settings.update(_resolved(saved, rungs))
    saved.write_header(
        {
            "made": time.strftime("%Y-%m-%d %H:%M"),
            "machine": describe_machine(facts),
            "build": describe_build(places),
            "workload": settings,
            "rungs": outcome,
            "probe": facts,
        }
    )
    return report(Ladder(saved), saved.folder, json_file)


def _resolved(saved, rungs):
    """The settings that the producer chose itself."""
    for rung in rungs:
        summary = saved.summary(rung.key)
        found = {"precision": summary.get("precision"), "memory-format": summary.get("memory_format")}
        if all(found.values()):
            return found
    return {}


def report(ladder, folder, json_file):
    """Writes and prints all results of a measurement. The exit code is 0 if all rungs ended well with equal results."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ladder.md").write_text(markdown := table.markdown(ladder), encoding="utf-8")
        for file in (folder / "ladder.json", *([pathlib.Path(json_file)] if json_file else [])):
            file.write_text(table.as_json(ladder), encoding="utf-8")
        with open(folder / "trace.json", "w", encoding="utf-8") as out:
            chrome_events.write(programs_of(ladder), out)
    except OSError as problem:
        raise WriteError(
            f"cannot write {problem.filename}: {problem.strerror}", "Give --output a folder that you may write to"
        ) from problem
    print(markdown, end="", flush=True)
    draw(ladder, folder)
    print_note(
        f"table, figures and trace (open it at https://ui.perfetto.dev): {folder}/ladder.md, ladder.json, trace.json"
    )
    if ladder.is_fine():
        return int(ExitCode.OK)
    print_note(
        f"NOT FINE: results {ladder.check.describe()}; "
        + ", ".join(f"{key} exit {figures['exit']}" for key, figures in ladder.rungs.items() if figures["exit"])
    )
    return next((int(figures["exit"]) for figures in ladder.rungs.values() if figures["exit"]), int(ExitCode.INTERNAL))


def programs_of(ladder):
    """For chrome_events.write(). Each rung's time starts at its first measured batch, so rungs are aligned."""
    for index, key in enumerate(ladder.keys, start=1):
        trace = ladder.traces[key]
        begins = (entry.begin for program in trace.programs for entry in program.ranges)
        zero = trace.window[0] if trace.window else min(begins, default=0)
        for number, program in enumerate(trace.programs):
            name = f"{index} {rung_named(key).title}: {program.process} {program.pid}"
            yield program, index * PROGRAMS_OF_A_RUNG + number, name, zero


def draw(ladder, folder):
    """Measuring does not need matplotlib: without it the picture can be drawn later, on any machine."""
    try:
        drawn = draw_pictures(ladder, [folder / name for name in PICTURES])
    except ImportError:
        print_note(
            f"no picture: matplotlib is not installed. On a machine that has it, run ./launch/offramp ladder --from DIR with a copy of {folder}"
        )
        return
    print_note(
        f"picture: {folder}/ladder.png, ladder.svg" if drawn else "no picture: no rung has compute times of the device"
    )


def draw_pictures(ladder, paths):
    """A panel per rung, on one time scale. False if there is nothing to draw. Errors: ImportError."""
    keys = [key for key in ladder.keys if ladder.traces[key].window and ladder.traces[key].device("compute")]
    if keys:
        length = view_length([ladder.traces[key] for key in keys])
        panels = [
            panel_of(ladder, key, f"{number}  {rung_named(key).title}", length)
            for number, key in enumerate(keys, start=1)
        ]
        facts = [ladder.header["machine"], table.describe_workload(ladder.header["workload"])]
        time_label = "milliseconds, the same scale in every panel; each starts with the compute of a batch"
        draw_panels(paths, panels, "What the GPU does while outputs leave it", facts, time_label)
    return bool(keys)


def panel_of(ladder, key, title, length):
    trace, rung = ladder.traces[key], rung_named(key)
    labels = {**LANE_LABELS, "process": LANE_LABELS["process"] if rung.has_consumers else "process"}
    lanes = LANES[:3] if key == LIMIT else LANES  # compute alone neither copies nor processes
    view = View(trace.window, (begin for begin, _ in trace.device("compute")), length)
    return Panel(
        trace, view, [(lane, labels[lane]) for lane in lanes], True, title, rung.does, _caption(ladder.rungs[key])
    )


def _caption(figures):
    parts = [f"{figures['batches_per_second']:.2f} batches/s"] if figures.get("batches_per_second") else []
    if figures.get("share_of_compute_alone"):
        parts.append(f"{100 * figures['share_of_compute_alone']:.1f} % of compute alone")
    if figures.get("gpu_idle_share") is not None:
        parts.append(f"GPU idle {100 * figures['gpu_idle_share']:.1f} %")
    return "   ·   ".join(parts)
