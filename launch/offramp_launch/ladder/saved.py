"""The folder of a measured ladder. All results are computed from it, on any machine."""

import json
import shutil

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.ladder.checks import compare_checksums
from offramp_launch.ladder.figures import compare, figures_of
from offramp_launch.ladder.rungs import COPY_CEILING_FROM, LIMIT, RUNGS
from offramp_launch.tracing.traces import read_trace

HEADER = "measured.json"
VERSION = 1


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
        try:
            (self.folder / HEADER).unlink(missing_ok=True)
            for folder in (self.trace_dir(key), self.check_dir(key)):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            (self.rung(key) / "summary.json").unlink(missing_ok=True)
        except OSError as problem:
            raise LaunchError(f"cannot write --output {self.folder}: {problem.strerror}", "Give a folder that you may write to",
                              ExitCode.CANNOT_WRITE) from problem

    def write_header(self, header):
        (self.folder / HEADER).write_text(json.dumps({"version": VERSION, **header}, indent=1) + "\n", encoding="utf-8")

    def read_header(self):
        try:
            header = json.loads((self.folder / HEADER).read_text())
            if header["version"] != VERSION:
                raise ValueError(f"version {header['version']}")
            return header
        except (OSError, ValueError, KeyError) as problem:
            raise LaunchError(f"'{self.folder}' does not contain a measured ladder ({problem})", "Measure one: ./launch/offramp ladder --output DIR",
                              ExitCode.NO_INPUT) from problem

    def summary(self, key, check=False):
        try:
            return json.loads(((self.check_dir(key) if check else self.rung(key)) / "summary.json").read_text())
        except (OSError, ValueError):
            return {}


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
        self.limits = {"compute_alone_batches_per_second": self.rungs.get(LIMIT, {}).get("batches_per_second"),
                       "copy_gigabytes_per_second": self._copy_ceiling(saved)}

    def _copy_ceiling(self, saved):
        for key in COPY_CEILING_FROM:
            ceiling = (saved.summary(key, check=True).get("limits") or {}).get("copy_gigabytes_per_second")
            if ceiling:
                return ceiling
        return None

    def is_fine(self):
        """Whether every rung ended well with equal results."""
        return self.check.equal is not False and not any(figures["exit"] for figures in self.rungs.values())
