"""Draws timelines: a panel for each run, a lane in it for each thing that can be busy, all on one time scale."""

import statistics
import typing

from offramp_launch import intervals

# The article's NVTX colours.
READ, COMPUTE, COPY, PROCESS = "#e5484d", "#2f9e5b", "#f2c230", "#27b5cf"
WAITS_TO_READ = "#f9d4d5"
UPLOAD, MAP, IDLE, INK, FAINT = "#f08c3e", "#8a63d2", "#c9184a", "#1f2328", "#6e7781"
LANES = ("read", "h2d", "compute", "d2h", "process")
LANE_LABELS = {"read": "read", "h2d": "h2d", "compute": "compute", "d2h": "d2h", "process": "consumers"}
# Heights of lanes, and the share of it for bars. All consumers share one lane.
LANE_HEIGHT = {"read": 0.75, "h2d": 0.75, "compute": 1.25, "d2h": 1.0, "process": 2.0}
BARS_HEIGHT = 0.82
INCHES_A_LANE = 0.215
HEADER_INCHES, BETWEEN_INCHES, FOOTER_INCHES = 1.3, 0.42, 0.5
LEAST_INCHES = 1.2  # of a single panel

STEPS_OF_THE_FASTEST = 6
STEPS_OF_THE_SLOWEST = 1.7
MOST_STEPS = 14
NARROW = 0.002  # of a panel's width
LABEL_CHARACTERS = 165  # that fit the width of a panel
SETTINGS: dict[typing.Any, typing.Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "offramp",
    "font.family": "sans-serif",
    "font.size": 9,
    "hatch.linewidth": 0.6,
    "text.color": INK,
    "axes.edgecolor": "#d0d7de",
    "xtick.color": FAINT,
    "ytick.color": INK,
}


class View:
    """
    The part of a run that is drawn: `length` nanoseconds from the begin of a step in the middle of `window`, the
    measured batches. `begins`: of all steps.
    """

    def __init__(self, window, begins, length):
        begin, end = window
        middle = (begin + end) / 2 - length / 2
        starts = sorted(first for first in begins if begin <= first < end) or [begin]
        after = [first for first in starts if first >= middle and first + length <= end]
        self.begin = after[0] if after else max(begin, min(starts[-1], end - length))
        self.end = self.begin + length
        self.measured = (max(self.begin, begin), min(self.end, end))

    def bars(self, entries):
        """(begin, length) in milliseconds of the visible parts of the ranges."""
        cut = ((max(first, self.begin), min(last, self.end)) for first, last in entries)
        return [((first - self.begin) / 1e6, (last - first) / 1e6) for first, last in cut if last > first]


def view_length(traces):
    """One length for all panels: some steps of the fastest rung, and enough of the slowest to show its waits."""
    steps = [step for step in map(step_length, traces) if step]
    wanted = max(STEPS_OF_THE_FASTEST * min(steps), STEPS_OF_THE_SLOWEST * max(steps))
    return min(wanted, MOST_STEPS * min(steps), *(trace.window[1] - trace.window[0] for trace in traces))


def step_length(trace):
    """From the begin of one computed batch to the next, in the middle of the measured batches; the median."""
    begin, end = trace.window
    starts = sorted(first for first, _ in trace.device("compute") if begin <= first < end)
    steps = [after - before for before, after in zip(starts, starts[1:])]
    return statistics.median(steps) if steps else end - begin


class Panel(typing.NamedTuple):
    """
    `lanes`: (lane, label), from the top. `idle`: shades the gaps of compute. The texts stand above the lanes; a panel
    alone needs none.
    """

    trace: object
    view: View
    lanes: list
    idle: bool = True
    title: str = ""
    beside_title: str = ""
    caption: str = ""


def draw(paths, panels, title, lines, time_label):
    """Writes the picture to each path. `panels`: with equally long views. Errors: ImportError, OSError."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    with pyplot.rc_context(SETTINGS):
        figure = _figure(pyplot, panels, title, lines, time_label)
        for path in paths:
            figure.savefig(path, dpi=150, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)


def _figure(pyplot, panels, title, lines, time_label):
    heights = [
        max(sum(LANE_HEIGHT[lane] for lane, _ in panel.lanes) * INCHES_A_LANE, LEAST_INCHES if len(panels) == 1 else 0)
        for panel in panels
    ]
    height = HEADER_INCHES + sum(heights) + BETWEEN_INCHES * (len(panels) - 1) + FOOTER_INCHES
    figure, rows = pyplot.subplots(
        len(panels), 1, sharex=True, squeeze=False, figsize=(14, height), height_ratios=heights
    )
    figure.subplots_adjust(
        left=0.072,
        right=0.988,
        top=1 - HEADER_INCHES / height,
        bottom=FOOTER_INCHES / height,
        hspace=BETWEEN_INCHES * len(panels) / sum(heights),
    )
    for axes, panel in zip(rows[:, 0], panels):
        draw_lanes(axes, panel.trace, panel.view, panel.lanes, panel.idle)
        if panel.title:
            shown = axes.set_title(panel.title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=4)
            axes.annotate(
                panel.beside_title,
                (1, 0),
                xytext=(10, 2.6),
                xycoords=shown,
                textcoords="offset points",
                va="baseline",
                fontsize=9,
                color=FAINT,
            )
            axes.set_title(panel.caption, loc="right", fontsize=10, color=INK, pad=4)
    view = panels[0].view
    rows[-1, 0].set_xlim(0, (view.end - view.begin) / 1e6)
    rows[-1, 0].set_xlabel(time_label, color=FAINT)
    figure.text(0.072, 1 - 0.36 / height, title, fontsize=16, fontweight="bold", va="center")
    for number, line in enumerate(lines):
        figure.text(0.072, 1 - (0.66 + 0.19 * number) / height, line, fontsize=9, color=FAINT, va="center")
    legend(figure, height)
    return figure


def legend(figure, height):
    from matplotlib.patches import Patch

    entries = [
        ("decode", READ),
        ("copy to the GPU", UPLOAD),
        ("compute", COMPUTE),
        ("copy to the host", COPY),
        ("process_output", PROCESS),
        ("map, unmap", MAP),
    ]
    patches = [Patch(facecolor=color, label=label) for label, color in entries]
    patches.append(Patch(facecolor="#fdf0f3", edgecolor=IDLE, hatch="////", linewidth=0, label="GPU computes nothing"))
    figure.legend(
        handles=patches,
        loc="upper right",
        bbox_to_anchor=(0.992, 1 - 0.12 / height),
        ncols=4,
        frameon=False,
        fontsize=9,
        handlelength=1.5,
        columnspacing=1.4,
    )


def draw_lanes(axes, trace, view, lanes, idle):
    """Draws a whole panel, without its texts."""
    places, top = places_of([lane for lane, _ in lanes])
    axes.set_ylim(top, 0)
    axes.set_yticks([places[lane] + LANE_HEIGHT[lane] / 2 for lane, _ in lanes], [label for _, label in lanes])
    axes.tick_params(length=0)
    axes.grid(axis="x", color="#eaeef2", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    if idle:
        draw_idle(axes, trace, view, places, top)
    for lane, color in (("h2d", UPLOAD), ("compute", COMPUTE), ("d2h", COPY)):
        if lane in places:
            draw_lane(axes, view, [trace.device(lane)], places[lane], LANE_HEIGHT[lane], color)
    if "compute" in places:
        draw_batches(axes, trace, view, places["compute"])
    if "read" in places:
        draw_reading(axes, trace, view, places["read"])
    if "process" in places:
        draw_consumers(axes, trace, view, places["process"])


def places_of(lanes):
    """({lane: its top}, the bottom of the last lane)."""
    places, top = {}, 0.0
    for lane in lanes:
        places[lane] = top
        top += LANE_HEIGHT[lane]
    return places, top


def draw_lane(axes, view, rows, place, height, color):
    """One thin row for each list of ranges."""
    step = height * BARS_HEIGHT / max(len(rows), 1)
    for index, entries in enumerate(rows):
        below = place + height * (1 - BARS_HEIGHT) / 2 + index * step
        bars = view.bars(entries)
        # A white edge would hide a bar narrower than the edge, so such a bar has an edge of the bar's colour.
        edges = ["white" if length > NARROW * (view.end - view.begin) / 1e6 else color for _, length in bars]
        axes.broken_barh(
            bars, (below, step * (0.9 if len(rows) > 1 else 1)), facecolor=color, edgecolors=edges, linewidth=0.5
        )


def draw_reading(axes, trace, view, place):
    """Decoding, a row per thread. Pale behind it stage_batch, which includes waiting for decoding, upload and model."""
    decoding, staging = _by_thread(trace, view, "decode"), _by_thread(trace, view, "stage_batch")
    draw_lane(axes, view, staging, place, LANE_HEIGHT["read"], WAITS_TO_READ if decoding else READ)
    # Rows of a batch are too close to each other to be distinguished.
    close = (view.end - view.begin) / 1000
    merged = [intervals.union([(first, last + close) for first, last in row], view.begin, view.end) for row in decoding]
    draw_lane(axes, view, merged, place, LANE_HEIGHT["read"], READ)


def _by_thread(trace, view, name):
    """The host's ranges of this name, a list for each thread that had any in view."""
    rows: dict[tuple, list] = {}
    for program, entry in trace.named(name):
        if entry.end > view.begin and entry.begin < view.end:
            rows.setdefault((program.process, program.pid, entry.lane), []).append((entry.begin, entry.end))
    return [rows[thread] for thread in sorted(rows)]


def draw_consumers(axes, trace, view, place):
    """A row for each program that processes, in the order in which they were started."""
    # Processing is drawn last: mapping a pool slab takes microseconds and must not hide it.
    names = {"map": MAP, "unmap": MAP, "process_output": PROCESS}
    busy = {program.pid for program, _ in trace.named("process_output")}
    pids = [program.pid for program in trace.programs if program.pid in busy]
    height = LANE_HEIGHT["process"]
    for name, color in names.items():
        rows = [
            [(entry.begin, entry.end) for program, entry in trace.named(name) if program.pid == pid] for pid in pids
        ]
        draw_lane(axes, view, rows, place, height, color)


def draw_idle(axes, trace, view, places, top):
    """Shades the gaps of compute: lightly over all lanes, hatched and labelled with its length in the compute lane."""
    width = (view.end - view.begin) / 1e6
    for begin, length in view.bars(intervals.gaps(trace.device("compute"), *view.measured)):
        axes.axvspan(begin, begin + length, color=IDLE, alpha=0.055, linewidth=0, zorder=0)
        place, height = places["compute"], LANE_HEIGHT["compute"]
        inset = height * (1 - BARS_HEIGHT) / 2
        axes.broken_barh(
            [(begin, length)],
            (place + inset, height * BARS_HEIGHT),
            facecolor="#fdf0f3",
            edgecolor=IDLE,
            hatch="////",
            linewidth=0,
            alpha=0.55,
            zorder=1,
        )
        text = _fitting((f"idle {_milliseconds(length)} ms", f"{_milliseconds(length)} ms"), length / width)
        if text:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85}
            write_within(axes, begin + length / 2, place + height / 2, text, IDLE, bbox=box)


def write_within(axes, x, y, text, color, **more):
    axes.text(x, y, text, ha="center", va="center", fontsize=8.5, color=color, fontweight="bold", **more)


def draw_batches(axes, trace, view, place):
    """Writes the number of each batch, if it fits."""
    width = (view.end - view.begin) / 1e6
    for program in trace.programs:
        for entry in program.ranges:
            if not (entry.device and entry.lane == "compute"):
                continue
            for begin, length in view.bars([(entry.begin, entry.end)]):
                text = _fitting((f"batch {entry.batch}", f"{entry.batch}"), length / width)
                write_within(axes, begin + length / 2, place + LANE_HEIGHT["compute"] / 2, text, "white")


def _fitting(texts, share):
    """The first text that fits into this share of a panel's width."""
    return next((text for text in texts if len(text) / LABEL_CHARACTERS < share), "")


def _milliseconds(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
