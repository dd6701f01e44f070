"""Draws the trace of one run as a timeline: some steps, a lane for each thing that was busy."""

import array
import statistics

from offramp_launch.tracing.drawing import LANE_LABELS, LANES, MOST_STEPS, Panel, View, draw as draw_panels

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


def draw(trace, outline, title, paths):
    """Writes the picture to each path. `trace`: all ranges in the outline's view. Errors: those of drawing.draw()."""
    view, lanes = outline.view(), outline.lanes
    panel = Panel(
        trace,
        view,
        [(lane, LANE_LABELS[lane]) for lane in lanes],
        "compute" in lanes and outline.every_batch_is_timed(),
    )
    seconds = (outline.window[1] - outline.window[0]) / 1e9
    draw_panels(
        paths,
        [panel],
        title,
        [f"{(view.end - view.begin) / 1e6:.3g} ms in the middle of {seconds:g} s; {len(trace.programs)} programs"],
        "milliseconds",
    )
