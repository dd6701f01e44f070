"""Draws the ladder as a timeline: a panel per rung with a lane for each thing that can be busy, all on one time scale."""

from offramp_launch.ladder.rungs import LIMIT, rung_named
from offramp_launch.ladder.table import describe_workload
from offramp_launch.tracing.drawing import (BETWEEN_INCHES, FAINT, FOOTER_INCHES, HEADER_INCHES, INCHES_A_LANE, INK, LANE_HEIGHT, LANE_LABELS, LANES, SETTINGS, View,
                                            draw_lanes, legend, view_length)


def drawable(ladder):
    return [key for key in ladder.keys if ladder.traces[key].window and ladder.traces[key].device("compute")]


def draw(ladder, paths):
    """Writes the picture to each path. Returns False if there was nothing to draw. Errors: ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    keys = drawable(ladder)
    if not keys:
        return False
    with pyplot.rc_context(SETTINGS):
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
        trace = ladder.traces[key]
        _panel(axes, number, key, ladder, View(trace.window, (begin for begin, _ in trace.device("compute")), length))
    panels[-1, 0].set_xlim(0, length / 1e6)
    panels[-1, 0].set_xlabel("milliseconds, the same scale in every panel; each starts with the compute of a batch", color=FAINT)
    figure.text(0.072, 1 - 0.36 / height, "What the GPU does while outputs leave it", fontsize=16, fontweight="bold", va="center")
    workload = describe_workload(ladder.header["workload"])
    figure.text(0.072, 1 - 0.66 / height, f"{ladder.header['machine']}", fontsize=9, color=FAINT, va="center")
    figure.text(0.072, 1 - 0.85 / height, workload, fontsize=9, color=FAINT, va="center")
    legend(figure, height)
    return figure


def _panel(axes, number, key, ladder, view):
    trace, rung = ladder.traces[key], rung_named(key)
    labels = {**LANE_LABELS, "process": LANE_LABELS["process"] if rung.has_consumers else "process"}
    draw_lanes(axes, trace, view, [(lane, labels[lane]) for lane in lanes_of(key)])
    title = axes.set_title(f"{number}  {rung.title}", loc="left", fontsize=11, fontweight="bold", color=INK, pad=4)
    axes.annotate(rung.does, (1, 0), xytext=(10, 2.6), xycoords=title, textcoords="offset points", va="baseline", fontsize=9, color=FAINT)
    axes.set_title(_caption(ladder.rungs[key]), loc="right", fontsize=10, color=INK, pad=4)


def lanes_of(key):
    """Compute alone neither copies nor processes."""
    return LANES[:3] if key == LIMIT else LANES


def _caption(figures):
    parts = [f"{figures['batches_per_second']:.2f} batches/s"] if figures.get("batches_per_second") else []
    if figures.get("share_of_compute_alone"):
        parts.append(f"{100 * figures['share_of_compute_alone']:.1f} % of compute alone")
    if figures.get("gpu_idle_share") is not None:
        parts.append(f"GPU idle {100 * figures['gpu_idle_share']:.1f} %")
    return "   ·   ".join(parts)
