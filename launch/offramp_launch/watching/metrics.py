"""Builds the metrics of a run from its status document, the control socket's answer to {"do": "status"}. A test freezes their names."""

from offramp_launch.watching.counters import added, counters_of
from offramp_launch.watching.exposition import Family, number
from offramp_launch.watching.timestamps import seconds_of

STATES = ("starting", "running", "draining", "ended", "abandoned", "failed")
WAITS = ("input", "slab", "output")
UNITS = ("samples", "batches", "bytes")


class Metrics:
    """The metric families. all() lists them in output order."""

    def __init__(self):
        self.run = Family("offramp_run_info", "info", "Always 1. Labels describe the run, its model and its device; `uuid` is the device's, as in DCGM.")
        self.state = Family("offramp_run_state", "gauge", "1 for the current state of the run, 0 for all others.")
        self.launcher_timestamp = Family("offramp_launcher_timestamp_seconds", "gauge", "When the launcher wrote these metrics, in seconds since 1970. An old value means that the launcher has ended.")
        self.producer_timestamp = Family("offramp_producer_timestamp_seconds", "gauge", "When the producer last reported, in seconds since 1970. An old value means that it "
                                         "hangs. Absent before the first report, and for a worker between two shards.")
        self.amounts = {unit: Family(f"offramp_{unit}_total", "counter", f"{unit.capitalize()} by outcome; one may count in several states.")
                        for unit in UNITS}
        self.expected = Family("offramp_samples_expected", "gauge", "Samples of the input without those that earlier runs completed. Absent if unknown.")
        self.slabs = Family("offramp_slabs", "gauge", "Slabs by state.")
        self.consumers = Family("offramp_consumers", "gauge", "Connected consumers.")
        self.restarts = Family("offramp_consumer_restarts_total", "counter", "Consumers started to replace one that ended early.")
        self.busy = Family("offramp_consumer_busy_seconds_total", "counter", "Seconds that consumers spent on slabs, summed over all consumers.")
        self.waits = Family("offramp_wait_seconds_total", "counter",
                            "Seconds of waiting: the model for input (input), the copy for a free slab (slab), the model for the copy (output).")
        self.stages = Family("offramp_stage_seconds", "histogram", "Seconds in a stage: compute and d2h (copy to host) per batch on the device; queue (until a consumer has the slab) "
                             "and process (until it is released) per slab.")
        self.failures = Family("offramp_slab_failures_total", "counter", "Failures counted against slabs: consumers that died while they processed one, or reported that they failed.")
        self.timeouts = Family("offramp_visibility_timeouts_total", "counter", "Deliveries that exceeded the visibility timeout.")
        self.refused = Family("offramp_releases_refused_total", "counter", "Rejected messages of consumers, such as releases, by reason.")
        self.pinned = Family("offramp_pinned_bytes_per_second", "gauge", "Rate of a copy into page-locked slabs, measured at the start.")
        self.memory = Family("offramp_shm_bytes", "gauge", "Shared memory of the run.")
        self.last = Family("offramp_last_completion_timestamp_seconds", "gauge", "When a slab was last completed, in seconds since 1970. Absent before the first.")
        self.takeovers = Family("offramp_producer_takeovers_total", "counter", "Producers that replaced a dead one.")

    def all(self):
        return [self.run, self.state, self.launcher_timestamp, self.producer_timestamp, *self.amounts.values(), self.expected, self.slabs, self.consumers, self.restarts, self.busy, self.waits, self.stages, self.failures,
                self.timeouts, self.refused, self.pinned, self.memory, self.last, self.takeovers]

    def add_run(self, document, now):
        """Add the metrics of the whole run."""
        self.launcher_timestamp.add(round(now, 3), {})
        status = document.get("status") or {}
        state = status.get("state") or "starting"
        for each in (*STATES, *([] if state in STATES else [state])):
            self.state.add(int(each == state), {"state": each})
        if number(items := status.get("total_samples")):
            self.expected.add(items - (number(document.get("done_before", status.get("done_before"))) or 0), {})

    def add_producer(self, report, labels):
        """Add the metrics of one producer. `report`: its run's document with `status`. `labels`: for each series."""
        status = report.get("status") or {}
        counters = added(report.get("earlier") or {}, counters_of(status))
        self.producer_timestamp.add(seconds_of(status.get("time")), labels)
        if status:      # a worker between two shards has no status; 0 consumers would be wrong
            self.consumers.add(len([each for each in status.get("consumers") or [] if not each.get("end")]), labels)
            self.run.add(1, {**labels, "run_id": report.get("run_id") or "", "version": status.get("version") or "", "model": status.get("model") or status.get("name") or "",
                             "device": status.get("device") or "", "uuid": status.get("device_uuid") or ""})
        for state, amounts in (counters.get("totals") or {}).items():
            for unit, family in self.amounts.items():
                family.add(amounts.get(unit), {**labels, "state": state})
        self.amounts["samples"].add(counters.get("skipped"), {**labels, "state": "skipped"})
        for state, slabs in (status.get("slabs") or {}).items():
            self.slabs.add(slabs, {**labels, "state": state})
        self.restarts.add(report.get("restarts") or 0, labels)
        self.busy.add(report.get("consumer_busy_seconds") or 0, labels)
        for stage in WAITS:
            self.waits.add(counters.get(f"{stage}_wait_seconds"), {**labels, "stage": stage})
        for stage, seconds in (counters.get("stage_seconds") or {}).items():
            self.stages.add_histogram(status.get("stage_bounds_seconds") or counters.get("stage_bounds_seconds") or [], seconds.get("counts") or [], seconds.get("sum"),
                                      {**labels, "stage": stage})
        self.failures.add(counters.get("slab_failures"), labels)
        self.timeouts.add(counters.get("visibility_timeouts"), labels)
        for reason, times in (counters.get("refused") or {}).items():
            self.refused.add(times, {**labels, "reason": reason})
        self.pinned.add(status.get("pinned_bytes_per_second"), labels)
        self.memory.add(status.get("shm_bytes"), labels)
        self.last.add(last_completion(status), labels)
        self.takeovers.add(report.get("takeovers") or 0, labels)


def families_of(document, now):
    """
    One series of each kind per run; with --gpus one per worker, labelled `gpu`, so that sum() is the total. `now`: when the launcher wrote the document,
    in seconds since 1970.
    """
    metrics = Metrics()
    metrics.add_run(document, now)
    workers = (document.get("status") or {}).get("workers")
    if workers is None:
        metrics.add_producer(document, {})
    for worker in workers or []:
        metrics.add_producer({"run_id": document.get("run_id"), **(document.get("workers") or {}).get(worker["name"], {})}, {"gpu": worker["name"]})
    return metrics.all()


def last_completion(status):
    """When a slab was last completed, in seconds since 1970; None before the first."""
    written, now, last = seconds_of(status.get("time")), number(status.get("now_ns")), number(status.get("last_release_ns"))
    return round(written - (now - last) / 1e9, 3) if written and now and last else None
