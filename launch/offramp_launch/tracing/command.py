"""The command `trace`: takes time ranges from all programs of a run that goes on, and writes a trace for Perfetto and a picture."""

import json
import os
import pathlib
import shutil
import time

from offramp_launch.arguments import take_values
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.run_dir import find_live_run
from offramp_launch.supervision.control import ControlClient
from offramp_launch.tracing import timeline
from offramp_launch.tracing.chrome_events import events_of
from offramp_launch.tracing.request import PATIENCE_SECONDS
from offramp_launch.tracing.traces import Trace, read_program

SECONDS = "5"
LOOK_SECONDS = 0.1
PICTURES = ("timeline.png", "timeline.svg")


def start(places, argv):
    os.environ.setdefault("MPLCONFIGDIR", str(places.build / "matplotlib"))
    flags, rest = take_values(argv, ["--run-dir", "--seconds", "--into"])
    if len(rest) > 1 or any(argument.startswith("-") for argument in rest) or (rest and "--run-dir" in flags):
        raise LaunchError(f"trace knows no '{rest[-1]}'", "./launch/offramp trace [RUN_DIR] [--seconds 5] [--into FOLDER]", ExitCode.USAGE)
    into = pathlib.Path(flags["--into"]).absolute() if "--into" in flags else None
    if into:
        make(into)
    reply = ControlClient(find_live_run(places, rest[0] if rest else flags.get("--run-dir"))).ask({"do": "trace", "seconds": number(flags.get("--seconds", SECONDS))})
    asked = reply["trace"]
    print(f"run {reply['run_id']}: recording {(asked['until_ns'] - asked['from_ns']) / 1e9:g} s of {len(asked['programs'])} programs", flush=True)
    folder = pathlib.Path(asked["folder"])
    missing = wait_for_answers(folder, asked)
    for program, why in missing:
        print(f"  not in it: {program['process']} {program['pid']}, {why}")
    trace = read_answers(folder, asked)
    if not trace.programs:
        raise LaunchError("no program of the run has answered", "They may be of an older version, or record already (--trace-dir)", ExitCode.NO_SUCH_RUN)
    return write(trace, reply, into or folder, folder)


def number(text):
    try:
        return float(text)
    except ValueError:
        raise LaunchError(f"--seconds '{text}' is no number", "./launch/offramp trace --seconds 5", ExitCode.USAGE) from None


def make(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise LaunchError(f"'{folder}' cannot be made: {problem.strerror}", "Give --into a folder that you may write to", ExitCode.CANNOT_WRITE) from problem


def wait_for_answers(folder, asked):
    """Blocks until all have answered that can, and no longer than PATIENCE_SECONDS behind the time. Returns (program, why not) of the others."""
    waited_for, gone = list(asked["programs"]), []
    while waited_for and time.monotonic_ns() < asked["until_ns"] + PATIENCE_SECONDS * 10**9:
        time.sleep(LOOK_SECONDS)
        ended = [program for program in waited_for if not is_there(program["pid"])]    # first: what ends now has answered by now
        there = {program["pid"] for program in waited_for if file_of(folder, program).exists()}
        gone += [(program, "which ended without an answer") for program in ended if program["pid"] not in there]
        waited_for = [program for program in waited_for if program["pid"] not in there and program not in ended]
    late = f"which gave no answer within {PATIENCE_SECONDS} s: at work on one slab, of an older version, or recording already (--trace-dir)"
    return gone + [(program, late) for program in waited_for]


def file_of(folder, program):
    return folder / f"{program['process']}-{program['pid']}.jsonl"


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def read_answers(folder, asked):
    programs = [read_program(file) for file in sorted(folder.glob("*.jsonl"))]
    programs.sort(key=lambda program: (program.process != "producer", program.pid))
    return Trace(tuple(programs), (asked["from_ns"], asked["until_ns"]))


def write(trace, reply, into, folder):
    for program in trace.programs:
        if program.not_kept:
            print(f"  {program.process} {program.pid}: {program.not_kept} later time ranges were not kept, more than a program keeps; take fewer --seconds")
    events = [event for group, program in enumerate(trace.programs, start=1)
              for event in events_of(program, group, f"{program.process} {program.pid}", trace.window[0])]
    try:
        (into / "trace.json").write_text(json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":")) + "\n", encoding="utf-8")
    except OSError as problem:
        raise LaunchError(f"{problem.filename} cannot be written: {problem.strerror}", "Give --into a folder that you may write to", ExitCode.CANNOT_WRITE) from problem
    print(f"trace (open it at https://ui.perfetto.dev): {into / 'trace.json'}")
    try:
        drawn = timeline.draw(trace, f"Run {reply['run_id']}", [into / name for name in PICTURES])
        print(f"picture: {into / PICTURES[0]}, {PICTURES[1]}" if drawn else "no picture: nothing was recorded")
    except ImportError:
        print("no picture: matplotlib is not installed for this Python")
    if into != folder:
        shutil.rmtree(folder, ignore_errors=True)
    return int(ExitCode.OK)
