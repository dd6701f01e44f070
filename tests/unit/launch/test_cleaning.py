"""Files that `clean` removes and files that it keeps."""

import contextlib
import fcntl
import io
import os
import pathlib
from unittest import mock

from stage import InFolder

from offramp_launch import cleaning
from offramp_launch.exit_code import LaunchError
from offramp_launch.places import Places
from offramp_launch.run_dir import LOCK, RunDir

LONG_AGO = 1_000_000_000


class CleaningTest(InFolder):
    def setUp(self):
        super().setUp()
        self.places = Places(root=self.folder, build=self.folder / "build")
        short = mock.patch.object(cleaning, "short_runs_folder", lambda: self.folder / "short")
        short.start()
        self.addCleanup(short.stop)

    def run_in(self, name, files=(), age=LONG_AGO, within=None):
        run = (within or self.places.runs) / name
        (run / "logs").mkdir(parents=True)
        (run / "output").mkdir()
        for file in (LOCK, "summary.json", "logs/producer.log", *files):
            (run / file).parent.mkdir(exist_ok=True)
            (run / file).write_text("x")
        for path in (*run.iterdir(), run):
            os.utime(path, (age, age))
        return run

    def clean(self, *flags):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(0, cleaning.start(self.places, list(flags)))
        return out.getvalue()

    def left(self):
        return {path.name for path in self.places.runs.iterdir()}

    def test_removes_an_old_run_without_results(self):
        self.run_in("old")
        self.run_in("older", within=self.folder / "short")
        output = self.clean()
        self.assertEqual(set(), self.left())
        self.assertFalse((self.folder / "short" / "older").exists())
        self.assertIn("2 removed, 0 kept", output)

    def test_keeps_results_and_dead_letters_of_any_age(self):
        for name, file in (
            ("results", "output/cut-out/a.png"),
            ("dead_letters", "dead-letters/batch-1.safetensors"),
            ("of_a_group", "groups/masks/dead-letters/batch-1.safetensors"),
            ("dropped", "dropped.jsonl"),
            ("hidden", "output/.offramp-checkpoint"),
            ("spilled", "live/spill/slab-1"),
        ):
            run = self.run_in(name)
            (run / file).parent.mkdir(parents=True, exist_ok=True)
            (run / file).write_text("results")
            os.utime(run, (LONG_AGO, LONG_AGO))
        output = self.clean("--older-than", "0")
        self.assertEqual({"results", "dead_letters", "of_a_group", "dropped", "hidden", "spilled"}, self.left())
        self.assertIn("results: it holds its results", output)

    def test_keeps_links_and_pipes_in_a_results_folder(self):
        (self.folder / "far").mkdir()
        for name, plant in (("link", lambda path: path.symlink_to(self.folder / "far")), ("pipe", os.mkfifo)):
            run = self.run_in(name)
            plant(run / "output" / "planted")
            os.utime(run, (LONG_AGO, LONG_AGO))
        self.assertIn("it holds its results", self.clean("--older-than", "0"))
        self.assertEqual({"link", "pipe"}, self.left())

    def test_keeps_a_recent_run_unless_asked(self):
        self.run_in("young", age=cleaning.time.time() - 60)
        self.clean()
        self.assertEqual({"young"}, self.left())
        self.clean("--older-than", "0")
        self.assertEqual(set(), self.left())

    def test_keeps_a_live_run(self):
        run = self.run_in("live")
        with open(run / LOCK, "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertIn("its run is live", self.clean("--older-than", "0"))
        self.assertEqual({"live"}, self.left())

    def test_keeps_a_run_whose_programs_outlive_the_launcher(self):
        run = self.run_in("orphaned")
        lock = pathlib.Path(f"/dev/shm/offramp-{self.folder.name}-00000000000000aa.lock")
        (run / "live/endpoint").write_text(f"run_id={self.folder.name}\nnonce=00000000000000aa\n")
        self.addCleanup(lock.unlink, missing_ok=True)  # the next run on this machine removes it
        with open(lock, "wb") as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            self.assertIn("its run is live", self.clean("--older-than", "0"))
        self.assertIn("removed", self.clean("--older-than", "0"))

    def test_removes_only_dangling_links(self):
        elsewhere = self.folder / "elsewhere"
        held = RunDir(self.places, elsewhere)
        os.close(held._lock)
        (self.places.runs / "stale").symlink_to(self.folder / "gone")
        self.clean("--older-than", "0")
        self.assertEqual(1, len(self.left()))
        self.assertTrue((elsewhere / LOCK).exists())

    def test_keeps_files_that_belong_to_no_run(self):
        (self.places.runs / "mine").mkdir(parents=True)
        (self.places.runs / "mine" / "precious").write_text("x")
        (self.places.runs / "file").write_text("x")
        self.assertIn("not a run's directory", self.clean("--older-than", "0"))
        self.assertEqual({"mine", "file"}, self.left())

    def test_a_dry_run_only_reports(self):
        run = self.run_in("old")
        self.assertIn(f"would remove {run}", self.clean("--dry-run"))
        self.assertEqual({"old"}, self.left())

    def test_refuses_unknown_flags_and_values(self):
        for flags in (["--older-than", "soon"], ["--older-than", "-1"], ["--older-than", "nan"], ["--all"]):
            with self.assertRaises(LaunchError):
                cleaning.start(self.places, flags)
