import fcntl
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

from offramp_launch import shared_folder
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.output_folder import (CHECKPOINT, LOCK, NEXT, OutputLock, describe_checkpoint, is_noted, is_used_by_other_run, is_beside_output, prepare, require_no_job,
                                          run_noted)

HEADER = json.dumps({"identity": {"items": "1000"}, "run": "the-run", "checkpoint": 1, "pid": 7})


def take_away(planted):
    """Removes the entry itself, not its target."""
    if stat.S_ISDIR(os.lstat(planted).st_mode):
        os.rmdir(planted)
    else:
        os.unlink(planted)


class OutputFolderTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.notes = []

    def note(self, text, **_):
        self.notes.append(text)

    def test_describes_an_unfinished_checkpoint(self):
        checkpoint = self.folder / CHECKPOINT
        self.assertIsNone(describe_checkpoint(self.folder))
        lines = [HEADER, '{"done":[[0,100],[300,400]]}', '{"done":[[50,150]]}', '{"done":[[600,7']
        checkpoint.write_text("\n".join(lines))
        self.assertEqual("250 of 1000 items of run the-run", describe_checkpoint(self.folder))
        checkpoint.write_text(HEADER + '\n{"done":[[0,1000]]}\n')
        self.assertIsNone(describe_checkpoint(self.folder), "the run is complete")
        for text in ("", "\n", "[]", "{}", '{"identity":3}', "\xff\x00"):
            checkpoint.write_text(text)
            self.assertIsNone(describe_checkpoint(self.folder), text)

    def test_a_checkpoint_of_any_size_names_its_run_or_is_an_error(self):
        checkpoint = self.folder / CHECKPOINT
        self.assertIsNone(run_noted(self.folder))
        checkpoint.write_text(HEADER + "\n")
        os.truncate(checkpoint, shared_folder.LARGEST + 1)
        self.assertEqual("the-run", run_noted(self.folder))
        self.assertTrue(is_used_by_other_run(self.folder, "another"))
        for text in ("", "[]", "{}", "\xff\x00", "x" * (shared_folder.LONGEST_LINE + 1)):
            checkpoint.write_text(text)
            with self.assertRaisesRegex(LaunchError, "does not name its run") as refused:
                run_noted(self.folder)
            self.assertEqual(ExitCode.BAD_INPUT, refused.exception.code)
            self.assertFalse(is_used_by_other_run(self.folder, "another"))

    def test_planted_files_are_neither_followed_nor_awaited(self):
        checkpoint = self.folder / CHECKPOINT
        (self.folder / "elsewhere").write_text(HEADER)
        checkpoint.symlink_to(self.folder / "elsewhere")
        self.assertIsNone(describe_checkpoint(self.folder))
        checkpoint.unlink()
        checkpoint.symlink_to("/dev/zero")
        self.assertIsNone(describe_checkpoint(self.folder))
        checkpoint.unlink()
        os.mkfifo(checkpoint)
        self.assertIsNone(describe_checkpoint(self.folder))
        checkpoint.unlink()
        checkpoint.write_text("[" * 100000 + "\n")
        self.assertIsNone(describe_checkpoint(self.folder))
        elsewhere = self.folder / "elsewhere"
        for plant in (lambda path: os.link(elsewhere, path), lambda path: os.symlink(elsewhere, path), os.mkfifo, os.mkdir,
                      lambda path: os.symlink(self.folder / "not there", path)):
            plant(self.folder / LOCK)
            with self.assertRaisesRegex(LaunchError, "is not an Offramp lock") as refused:
                OutputLock(self.folder, "first", self.note)
            self.assertEqual(ExitCode.CANNOT_WRITE, refused.exception.code)
            take_away(self.folder / LOCK)
        self.assertEqual(HEADER, elsewhere.read_text())
        self.assertFalse((self.folder / "not there").exists())

    def test_a_link_or_a_pipe_is_not_an_earlier_run(self):
        (self.folder / "elsewhere").write_text(HEADER)
        for name, is_found in ((CHECKPOINT, is_noted), (NEXT, is_beside_output)):
            for plant in (lambda path: os.symlink(self.folder / "elsewhere", path), os.mkfifo, os.mkdir):
                self.assertFalse(is_found(self.folder))
                plant(self.folder / name)
                self.assertFalse(is_found(self.folder), name)
                take_away(self.folder / name)
            (self.folder / name).write_text(HEADER)
            self.assertTrue(is_found(self.folder), name)

    def test_removes_only_the_held_lock_from_its_own_folder(self):
        """Another user with write permission has replaced the lock or its folder meanwhile."""
        held, others = self.folder / "held", self.folder / "others"
        for folder in (held, others):
            folder.mkdir()
        lock = OutputLock(held, "first", self.note)
        os.unlink(held / LOCK)
        (held / LOCK).write_text("another's")
        lock.close()
        self.assertEqual("another's", (held / LOCK).read_text())
        (held / LOCK).unlink()
        lock = OutputLock(held, "second", self.note)
        held.rename(self.folder / "moved")
        held.symlink_to(others)
        (others / LOCK).write_text("another's")
        lock.close()
        self.assertEqual("another's", (others / LOCK).read_text())
        self.assertEqual([], os.listdir(self.folder / "moved"))

    def test_the_consumer_judges_existing_files_and_all_stay(self):
        (self.folder / CHECKPOINT).write_text(HEADER)
        (self.folder / ".offramp-segments" / "checksum").mkdir(parents=True)
        (self.folder / "mask.png").touch()
        before = sorted(self.folder.rglob("*"))
        with self.assertRaises(LaunchError) as refused:
            prepare(self.folder, ["/bin/false"], {}, note=self.note)
        self.assertEqual(1, refused.exception.code)
        program = self.folder.parent / f"{self.folder.name}-program"
        self.addCleanup(program.unlink)
        program.write_text('#!/bin/sh\necho "error: $*" >&2\nexit 64\n')
        program.chmod(0o755)
        with self.assertRaises(LaunchError) as refused:
            prepare(self.folder, [str(program), "--output", "o"], {}, note=self.note)
        self.assertEqual((ExitCode.USAGE, "error: prepare --output o"), (refused.exception.code, str(refused.exception)))
        self.assertEqual([], self.notes)
        prepare(self.folder, ["/bin/true"], {}, note=self.note)
        self.assertIn("0 of 1000 items of run the-run, which this run replaces once it has results", self.notes[0])
        prepare(self.folder, ["/bin/true"], {}, continues=True, note=self.note)
        self.assertEqual(1, len(self.notes))
        self.assertEqual(before, sorted(self.folder.rglob("*")))

    def test_an_empty_folder_needs_no_check(self):
        prepare(self.folder, ["/bin/false"], {}, note=self.note)
        (self.folder / "mask.png").touch()
        with self.assertRaises(LaunchError):
            prepare(self.folder, ["/bin/false"], {}, note=self.note)

    def test_detects_results_beside_the_output(self):
        self.assertFalse(is_beside_output(self.folder))
        (self.folder / NEXT).write_text("0123\n")
        self.assertTrue(is_beside_output(self.folder))

    def test_a_run_may_not_write_to_the_folders_of_a_job(self):
        written = self.folder / "written"
        for claimed, flag, config in ((self.folder, "--output", {}), (written, "--write-path", {"processor": "checksum,write", "write-path": str(written)})):
            require_no_job(self.folder, config)
            (claimed / ".offramp-shards").mkdir(parents=True)
            claim = claimed / ".offramp-shards/job.json"
            for text, owner in (('{"job": "job-a", "folder": "/jobs/a"}', "job-a in /jobs/a"), ("{", "a job")):
                claim.write_text(text)
                with self.assertRaisesRegex(LaunchError, f"^{flag} {claimed} is in use by the shards of {owner}, which is not merged yet") as refusal:
                    require_no_job(self.folder, config)
                self.assertIn(f"remove {claim.parent}", str(refusal.exception))
            require_no_job(self.folder / "another", {**config, "processor": "npy"})
            claim.unlink()

    def test_the_lock_keeps_others_out_and_names_its_holder(self):
        first = OutputLock(self.folder, "first", self.note)
        with self.assertRaises(LaunchError) as refused:
            OutputLock(self.folder, "second", self.note)
        self.assertEqual(ExitCode.RUN_IN_USE, refused.exception.code)
        self.assertIn(f"run first (process {os.getpid()}", str(refused.exception))
        first.close()
        OutputLock(self.folder, "second", self.note).close()
        self.assertEqual([], list(self.folder.iterdir()))

    def test_waits_for_programs_that_inherited_the_lock(self):
        """The launcher is a zombie, and one of its programs holds the lock until the next run reports that it waits."""
        door = self.folder / "door"
        os.mkfifo(door)

        def let_it_end(text, **_):
            self.notes.append(text)
            door.write_text("")

        launcher = subprocess.Popen(
            [sys.executable, "-c",
             "import subprocess, sys\n"
             "from offramp_launch.output_folder import OutputLock\n"
             f"lock = OutputLock({str(self.folder)!r}, 'dead')\n"
             f"subprocess.Popen(['cat', {str(door)!r}], pass_fds=(lock.fd,), stdout=subprocess.DEVNULL)\n"
             "import os; os._exit(9)"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        os.waitid(os.P_PID, launcher.pid, os.WEXITED | os.WNOWAIT)
        OutputLock(self.folder, "next", let_it_end).close()
        self.assertTrue(any("waiting for the last programs of run dead" in note for note in self.notes), self.notes)
        self.assertEqual(9, launcher.wait())

    def test_a_shared_lock_outlives_the_launcher(self):
        lock = OutputLock(self.folder, "first", self.note)
        with open(self.folder / LOCK) as share:
            fcntl.flock(share, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(lock.fd, fcntl.LOCK_UN)
            with open(self.folder / LOCK) as second, self.assertRaises(BlockingIOError):
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.close()

    def test_a_replaced_folder_or_lock_is_reported(self):
        output, away = self.folder / "output", self.folder / "away"

        def in_place():
            try:
                lock.require_in_place()
            except LaunchError as problem:
                self.assertEqual(ExitCode.CANNOT_WRITE, problem.code)
                self.assertIn(str(output), str(problem))
                return False
            return True

        output.mkdir()
        lock = OutputLock(output, "mine", self.note)
        self.assertTrue(in_place())
        output.rename(away)
        self.assertFalse(in_place())
        output.mkdir()
        self.assertFalse(in_place())
        (output / LOCK).write_text((away / LOCK).read_text())
        self.assertFalse(in_place())
        (output / LOCK).unlink()
        output.rmdir()
        output.symlink_to(away)
        self.assertTrue(in_place(), "a link to the same folder is fine")
        output.unlink()
        away.rename(output)
        (output / LOCK).rename(output / "lock")
        (output / LOCK).write_text((output / "lock").read_text())
        self.assertFalse(in_place())
        lock.close()
        self.assertTrue((output / LOCK).exists(), "a lock of another run stays")

    def test_a_leftover_lock_file_is_no_obstacle(self):
        for text in ("", "not json", json.dumps({"run": "dead", "pid": 1}) + " " * 300):
            (self.folder / LOCK).write_text(text)
            lock = OutputLock(self.folder, "mine", self.note)
            self.assertEqual({"run": "mine", "pid": os.getpid()}, json.loads((self.folder / LOCK).read_text()))
            lock.close()


if __name__ == "__main__":
    unittest.main()
