"""
Every strategy gives the same bytes, undisturbed and with kills, and leaves nothing behind, even if batches share slabs.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

from tests.support.gate import Gate
from tests.support.launched_run import ROOT
from tests.support.real_run import BIN, LeavesNothing, RealRun

WORK = (
    *"--device cpu --model copy --copy-bytes 256KiB --batch 4 --processor checksum --batches 40".split(),
    *"--warmup-batches 5 --drain-warmup".split(),
)
WITHOUT_CONSUMERS = ("sequential", "compute-alone")


def run_rung(rung, *flags, traced=False, program=None):
    """The merged checksums and the producer's summary; with `traced`, also every program's trace."""
    consumers = 0 if rung in WITHOUT_CONSUMERS else 2
    with (
        RealRun(*WORK, "--strategy", rung, *flags) as run,
        Gate(run.folder) if traced else contextlib.nullcontext() as gate,
    ):
        trace = ["--trace-dir", str(run.folder / "trace")] if traced else []
        run.start_producer(*trace, program=program)
        for _ in range(consumers):
            run.start_consumer(*trace, faulty=traced, environment=gate.environment if gate else None)
        if gate:
            gate.entered_by(consumers)
            gate.open()
        if run.wait(run.producer) != 0:
            raise AssertionError(run.logs())
        run.wait_for_consumers()
        run.finish_outputs()
        traces = (
            [path.read_text().splitlines() for path in sorted((run.folder / "trace").glob("*.jsonl"))] if traced else []
        )
        return run.files().get("checksums.tsv"), run.summary(), traces


class Rungs(LeavesNothing):
    def test_all_give_the_same_bytes(self):
        wanted, summary, _ = run_rung("streams", "--batches-per-slab", "1", "--slabs", "4")
        self.assertEqual(len(wanted.splitlines()), 160)
        self.assertEqual(summary["measured"]["batches"], 35)
        self.assertEqual(summary["measured"]["copy_bytes"], 35 << 18)
        for rung in ("sequential", "workers", "pool", "async", "streams"):
            with self.subTest(rung):
                found, summary, _ = run_rung(rung)
                self.assertEqual(found, wanted)
                self.assertTrue(summary["conserved"])
                self.assertEqual(summary["strategy"], rung)
                self.assertEqual(summary["batches"]["released"], 40)
                self.assertEqual(summary["compute_busy_batches"], 40)
                self.assertGreater(summary["compute_busy_seconds"], 0)

    def test_the_ladders_program_runs_the_last_rung_too(self):
        wanted, _, _ = run_rung("streams")
        found, summary, _ = run_rung("streams", program=BIN / "offramp-ladder")
        self.assertEqual(found, wanted)
        self.assertEqual(summary["strategy"], "streams")

    def test_the_producer_itself_runs_none_but_the_last(self):
        for rung in ("sequential", "workers", "pool", "async", "compute-alone"):
            with self.subTest(rung):
                done = subprocess.run(
                    [
                        BIN / "offramp-producer",
                        *WORK,
                        "--strategy",
                        rung,
                        *"--run-dir /nowhere --run-id nobody".split(),
                    ],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                self.assertEqual((done.returncode, done.stdout), (64, ""))
                self.assertEqual(
                    done.stderr,
                    f"offramp-producer: --strategy '{rung}' needs offramp-ladder, which takes the same flags\n",
                )
        # A sweep needs no rung.
        done = subprocess.run(
            [BIN / "offramp-producer", "sweep"],
            env={**os.environ, "OFFRAMP_STRATEGY": "pool"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_launch_script_finds_a_rung_in_any_position(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "run.toml")
            file.write_text('strategy = "sequential"\n')
            for flags, environment in (
                (("--strategy", "sequential"), {}),
                ((), {"OFFRAMP_STRATEGY": "sequential"}),
                (("--config", str(file)), {}),
            ):
                with self.subTest(flags=flags, environment=environment):
                    done = subprocess.run(
                        [
                            ROOT / "launch/offramp",
                            *"run --model copy --device cpu".split(),
                            *flags,
                            "--print-config",
                        ],
                        env={
                            **os.environ,
                            "OFFRAMP_BIN_DIR": str(BIN),
                            "OFFRAMP_SKIP_PACKAGES": "1",
                            "OFFRAMP_BUILD_DIR": folder,
                            **environment,
                        },
                        capture_output=True,
                        text=True,
                        timeout=60,
                        check=False,
                    )
                    self.assertEqual(done.returncode, 0, done.stderr)
                    config = json.loads(done.stdout)
                    self.assertEqual(
                        (config["strategy"], config["consumers"]), ("sequential", 0), "as in the ladder's program"
                    )

    def test_a_batch_cut_into_slabs_gives_them_too(self):
        wanted, _, _ = run_rung("streams")
        for rung in ("sequential", "workers", "pool", "async", "streams"):
            with self.subTest(rung):
                found, summary, _ = run_rung(rung, "--samples-per-slab", "3")
                self.assertEqual(found, wanted)
                self.assertEqual(summary["samples_per_slab"], 3)

    def test_small_batches_share_slabs(self):
        wanted, alone, _ = run_rung("streams", "--batches-per-slab", "1")
        found, shared, _ = run_rung("streams", "--batches-per-slab", "8", "--max-delay-seconds", "1")
        self.assertEqual(found, wanted)
        self.assertEqual(shared["batches_per_slab"], 8)
        # The warm-up is delivered before the rest starts: its 5 batches do not wait for others, whatever the delay.
        self.assertLess(shared["slabs"]["published"]["slabs"], alone["slabs"]["published"]["slabs"])
        self.assertEqual(shared["batches"], alone["batches"])

    def test_compute_alone_delivers_nothing_and_counts_everything(self):
        found, summary, _ = run_rung("compute-alone")
        self.assertIsNone(found)
        self.assertEqual(summary["batches"]["released"], 40)
        self.assertEqual(summary["measured"]["copy_bytes"], 0)

    def test_time_ranges_are_recorded(self):
        for rung, processes in (("streams", 3), ("workers", 3), ("sequential", 1)):
            _, summary, traces = run_rung(rung, "--batches-per-slab", "1", "--slabs", "4", traced=True)
            self.assertEqual(len(traces), processes)
            headers = [json.loads(lines[0]) for lines in traces]
            self.assertEqual({header["strategy"] for header in headers}, {rung})
            self.assertEqual(sorted(header["process"] for header in headers)[-1], "producer")
            ranges = [json.loads(line) for lines in traces for line in lines[1:]]
            for one in ranges:
                self.assertLessEqual(one["begin_ns"], one["end_ns"], one)
            seen = {(one["lane"], one["name"]) for one in ranges}
            self.assertLessEqual(
                {("compute", "compute"), ("d2h", "d2h"), ("main", "measure_begin"), ("main", "measure_end")}, seen
            )
            self.assertIn(("main" if rung == "sequential" else "consumer", "process_output"), seen)
            if rung == "workers":
                self.assertLessEqual({("main", "map"), ("consumer", "unmap")}, seen)
            (begin,), (end,) = (
                [one["begin_ns"] for one in ranges if one["name"] == f"measure_{which}"] for which in ("begin", "end")
            )
            self.assertAlmostEqual((end - begin) / 1e9, summary["measured"]["seconds"], places=6)

    def test_limits_are_measured_where_batches_share_slabs(self):
        with RealRun(
            *"--device cpu --model copy --copy-bytes 64KiB --batch 4 --batches 300 --measure-limits 20".split(),
            *"--processor checksum".split(),
        ) as run:
            run.start_producer()
            run.start_consumer()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            summary = run.summary()
            self.assertGreater(summary["batches_per_slab"], 1)
            self.assertGreater(summary["limits"]["compute_batches_per_second"], 0)
            self.assertGreater(summary["limits"]["copy_gigabytes_per_second"], 0)
            self.assertTrue(summary["conserved"])
