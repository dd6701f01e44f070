"""Draws the trace of one run as a timeline: a lane for each thing that was busy, some steps of it."""

import statistics

from offramp_launch.tracing.drawing import (FAINT, FOOTER_INCHES, HEADER_INCHES, INCHES_A_LANE, LANE_HEIGHT, LANE_LABELS, LANES, MOST_STEPS, SETTINGS, View, draw_lanes,
                                            legend)

LEAST_INCHES = 1.2
# What shows the length of a step, the best first.
STEPS = ("compute", "d2h")
NAMES = {"read": ("decode", "stage_batch"), "process": ("process_output",)}


def draw(trace, title, paths):
    """Writes the picture to each path. Errors: ImportError without matplotlib. Returns whether there was anything to draw."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    lanes = [lane for lane in LANES if begins_of(trace, lane)]
    if not lanes:
        return False
    with pyplot.rc_context(SETTINGS):
        figure = _figure(pyplot, trace, title, lanes)
        for path in paths:
            figure.savefig(path, dpi=150, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)
    return True


def begins_of(trace, lane):
    """When something began in this lane, in order."""
    if lane in NAMES:
        return sorted(entry.begin for name in NAMES[lane] for _, entry in trace.named(name))
    return sorted(begin for begin, _ in trace.device(lane))


def shown_length(trace):
    """Some steps, of all that was recorded."""
    begin, end = trace.window
    begins = next(filter(lambda found: len(found) > 1, (begins_of(trace, lane) for lane in (*STEPS, "process"))), [])
    steps = [after - before for before, after in zip(begins, begins[1:]) if after > before]
    return min(end - begin, MOST_STEPS * statistics.median(steps)) if steps else end - begin


def every_batch_is_timed(trace):
    """Of small batches only some are: between those the device is not idle."""
    batches = sorted(entry.batch for program in trace.programs for entry in program.ranges if entry.device and entry.lane == "compute")
    return bool(batches) and all(after == before + 1 for before, after in zip(batches, batches[1:]))


def _figure(pyplot, trace, title, lanes):
    length = shown_length(trace)
    inches = max(LEAST_INCHES, sum(LANE_HEIGHT[lane] for lane in lanes) * INCHES_A_LANE)
    height = HEADER_INCHES + inches + FOOTER_INCHES
    figure, axes = pyplot.subplots(figsize=(14, height))
    figure.subplots_adjust(left=0.072, right=0.988, top=1 - HEADER_INCHES / height, bottom=FOOTER_INCHES / height)
    draw_lanes(axes, trace, View(trace, length), [(lane, LANE_LABELS[lane]) for lane in lanes], idle="compute" in lanes and every_batch_is_timed(trace))
    axes.set_xlim(0, length / 1e6)
    axes.set_xlabel("milliseconds", color=FAINT)
    seconds = (trace.window[1] - trace.window[0]) / 1e9
    figure.text(0.072, 1 - 0.36 / height, title, fontsize=16, fontweight="bold", va="center")
    figure.text(0.072, 1 - 0.66 / height, f"{length / 1e6:.3g} ms in the middle of {seconds:g} s; {len(trace.programs)} programs", fontsize=9, color=FAINT, va="center")
    legend(figure, height)
    return figure
