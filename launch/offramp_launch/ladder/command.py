"""The command `ladder`: measures the rungs, or takes a previous measurement, and writes table, picture and traces from it."""

import os
import pathlib
import sys
import time

from offramp_launch.arguments import take_switch, take_values
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.ladder import machine, nsys, perfetto, picture, table
from offramp_launch.ladder.measuring import Measuring, say
from offramp_launch.ladder.rungs import choose_rungs
from offramp_launch.ladder.saved import Ladder, Saved
from offramp_launch.ladder.workload import make_workload

FLAGS = ("--rungs", "--output", "--from", "--json")
PICTURES = ("ladder.png", "ladder.svg")


def start(places, argv):
    os.environ.setdefault("MPLCONFIGDIR", str(places.build / "matplotlib"))
    own, argv = take_values(argv, FLAGS)
    captures, argv = take_switch(argv, "--nsys")
    if "--from" in own:
        if argv or captures or "--rungs" in own:
            raise LaunchError("--from measures nothing, so it takes no flags of a run", "Only --output and --json go with it", ExitCode.USAGE)
        folder = pathlib.Path(own["--from"]).absolute()
        return report(Ladder(Saved(folder)), pathlib.Path(own.get("--output", folder)).absolute(), own.get("--json"))

    rungs = choose_rungs(own.get("--rungs", ""))
    folder = pathlib.Path(own.get("--output", places.build / "ladder")).absolute()
    device = take_values(argv, ["--device"])[0].get("--device", "")
    facts = machine.probe(str(places.producer()), device)
    workload = make_workload(argv, machine.has_gpu(facts, device))
    if captures:
        return nsys.capture(places, workload, rungs, folder)
    return measure(places, workload, rungs, facts, Saved(folder), own.get("--json"))


def measure(places, workload, rungs, facts, saved, json_file):
    measuring = Measuring(places, workload, saved)
    settings = measuring.settings()
    outcome = measuring.measure(rungs)
    settings.update(_resolved(saved, rungs))
    saved.write_header({"made": time.strftime("%Y-%m-%d %H:%M"), "machine": machine.describe(facts), "build": machine.describe_build(places),
                        "workload": settings, "rungs": outcome, "probe": facts})
    return report(Ladder(saved), saved.folder, json_file)


def _resolved(saved, rungs):
    """What was left to the producer to choose, as it chose."""
    for rung in rungs:
        summary = saved.summary(rung.key)
        found = {"precision": summary.get("precision"), "memory-format": summary.get("memory_format")}
        if all(found.values()):
            return found
    return {}


def report(ladder, folder, json_file):
    """Writes and prints everything that follows from a measurement. The exit code says whether all rungs ended well with equal results."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ladder.md").write_text(table.markdown(ladder), encoding="utf-8")
        for file in (folder / "ladder.json", *([pathlib.Path(json_file)] if json_file else [])):
            file.write_text(table.as_json(ladder), encoding="utf-8")
        (folder / "trace.json").write_text(perfetto.as_json(ladder), encoding="utf-8")
    except OSError as problem:
        raise LaunchError(f"{problem.filename} cannot be written: {problem.strerror}", "Give --output a folder that you may write to",
                          ExitCode.CANNOT_WRITE) from problem
    table.print_tables(ladder, sys.stdout.isatty())
    draw(ladder, folder)
    say(f"table, figures and trace (open it at https://ui.perfetto.dev): {folder}/ladder.md, ladder.json, trace.json")
    if ladder.fine():
        return int(ExitCode.OK)
    say(f"NOT FINE: results {ladder.check.tell()}; " + ", ".join(f"{key} exit {figures['exit']}" for key, figures in ladder.rungs.items() if figures["exit"]))
    return next((int(figures["exit"]) for figures in ladder.rungs.values() if figures["exit"]), int(ExitCode.INTERNAL))


def draw(ladder, folder):
    """Measuring does not need matplotlib: without it the picture is drawn later, here or elsewhere."""
    try:
        drawn = picture.draw(ladder, [folder / name for name in PICTURES])
    except ImportError:
        say(f"no picture (matplotlib is not installed here); where it is: ./launch/offramp ladder --from DIR, with DIR a copy of {folder}")
        return
    say(f"picture: {folder}/ladder.png, ladder.svg" if drawn else "no picture: no rung has times of compute on the device")
