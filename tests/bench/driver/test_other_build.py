"""
A second build as a contestant: found, started with the flags that it knows, alternated and compared with ours, and
refused if it cannot do the same work. The older builds here are scripts around this build's programs.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import other_build
import workloads
from left_behind import left_since, objects_of_dead_runs
from specs import Ours
from targets import Reaches

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench.py"
BIN = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"])


def row_named(name):
    (row,) = workloads.choose(workloads.make_rows(True), [name])
    return row


class OlderBuild(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="offramp-test-bench-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, lacks=(), folder=""):
        """This build's program without these flags: its help omits them, and it refuses them."""
        path = self.folder / folder / name
        path.parent.mkdir(exist_ok=True)
        hidden = "".join(f"s/--{flag}/flag/g;" for flag in lacks)
        refused = "".join(f'    *" --{flag} "*) echo "no --{flag} here" >&2; exit 64 ;;\n' for flag in lacks)
        path.write_text(
            f'#!/bin/sh\ncase " $* " in\n    *" --help-all "*) {BIN / name} --help-all | sed "{hidden}"; exit 0 ;;\n{refused}esac\nexec {BIN / name} "$@"\n'
        )
        path.chmod(0o755)
        return path

    def bench(self, *arguments):
        return subprocess.run(
            [sys.executable, str(BENCH), "--bin", str(BIN), "--small", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "TMPDIR": str(self.folder), "OFFRAMP_BENCH_BESIDE_REVISION": "older"},
        )

    def results(self, *arguments):
        """Results by row of a benchmark that succeeds and leaves nothing behind."""
        before, file = objects_of_dead_runs(), self.folder / "bench.json"
        done = self.bench("--json", file, *arguments)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertEqual(set(), left_since(before))
        self.whole, self.output = json.loads(file.read_text()), done.stdout
        return {row["row"]: row for row in self.whole["rows"]}

    def assert_compared(self, row):
        self.assertEqual(["ours", other_build.NAME], list(row["contestants"]))
        ratio = row["ratios_of"]["ours"][other_build.NAME]
        self.assertEqual(self.whole["pace"]["windows"], len(ratio["rounds"]))
        for name in row["contestants"]:
            self.assertTrue(all(window["batches"] > 0 for window in row["contestants"][name]["windows"]), name)
        verdict = row["targets"][-1]
        self.assertEqual(
            (f"rate over {other_build.NAME}", ratio["median"], ratio["high"] >= 1),
            (verdict["what"], verdict["value"], verdict["reached"]),
        )


class Runs(OlderBuild):
    others = ("--without", "article*", "--without", "copy ceiling", "--without", "multiprocessing.Queue")

    def test_producers_and_messages_alternate_and_are_compared(self):
        found = self.results("W6", "W8-4-readers", "--beside", BIN.parent, *self.others)
        self.assertEqual(["W6", "W8-4-readers"], list(found))
        for row in found.values():
            self.assert_compared(row)
        self.assertEqual({"revision", "version", "compiler_flags"}, set(self.whole["other_build"]))
        self.assertRegex(self.output, r"\n- other build: offramp-producer \S+, revision older, ")
        self.assertIn("| other build | ", self.output)
        self.assertIn("| W6 | rate over other build | interval to ≥ 1 |", self.output)

    def test_an_older_build_runs_without_driver_flags_that_it_lacks(self):
        self.program("offramp-producer", lacks=["log-format"])
        self.program("offramp-consumer", lacks=["log-format", "visibility-timeout"])
        row = self.results("W4a-4-readers", "--beside", self.folder, *self.others)["W4a-4-readers"]
        self.assert_compared(row)
        self.assertEqual(
            [
                "other build: offramp-producer does not support --log-format and ran without",
                "other build: offramp-consumer does not support --log-format, --visibility-timeout and ran without",
            ],
            row["notes"],
        )

    def test_a_build_without_the_rows_flags_fails_the_row_and_reports_why(self):
        self.program("offramp-producer", lacks=["samples-per-slab"], folder="bin")
        self.program("offramp-consumer", folder="bin")
        done = self.bench("W6", "--beside", self.folder, *self.others)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(
            done.stdout,
            r"FAILED: other build: .*/bin/offramp-producer does not support --samples-per-slab, which this row needs",
        )

    def test_a_build_without_the_message_benchmark_fails_that_row(self):
        self.program("offramp-producer")
        done = self.bench("W8-1-reader", "--beside", self.folder, *self.others)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(
            done.stdout,
            r"FAILED: other build: .*/offramp-message-bench does not exist. Build it: ninja -C .* offramp-message-bench",
        )

    def test_invalid_builds_and_rows_are_refused_before_anything_runs(self):
        done = self.bench("W6", "--beside", self.folder)
        self.assertEqual(64, done.returncode)
        self.assertIn(f"--beside: no offramp-producer in {self.folder} or {self.folder}/bin", done.stderr)
        done = self.bench("E", "--beside", BIN.parent)
        self.assertEqual(64, done.returncode)
        self.assertIn("--beside: row E cannot run a second build", done.stderr)


class Parts(OlderBuild):
    def test_it_follows_offramps_and_precedes_others(self):
        row = row_named("W2-device")
        with_it = other_build.with_other_build(row, self.folder)
        self.assertEqual(
            ["ours", other_build.NAME, *(spec.name for spec in row.contestants[1:])],
            [spec.name for spec in with_it.contestants],
        )
        first, other = with_it.contestants[:2]
        self.assertEqual((first.flags, first.consumers, self.folder), (other.flags, other.consumers, other.build))
        self.assertIsNone(first.build)
        self.assertEqual((*row.targets, Reaches(other_build.NAME)), with_it.targets)

    def test_the_encode_limit_is_measured_in_both_builds(self):
        with_it = other_build.with_other_build(row_named("W10-cut-out"), self.folder)
        specs = {spec.name: spec for spec in with_it.contestants}
        limit, other = specs["encode limit"], specs[f"encode limit, {other_build.NAME}"]
        self.assertEqual(
            (limit.flags, limit.consumers, None, self.folder), (other.flags, other.consumers, limit.build, other.build)
        )
        self.assertIn((limit.name, other.name), with_it.beside)

    def test_the_rungs_of_a_build_without_a_ladder_are_its_producers(self):
        spec = Ours("limit", {"strategy": "compute-alone"}, program="offramp-ladder", build=self.folder)
        self.assertEqual("offramp-producer", other_build.program_of(spec))
        self.program("offramp-ladder")
        self.assertEqual("offramp-ladder", other_build.program_of(spec))

    def test_a_flag_has_its_older_name_in_an_older_build(self):
        older = self.program("older")
        older.write_text("#!/bin/sh\necho '--lease-seconds --batch'\n")
        newer = self.program("offramp-producer")
        flags = {"visibility-timeout": 3600, "batch": 4}
        self.assertEqual({"lease-seconds": 3600, "batch": 4}, other_build.with_older_names(older, flags))
        self.assertEqual(flags, other_build.with_older_names(newer, flags))

    def test_its_interval_has_to_reach_one(self):
        def judged(low, high):
            return Reaches("other").judge(
                {"ours": "ours", "ratios_of": {"ours": {"other": {"median": 0.99, "low": low, "high": high}}}}
            )

        self.assertEqual((True, "0.99 [0.98, 1]"), (judged(0.98, 1.0).reached, judged(0.98, 1.0).found))
        self.assertFalse(judged(0.98, 0.999).reached)
        self.assertEqual("not measured", Reaches("other").judge({"ours": "ours", "ratios_of": {}}).found)
