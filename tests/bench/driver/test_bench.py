"""
The benchmark in its small form, as a user starts it: every row is there and complete, and nothing is left behind. No
time is asserted.
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import report
import workloads
from left_behind import left_since, objects_of_all

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench.py"
BIN = os.environ["OFFRAMP_TEST_BIN"]


def run_bench(*arguments, **options):
    return subprocess.run(
        [sys.executable, str(BENCH), "--bin", BIN, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        **options,
    )


def left_processes(mark):
    """Other processes whose environment has the mark."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and int(entry.name) != os.getpid()
                and mark.encode() in (entry / "environ").read_bytes()
            ):
                found.append((entry.name, (entry / "cmdline").read_bytes()))
        except OSError:
            continue
    return found


class SmallBenchmark(unittest.TestCase):
    TO_MEASURE = [row.id for row in workloads.make_rows(True)]

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="offramp-test-bench-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.mark = f"OFFRAMP_BENCH_TEST={os.getpid()}"
        before = objects_of_all()
        logs = pathlib.Path(cls.folder.name, "logs")
        cls.json_file = pathlib.Path(cls.folder.name, "bench.json")
        cls.done = run_bench(
            *cls.TO_MEASURE,
            "--small",
            "--json",
            cls.json_file,
            "--keep-logs",
            logs,
            env={**os.environ, "OFFRAMP_BENCH_TEST": str(os.getpid()), "TMPDIR": cls.folder.name},
        )
        cls.left = left_since(before, objects_of_all)
        cls.output = cls.done.stdout + cls.done.stderr
        cls.whole = json.loads(cls.json_file.read_text()) if cls.json_file.exists() else {"rows": []}
        cls.by_row = {row["row"]: row for row in cls.whole["rows"]}
        cls.asked = [row for row in workloads.make_rows(True) if row.id in cls.TO_MEASURE]
        cls.rows = [row for row in cls.asked if not cls.by_row.get(row.id, {}).get("left_out")]

    def test_it_ends_well(self):
        self.assertEqual(0, self.done.returncode, self.output)

    def test_every_row_is_there_and_none_failed(self):
        self.assertEqual(self.TO_MEASURE, list(self.by_row), self.output)
        self.assertEqual({}, {name: row["failure"] for name, row in self.by_row.items() if row["failure"]})

    def test_rows_are_left_out_only_for_what_not_every_machine_has(self):
        for row in self.asked:
            self.assertTrue(row.needs or not self.by_row[row.id]["left_out"], self.by_row[row.id]["left_out"])

    def test_every_contestant_moved(self):
        for row in self.rows:
            found = self.by_row[row.id]["contestants"]
            self.assertEqual({spec.name for spec in row.contestants}, set(found), row.id)
            for name, figures in found.items():
                with self.subTest(row=row.id, contestant=name):
                    self.assertGreaterEqual(len(figures["windows"]), 2)
                    if row.kind in ("contest", "curve"):
                        self.assertTrue(
                            all(
                                window["batches"] > 0 and window["batches_per_second"] > 0
                                for window in figures["windows"]
                            )
                        )
                    else:
                        self.assertTrue(
                            all(value["min"] > 0 for value in figures["figures"].values()), figures["figures"]
                        )

    def test_every_target_was_judged_from_a_measurement(self):
        for row in self.rows:
            verdicts = self.by_row[row.id]["targets"]
            self.assertEqual(len(row.targets), len(verdicts), row.id)
            for verdict in verdicts:
                with self.subTest(row=row.id, what=verdict["what"]):
                    self.assertEqual({"what", "wanted", "found", "value", "reached", "reason"}, set(verdict))
                    self.assertIsNotNone(verdict["value"], verdict["found"])

    def test_the_curve_has_its_points_and_the_latencies_their_histograms(self):
        self.assertEqual([1, 2], [point["consumers"] for point in self.by_row["E"]["curve"]])
        for point in self.by_row["E"]["curve"]:
            self.assertEqual(self.whole["pace"]["windows"], len(point["ratio"]["rounds"]))
            self.assertLessEqual(point["ratio"]["low"], point["ratio"]["high"])
        for name, figures in self.by_row["latency"]["contestants"].items():
            self.assertGreater(sum(count for _, count in figures["histogram"]), 0, name)
            for upper, _ in figures["histogram"]:  # both in eighths of a power of two
                self.assertAlmostEqual(0, (8 * math.log2(upper) + 0.5) % 1 - 0.5, places=6, msg=name)

    def test_the_json_reports_how_each_contestant_was_started(self):
        for row in self.rows:
            started = self.by_row[row.id]["started_as"]
            self.assertEqual({spec.name for spec in row.contestants}, set(started), row.id)
            for name, how in started.items():
                self.assertEqual({"program", "flags", "readers", "readers_flags", "reads_with"}, set(how), name)
                self.assertTrue(how["flags"], name)

    def test_the_json_reports_where_and_with_what(self):
        self.assertTrue(self.whole["small"])
        self.assertEqual(
            {"device", "gpu", "driver", "cuda", "link", "processor", "cores", "memory_gib", "kernel", "probe"},
            set(self.whole["machine"]),
        )
        self.assertEqual({"revision", "version", "compiler_flags", "python", "torch"}, set(self.whole["build"]))
        for row in self.whole["rows"]:
            for figures in row["contestants"].values():
                for key in (
                    "rate",
                    *(["producer_cpu_ms_per_batch", "readers_faults_per_batch"] if "rate" in figures else []),
                ):
                    if key in figures:
                        self.assertEqual({"median", "min", "max"}, set(figures[key]))

    def test_runs_conserved_their_samples(self):
        for row in self.whole["rows"]:
            for name, figures in row["contestants"].items():
                if "conserved" in figures.get("facts", {}):
                    self.assertTrue(figures["facts"]["conserved"], f"{row['row']}, {name}")

    def test_killed_consumers_lose_nothing(self):
        for row in ("W13-100-tokens", "W13-1000-tokens"):
            (verdict,) = (each for each in self.by_row[row]["targets"] if each["what"].startswith("samples lost"))
            self.assertTrue(verdict["reached"], verdict["found"])

    def test_the_table_reports_small_and_names_every_row(self):
        self.assertIn(report.SMALL, self.done.stdout)
        for row in self.asked:
            self.assertIn(f"## {row.id}\n", self.done.stdout)

    def test_nothing_is_left(self):
        self.assertEqual(set(), self.left)
        self.assertEqual([], left_processes(self.mark))
        self.assertEqual(
            set(), {path.name for path in pathlib.Path(self.folder.name).iterdir()} - {"logs", "bench.json"}
        )


class CommandLine(unittest.TestCase):
    def test_an_unknown_row_is_refused_with_the_known_ones(self):
        done = run_bench("W77")
        self.assertEqual(64, done.returncode)
        self.assertIn("unknown row or workload 'W77'. Known: W1-host-write", done.stderr)

    def test_rows_are_listed(self):
        done = run_bench("--list")
        self.assertEqual(0, done.returncode)
        self.assertEqual(
            [row.id for row in workloads.make_rows(False)], [line.split()[0] for line in done.stdout.splitlines()[:-1]]
        )
        self.assertRegex(done.stdout.splitlines()[-1], r"^Total: \d+ minutes of windows")

    def test_a_contestant_that_dies_is_one_failed_row_and_shows_its_log(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in ("offramp-producer", "offramp-consumer"):
                path = pathlib.Path(folder, program)
                path.write_text(
                    f'#!/bin/sh\ncase " $* " in *" probe "*|*" --version "*|*" sweep "*) exec {BIN}/offramp-producer "$@";; esac\n'
                    'echo "it cannot go on" >&2; exit 3\n'
                )
                path.chmod(0o755)
            done = subprocess.run(
                [sys.executable, str(BENCH), "--bin", folder, "--small", "W5"],
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
        self.assertEqual(1, done.returncode)
        self.assertIn("FAILED: ours ended with 3", done.stdout)
        self.assertIn("it cannot go on", done.stdout)
