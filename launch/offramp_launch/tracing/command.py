"""The command `trace`: records time ranges of a live run's programs, and writes a trace for Perfetto and a picture."""

import array
import os
import pathlib
import shutil
import statistics
import time

from offramp_launch.arguments import take_values
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError, write_errors, WriteError
from offramp_launch.processes import is_alive
from offramp_launch.run_dir import find_live_run
from offramp_launch.supervision.control import ControlClient
from offramp_launch.tracing import chrome_events
from offramp_launch.tracing.drawing import draw as draw_panels, LANE_LABELS, LANES, MOST_STEPS, Panel, View
from offramp_launch.tracing.request import PATIENCE_SECONDS
from offramp_launch.tracing.traces import read_program, Trace

SECONDS = "5"
LOOK_SECONDS = 0.1
PICTURES = ("timeline.png", "timeline.svg")


def start(places, argv):
    os.environ.setdefault("MPLCONFIGDIR", str(places.build / "matplotlib"))
    flags, rest = take_values(argv, ["--run-dir", "--seconds", "--into"])
    if len(rest) > 1 or any(argument.startswith("-") for argument in rest) or (rest and "--run-dir" in flags):
        raise UsageError(
            f"trace: unknown argument '{rest[-1]}'",
            "Usage: ./launch/offramp trace [RUN_DIR] [--seconds 5] [--into FOLDER]",
        )
    into = pathlib.Path(flags["--into"]).absolute() if "--into" in flags else None
    if into:
        with write_errors(f"cannot create '{into}'", "Give --into a folder that you may write to"):
            into.mkdir(parents=True, exist_ok=True)
    reply = ControlClient(find_live_run(places, rest[0] if rest else flags.get("--run-dir"))).ask(
        {"do": "trace", "seconds": number(flags.get("--seconds", SECONDS))}
    )
    request = reply["trace"]
    print(
        f"run {reply['run_id']}: recording {(request['until_ns'] - request['from_ns']) / 1e9:g} s of {len(request['programs'])} programs",
        flush=True,
    )
    folders = {
        "": pathlib.Path(request["folder"]),
        **{group: pathlib.Path(path) for group, path in request["groups"].items()},
    }
    folder, missing = folders[""], wait_for_answers(folders, request)
    for program, why in missing:
        print(f"  missing: {name_of(program['process'], program['pid'], program['group'])}, {why}")
    files = [(group, file) for group in folders for file in sorted(folders[group].glob("*.jsonl"), key=place_of)]
    if not files:
        raise LaunchError(
            "no program of the run answered", "They may already be recording (--trace-dir)", ExitCode.NO_SUCH_RUN
        )
    write(files, Outline((request["from_ns"], request["until_ns"])), f"Run {reply['run_id']}", into or folder)
    for each in folders.values() if into not in (None, folder) else ():
        shutil.rmtree(each, ignore_errors=True)
    return int(ExitCode.OK)


def number(text):
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--seconds '{text}' is not a number", "./launch/offramp trace --seconds 5") from None


def place_of(file):
    """The order of a group's files, or of those of a run without groups: the producer first, then consumers by pid."""
    return not file.name.startswith("producer"), len(file.name), file.name


def name_of(process, pid, group):
    return f"{process} {pid}{f' of {group}' if group else ''}"


def wait_for_answers(folders, request):
    """Blocks at most PATIENCE_SECONDS after the recording. Returns (program, why) of those without an answer."""
    waited_for, gone = list(request["programs"]), []
    while waited_for and time.monotonic_ns() < request["until_ns"] + PATIENCE_SECONDS * 10**9:
        time.sleep(LOOK_SECONDS)
        # checked before the files: a program that has ended wrote its file before
        ended = [program for program in waited_for if not is_alive(program["pid"])]
        there = {program["pid"] for program in waited_for if file_of(folders, program).exists()}
        gone += [(program, "which ended without an answer") for program in ended if program["pid"] not in there]
        waited_for = [program for program in waited_for if program["pid"] not in there and program not in ended]
    late = f"which did not answer within {PATIENCE_SECONDS} s: it is busy with one slab, or already recording (--trace-dir)"
    return gone + [(program, late) for program in waited_for]


def file_of(folders, program):
    return folders[program["group"]] / f"{program['process']}-{program['pid']}.jsonl"


def write(files, outline, title, into):
    """
    Writes the trace, then the picture. Each reads the files again, one program at a time. `files`: (the name of its
    group or "", the file) of each program.
    """
    where = into / "trace.json"
    try:
        with open(where, "w", encoding="utf-8") as out:
            chrome_events.write(noted(files, outline), out)
        print(f"trace (open it at https://ui.perfetto.dev): {where}")
        where = into / PICTURES[0]
        draw(files, outline, title, into)
    except OSError as problem:
        raise WriteError(
            f"'{problem.filename or where}' cannot be written: {problem.strerror}",
            "Give --into a folder that you may write to, with room",
        ) from problem


def noted(files, outline):
    """Reads one program at a time, notes it in the outline, and yields it for chrome_events.write()."""
    for number, (group, file) in enumerate(files, start=1):
        program = read_program(file)
        name = name_of(program.process, program.pid, group)
        outline.note(program)
        if program.not_kept:
            print(
                f"  {name}: {program.not_kept} later time ranges were dropped: the recording was full. Use fewer --seconds"
            )
        yield program, number, name, outline.window[0]


def draw(files, outline, title, into):
    if not outline.lanes:
        print("no picture: nothing was recorded")
        return
    view = outline.view()
    shown = Trace(tuple(read_program(file, view) for _, file in files), outline.window)
    try:
        draw_timeline(shown, outline, title, [into / name for name in PICTURES])
        print(f"picture: {into / PICTURES[0]}, {PICTURES[1]}")
    except ImportError:
        print("no picture: matplotlib is not installed for this Python")


# Lanes that show the length of a step, the best first.
STEPS = ("compute", "d2h", "process")
LANE_OF_NAME = {"decode": "read", "stage_batch": "read", "process_output": "process"}


class Outline:
    """
    The lanes of a trace, and the part of it that a picture shows. Programs are noted one at a time; only one number per
    step is kept.
    """

    def __init__(self, window):
        self.window = window
        self._lanes = set()
        self._begins = {lane: array.array("q") for lane in STEPS}
        self._batches = array.array("q")

    def note(self, program):
        for entry in program.ranges:
            lane = entry.lane if entry.device else LANE_OF_NAME.get(entry.name)
            self._lanes.add(lane)
            if lane in self._begins:
                self._begins[lane].append(entry.begin)
            if lane == "compute":
                self._batches.append(entry.batch)

    @property
    def lanes(self):
        return [lane for lane in LANES if lane in self._lanes]

    def shown_length(self):
        """The length of some steps, at most the whole recording."""
        begin, end = self.window
        begins = sorted(next((found for found in self._begins.values() if len(found) > 1), ()))
        steps = [after - before for before, after in zip(begins, begins[1:]) if after > before]
        return min(end - begin, MOST_STEPS * statistics.median(steps)) if steps else end - begin

    def view(self):
        return View(self.window, self._begins["compute"], self.shown_length())

    def every_batch_is_timed(self):
        """False if only some batches are timed, as with small ones: the gaps between them are not idle time."""
        batches = sorted(self._batches)
        return bool(batches) and all(after == before + 1 for before, after in zip(batches, batches[1:]))


def draw_timeline(trace, outline, title, paths):
    """Writes the picture to each path. `trace`: all ranges in the outline's view. Errors: those of drawing.draw()."""
    view, lanes = outline.view(), outline.lanes
    is_idle_known = "compute" in lanes and outline.every_batch_is_timed()
    panel = Panel(trace, view, [(lane, LANE_LABELS[lane]) for lane in lanes], is_idle_known)
    seconds = (outline.window[1] - outline.window[0]) / 1e9
    part = f"{(view.end - view.begin) / 1e6:.3g} ms in the middle of {seconds:g} s; {len(trace.programs)} programs"
    draw_panels(paths, [panel], title, [part], "milliseconds")
