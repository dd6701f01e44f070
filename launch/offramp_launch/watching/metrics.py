"""The metrics of a run, from its status document. A test freezes their names."""

from offramp_launch.watching.counters import added, counters_of
from offramp_launch.watching.exposition import Family, number
from offramp_launch.watching.timestamps import seconds_of

STATES = ("starting", "running", "draining", "ended", "abandoned", "failed")
UNITS = ("samples", "batches", "bytes")
# The states of a group's samples, and their fields.
OF_A_GROUP = {"completed": "released_samples", "dead_letters": "dead_lettered_samples", "dropped": "dropped_samples"}
# (name, type, help) of each family, in output order.
FAMILIES = (
    (
        "run_info",
        "info",
        "Always 1. Labels describe the run, its model and its device; `uuid` is the device's, as in DCGM.",
    ),
    ("run_state", "gauge", "1 for the current state of the run, 0 for all others."),
    (
        "launcher_timestamp_seconds",
        "gauge",
        "When the launcher wrote these metrics, in seconds since 1970. An old value means that the launcher has ended.",
    ),
    (
        "producer_timestamp_seconds",
        "gauge",
        "When the producer last reported, in seconds since 1970. An old value means that it hangs. Absent before the first report, and for a worker between two shards.",
    ),
    *(
        (f"{unit}_total", "counter", f"{unit.capitalize()} by outcome; one may count in several states.")
        for unit in UNITS
    ),
    ("samples_expected", "gauge", "Samples of the input without those that earlier runs completed. Absent if unknown."),
    ("slabs", "gauge", "Slabs by state."),
    ("consumers", "gauge", "Connected consumers."),
    ("group_samples_total", "counter", "With --group: samples of each group by outcome."),
    (
        "group_slabs",
        "gauge",
        "With --group: slabs that wait for each group (waiting), or that its consumers have (leased).",
    ),
    ("group_consumers", "gauge", "With --group: connected consumers of each group."),
    ("consumer_restarts_total", "counter", "Consumers started to replace one that ended early."),
    ("consumer_busy_seconds_total", "counter", "Seconds that consumers spent on slabs, summed over all consumers."),
    (
        "wait_seconds_total",
        "counter",
        "Seconds of waiting: the model for input (input), the copy for a free slab (slab), the model for the copy (output).",
    ),
    (
        "stage_seconds",
        "histogram",
        "Seconds in a stage: compute and d2h (copy to host) per batch on the device; queue (until a consumer has the slab) and process (until it is released) per slab.",
    ),
    (
        "slab_failures_total",
        "counter",
        "Failures counted against slabs: consumers that died while they processed one, or reported that they failed.",
    ),
    ("visibility_timeouts_total", "counter", "Deliveries that exceeded the visibility timeout."),
    ("releases_refused_total", "counter", "Rejected messages of consumers, such as releases, by reason."),
    ("pinned_bytes_per_second", "gauge", "Rate of a copy into page-locked slabs, measured at the start."),
    ("shm_bytes", "gauge", "Shared memory of the run."),
    (
        "last_completion_timestamp_seconds",
        "gauge",
        "When a slab was last completed, in seconds since 1970. Absent before the first.",
    ),
    ("producer_takeovers_total", "counter", "Producers that replaced a dead one."),
)


def families_of(document, now):
    """
    One series of each kind per run; with --gpus one per worker, labelled `gpu`, so that sum() is the total. `now`: when
    the launcher wrote the document, in seconds since 1970.
    """
    families = {name: Family(f"offramp_{name}", kind, text) for name, kind, text in FAMILIES}
    add_run(families, document, now)
    workers = (document.get("status") or {}).get("workers")
    if workers is None:
        add_producer(families, document, {})
    for worker in workers or []:
        add_producer(
            families,
            {"run_id": document.get("run_id"), **(document.get("workers") or {}).get(worker["name"], {})},
            {"gpu": worker["name"]},
        )
    return list(families.values())


def add_run(families, document, now):
    families["launcher_timestamp_seconds"].add(round(now, 3), {})
    status = document.get("status") or {}
    state = status.get("state") or "starting"
    for each in (*STATES, *([] if state in STATES else [state])):
        families["run_state"].add(int(each == state), {"state": each})
    if items := number(status.get("total_samples")):
        families["samples_expected"].add(
            items - (number(document.get("done_before", status.get("done_before"))) or 0), {}
        )


def add_producer(families, report, labels):
    """Adds the metrics of one producer. `report`: its run's document with `status`. `labels`: for each series."""
    status = report.get("status") or {}
    counters = added(report.get("earlier") or {}, counters_of(status))

    def add(name, value, **more):
        families[name].add(value, {**labels, **more})

    add("producer_timestamp_seconds", seconds_of(status.get("time")))
    if status:  # a worker between two shards has no status; 0 consumers would be wrong
        add("consumers", len([each for each in status.get("consumers") or [] if not each.get("end")]))
        add(
            "run_info",
            1,
            run_id=report.get("run_id") or "",
            version=status.get("version") or "",
            model=status.get("model") or status.get("name") or "",
            device=status.get("device") or "",
            uuid=status.get("device_uuid") or "",
        )
    for state, amounts in (counters.get("totals") or {}).items():
        for unit in UNITS:
            add(f"{unit}_total", amounts.get(unit), state=state)
    add("samples_total", counters.get("skipped"), state="skipped")
    for state, slabs in (status.get("slabs") or {}).items():
        add("slabs", slabs, state=state)
    for name, amounts in (counters.get("groups") or {}).items():
        for state, field in OF_A_GROUP.items():
            add("group_samples_total", amounts.get(field), group=name, state=state)
    for group in status.get("groups") or []:
        for state in ("waiting", "leased"):
            add("group_slabs", group.get(f"{state}_slabs"), group=group.get("name"), state=state)
        add("group_consumers", group.get("consumers"), group=group.get("name"))
    add("consumer_restarts_total", report.get("restarts") or 0)
    add("consumer_busy_seconds_total", report.get("consumer_busy_seconds") or 0)
    for stage in ("input", "slab", "output"):
        add("wait_seconds_total", counters.get(f"{stage}_wait_seconds"), stage=stage)
    for stage, seconds in (counters.get("stage_seconds") or {}).items():
        families["stage_seconds"].add_histogram(
            status.get("stage_bounds_seconds") or counters.get("stage_bounds_seconds") or [],
            seconds.get("counts") or [],
            seconds.get("sum"),
            {**labels, "stage": stage},
        )
    for name in ("slab_failures", "visibility_timeouts"):
        add(f"{name}_total", counters.get(name))
    for reason, times in (counters.get("refused") or {}).items():
        add("releases_refused_total", times, reason=reason)
    for name in ("pinned_bytes_per_second", "shm_bytes"):
        add(name, status.get(name))
    add("last_completion_timestamp_seconds", last_completion(status))
    add("producer_takeovers_total", report.get("takeovers") or 0)


def last_completion(status):
    """When a slab was last completed, in seconds since 1970; None before the first."""
    written, now = seconds_of(status.get("time")), number(status.get("now_ns"))
    last = number(status.get("last_release_ns"))
    return round(written - (now - last) / 1e9, 3) if written and now and last else None
