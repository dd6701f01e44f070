"""The ladder: its arithmetic, and the whole command with fake programs that only write the files of a run."""

import collections
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from made_ladder import MS, ORIGIN, make_ladder
from stage import HERE, OFFRAMP, WATCHDOG_SECONDS, InFolder, until, wait_until_gone

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.ladder import command, rungs, saved as ladder_saved, table
from offramp_launch.ladder.saved import Ladder, compare_checksums
from offramp_launch import intervals
from offramp_launch.tracing import chrome_events, drawing
from offramp_launch.tracing.traces import Program, Range, Trace, read_trace
from offramp_launch.ladder.workload import driver_release, make_workload

try:
    import matplotlib
except ImportError:
    matplotlib = None

KEYS = [rung.key for rung in rungs.RUNGS]
OUTPUTS = ("ladder.md", "ladder.json", "trace.json")


def setUpModule():
    """Gives matplotlib one cache folder, because it keeps using the first one even after its removal."""
    kept = tempfile.TemporaryDirectory(prefix="offramp-ladder-")
    unittest.addModuleCleanup(kept.cleanup)
    os.environ["MPLCONFIGDIR"] = kept.name


class IntervalsTest(unittest.TestCase):
    def test_the_union_merges_overlaps_within_the_window(self):
        self.assertEqual(
            [(10, 30), (40, 50)], intervals.union([(40, 60), (20, 30), (0, 25), (22, 23), (70, 80)], 10, 50)
        )
        self.assertEqual([(0, 2)], intervals.union([(0, 1), (1, 2)], 0, 9))
        self.assertEqual([], intervals.union([(5, 5), (9, 7)], 0, 10))

    def test_gaps_complement_the_union(self):
        self.assertEqual([(0, 10), (30, 40)], intervals.gaps([(10, 20), (15, 30), (40, 60)], 0, 50))
        self.assertEqual([(3, 7)], intervals.gaps([], 3, 7))
        self.assertEqual([], intervals.gaps([(0, 9)], 3, 7))


class FiguresTest(InFolder):
    def trace(self, *compute):
        ranges = tuple(
            Range("compute", "compute", batch, begin, end, True) for batch, (begin, end) in enumerate(compute)
        )
        return Trace((Program("producer", 1, ranges),), (100, 200))

    def test_idle_is_the_measured_time_without_compute(self):
        self.assertAlmostEqual(0.5, ladder_saved.idle_share(self.trace((0, 110), (120, 150), (130, 140), (190, 300))))
        self.assertIsNone(ladder_saved.idle_share(self.trace()))
        self.assertIsNone(ladder_saved.idle_share(Trace((), None)))

    def test_each_figure_of_a_rung(self):
        pool = Ladder(make_ladder(self.folder)).rungs["pool"]
        self.assertAlmostEqual(5.0, pool["batches_per_second"])
        self.assertAlmostEqual(1 - 90 / 200, pool["gpu_idle_share"])
        self.assertAlmostEqual(1.4 / 0.108, pool["copy_gigabytes_per_second"])
        self.assertAlmostEqual(20, pool["producer_cpu_ms_per_batch"])
        wanted = {"step": 200, "compute": 90, "h2d": 4, "d2h": 108, "idle": 110}
        for name, value in wanted.items():
            self.assertAlmostEqual(value, pool["per_batch_ms"][name], msg=name)
        self.assertIsNone(pool["per_batch_ms"]["map"])

    def test_mapping_is_measured_only_where_it_happens(self):
        workers = Ladder(make_ladder(self.folder)).rungs["workers"]["per_batch_ms"]
        self.assertAlmostEqual(40, workers["map"])
        self.assertGreater(workers["unmap"], 0)

    def test_device_times_fall_back_to_the_trace(self):
        saved = make_ladder(self.folder)
        summary = saved.summary("pool")
        for name in ("compute_seconds", "copy_seconds", "h2d_seconds"):
            del summary["measured"][name]
        times = ladder_saved.figures_of(summary, read_trace(saved.trace_dir("pool")))["per_batch_ms"]
        self.assertEqual((90, 108, 4), (times["compute"], times["d2h"], times["h2d"]))

    def test_gains_compare_to_the_previous_and_the_first_rung(self):
        rows = ladder_saved.compare(
            {
                key: {"batches_per_second": rate}
                for key, rate in (
                    ("sequential", 0.45),
                    ("workers", 0.71),
                    ("pool", 1.51),
                    ("streams", 1.85),
                    ("compute-alone", 2.0),
                )
            }
        )
        self.assertAlmostEqual(1.58, rows["workers"]["gain_over_the_rung_before"], places=2)
        self.assertAlmostEqual(4.11, rows["streams"]["gain_in_all"], places=2)
        self.assertAlmostEqual(0.925, rows["streams"]["share_of_compute_alone"])
        for key in ("sequential", "streams", "compute-alone"):
            self.assertIsNone(rows[key]["gain_over_the_rung_before"], f"{key}: the rung before it was not measured")

    def test_a_run_without_files_has_no_figures_and_no_error(self):
        figure = ladder_saved.figures_of({}, Trace((), None))
        self.assertEqual({None}, set(figure["per_batch_ms"].values()))
        self.assertIsNone(figure["gpu_idle_share"])


class TracesTest(InFolder):
    def test_reads_programs_ranges_and_the_window(self):
        trace = read_trace(make_ladder(self.folder, consumers=3).trace_dir("streams"))
        self.assertEqual(
            ["producer", "consumer", "consumer", "consumer"], [program.process for program in trace.programs]
        )
        self.assertEqual(ORIGIN + 181 * MS, trace.window[0])
        self.assertEqual(22, len(trace.device("d2h")))

    def test_an_invalid_trace_is_named(self):
        (self.folder / "producer-1.jsonl").write_text('{"process": "producer", "pid": 1}\n{"lane": ')
        with self.assertRaisesRegex(LaunchError, "producer-1.jsonl"):
            read_trace(self.folder)


class WorkloadTest(unittest.TestCase):
    def test_the_article_on_a_gpu_and_small_elsewhere(self):
        flags = " ".join(make_workload([], True).timed_flags("/t"))
        for wanted in (
            "--batch 64",
            "--image-size 512",
            "--precision tf32",
            "--slabs 8",
            "--write-copy",
            "--write-path /dev/null",
            "--synthetic-on host",
            "--deterministic",
            "--warmup-batches 10 --batches 110",
            "--drain-warmup",
            "--trace-dir /t",
        ):
            self.assertIn(wanted, flags)
        self.assertEqual(8, make_workload([], True).consumers)
        small = make_workload([], False)
        self.assertEqual((2, 6, 2), (small.warmup, small.batches, small.consumers))

    def test_user_flags_override_defaults_and_others_pass(self):
        workload = make_workload(
            ["--batch=3", "--seed", "7", "--batches", "5", "--warmup", "1", "--consumers", "4"], True
        )
        flags = workload.timed_flags("/t")
        self.assertEqual(["--batch=3"], [flag for flag in flags if flag.partition("=")[0] == "--batch"])
        self.assertIn("--seed", flags)
        self.assertEqual((1, 5, 4), (workload.warmup, workload.batches, workload.consumers))
        self.assertEqual("6", flags[flags.index("--batches") + 1])
        self.assertNotIn("--consumers", flags)

    def test_the_checked_run_changes_only_the_processor(self):
        flags = make_workload([], True).checked_flags("/o")
        for gone in ("--write-copy", "--write-path", "write", "--trace-dir"):
            self.assertNotIn(gone, flags)
        for wanted in ("checksum", "--deterministic", "--batch"):
            self.assertIn(wanted, flags)
        self.assertEqual(len(set(flags) & {"--processor"}), sum(flag == "--processor" for flag in flags))

    def test_flags_that_the_ladder_sets_are_refused(self):
        for argv in (
            ["--strategy", "pool"],
            ["--trace-dir=/t"],
            ["--run-id", "x"],
            ["--batches", "0"],
            ["--batches", "few"],
        ):
            with self.assertRaises(LaunchError) as refused:
                make_workload(argv, True)
            self.assertEqual(ExitCode.USAGE, refused.exception.code, argv)


class RungsTest(unittest.TestCase):
    def test_chosen_rungs_keep_the_ladders_order(self):
        self.assertEqual(["pool", "streams"], [rung.key for rung in rungs.choose_rungs("streams,pool")])
        self.assertEqual(KEYS, [rung.key for rung in rungs.choose_rungs("")])
        with self.assertRaisesRegex(LaunchError, "'third'"):
            rungs.choose_rungs("pool,third")


class ChecksTest(InFolder):
    def check(self, **results):
        for name, lines in results.items():
            (self.folder / name).mkdir()
            if lines is not None:
                (self.folder / name / "checksums.tsv").write_text("".join(f"{line}\n" for line in lines))
        return compare_checksums({name: self.folder / name for name in results})

    def test_equal_in_any_order(self):
        self.assertTrue(
            self.check(a=["0\t0\tk\to\tff", "1\t0\tk\to\tee"], b=["1\t0\tk\to\tee", "0\t0\tk\to\tff"]).equal
        )

    def test_changed_missing_and_absent_rows_differ(self):
        check = self.check(a=["0\tff", "1\tee"], b=["0\tff", "1\tdd"], c=["0\tff"], d=None)
        self.assertIs(False, check.equal)
        self.assertEqual(
            ["equal", "differs in 1 of 2", "differs in 1 of 2", "no results"],
            [verdict["word"] for verdict in check.verdicts.values()],
        )
        self.assertIn("b differs in 1 of 2", check.describe())

    def test_no_results_at_all_are_not_equal(self):
        self.assertIs(False, self.check(a=None, b=None).equal)


class TableTest(InFolder):
    def test_every_rung_has_every_figure(self):
        for title, head, rows in table.tables(Ladder(make_ladder(self.folder))):
            self.assertEqual(
                [rungs.rung_named(key).title for key in KEYS][: len(rows)], [row[0] for row in rows], title
            )
            for row in rows:
                self.assertEqual(len(head), len(row))
                self.assertNotIn("None", "".join(row))
                self.assertTrue(all(row), row)

    def test_the_articles_numbers_are_listed(self):
        text = table.markdown(Ladder(make_ladder(self.folder)))
        for figure in (
            "0.45",
            "0.71",
            "1.51",
            "1.55",
            "1.85",
            "+58 %",
            "more than 2×",
            "+2.6 %",
            "+19.3 %",
            "over 4×",
            "55.0 GB/s",
            "11.11 batches/s",
            "driver 580.1",
            "identical on 6 rungs",
        ):
            self.assertIn(figure, text)

    def test_the_gain_of_workers_is_explained_by_measurements(self):
        text = table.markdown(Ladder(make_ladder(self.folder)))
        self.assertIn("600.0 ms of a step of 798.0 ms, so it can gain 4.03× at most", text)
        self.assertIn("108.0 and 300.0 ms a batch", text)
        self.assertIn("The article gained +58 %: its step became 814 ms shorter.", text)


class PerfettoTest(InFolder):
    def setUp(self):
        super().setUp()
        out = io.StringIO()
        chrome_events.write(command.programs_of(Ladder(make_ladder(self.folder))), out)
        self.events = json.loads(out.getvalue())["traceEvents"]

    def test_every_process_and_thread_of_an_event_is_named(self):
        named = {(event["pid"], event["tid"]) for event in self.events if event["name"] == "thread_name"}
        processes = {event["pid"]: event["args"]["name"] for event in self.events if event["name"] == "process_name"}
        for event in self.events:
            self.assertIn(event["ph"], "MXibe")
            if event["ph"] != "M":
                self.assertIn((event["pid"], event["tid"]), named)
                self.assertIn(event["pid"], processes)
        for key in KEYS:
            self.assertTrue(any(rungs.rung_named(key).title in name for name in processes.values()), key)

    def test_ranges_of_a_thread_are_nested_and_never_negative(self):
        threads = collections.defaultdict(list)
        for event in self.events:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
                threads[event["pid"], event["tid"]].append((event["ts"], -event["dur"], event["ts"] + event["dur"]))
        self.assertTrue(threads)
        for ranges in threads.values():
            ends = []
            for begin, _, end in sorted(ranges):
                while ends and ends[-1] <= begin + 1e-6:
                    ends.pop()
                self.assertTrue(not ends or end <= ends[-1] + 1e-6)
                ends.append(end)

    def test_overlapping_ranges_are_paired_by_id(self):
        pairs = collections.Counter(event["id"] for event in self.events if event["ph"] in "be")
        self.assertTrue(pairs)
        self.assertEqual({2}, set(pairs.values()))


class PictureTest(InFolder):
    def test_the_view_shows_steps_of_the_fastest_and_the_slowest_rung(self):
        ladder = Ladder(make_ladder(self.folder, keys=["pool", "streams"]))
        self.assertAlmostEqual(6 * 90.5, drawing.view_length(list(ladder.traces.values())) / MS)
        ladder = Ladder(make_ladder(self.folder))
        self.assertAlmostEqual(14 * 90, drawing.view_length(list(ladder.traces.values())) / MS)

    @unittest.skipUnless(matplotlib, "matplotlib is not installed")
    def test_draws_an_image_and_text_that_stays_text(self):
        paths = [self.folder / "ladder.png", self.folder / "ladder.svg"]
        self.assertTrue(command.draw_pictures(Ladder(make_ladder(self.folder)), paths))
        head = paths[0].read_bytes()[:24]
        self.assertEqual(b"\x89PNG\r\n\x1a\n", head[:8])
        self.assertGreater(int.from_bytes(head[16:20], "big"), 1500)
        self.assertGreater(int.from_bytes(head[20:24], "big"), 1000)
        drawn = paths[1].read_text()
        for text in ("idle 310 ms", "5.00 batches/s", *(rungs.rung_named(key).title for key in KEYS)):
            self.assertIn(text, drawn)


class SavedLadderTest(InFolder):
    def report(self, *argv):
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = command.start(mock.Mock(build=self.folder / "build"), ["--from", str(self.folder), *argv])
        return code, output.getvalue(), errors.getvalue()

    def test_prints_and_writes_again_elsewhere(self):
        make_ladder(self.folder)
        elsewhere = self.folder / "else" / "where"
        code, output, _ = self.report("--output", str(elsewhere), "--json", str(self.folder / "figures.json"))
        self.assertEqual(0, code)
        self.assertEqual((elsewhere / "ladder.md").read_text(), output)
        self.assertEqual((elsewhere / "ladder.json").read_text(), (self.folder / "figures.json").read_text())
        json.loads((elsewhere / "trace.json").read_text())

    def test_without_matplotlib_it_prints_how_to_draw_later(self):
        make_ladder(self.folder)
        with mock.patch.dict(sys.modules, {"matplotlib": None}):
            code, output, errors = self.report()
        self.assertEqual(0, code)
        self.assertRegex(output, r"\| streams +\|")
        self.assertEqual(1, sum("ladder --from" in line for line in errors.splitlines()))

    def test_a_folder_without_a_ladder_and_flags_of_a_run_are_refused(self):
        for argv, code in (((), ExitCode.NO_INPUT), (("--batch", "4"), ExitCode.USAGE), (("--nsys",), ExitCode.USAGE)):
            with self.assertRaises(LaunchError) as refused:
                self.report(*argv)
            self.assertEqual(code, refused.exception.code, argv)


class MachineTest(InFolder):
    def test_reads_the_driver_release_from_the_kernel(self):
        file = self.folder / "version"
        file.write_text(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x)\nGCC version: gcc 12.2.0\n"
        )
        self.assertEqual("580.95.05", driver_release(file))
        self.assertEqual("", driver_release(self.folder / "none"))


class CommandTest(InFolder):
    """The real script with programs that write their files immediately."""

    def setUp(self):
        super().setUp()
        programs = self.folder / "bin"
        programs.mkdir()
        for role in ("producer", "ladder", "consumer"):
            self.script(
                programs / f"offramp-{role}", f"exec '{sys.executable}' '{HERE / 'fake_program.py'}' {role} \"$@\""
            )
        self.log = self.folder / "log"
        self.output = self.folder / "out"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OFFRAMP_")},
            "OFFRAMP_BIN_DIR": str(programs),
            "OFFRAMP_BUILD_DIR": str(self.folder / "build"),
            "OFFRAMP_SKIP_PACKAGES": "1",
            "FAKE_LOG": str(self.log),
            "PYTHONPATH": f"{HERE.parents[2] / 'launch'}:{HERE}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    @staticmethod
    def script(path, text):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def ladder(self, *argv, **environment):
        return subprocess.run(
            [OFFRAMP, "ladder", "--output", str(self.output), *argv],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )

    def logged(self, role):
        return [line[1:] for line in map(json.loads, self.log.read_text().splitlines()) if line[0] == role]

    def test_measures_compares_and_leaves_its_files(self):
        done = self.ladder("--rungs", "sequential,streams,compute-alone", "--seed", "5")
        self.assertEqual(0, done.returncode, done.stderr)
        for name in (*OUTPUTS, "measured.json", "streams/summary.json", "streams/check/checksums.tsv"):
            self.assertTrue((self.output / name).exists(), name)
        self.assertEqual((self.output / "ladder.md").read_text(), done.stdout)
        self.assertIn("identical on 2 rungs", done.stdout)
        self.assertIn("bare copies 55.0 GB/s", done.stdout)
        runs = [flags for flags in self.logged("ladder") if "--run-id" in flags]
        self.assertEqual(
            ["sequential", "sequential", "streams", "streams", "compute-alone"],
            [flags[flags.index("--strategy") + 1] for flags in runs],
        )
        self.assertEqual([flags for flags in runs if "--measure-limits" in flags], [runs[3]])
        self.assertTrue(all("5" in flags for flags in runs))
        # Each of the two runs of `streams` has two consumers; the other runs have none.
        self.assertEqual(4, sum("--lifeline-fd" in flags for flags in self.logged("consumer")))

    def test_a_failed_rung_does_not_stop_the_others(self):
        done = self.ladder("--rungs", "pool,streams", FAKE_FAILS="pool")
        self.assertEqual(83, done.returncode, done.stderr)
        self.assertRegex(done.stdout, r"\| pool +\| failed, exit code 83 \|")
        self.assertRegex(done.stdout, r"\| streams +\| +11.05 \|")

    def test_differing_results_of_one_rung_fail(self):
        done = self.ladder("--rungs", "pool,streams", FAKE_DIFFERS="streams")
        self.assertEqual(ExitCode.INTERNAL, done.returncode, done.stderr)
        self.assertIn("streams differs in 6 of 6", done.stdout)

    def interrupted(self, *flags, **environment):
        """Interrupts a ladder whose first rung hangs: every program ends."""
        launcher = subprocess.Popen(
            [OFFRAMP, "ladder", "--output", str(self.output), *flags],
            env={**self.environment, "FAKE_HANGS": "pool", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(launcher.stdout.close)
        until(lambda: self.log.exists() and len(self.logged("waits")) == 3)
        launcher.send_signal(signal.SIGINT)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(ExitCode.INTERRUPTED, launcher.returncode, output)
        self.assertTrue(all(wait_until_gone(pid) for [pid] in self.logged("waits")))

    def test_an_interrupt_ends_the_ladder_and_every_program(self):
        self.interrupted("--rungs", "pool,streams")
        self.assertFalse((self.output / "ladder.md").exists())

    def test_unknown_rungs_and_an_output_that_cannot_be_written_are_refused(self):
        self.assertEqual(ExitCode.USAGE, self.ladder("--rungs", "fast").returncode)
        self.output.write_text("a file in the way")
        self.assertEqual(ExitCode.CANNOT_WRITE, self.ladder().returncode)

    def fake_nsys(self, does):
        tools = self.folder / "tools"
        tools.mkdir()
        self.script(tools / "nsys", f"echo \"$@\" >> '{self.folder}/nsys-log'\n{does}")
        return f"{tools}:{os.environ['PATH']}"

    def test_nsys_captures_each_rung_as_the_article_did(self):
        path = self.fake_nsys(
            'while [ "$1" != -o ]; do shift; done; touch "$2.nsys-rep"; shift 2; UNDER_NSYS=yes exec "$@"'
        )
        done = self.ladder("--nsys", "--rungs", "workers,compute-alone", PATH=path)
        self.assertEqual(0, done.returncode, done.stderr)
        calls = [
            "profile --capture" + call for call in (self.folder / "nsys-log").read_text().split("profile --capture")[1:]
        ]
        for key, call in zip(("workers", "compute-alone"), calls, strict=True):
            self.assertTrue((self.output / f"{key}.nsys-rep").exists())
            for wanted in (
                "profile --capture-range=cudaProfilerApi --trace=cuda,nvtx,osrt",
                f"-o {self.output}/{key} ",
                "--warmup-batches 10",
                "--profile-batches 3",
                "--batches 14",
                f"--strategy {key}",
            ):
                self.assertIn(wanted, call)
                self.assertIn(wanted, done.stdout)
        self.assertEqual([["consumer"], ["consumer"], ["ladder"], ["ladder"]], sorted(self.logged("under nsys")))

    def test_an_interrupted_capture_leaves_no_program(self):
        path = self.fake_nsys('while [ "$1" != -o ]; do shift; done; shift 2; "$@"')
        self.interrupted("--nsys", "--rungs", "pool", PATH=path)

    def test_a_capture_without_a_report_fails(self):
        done = self.ladder("--nsys", "--rungs", "compute-alone", PATH=self.fake_nsys("exit 1"))
        self.assertEqual(ExitCode.SYSTEM, done.returncode)
        self.assertIn("no report of: compute alone", done.stderr)

    def test_without_nsys_the_commands_are_printed(self):
        path = ":".join(folder for folder in os.environ["PATH"].split(":") if not os.path.exists(f"{folder}/nsys"))
        done = self.ladder("--nsys", PATH=path)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(len(KEYS), done.stdout.count("nsys profile"))
        self.assertIn("not installed", done.stderr)
