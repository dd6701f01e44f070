"""Output and exit codes of runs that are stopped, disturbed or given bad input."""

import contextlib
import os
import pathlib
import signal
import sqlite3
import subprocess
import tempfile
import unittest
import zipfile

from PIL import Image

from tests.support.launched_run import LaunchedRun
from tests.support.real_run import LeavesNothing

HERE = pathlib.Path(__file__).resolve().parent
COPY = tuple("--device cpu --model copy --copy-bytes 1MiB --batch 4 --slabs 4 --processor checksum".split())
ENDLESS = (*COPY, "--batches", "10000000")
SUMMARY_FIELDS = (
    "model",
    "device",
    "precision",
    "source",
    "samples",
    "batches",
    "bytes",
    "seconds",
    "batches_per_second",
    "samples_per_second",
    "slab_wait_seconds",
    "producer_cpu_seconds",
    "first_batch_seconds",
    "pinned",
    "pinned_copy_gigabytes_per_second",
    "consumers",
)


class Launcher(LeavesNothing):
    def first_sample(self, run):
        run.until(lambda: run.status().get("done_samples", 0) > 0, "the first sample done")

    def test_the_summary_reports_everything(self):
        with LaunchedRun(*COPY, "--batches", "30", "--consumers", "2") as run:
            self.assertEqual(run.start().wait(), 0, run.logs())
            summary = run.summary()
            for field in SUMMARY_FIELDS:
                self.assertIn(field, summary)
            for unit in ("samples", "batches"):
                for field in ("published", "released", "redelivered", "dead_letters", "dropped", "in_flight"):
                    self.assertIn(field, summary[unit])
            self.assertEqual(summary["samples"]["released"], 120)
            for consumer in summary["consumers"]:
                self.assertEqual({"pid", "batches", "cpu_seconds", "exit"} - set(consumer), set())
            self.assertEqual(len((run.output / "checksums.tsv").read_text().splitlines()) >= 120, True)

    def test_a_refused_run_puts_the_previous_runs_reports_aside(self):
        with LaunchedRun(*COPY, "--consumers", "1") as run:
            self.assertEqual(run.start("--batches", "30").wait(), 0, run.logs())
            names = ("status.json", "summary.json", "config.toml")
            (run.run_dir / "dropped.jsonl").write_text("{}\n")
            before = {
                name: (run.run_dir / name).read_bytes()
                for name in (*names, "dropped.jsonl", "logs/producer.log", "logs/consumer-1.log")
            }
            again = ("run", *COPY, "--consumers", "1", "--output", str(run.output))
            for flags in (
                ("--batches", "40"),  # refused by the launcher: the results of a finished run
                # refused by the producer: other work
                tuple("--batches 30 --resume --seed 7 --copy-bytes 2MiB".split()),
                ("--batches", "30", "--resume", "--shm-name", "x"),
            ):
                refused = run.command(*again, *flags)
                self.assertEqual(refused.returncode, 64, refused.stdout + refused.stderr)
                kept = run.run_dir / "before" if (run.run_dir / "before").exists() else run.run_dir
                self.assertEqual({name: (kept / name).read_bytes() for name in before}, before, flags)
            self.assertEqual(kept, run.run_dir / "before")
            begun = run.command(*again, "--batches", "40", "--overwrite")
            self.assertEqual(begun.returncode, 0, begun.stdout + begun.stderr)
            self.assertEqual(run.summary()["samples"]["released"], 160)
            self.assertFalse((run.run_dir / "dropped.jsonl").exists())
            self.assertEqual({name: (kept / name).read_bytes() for name in before}, before)

    def test_an_input_with_nothing_in_it_is_reported_before_a_model_is_loaded(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "empty").mkdir()
            (folder / "others").mkdir()
            (folder / "others" / "notes.txt").write_text("no picture")
            (folder / "list.txt").write_text("\n# nothing.jpg\n  \n")
            (folder / "none.jsonl").write_text("\n")
            (folder / "none.txt").write_bytes(b"\xef\xbb\xbf")
            for flags, reason in (
                (("--input", "empty"), "arrays are files in this folder that end in .npy"),
                (("--input", "others"), "no image file in this folder (1 other files)"),
                (("--input", "list.txt"), "no path in this list file"),
                (("--input", "none.jsonl"), "the manifest has no lines"),
                (("--input", "missing"), "No such file or directory"),
                (("--source", "npy", "--input", "empty"), "no .npy file in this folder"),
                (("--source", "text", "--input", "none.txt"), "has no lines"),
            ):
                with (
                    self.subTest(flags),
                    LaunchedRun(
                        "--device", "cpu", "--model", "cutout", "--consumers", "1", "--log-level", "info"
                    ) as run,
                ):
                    *others, given = flags
                    self.assertEqual(run.start(*others, str(folder / given)).wait(), 66, run.logs())
                    self.assertIn(reason, run.logs())
                    for word in (" model: ", "module of models"):
                        self.assertNotIn(word, run.logs())

    def test_stop_drains(self):
        with LaunchedRun(*ENDLESS, "--consumers", "2") as run:
            self.first_sample(run.start())
            stopped = run.command("stop")
            self.assertEqual(stopped.returncode, 0, stopped.stderr)
            self.assertEqual(run.wait(), 130, run.logs())
            self.assertEqual(run.summary()["samples"]["in_flight"], 0)

    def test_one_interrupt_drains_and_two_abandon(self):
        for interrupts in (1, 2):
            with self.subTest(interrupts=interrupts), LaunchedRun(*ENDLESS, "--consumers", "2") as run:
                self.first_sample(run.start())
                for _ in range(interrupts):
                    run.launcher.send_signal(signal.SIGINT)
                self.assertEqual(run.wait(), 130, run.logs())

    def test_a_drain_whose_consumers_all_leave_ends(self):
        """Consumers get SIGTERM from outside and exit cleanly; other consumers finish the work in flight."""
        with LaunchedRun(*ENDLESS, "--consumers", "2") as run:
            self.first_sample(run.start())
            consumers = [consumer["pid"] for consumer in run.status()["consumers"]]
            run.launcher.send_signal(signal.SIGINT)
            for pid in consumers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            self.assertEqual(run.wait(), 130, run.logs())
            self.assertEqual(run.summary()["samples"]["in_flight"], 0)

    def test_commands_without_a_run(self):
        with LaunchedRun() as run:
            for words in (("scale", "2"), ("stop",), ("status",)):
                answer = run.command(*words)
                self.assertEqual(answer.returncode, 69, words)
                self.assertTrue(answer.stderr.strip(), words)

    def test_an_unusable_output_is_refused_immediately(self):
        with LaunchedRun(*COPY, "--batches", "4") as run:
            run.output.write_text("a file in the way")
            self.assertEqual(run.start().wait(), 73, run.logs())
            self.assertIn(str(run.output), run.logs())
        with LaunchedRun("--device", "cpu") as run:
            run.output.mkdir()
            Image.new("RGB", (70, 60)).save(run.output / "mine.png")
            before = run.files()
            self.assertEqual(run.start("--input", str(run.output)).wait(), 64, run.logs())
            self.assertEqual(run.files(), before)

    def test_misspelt_values_are_reported_before_anything_is_loaded(self):
        for code, words, flags in (
            (64, "--model 'cutuot' is unknown. Did you mean cutout?", ("--model", "cutuot")),
            (66, "--model 'none.pt2' does not exist", ("--model", "none.pt2")),
            (64, "--processor 'mask_png' is unknown. Did you mean mask-png?", ("--processor", "mask_png")),
            (64, "--processor 'zzz' is unknown. Known: checksum", ("--processor", "checksum,zzz")),
            (64, "--processor names 'mask-png' twice", ("--processor", "mask-png,mask-png")),
            (64, "--processor embeddings-postgres needs --sink", ("--processor", "embeddings-postgres")),
            (64, "--source 'imges' is unknown. Did you mean images?", ("--source", "imges")),
            (64, "--profile 'embedings' is unknown. Did you mean embeddings?", ("--profile", "embedings")),
            (
                66,
                f"--input '{HERE.parent}/sistem': No such file or directory. Did you mean {HERE}?",
                ("--input", f"{HERE.parent}/sistem"),
            ),
            (64, "the environment variable OFFRAMP_BATHC is not a setting. Did you mean OFFRAMP_BATCH?", ()),
        ):
            with self.subTest(flags=flags), LaunchedRun("--device", "cpu", *flags) as run:
                if not flags:
                    run.environment["OFFRAMP_BATHC"] = "4"
                self.assertEqual(code, run.start().wait(), run.logs())
                self.assertIn(f"offramp: {words}", (run.folder / "launcher.log").read_text().splitlines()[-1])
                self.assertFalse(run.run_dir.exists())
                self.assertFalse(run.output.exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root can start programs as another user")
    def test_other_users_runs_are_left_alone(self):
        made, lock = (
            pathlib.Path("/dev/shm", f"{prefix}-others-00000000000000ab.lock") for prefix in ("made", "offramp")
        )
        made.touch(mode=0o600)
        os.chown(made, 1, 1)  # a third user's, because runs of other tests sweep root's
        made.rename(lock)
        self.addCleanup(lock.unlink)
        as_nobody = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
        producer = os.path.join(os.environ["OFFRAMP_TEST_BIN"], "offramp-producer")
        if subprocess.run(["test", "-x", producer], check=False, **as_nobody).returncode != 0:
            self.skipTest("another user cannot read this build")
        swept = subprocess.run(
            [producer, "sweep", "--log-level", "warning"], capture_output=True, text=True, check=False, **as_nobody
        )
        self.assertEqual((0, ""), (swept.returncode, swept.stdout + swept.stderr))
        self.assertTrue(lock.exists())

    def test_a_model_that_is_refused_is_the_last_word(self):
        with (
            tempfile.TemporaryDirectory() as name,
            LaunchedRun("--device", "cpu", "--input", name, "--model", f"{name}/text.pt2") as run,
        ):
            pathlib.Path(name, "text.pt2").write_text("no model")
            Image.new("RGB", (70, 60)).save(pathlib.Path(name, "good.jpg"))
            self.assertEqual(65, run.start().wait(), run.logs())
            log, failure = (run.folder / "launcher.log").read_text(), run.summary()["failure"]
            self.assertIn("text.pt2'", failure)
            self.assertTrue(log.endswith(f"\nofframp: {failure}\n"), log)
            self.assertEqual(1, log.count("no GPU is used"), log)

    def test_invalid_weights_are_reported_once_and_first(self):
        with tempfile.TemporaryDirectory() as name:
            whole = pathlib.Path(name, "whole.pth")
            with zipfile.ZipFile(whole, "w") as archive:
                archive.writestr("archive/data.pkl", "x")
            for weights, code, reason in (
                ("nowhere.safetensors", 66, "No such file or directory"),
                (str(whole), 65, "as torch.save writes it"),
                (name, 65, "not a regular file"),
            ):
                with LaunchedRun(
                    *"--device cpu --model encoder --source synthetic --batches 2 --weights".split(),
                    weights,
                ) as run:
                    self.assertEqual(run.start().wait(), code, run.logs())
                    self.assertEqual(1, run.logs().count(reason), run.logs())
                    self.assertFalse(run.run_dir.exists() or run.output.exists())

    def test_a_model_without_weights_needs_random_weights(self):
        flags = (
            *"--device cpu --model encoder --source synthetic --batches 2 --batch 2 --consumers 1".split(),
            *"--processor none".split(),
        )
        with LaunchedRun(*flags) as run:
            self.assertEqual(run.start().wait(), 64, run.logs())
            for words in (
                "'encoder' is shipped without weights",
                "--weights FILE.safetensors",
                "export",
                "--random-weights",
            ):
                self.assertIn(words, run.logs())
        with LaunchedRun(*flags, "--random-weights") as run:
            self.assertEqual(run.start().wait(), 0, run.logs())
            self.assertTrue(run.summary()["random_weights"])
            self.assertIn("RANDOM WEIGHTS", run.logs())

    def test_unreadable_images_are_skipped_and_listed(self):
        with (
            tempfile.TemporaryDirectory() as name,
            LaunchedRun(
                "--input", name, "--device", "cpu", "--image-size", "64", "--batch", "2", "--consumers", "1"
            ) as run,
        ):
            folder = pathlib.Path(name)
            for index in range(3):
                Image.new("RGB", (70, 60), (index * 80, 10, 200)).save(folder / f"good-{index}.jpg", quality=95)
            (folder / "empty.jpg").write_bytes(b"")
            (folder / "text.png").write_bytes(b"no image at all")
            (folder / "cut.jpg").write_bytes((folder / "good-0.jpg").read_bytes()[:400])
            (folder / "photo.heic.jpg").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
            Image.new("F", (50, 50)).save(folder / "deep.tif")
            self.assertEqual(run.start().wait(), 65, run.logs())
            self.assertIn("of 8 items could not be read, and --max-errors 10% allows 1: ", run.logs())
            self.assertEqual(run.start("--resume", "--max-errors", "100%").wait(), 0, run.logs())
            summary = run.summary()
            self.assertEqual(summary["samples"]["skipped"], 5)
            self.assertEqual(
                {pathlib.Path(item["origin"]).name for item in summary["skipped"]},
                {"empty.jpg", "text.png", "cut.jpg", "photo.heic.jpg", "deep.tif"},
            )
            for item in summary["skipped"]:
                self.assertTrue(item["reason"], item)
            # Without --model the run takes the shipped one and describes it.
            self.assertIn("using the shipped one", run.logs())
            self.assertFalse(summary["random_weights"])
            self.assertEqual(
                sorted(run.files()),
                [f"{folder}/good-{index}.png" for folder in ("cut-out", "mask-png") for index in range(3)],
            )

    def test_each_skipped_item_is_a_record_and_nothing_is_computed_for_it(self):
        with (
            tempfile.TemporaryDirectory() as name,
            LaunchedRun(
                "--input",
                name,
                *"--device cpu --image-size 64 --batch 2 --processor records --max-errors 100% --consumers 2".split(),
            ) as run,
        ):
            for index in range(40):
                pathlib.Path(name, f"{index:02}.jpg").write_bytes(b"no picture")
            Image.new("RGB", (70, 60)).save(pathlib.Path(name, "17-good.jpg"))
            self.assertEqual(run.start().wait(), 0, run.logs())
            (database,) = run.output.rglob("*.sqlite")
            with contextlib.closing(sqlite3.connect(database)) as records:
                rows = dict(records.execute("SELECT status, count(*) FROM records GROUP BY status"))
            self.assertEqual(rows, {"done": 1, "skipped": 40})
            self.assertEqual(run.summary()["compute_busy_batches"], 1, "those computed")
