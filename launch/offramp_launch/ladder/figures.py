"""Figures of a measured ladder: of each rung, and between rungs."""

from offramp_launch import intervals
from offramp_launch.ladder.rungs import LIMIT, RUNGS, rung_named


def figures_of(summary, trace):
    """
    The figures of one rung from its summary and its trace. A figure that was not measured is None.
    Units: in the names. `per_batch_ms` is milliseconds per batch, summed over all threads and programs.
    """
    measured = summary.get("measured") or {}
    batches = measured.get("batches") or 0
    copy_seconds = measured.get("copy_seconds") or 0
    cpu = measured.get("producer_cpu_seconds")
    return {
        "batches_per_second": summary.get("batches_per_second"),
        "batches": batches,
        "seconds": measured.get("seconds"),
        "gpu_idle_share": idle_share(trace),
        "copy_gigabytes_per_second": measured.get("copy_bytes", 0) / copy_seconds / 1e9 if copy_seconds else None,
        "copy_bytes_per_batch": measured.get("copy_bytes", 0) // batches if batches else None,
        "producer_cpu_ms_per_batch": 1e3 * cpu / batches if batches and cpu is not None else None,
        "first_batch_seconds": summary.get("first_batch_seconds"),
        "pinned": summary.get("pinned"),
        "per_batch_ms": per_batch(trace, measured, batches),
    }


def idle_share(trace):
    """The share of the measured time that no compute range of the device covers."""
    if not trace.window or not trace.device("compute"):
        return None
    begin, end = trace.window
    return 1 - intervals.total(intervals.union(trace.device("compute"), begin, end)) / (end - begin)


def per_batch(trace, measured, batches):
    if not trace.window or not batches:
        return dict.fromkeys(("step", "compute", "h2d", "d2h", "idle", "process", "map", "unmap"))
    begin, end = trace.window
    window_ms = (end - begin) / 1e6
    idle = idle_share(trace)

    def on_the_device(lane, seconds):
        spent = measured.get(seconds)
        spent_ns = spent * 1e9 if spent else intervals.total(intervals.union(trace.device(lane), begin, end))
        return spent_ns / 1e6 / batches if spent_ns else None

    def on_the_host(name):
        spent = [
            min(entry.end, end) - max(entry.begin, begin)
            for _, entry in trace.named(name)
            if entry.end > begin and entry.begin < end
        ]
        return sum(spent) / 1e6 / batches if spent else None

    return {
        "step": window_ms / batches,
        "compute": on_the_device("compute", "compute_seconds"),
        "h2d": on_the_device("h2d", "h2d_seconds"),
        "d2h": on_the_device("d2h", "copy_seconds"),
        "idle": None if idle is None else idle * window_ms / batches,
        "process": on_the_host("process_output"),
        "map": on_the_host("map"),
        "unmap": on_the_host("unmap"),
    }


def compare(rows):
    """Adds each rung's share of compute alone, and its gains as ratios: over the rung before, and in all."""
    rates = {key: figures["batches_per_second"] for key, figures in rows.items() if figures.get("batches_per_second")}
    for key, figures in rows.items():
        figures["share_of_compute_alone"] = ratio(rates, key, LIMIT)
        figures["gain_over_the_rung_before"] = ratio(rates, key, rung_named(key).before)
        figures["gain_in_all"] = ratio(rates, key, RUNGS[0].key) if key not in (RUNGS[0].key, LIMIT) else None
    return rows


def ratio(rates, key, over):
    return rates[key] / rates[over] if key in rates and over in rates else None
