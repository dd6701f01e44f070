"""Draws the ladder as a timeline: a panel per rung, all on one time scale."""

from offramp_launch.ladder.rungs import LIMIT, rung_named
from offramp_launch.ladder.table import describe_workload
from offramp_launch.tracing.drawing import LANE_LABELS, LANES, Panel, View, draw as draw_panels, view_length


def draw(ladder, paths):
    """Writes the picture to each path. Returns False if there was nothing to draw. Errors: ImportError without matplotlib."""
    keys = [key for key in ladder.keys if ladder.traces[key].window and ladder.traces[key].device("compute")]
    if keys:
        length = view_length([ladder.traces[key] for key in keys])
        panels = [
            panel_of(ladder, key, f"{number}  {rung_named(key).title}", length)
            for number, key in enumerate(keys, start=1)
        ]
        draw_panels(
            paths,
            panels,
            "What the GPU does while outputs leave it",
            [ladder.header["machine"], describe_workload(ladder.header["workload"])],
            "milliseconds, the same scale in every panel; each starts with the compute of a batch",
        )
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
