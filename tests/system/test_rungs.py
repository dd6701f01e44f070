"""
Every strategy gives the same bytes, undisturbed and with kills, and leaves nothing behind, even if batches share slabs.
"""

import json
import os
import pathlib
import subprocess
import tempfile

from tests.support.launched_run import ROOT
from tests.support.real_run import BIN, LeavesNothing, RealRun

WORK = (
    *"--device cpu --model copy --copy-bytes 256KiB --batch 4 --processor checksum --batches 40".split(),
    *"--warmup-batches 5 --drain-warmup".split(),
)
WITHOUT_CONSUMERS = ("sequential", "compute-alone")


def run_rung(rung, *flags, program=None):
    """The merged checksums and the producer's summary."""
    with RealRun(*WORK, "--strategy", rung, *flags) as run:
        run.start_producer(program=program)
        for _ in range(0 if rung in WITHOUT_CONSUMERS else 2):
            run.start_consumer()
        if run.wait(run.producer) != 0:
            raise AssertionError(run.logs())
        run.wait_for_consumers()
        run.finish_outputs()
        return run.files().get("checksums.tsv"), run.summary()


class Rungs(LeavesNothing):
    def test_all_give_the_same_bytes(self):
        wanted, summary = run_rung("streams", "--batches-per-slab", "1", "--slabs", "4")
        self.assertEqual(len(wanted.splitlines()), 160)
        self.assertEqual(summary["measured"]["batches"], 35)
        self.assertEqual(summary["measured"]["copy_bytes"], 35 << 18)
        for rung in ("sequential", "workers", "pool", "async", "streams"):
            with self.subTest(rung):
                found, summary = run_rung(rung)
                self.assertEqual(found, wanted)
                self.assertTrue(summary["conserved"])
                self.assertEqual(summary["strategy"], rung)
                self.assertEqual(summary["batches"]["released"], 40)
                self.assertEqual(summary["compute_busy_batches"], 40)
                self.assertGreater(summary["compute_busy_seconds"], 0)

    def test_the_ladders_program_runs_the_last_rung_too(self):
        wanted, _ = run_rung("streams")
        found, summary = run_rung("streams", program=BIN / "offramp-ladder")
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
        wanted, _ = run_rung("streams")
        for rung in ("sequential", "workers", "pool", "async", "streams"):
            with self.subTest(rung):
                found, summary = run_rung(rung, "--samples-per-slab", "3")
                self.assertEqual(found, wanted)
                self.assertEqual(summary["samples_per_slab"], 3)

    def test_compute_alone_delivers_nothing_and_counts_everything(self):
        found, summary = run_rung("compute-alone")
        self.assertIsNone(found)
        self.assertEqual(summary["batches"]["released"], 40)
        self.assertEqual(summary["measured"]["copy_bytes"], 0)

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
