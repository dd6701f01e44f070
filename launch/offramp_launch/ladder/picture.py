"""Draws the ladder as a timeline: a panel a rung, a lane for each thing that can be busy, the same time scale everywhere."""

import statistics

from offramp_launch.ladder import intervals
from offramp_launch.ladder.rungs import LIMIT, rung_named
from offramp_launch.ladder.table import describe_workload

# The article's NVTX colours.
READ, COMPUTE, COPY, PROCESS = "#e5484d", "#2f9e5b", "#f2c230", "#27b5cf"
WAITS_TO_READ = "#f9d4d5"
UPLOAD, MAP, IDLE, INK, FAINT = "#f08c3e", "#8a63d2", "#c9184a", "#1f2328", "#6e7781"
LANES = ("read", "h2d", "compute", "d2h", "process")
LANE_LABELS = {"read": "read", "h2d": "h2d", "compute": "compute", "d2h": "d2h", "process": "consumers"}
# A lane's height, and the room that its bars leave below and above. Consumers share theirs.
LANE_HEIGHT = {"read": 0.75, "h2d": 0.75, "compute": 1.25, "d2h": 1.0, "process": 2.0}
BARS_HEIGHT = 0.82
INCHES_A_LANE = 0.215
HEADER_INCHES, BETWEEN_INCHES, FOOTER_INCHES = 1.3, 0.42, 0.5

STEPS_OF_THE_FASTEST = 6
STEPS_OF_THE_SLOWEST = 1.7
MOST_STEPS = 14
NARROW = 0.002                  # of a panel's width
LABEL_CHARACTERS = 165          # that fit the width of a panel


class View:
    """What of one rung is shown: `length` nanoseconds from the begin of a step in the middle of the measured batches."""

    def __init__(self, trace, length):
        begin, end = trace.window
        middle = (begin + end) / 2 - length / 2
        starts = sorted(first for first, _ in trace.device("compute") if begin <= first < end) or [begin]
        after = [first for first in starts if first >= middle and first + length <= end]
        self.begin = after[0] if after else max(begin, min(starts[-1], end - length))
        self.end = self.begin + length
        self.measured = (max(self.begin, begin), min(self.end, end))

    def bars(self, entries):
        """(begin, length) in milliseconds of what of the ranges is in view."""
        cut = ((max(first, self.begin), min(last, self.end)) for first, last in entries)
        return [((first - self.begin) / 1e6, (last - first) / 1e6) for first, last in cut if last > first]


def view_length(traces):
    """One length for all panels: some steps of the fastest rung, but enough of the slowest one to see what it waits for."""
    steps = [step for step in map(step_length, traces) if step]
    wanted = max(STEPS_OF_THE_FASTEST * min(steps), STEPS_OF_THE_SLOWEST * max(steps))
    return min(wanted, MOST_STEPS * min(steps), *(trace.window[1] - trace.window[0] for trace in traces))


def step_length(trace):
    """From the begin of one computed batch to the next, in the middle of the measured batches; the median."""
    begin, end = trace.window
    starts = sorted(first for first, _ in trace.device("compute") if begin <= first < end)
    steps = [after - before for before, after in zip(starts, starts[1:])]
    return statistics.median(steps) if steps else end - begin


def drawable(ladder):
    return [key for key in ladder.keys if ladder.traces[key].window and ladder.traces[key].device("compute")]


def draw(ladder, paths):
    """Writes the picture to each path. Errors: ImportError without matplotlib. Returns whether there was anything to draw."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    keys = drawable(ladder)
    if not keys:
        return False
    settings = {"svg.fonttype": "none", "svg.hashsalt": "offramp", "font.family": "sans-serif", "font.size": 9, "hatch.linewidth": 0.6,
                "text.color": INK, "axes.edgecolor": "#d0d7de", "xtick.color": FAINT, "ytick.color": INK}
    with pyplot.rc_context(settings):
        figure = _figure(pyplot, ladder, keys)
        for path in paths:
            figure.savefig(path, dpi=150, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)
    return True


def _figure(pyplot, ladder, keys):
    heights = [sum(LANE_HEIGHT[lane] for lane in lanes_of(key)) * INCHES_A_LANE for key in keys]
    height = HEADER_INCHES + sum(heights) + BETWEEN_INCHES * (len(keys) - 1) + FOOTER_INCHES
    figure, panels = pyplot.subplots(len(keys), 1, sharex=True, squeeze=False, figsize=(14, height), height_ratios=heights)
    figure.subplots_adjust(left=0.072, right=0.988, top=1 - HEADER_INCHES / height, bottom=FOOTER_INCHES / height,
                           hspace=BETWEEN_INCHES * len(keys) / sum(heights))
    length = view_length([ladder.traces[key] for key in keys])
    for number, (key, axes) in enumerate(zip(keys, panels[:, 0]), start=1):
        _panel(axes, number, key, ladder, View(ladder.traces[key], length))
    panels[-1, 0].set_xlim(0, length / 1e6)
    panels[-1, 0].set_xlabel("milliseconds, the same scale in every panel; each begins where a batch's compute does", color=FAINT)
    figure.text(0.072, 1 - 0.36 / height, "What the GPU does while outputs leave it", fontsize=16, fontweight="bold", va="center")
    workload = describe_workload(ladder.header["workload"])
    figure.text(0.072, 1 - 0.66 / height, f"{ladder.header['machine']}", fontsize=9, color=FAINT, va="center")
    figure.text(0.072, 1 - 0.85 / height, workload, fontsize=9, color=FAINT, va="center")
    _legend(pyplot, figure, height)
    return figure


def _legend(pyplot, figure, height):
    from matplotlib.patches import Patch

    entries = [("decode", READ), ("copy to the GPU", UPLOAD), ("compute", COMPUTE), ("copy to the host", COPY), ("process_output", PROCESS),
               ("map, unmap", MAP)]
    patches = [Patch(facecolor=color, label=label) for label, color in entries]
    patches.append(Patch(facecolor="#fdf0f3", edgecolor=IDLE, hatch="////", linewidth=0, label="GPU computes nothing"))
    figure.legend(handles=patches, loc="upper right", bbox_to_anchor=(0.992, 1 - 0.12 / height), ncols=4, frameon=False, fontsize=9,
                  handlelength=1.5, columnspacing=1.4)


def _panel(axes, number, key, ladder, view):
    trace, rung = ladder.traces[key], rung_named(key)
    lanes = lanes_of(key)
    places, top = _places(lanes)
    axes.set_ylim(top, 0)
    axes.set_yticks([places[lane] + LANE_HEIGHT[lane] / 2 for lane in lanes],
                   ["process" if lane == "process" and not rung.has_consumers else LANE_LABELS[lane] for lane in lanes])
    axes.tick_params(length=0)
    axes.grid(axis="x", color="#eaeef2", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    _idle(axes, trace, view, places, top)
    _lane(axes, view, [trace.device("h2d")], places["h2d"], LANE_HEIGHT["h2d"], UPLOAD)
    _lane(axes, view, [trace.device("compute")], places["compute"], LANE_HEIGHT["compute"], COMPUTE)
    _batches(axes, trace, view, places["compute"])
    _reading(axes, trace, view, places["read"])
    if key != LIMIT:
        _lane(axes, view, [trace.device("d2h")], places["d2h"], LANE_HEIGHT["d2h"], COPY)
        _consumers(axes, trace, view, places["process"])
    title = axes.set_title(f"{number}  {rung.title}", loc="left", fontsize=11, fontweight="bold", color=INK, pad=4)
    axes.annotate(rung.does, (1, 0), xytext=(10, 2.6), xycoords=title, textcoords="offset points", va="baseline", fontsize=9, color=FAINT)
    axes.set_title(_caption(ladder.rungs[key]), loc="right", fontsize=10, color=INK, pad=4)


def lanes_of(key):
    """Compute alone neither copies nor processes."""
    return LANES[:3] if key == LIMIT else LANES


def _places(lanes):
    """Where each lane begins, and where the last one ends."""
    places, top = {}, 0.0
    for lane in lanes:
        places[lane] = top
        top += LANE_HEIGHT[lane]
    return places, top


def _caption(figures):
    parts = [f"{figures['batches_per_second']:.2f} batches/s"] if figures.get("batches_per_second") else []
    if figures.get("share_of_compute_alone"):
        parts.append(f"{100 * figures['share_of_compute_alone']:.1f} % of compute alone")
    if figures.get("gpu_idle_share") is not None:
        parts.append(f"GPU idle {100 * figures['gpu_idle_share']:.1f} %")
    return "   ·   ".join(parts)


def _lane(axes, view, rows, place, height, color):
    """One thin row for each list of ranges."""
    step = height * BARS_HEIGHT / max(len(rows), 1)
    for index, entries in enumerate(rows):
        below = place + height * (1 - BARS_HEIGHT) / 2 + index * step
        bars = view.bars(entries)
        # A white edge would hide what is narrower than the edge; that gets one of its own colour, to be seen at all.
        edges = ["white" if length > NARROW * (view.end - view.begin) / 1e6 else color for _, length in bars]
        axes.broken_barh(bars, (below, step * (0.9 if len(rows) > 1 else 1)), facecolor=color, edgecolors=edges, linewidth=0.5)


def _reading(axes, trace, view, place):
    """Decoding, a row a thread; behind it, palely, stage_batch, which includes waiting for that, for the upload and for the model."""
    decoding, staging = _by_thread(trace, view, "decode"), _by_thread(trace, view, "stage_batch")
    _lane(axes, view, staging, place, LANE_HEIGHT["read"], WAITS_TO_READ if decoding else READ)
    # Rows of a batch follow one another too closely to be told apart.
    close = (view.end - view.begin) / 1000
    merged = [intervals.union([(first, last + close) for first, last in row], view.begin, view.end) for row in decoding]
    _lane(axes, view, merged, place, LANE_HEIGHT["read"], READ)


def _by_thread(trace, view, name):
    """The host's ranges of this name, a list for each thread that had any in view."""
    rows = {}
    for program, entry in trace.named(name):
        if entry.end > view.begin and entry.begin < view.end:
            rows.setdefault((program.process, program.pid, entry.lane), []).append((entry.begin, entry.end))
    return [rows[thread] for thread in sorted(rows)]


def _consumers(axes, trace, view, place):
    """A row for each program that processes, in the order in which they were started."""
    # What processes is drawn last: mapping a slab of the pool takes microseconds and must not hide it.
    names = {"map": MAP, "unmap": MAP, "process_output": PROCESS}
    busy = {program.pid for program, _ in trace.named("process_output")}
    pids = [program.pid for program in trace.programs if program.pid in busy]
    height = LANE_HEIGHT["process"]
    for name, color in names.items():
        rows = [[(entry.begin, entry.end) for program, entry in trace.named(name) if program.pid == pid] for pid in pids]
        _lane(axes, view, rows, place, height, color)


def _idle(axes, trace, view, places, top):
    """Shades where nothing computes: lightly over all lanes, hatched and with its length in the lane of compute."""
    width = (view.end - view.begin) / 1e6
    for begin, length in view.bars(intervals.gaps(trace.device("compute"), *view.measured)):
        axes.axvspan(begin, begin + length, color=IDLE, alpha=0.055, linewidth=0, zorder=0)
        place, height = places["compute"], LANE_HEIGHT["compute"]
        inset = height * (1 - BARS_HEIGHT) / 2
        axes.broken_barh([(begin, length)], (place + inset, height * BARS_HEIGHT), facecolor="#fdf0f3", edgecolor=IDLE, hatch="////",
                         linewidth=0, alpha=0.55, zorder=1)
        text = _fitting((f"idle {_milliseconds(length)} ms", f"{_milliseconds(length)} ms"), length / width)
        if text:
            axes.text(begin + length / 2, place + height / 2, text, ha="center", va="center", fontsize=8.5, color=IDLE, fontweight="bold",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85})


def _batches(axes, trace, view, place):
    """The number of each batch, where it fits."""
    width = (view.end - view.begin) / 1e6
    for program in trace.programs:
        for entry in program.ranges:
            if not (entry.device and entry.lane == "compute"):
                continue
            for begin, length in view.bars([(entry.begin, entry.end)]):
                text = _fitting((f"batch {entry.batch}", f"{entry.batch}"), length / width)
                axes.text(begin + length / 2, place + LANE_HEIGHT["compute"] / 2, text, ha="center", va="center", fontsize=8.5, color="white",
                          fontweight="bold")


def _fitting(texts, share):
    """The first that fits into this share of a panel's width."""
    return next((text for text in texts if len(text) / LABEL_CHARACTERS < share), "")


def _milliseconds(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
