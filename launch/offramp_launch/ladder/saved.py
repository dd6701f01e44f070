"""The folder of a measured ladder, and the figures that are computed from it, on any machine."""

from __future__ import annotations

import dataclasses
import json
import shutil

from offramp_launch import intervals, shared_folder
from offramp_launch.exit_code import NotFoundError, write_errors
from offramp_launch.ladder.rungs import COPY_CEILING_FROM, LIMIT, rung_named, RUNGS
from offramp_launch.tracing.traces import read_trace

HEADER = "measured.json"
VERSION = 1
CHECKSUMS = "checksums.tsv"


class Saved:
    """
        measured.json               machine, build, workload; each rung's exit codes
        RUNG/summary.json           of the timed run;  RUNG/trace/*.jsonl  its time ranges
        RUNG/check/                 of the short run: summary.json, checksums.tsv
    Errors: LaunchError (NO_INPUT) if read_header() finds no ladder, (CANNOT_WRITE) if the folder cannot be written.
    """

    def __init__(self, folder):
        self.folder = folder

    def rung(self, key):
        return self.folder / key

    def trace_dir(self, key):
        return self.rung(key) / "trace"

    def check_dir(self, key):
        return self.rung(key) / "check"

    def clear(self, key):
        """Removes an earlier ladder's files, which would be read as this one's."""
        with write_errors(f"cannot write --output {self.folder}", "Give a folder that you may write to"):
            (self.folder / HEADER).unlink(missing_ok=True)
            for folder in (self.trace_dir(key), self.check_dir(key)):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            (self.rung(key) / "summary.json").unlink(missing_ok=True)

    def write_header(self, header):
        (self.folder / HEADER).write_text(json.dumps({"version": VERSION, **header}, indent=1) + "\n", encoding="utf-8")

    def read_header(self):
        try:
            header = json.loads((self.folder / HEADER).read_text())
            if header["version"] != VERSION:
                raise ValueError(f"version {header['version']}")
            return header
        except (OSError, ValueError, KeyError) as problem:
            raise NotFoundError(
                f"'{self.folder}' does not contain a measured ladder ({problem})",
                "Measure one: ./launch/offramp ladder --output DIR",
            ) from problem

    def summary(self, key, check=False):
        try:
            return json.loads(((self.check_dir(key) if check else self.rung(key)) / "summary.json").read_text())
        except (OSError, ValueError):
            return {}


@dataclasses.dataclass(frozen=True)
class Check:
    """`verdicts`: of each rung, in a word. `equal`: None if fewer than two rungs should have results."""

    verdicts: dict
    equal: bool | None

    def describe(self):
        if self.equal is None:
            return "not compared (fewer than two rungs were run)"
        rows = max((verdict["rows"] for verdict in self.verdicts.values()), default=0)
        if self.equal:
            return f"identical on {len(self.verdicts)} rungs ({rows} checksums each)"
        return "DIFFERENT: " + ", ".join(
            f"{key} {verdict['word']}" for key, verdict in self.verdicts.items() if verdict["word"] != "equal"
        )


def compare_checksums(folders):
    """`folders`: {rung: folder of its short run}, in order. Compares each with the first that has results."""
    rows = {key: _rows(folder) for key, folder in folders.items()}
    first = next((found for found in rows.values() if found), None)
    verdicts = {key: {"rows": len(found), "word": _word(found, first)} for key, found in rows.items()}
    if len(rows) < 2:
        return Check(verdicts, None)
    return Check(verdicts, all(verdict["word"] == "equal" for verdict in verdicts.values()))


def _rows(folder):
    """{item, batch, key and output of a row: its checksum}. The order of rows does not matter."""
    try:
        lines = shared_folder.read(folder, CHECKSUMS).decode(errors="replace").splitlines()
    except OSError:
        return {}
    return {key: checksum for key, _, checksum in (line.rpartition("\t") for line in lines)}


def _word(found, first):
    if not found:
        return "no results"
    differing = sum(found.get(key) != first.get(key) for key in found.keys() | first.keys())
    return f"differs in {differing} of {len(first)}" if differing else "equal"


class Ladder:
    """A measured ladder and its results. `rungs`: {key: figures}, in the ladder's order."""

    def __init__(self, saved):
        self.header = saved.read_header()
        self.keys = [rung.key for rung in RUNGS if rung.key in self.header["rungs"]]
        self.traces = {key: read_trace(saved.trace_dir(key)) for key in self.keys}
        # The results of a failed rung are not compared: its exit code is reported.
        ended_well = [key for key in self.keys if key != LIMIT and not self.header["rungs"][key]["exit"]]
        self.check = compare_checksums({key: saved.check_dir(key) for key in ended_well})
        self.rungs = compare({key: figures_of(saved.summary(key), self.traces[key]) for key in self.keys})
        for key, figures in self.rungs.items():
            figures["exit"] = self.header["rungs"][key]["exit"]
            figures["results"] = self.check.verdicts.get(key, {}).get("word")
        self.limits = {
            "compute_alone_batches_per_second": self.rungs.get(LIMIT, {}).get("batches_per_second"),
            "copy_gigabytes_per_second": self._copy_ceiling(saved),
        }

    def _copy_ceiling(self, saved):
        for key in COPY_CEILING_FROM:
            ceiling = (saved.summary(key, check=True).get("limits") or {}).get("copy_gigabytes_per_second")
            if ceiling:
                return ceiling
        return None

    def is_fine(self):
        """Whether every rung ended well with equal results."""
        return self.check.equal is not False and not any(figures["exit"] for figures in self.rungs.values())


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
