"""The benchmark's parts: statistics, windows, orders, rows, targets, tables, the peers' file of counts, and failing
programs."""

import contextlib
import dataclasses
import importlib.util
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import contest
import intervals
import report
import rows
import specs
import targets
import workloads
from contestants import ContestantError, Look, SharedSettings
from given import Given
from left_behind import left_since
from materials import Materials, server_module
from one_shots import MessageBench, run_for_json
from peers.progress import (
    CELL,
    RECORD,
    RECORDS,
    ProgressCell,
    ProgressReader,
    make_progress_file,
    map_progress_file,
)
from processes import Usage, members_of, usage_of, usage_of_servers

PROGRAMS = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"])


class IntervalsTest(unittest.TestCase):
    def test_the_interval_of_known_data(self):
        # Mean 5, standard deviation 2.1381, eight values: t(7) = 2.365, so 5 ± 2.365 × 2.1381 / √8.
        mean, low, high = intervals.t_interval([2, 4, 4, 4, 5, 5, 7, 9])
        self.assertEqual(5, mean)
        self.assertAlmostEqual(5 - 1.7878, low, places=3)
        self.assertAlmostEqual(5 + 1.7878, high, places=3)

    def test_one_value_has_no_interval_and_equal_values_an_exact_one(self):
        self.assertEqual((3, -math.inf, math.inf), intervals.t_interval([3]))
        self.assertEqual((3, 3, 3), intervals.t_interval([3, 3, 3]))

    def test_ratios_are_taken_within_rounds(self):
        # The machine halves its speed after the first round, which affects both contestants but not the ratio.
        found = intervals.ratio([100, 50, 50], [200, 100, 100])
        self.assertEqual([0.5, 0.5, 0.5], found["rounds"])
        self.assertEqual((0.5, 0.5, 0.5), (found["median"], found["low"], found["high"]))


class ContestTest(unittest.TestCase):
    def look(self, samples, release_s, at_s, cpu=0.0, faults=0):
        return Look(
            samples,
            int(release_s * 1e9),
            samples * 100,
            int(at_s * 1e9),
            Usage(cpu, faults, 2048),
            Usage(2 * cpu, 0, 1024),
            "compute",
        )

    def test_a_window_counts_between_releases_not_between_looks(self):
        window = contest.between(
            self.look(80, 10.0, 10.3, cpu=1.0, faults=10), self.look(160, 14.0, 14.3, cpu=3.0, faults=30), 8
        )
        self.assertAlmostEqual(2.5, window.batches_per_second)  # 10 batches in 4 s, at any time of the looks
        self.assertAlmostEqual(200, window.producer_cpu_ms_per_batch)
        self.assertAlmostEqual(400, window.readers_cpu_ms_per_batch)
        self.assertAlmostEqual(2, window.producer_faults_per_batch)
        self.assertAlmostEqual(800, window.bytes_per_batch)
        self.assertEqual((2, 1), (window.producer_private_mib, window.readers_private_mib))
        self.assertIsNone(window.compute_ms_per_batch, "no program reported the device's time")

    def test_the_device_time_is_divided_by_its_own_batches(self):
        first, last = (
            dataclasses.replace(self.look(samples, at, at), compute=compute)
            for samples, at, compute in ((80, 10.0, (1.5, 7)), (160, 14.0, (2.4, 16)))
        )
        self.assertAlmostEqual(100, contest.between(first, last, 8).compute_ms_per_batch)
        self.assertIsNone(
            contest.between(first, dataclasses.replace(last, compute=first.compute), 8).compute_ms_per_batch
        )

    @staticmethod
    def follows(orders):
        """How often each contestant follows each other one, over all windows."""
        line = [name for order in orders for name in order]
        counts = {(first, second): 0 for first in orders[0] for second in orders[0] if first != second}
        for pair in zip(line, line[1:]):
            if pair in counts:
                counts[pair] += 1
        return set(counts.values())

    def test_two_alternate(self):
        self.assertEqual([["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]], contest.rounds_of("ab", 4))

    def test_three_run_in_all_orders_and_follow_one_another_equally_often(self):
        orders = contest.rounds_of("abc", 6)
        self.assertEqual(6, len(set(map(tuple, orders))))
        self.assertEqual({2}, self.follows(orders))

    def test_more_follow_each_other_one_and_change_places(self):
        for names in ("abcd", "abcde"):
            orders = contest.rounds_of(names, 6)
            self.assertTrue(all(sorted(order) == list(names) for order in orders))
            self.assertGreaterEqual(min(self.follows(orders)), 1)
            self.assertLessEqual(max(self.follows(orders)), 3)
            for place in range(len(names)):
                self.assertLessEqual(max(sum(order[place] == name for order in orders) for name in names), 2)

    def test_only_one_contestant_runs_at_a_time(self):
        running, events = set(), []

        class Puppet:
            def __init__(self, name):
                self.name = name

            def start(self):
                running.add(self.name)

            def wait_until_warm(self, samples):
                events.append((self.name, "warm", samples, set(running)))

            def run_on(self, seconds):
                events.append((self.name, "on", seconds, set(running)))

            def pause(self):
                running.discard(self.name)

            def window(self, batch, pace):
                events.append((self.name, "window", batch, set(running)))
                return contest.Window(1, 2, 2, *[0] * 7, "")

        windows = contest.hold_contest(
            [Puppet("a"), Puppet("b")], 4, contest.Pace(windows=2, warmup_batches=3, warm_seconds=7)
        )
        self.assertEqual(
            [("a", "warm", 12, {"a"}), ("a", "on", 7, {"a"}), ("b", "warm", 12, {"b"}), ("b", "on", 7, {"b"})],
            events[:4],
        )
        self.assertEqual(
            [("a", "window"), ("b", "window"), ("b", "window"), ("a", "window")], [event[:2] for event in events[4:]]
        )
        self.assertTrue(all(not event[3] for event in events[4:]))  # a window continues only its own contestant
        self.assertEqual({"a": 2, "b": 2}, {name: len(own) for name, own in windows.items()})


class ServersTest(unittest.TestCase):
    def test_a_servers_children_count_while_they_live_and_afterwards(self):
        burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\n"
        server = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import subprocess, sys\n"
                f"subprocess.run([sys.executable, '-c', {burn!r}], stdout=subprocess.DEVNULL)\n"
                f"with subprocess.Popen([sys.executable, '-c', {burn + 'input()'!r}]): pass\n",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with server:
            server.stdout.readline()  # one child has ended, the other lives
            self.assertGreaterEqual(usage_of_servers([server.pid]).cpu_seconds - usage_of(server.pid).cpu_seconds, 0.3)
            server.stdin.write(b"\n")


class ProgressTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "progress")
        make_progress_file(self.path, 3)
        self.reader = ProgressReader(self.path)

    def test_cells_add_up(self):
        self.assertEqual((0, 0, 0), self.reader.read())
        ProgressCell(self.path, 0).add(4, 100)
        last = ProgressCell(self.path, 2)
        last.add(1, 10)
        last.add(1, 10)
        samples, last_ns, payload_bytes = self.reader.read()
        self.assertEqual((6, 120), (samples, payload_bytes))
        self.assertGreater(last_ns, 0)
        self.assertEqual(3 * CELL, self.path.stat().st_size)

    def test_a_record_that_was_never_committed_is_not_seen(self):
        cell, memory = ProgressCell(self.path, 1), map_progress_file(self.path)
        cell.add(4, 100)
        seen = self.reader.read()
        RECORD.pack_into(memory, CELL + RECORDS[0], 99, 99, 99)  # the second record of a writer that stops here
        self.assertEqual(seen, self.reader.read())

    def test_a_record_overwritten_during_a_read_is_read_again(self):
        cell = ProgressCell(self.path, 1)
        cell.add(4, 100)
        commits, writes = self.reader._commits, iter([lambda: None, lambda: cell.add(1, 1), lambda: None, lambda: None])

        def write_then_look():
            next(writes)()
            return commits()

        self.reader._commits = write_then_look
        self.assertEqual((5, 101), self.reader.read()[::2])
        self.assertEqual([], list(writes))


class RowsTest(unittest.TestCase):
    def test_every_workload_is_there_in_both_sizes(self):
        for small in (False, True):
            rows = workloads.make_rows(small)
            self.assertEqual(
                {f"W{number}" for number in range(1, 16) if number != 14 or not small}
                | {"latency", "start", "E"},  # W14: a GPU's
                {row.workload.rstrip("ab") for row in rows},
            )
            self.assertEqual(len(rows), len({row.id for row in rows}))
            for row in rows:
                names = [spec.name for spec in row.contestants]
                self.assertEqual(len(names), len(set(names)), row.id)
                for target in row.targets:
                    over = getattr(target, "over", None)
                    self.assertTrue(over is None or over in names, f"{row.id}: {target}")
                    self.assertLessEqual(
                        {*getattr(target, "limits", ()), *getattr(target, "parts", ())},
                        set(names),
                        f"{row.id}: {target}",
                    )

                for pair in row.beside:
                    self.assertLessEqual(set(pair), set(names), row.id)

    def test_rows_are_chosen_by_workload_or_by_id(self):
        rows = workloads.make_rows(True)
        self.assertEqual(["W4a-4-readers", "W4a-1-reader", "W4b"], [row.id for row in workloads.choose(rows, ["W4"])])
        self.assertEqual(["W2-host"], [row.id for row in workloads.choose(rows, ["W2-host"])])
        self.assertEqual(rows, workloads.choose(rows, []))
        with self.assertRaisesRegex(ValueError, "unknown row or workload 'W77'. Known: W1-host-write"):
            workloads.choose(rows, ["W1", "W77"])

    def test_omitted_contestants_have_a_reason(self):
        rows = workloads.without(workloads.choose(workloads.make_rows(False), ["W2-device"]), ["article*"])
        self.assertEqual([["ours", "compute alone"]], [[spec.name for spec in row.contestants] for row in rows])
        self.assertEqual(0, rows[0].settle_seconds, "no peer needs a settling time")
        self.assertEqual(
            ([["compute alone"]], ()),
            ([[target.over for target in row.targets if hasattr(target, "over")] for row in rows], rows[0].beside),
        )
        (row,) = workloads.without(workloads.choose(workloads.make_rows(False), ["W10-cut-out"]), ["plain*"])
        self.assertEqual(3, len(row.targets), "only limits and page faults remain")
        (row,) = workloads.without([row], ["decode limit"])
        self.assertEqual(
            ["Faults"], [type(target).__name__ for target in row.targets], "both other targets use the decode limit"
        )

    def test_leaving_out_an_essential_contestant_is_refused(self):
        rows = workloads.make_rows(False)
        for wanted, pattern, message in (
            ("W2", "artcle*", "unknown contestant 'artcle\\*'. Known: ours; compute alone; article 4-pinned"),
            ("W2", "ours", "cannot leave 'ours' out of W2-device"),
            ("E", "compute alone", "cannot leave anything out of E"),
        ):
            with self.subTest(pattern), self.assertRaisesRegex(ValueError, message):
                workloads.without(workloads.choose(rows, [wanted]), [pattern])

    def test_a_peer_has_as_many_processes_as_offramp_has_threads_and_consumers(self):
        for small, gpu in ((False, True), (False, False), (True, False)):
            for row in workloads.choose(workloads.make_rows(small, gpu), ["W7", "W10"]):
                ours, peer = row.contestants[0], row.contestants[-1]
                self.assertEqual((ours.flags["decode-workers"], ours.consumers), (peer.flags["loaders"], peer.readers))
                for flag in ("batch", "image-size", "precision", "input"):
                    self.assertEqual(ours.flags[flag], peer.flags[flag])


class MaterialsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def materials(self, **given):
        return Materials(self.folder, self.folder, contextlib.ExitStack(), Given(**given), gpu=False, small=True)

    def test_contestants_have_separate_outputs_and_read_the_same_texts(self):
        materials = self.materials()
        first, second = (
            materials.fill_in({"batch": 4, "output": specs.OUTPUT, "input": specs.LINES}) for _ in range(2)
        )
        self.assertNotEqual(first["output"], second["output"])
        self.assertEqual(first["input"], second["input"])
        self.assertGreaterEqual(len(first["input"].read_text().splitlines()), 100_000)

    def test_lengths_of_texts_have_their_mean_and_differ(self):
        for mean, placeholder in specs.LENGTHS.items():
            flags = self.materials().fill_in({"lengths": placeholder})
            lengths = [int(length) for length in flags["lengths"].split(",")]
            self.assertEqual(specs.TEXTS, len(lengths))
            self.assertLess(abs(sum(lengths) / len(lengths) - mean), 1)
            self.assertLess(2 * min(lengths), mean)
            self.assertGreater(max(lengths), 2 * mean)

    def test_a_server_has_a_schema_for_the_row_and_keeps_its_own(self):
        missing = "needs psycopg" if not importlib.util.find_spec("psycopg") else server_module().missing_requirement()
        if missing:
            self.skipTest(missing)
        schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'bench%'"
        with server_module().PostgresServer() as server:
            with contextlib.ExitStack() as stack:
                made = Materials(
                    self.folder, self.folder, stack, Given(postgres=server.uri()), gpu=False, small=True
                ).fill_in({"sink": specs.POSTGRES})
                self.assertEqual([[f"bench_{os.getpid()}"]], server.sql(schemas))
                self.assertEqual(f"{server.uri()}&options=-csearch_path%3Dbench_{os.getpid()},public", made["sink"])
            self.assertEqual([], server.sql(schemas))

    def test_a_row_without_its_requirements_is_left_out_and_starts_nothing(self):
        with unittest.mock.patch("materials.importlib.util.find_spec", return_value=None):
            for name, reason in (
                ("W11-sqlite", "needs the Python packages tokenizers, sentence_transformers"),
                ("W11-postgres", "needs"),
            ):
                (row,) = workloads.choose(workloads.make_rows(True), [name])
                result = rows.run_row(
                    row, SharedSettings(self.folder), contest.Pace(windows=2, seconds=0.1, settle_seconds=0)
                )
                self.assertIn(reason, result["left_out"])
                self.assertIsNone(result["failure"])


class FailuresTest(unittest.TestCase):
    """Programs that misbehave, written as shell scripts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, script):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def run_small_row(self, name):
        (row,) = workloads.choose(workloads.make_rows(True), [name])
        return rows.run_row(row, SharedSettings(self.folder), contest.Pace(windows=2, seconds=0.1, settle_seconds=0))

    def test_a_sweep_that_hangs_fails_the_row_behind_what_failed_first(self):
        self.program("offramp-producer", 'case " $* " in *" sweep "*) exec sleep 1000;; esac; exit 3')
        self.program("offramp-consumer", "exit 3")
        with unittest.mock.patch("contestants.SWEEP_SECONDS", 0.1):
            failure = self.run_small_row("W5")["failure"]
        self.assertRegex(failure, r"^ours ended with 3(.|\n)*\ncannot remove what killed runs left in /dev/shm: ")

    def test_a_shot_that_takes_too_long_is_killed_with_all_its_processes(self):
        pids = self.folder / "pids"
        shot = self.program("shot", f"sleep 1000 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait")
        with unittest.mock.patch("one_shots.SHOT_SECONDS", 5), self.assertRaisesRegex(ContestantError, "timed out"):
            run_for_json("shot", [shot])
        left = members_of([int(pids.read_text().split()[1])])
        self.assertEqual([], left)

    def test_a_message_benchmark_that_is_killed_leaves_no_memory_and_no_folder(self):
        before = set(os.listdir("/dev/shm"))
        bench = MessageBench("ours", SharedSettings(PROGRAMS), 1, 8)
        with (
            tempfile.TemporaryDirectory() as temporary,
            unittest.mock.patch.dict(os.environ, {"TMPDIR": temporary}),
            unittest.mock.patch("tempfile.tempdir", temporary),
            unittest.mock.patch("one_shots.SHOT_SECONDS", 1.5),
        ):
            with self.assertRaisesRegex(ContestantError, "timed out"):
                bench.window(1, contest.Pace(seconds=1000))
            self.assertEqual([], os.listdir(temporary))
        self.assertEqual(set(), left_since(before))


def result_with(**changes):
    middle = {key: {"median": 1.0, "min": 1.0, "max": 1.0} for key in rows.PER_WINDOW}
    contestants = {
        "ours": {"rate": {"median": 9.9, "min": 9.8, "max": 10.0}, **middle},
        "limit": {
            "rate": {"median": 10.0, "min": 10.0, "max": 10.0},
            **middle,
            "producer_cpu_ms_per_batch": {"median": 20.0, "min": 1, "max": 1},
        },
    }
    return {
        "row": "W",
        "description": "a test",
        "kind": "contest",
        "unit": "batches",
        "ours": "ours",
        "raw_bytes": 100,
        "failure": None,
        "contestants": contestants,
        "ratios_of": {"ours": {"limit": {"median": 0.99, "mean": 0.99, "low": 0.98, "high": 1.0}}},
        "beside": [],
        "settle_seconds": 0.5,
        "started_as": {
            "ours": {
                "program": "offramp-producer",
                "flags": {"batch": 4},
                "readers": 2,
                "readers_flags": {},
                "reads_with": None,
            }
        },
        "targets": [],
        "curve": [],
        "notes": [],
        "cores": 4,
        "left_out": None,
        **changes,
    }


class TargetsTest(unittest.TestCase):
    def test_the_time_per_slab_is_absolute_or_beyond_another_contestants(self):
        found = targets.PerSlab("ours", 1000, over="limit").judge(result_with())
        self.assertAlmostEqual(1e6 / 9.9 - 1e6 / 10, found.value)
        self.assertFalse(found.reached)
        self.assertTrue(targets.PerSlab("limit", 100_000).judge(result_with()).reached)
        self.assertEqual({"ours", "limit"}, targets.contestants_of(targets.PerSlab("ours", 1, over="limit")))

    def test_a_ratio_is_reached_by_its_median_and_if_wanted_by_its_interval(self):
        self.assertTrue(targets.Ratio("limit", 0.99).judge(result_with()).reached)
        self.assertFalse(targets.Ratio("limit", 0.991).judge(result_with()).reached)
        self.assertFalse(targets.Ratio("limit", 0.99, lower_bound=0.985).judge(result_with()).reached)

    def test_a_missing_measurement_is_a_missed_target(self):
        found = targets.Ratio("limit", 0.5).judge(result_with(ratios_of={}))
        self.assertEqual(("not measured", False), (found.found, found.reached))

    def test_rates_cpu_and_bytes(self):
        self.assertFalse(targets.Rate(10).judge(result_with()).reached)
        self.assertTrue(targets.Cpu("limit", 0.05).judge(result_with()).reached)
        self.assertTrue(targets.Bytes(0.01).judge(result_with()).reached)
        self.assertFalse(targets.Bytes(0.009).judge(result_with()).reached)

    def test_page_faults_are_the_producers_and_the_consumers_each(self):
        self.assertTrue(targets.Faults().judge(result_with()).reached)
        result = result_with()
        result["contestants"]["ours"]["readers_faults_per_batch"] = {"median": 1.01}
        self.assertEqual(
            ("1, 1.01", False), (targets.Faults().judge(result).found, targets.Faults().judge(result).reached)
        )

    def test_killed_consumers_lose_nothing(self):
        for completed, killed, found in (
            (80, 2, ("0 of 80, 2 consumers killed, 1 slabs redelivered", True)),
            (79, 2, ("1 of 80, 2 consumers killed, 1 slabs redelivered", False)),
            (80, 0, ("0 of 80, 0 consumers killed, 1 slabs redelivered", False)),
        ):
            result = result_with()
            result["contestants"]["limit"]["facts"] = {
                "samples_submitted": 80,
                "samples_completed": completed,
                "killed_consumers": killed,
                "redelivered_slabs": 1,
            }
            judged = targets.NothingLost("limit").judge(result)
            self.assertEqual(found, (judged.found, judged.reached))
        result["contestants"]["limit"]["facts"] = {}  # it did not end in an orderly way
        self.assertFalse(targets.NothingLost("limit").judge(result).reached)

    def test_a_curve_is_judged_at_one_number_of_consumers(self):
        curve = [
            {"consumers": consumers, "ratio": {"median": median, "low": 0.5, "high": 1.0}}
            for consumers, median in ((2, 0.5), (4, 0.97))
        ]
        self.assertTrue(targets.OnCurve(4, 0.97).judge(result_with(curve=curve)).reached)
        self.assertFalse(targets.OnCurve(4, 0.98).judge(result_with(curve=curve)).reached)
        self.assertEqual(
            ("not measured", False),
            (
                targets.OnCurve(3, 0.1).judge(result_with(curve=curve)).found,
                targets.OnCurve(3, 0.1).judge(result_with(curve=curve)).reached,
            ),
        )

    def test_the_smallest_of_several_limits_counts(self):
        result = result_with()
        result["contestants"]["other"] = {"rate": {"median": 8.0}}
        result["ratios_of"]["ours"]["other"] = {"median": 1.2, "low": 1.1, "high": 1.3}
        found = targets.SmallestOf(("limit", "other"), 1.1).judge(result)
        self.assertEqual((1.2, True, "1.2 [1.1, 1.3], other"), (found.value, found.reached, found.found))
        self.assertFalse(targets.SmallestOf(("limit",), 1.1).judge(result).reached)

    def test_the_limit_of_the_cores_counts_the_cpu_time_of_all_parts(self):
        result = result_with()
        for name, producer, readers in (("limit", 20.0, 30.0), ("other", 250.0, 100.0)):
            result["contestants"][name] = {
                "rate": {"median": 40.0},
                "producer_cpu_ms_per_batch": {"median": producer},
                "readers_cpu_ms_per_batch": {"median": readers},
            }
        found = targets.CoresAllow(("limit", "other"), 0.9).judge(result)  # four cores: ten batches a second
        self.assertAlmostEqual(0.99, found.value)
        self.assertTrue(found.reached)
        self.assertIn("of 10 /s, cores", found.found)
        result["contestants"]["other"]["rate"]["median"] = 9.95  # more cores would not help
        result["ratios_of"]["ours"]["other"] = {"median": 0.89}
        found = targets.CoresAllow(("limit", "other"), 0.9).judge(result)
        self.assertEqual(("0.89 (9.9 of 9.95 /s, other)", False), (found.found, found.reached))

    def test_figures_by_themselves_and_over_others(self):
        result = result_with(
            contestants={
                "ours": {"figures": {"seconds": {"median": 0.4}, "p50_us": {"median": 40.0}}},
                "limit": {"figures": {"seconds": {"median": 2.0}, "p50_us": {"median": 100.0}}},
            }
        )
        self.assertFalse(targets.Figure("seconds", 0.3).judge(result).reached)
        self.assertTrue(targets.Figure("seconds", 0.25, over="limit").judge(result).reached)
        self.assertTrue(targets.Latency("p50_us", "limit", 0.5).judge(result).reached)
        self.assertFalse(targets.Figure("other", 0.3).judge(result).reached)


class ReportTest(unittest.TestCase):
    machine = {
        "gpu": False,
        "device": "x",
        "driver": 0,
        "cuda": 0,
        "link": None,
        "processor": "P",
        "cores": 2,
        "memory_gib": 8,
        "kernel": "6",
    }
    build = {"version": "v", "revision": None, "compiler_flags": None, "python": "3", "torch": "2"}

    def test_a_row_shows_every_contestant_and_every_target(self):
        verdict = {
            "what": "rate over limit",
            "wanted": "≥ 0.995",
            "found": "0.99",
            "value": 0.99,
            "reached": False,
            "reason": "why not",
        }
        text = report.row_table(result_with(targets=[verdict], notes=["a note"]))
        self.assertIn("| ours | 9.9 (9.8–10) |", text)
        self.assertIn("| limit | 10 (10–10) | 10 B/s | 0.99 [0.98, 1] |", text)
        self.assertIn("missed | why not |", text)
        self.assertIn("Note: a note.", text)
        self.assertIn("- ours: `offramp-producer --batch 4`, readers: 2\n", text)

    def test_a_curve_has_an_interval_per_point_and_no_overall_figures(self):
        ratio = {"median": 0.9, "mean": 0.9, "low": 0.8, "high": 1.0}
        point = {
            "consumers": 3,
            "rate": {"median": 9, "min": 8, "max": 10},
            "limit": {"median": 10, "min": 10, "max": 10},
            "ratio": ratio,
            "compute": {"median": 90.5, "min": 90, "max": 91},
            "compute_of_limit": None,
        }
        text = report.row_table(result_with(kind="curve", curve=[point], contestants={"ours": {"windows": []}}))
        self.assertIn("| 3 | 9 (8–10) | 10 | 0.9 [0.8, 1] | 90.5 (90–91), – |", text)
        self.assertNotIn("| contestant |", text)

    def test_a_failed_row_reports_why_in_both_tables(self):
        failed = result_with(failure="ours ended with 83\nits log")
        self.assertIn("FAILED: ours ended with 83\nits log", report.row_table(failed))
        self.assertIn("| W | | | | failed | ours ended with 83 |", report.summary([failed]))

    def test_a_row_that_is_left_out_reports_why_in_both_tables(self):
        left_out = result_with(left_out="needs a database")
        self.assertIn("Left out: needs a database.", report.row_table(left_out))
        self.assertIn("| W | | | | left out | needs a database |", report.summary([left_out]))
