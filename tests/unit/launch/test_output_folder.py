import errno
import fcntl
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from stage import InFolder

from offramp_launch import shared_folder
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.output_folder import (
    CHECKPOINT,
    LOCK,
    OutputLock,
    describe_work,
    is_used_by_other_run,
    make_room,
    prepare,
    require_no_job,
    run_noted,
)

HEADER = json.dumps({"identity": {"items": "1000"}, "run": "the-run", "checkpoint": 2, "pid": 7})


def take_away(planted):
    """Removes the entry itself, not its target."""
    if stat.S_ISDIR(os.lstat(planted).st_mode):
        os.rmdir(planted)
    else:
        os.unlink(planted)


class OutputFolderTest(InFolder):
    def setUp(self):
        super().setUp()
        self.notes = []

    def note(self, text, **_):
        self.notes.append(text)

    def test_describes_the_work_in_a_folder(self):
        checkpoint = self.folder / CHECKPOINT
        lines = [HEADER, '{"done":[[0,100],[300,400]]}', '{"done":[[50,150]]}', '{"done":[[600,7']
        checkpoint.write_text("\n".join(lines))
        self.assertEqual("250 of 1000 items of run the-run, which has not finished", describe_work(self.folder))
        checkpoint.write_text(HEADER + '\n{"done":[[0,1000]]}\n{"ended":true}\n')
        self.assertEqual("the results of run the-run, which has finished", describe_work(self.folder))
        of_own_program = json.dumps({"identity": {"source": "own program"}, "run": "mine"})
        for more, ended in (('\n{"ended":true}\n', "finished"), ("\n", "not finished")):
            checkpoint.write_text(of_own_program + more)
            self.assertEqual(f"the results of run mine, which has {ended}", describe_work(self.folder))
        for text in ("", "\n", "[]", "{}", '{"identity":3}', "\xff\x00"):
            checkpoint.write_text(text)
            self.assertEqual("the work of an earlier run", describe_work(self.folder), text)

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
        self.assertEqual("the work of an earlier run", describe_work(self.folder))
        checkpoint.unlink()
        checkpoint.symlink_to("/dev/zero")
        self.assertEqual("the work of an earlier run", describe_work(self.folder))
        checkpoint.unlink()
        os.mkfifo(checkpoint)
        self.assertEqual("the work of an earlier run", describe_work(self.folder))
        checkpoint.unlink()
        checkpoint.write_text("[" * 100000 + "\n")
        self.assertEqual("the work of an earlier run", describe_work(self.folder))
        elsewhere = self.folder / "elsewhere"
        for plant in (
            lambda path: os.link(elsewhere, path),
            lambda path: os.symlink(elsewhere, path),
            os.mkfifo,
            os.mkdir,
            lambda path: os.symlink(self.folder / "not there", path),
        ):
            plant(self.folder / LOCK)
            with self.assertRaisesRegex(LaunchError, "is not an Offramp lock") as refused:
                OutputLock(self.folder, "first", self.note)
            self.assertEqual(ExitCode.CANNOT_WRITE, refused.exception.code)
            take_away(self.folder / LOCK)
        self.assertEqual(HEADER, elsewhere.read_text())
        self.assertFalse((self.folder / "not there").exists())

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
        self.assertEqual(
            (ExitCode.USAGE, "error: prepare --output o"), (refused.exception.code, str(refused.exception))
        )
        prepare(self.folder, ["/bin/true"], {}, note=self.note)
        self.assertEqual([], self.notes)
        self.assertEqual(before, sorted(self.folder.rglob("*")))

    def test_an_empty_folder_needs_no_check(self):
        prepare(self.folder, ["/bin/false"], {}, note=self.note)
        (self.folder / "mask.png").touch()
        with self.assertRaises(LaunchError):
            prepare(self.folder, ["/bin/false"], {}, note=self.note)

    def test_a_run_may_not_write_to_the_folders_of_a_job(self):
        written = self.folder / "written"
        claims = (
            (
                '{"job": "job-a", "folder": "/jobs/a"}',
                "is in use by the shards of job-a in /jobs/a, which is not merged yet",
            ),
            ("{", "is in use by the shards of a job, which is not merged yet"),
            ('{"job": "b", "folder": "/b", "ranks": 2}', "has the work of a program with 2 ranks"),
            ('{"job": "c", "folder": "/c", "ranks": 0}', r"has the work of offramp.ray.Writer, .*\n    Merge it with"),
        )
        for claimed, flag, config in (
            (self.folder, "--output", {}),
            (written, "--write-path", {"processor": "checksum,write", "write-path": str(written)}),
        ):
            require_no_job(self.folder, config)
            (claimed / ".offramp-shards").mkdir(parents=True)
            claim = claimed / ".offramp-shards/job.json"
            for text, reason in claims:
                claim.write_text(text)
                with self.assertRaisesRegex(LaunchError, f"^{flag} {claimed} {reason}") as refusal:
                    require_no_job(self.folder, config)
                if "shards" in reason:
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
            [
                sys.executable,
                "-c",
                "import subprocess, sys\n"
                "from offramp_launch.output_folder import OutputLock\n"
                f"lock = OutputLock({str(self.folder)!r}, 'dead')\n"
                f"subprocess.Popen(['cat', {str(door)!r}], pass_fds=(lock.fd,), stdout=subprocess.DEVNULL)\n"
                "import os; os._exit(9)",
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
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


class MakeRoomTest(unittest.TestCase):
    """An output folder belongs to one piece of work, and to the user under a name that a note states."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.output = self.root / "masks"
        self.output.mkdir(mode=0o750)
        self.notes = []

    def note(self, text, **_):
        self.notes.append(text)

    def room(self, **config):
        """(the lock, what was refused) of a run with these settings."""
        lock = OutputLock(self.output, "new", self.note)
        try:
            make_room(lock, self.output, {name.replace("_", "-"): value for name, value in config.items()})
        except LaunchError as problem:
            self.assertEqual(ExitCode.USAGE, problem.code)
            lock.close()
            return None, str(problem)
        return lock, ""

    def work(self, folder=None, write_path=""):
        """Results of an earlier run, also in a folder below. Returns them as contents() does."""
        folder = folder or self.output
        (folder / "mask-png").mkdir(parents=True)
        (folder / "mask-png/1.png").write_bytes(b"a mask")
        (folder / "checksums.tsv").write_text("1\ta\n")
        (folder / ".offramp-own-run").write_text("former\n")
        header = {"run": "former", "identity": {"items": "8", **({"--write-path": write_path} if write_path else {})}}
        (folder / CHECKPOINT).write_text(json.dumps(header) + '\n{"done":[[0,8]]}\n{"ended":true}\n')
        return contents(folder)

    def test_an_empty_folder_is_written_in_place(self):
        (self.output / "lost+found").mkdir()
        (self.output / ".hidden").touch()
        for config in ({}, {"overwrite": True}, {"resume": True}):
            lock, why = self.room(**config)
            self.assertEqual(("", ["masks"]), (why, os.listdir(self.root)))
            lock.close()

    def test_work_is_refused_with_the_three_remedies(self):
        before = self.work()
        lock, why = self.room()
        self.assertIsNone(lock)
        self.assertIn(f"--output {self.output} holds the results of run former, which has finished", why)
        for remedy in ("--resume", "--overwrite", "masks.before-RUN_ID", "another --output"):
            self.assertIn(remedy, why)
        lock, _ = self.room(resume=True)
        lock.close()
        self.assertEqual((before, ["masks"]), (contents(self.output), os.listdir(self.root)))

    def test_work_of_a_program_without_a_finished_batch_is_forgotten(self):
        egress, header = self.output / ".offramp-egress", json.dumps({"offramp_egress": 1, "work": "former"}) + "\n"

        def room(is_own=True, **config):
            for name in (CHECKPOINT, ".offramp-own-run"):
                (self.output / name).write_text(json.dumps({"run": "former", "identity": {}}) + "\n")
            lock = OutputLock(self.output, "new", self.note)
            try:
                make_room(lock, self.output, config, is_own)
                return sorted(os.listdir(self.output))
            except LaunchError as problem:
                return str(problem)
            finally:
                lock.close()

        egress.write_text(header)
        self.assertIn("holds", room(is_own=False))
        segments = self.output / ".offramp-segments/checksum"
        segments.mkdir(parents=True)
        (segments / "1.tsv").touch()
        self.assertIn("holds", room())
        shutil.rmtree(segments.parent)
        (self.output / "a.npy").touch()
        self.assertIn("holds", room())
        (self.output / "a.npy").unlink()
        egress.write_text(header + '{"done": [[0, 4, "00"]]}\n')
        self.assertIn("holds", room())
        egress.write_text("{")
        self.assertIn("holds", room())
        egress.write_text(header)
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "a.bin").touch()
        self.assertIn("elsewhere is not empty", room(processor="write", **{"write-path": str(elsewhere)}))
        self.assertIn(".offramp-egress", os.listdir(self.output), "the refusal changes nothing")
        self.assertEqual([LOCK], room())

    def test_each_kind_of_left_over_counts_as_work(self):
        for name in (
            CHECKPOINT,
            ".offramp-egress",
            ".offramp-dead-letters/1.json",
            ".offramp-segments/checksum/1.tsv",
            "records/.offramp-segments/records/1.tsv",
        ):
            path = self.output / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{")
            self.assertIn("holds the work of an earlier run", self.room()[1], name)
            path.unlink()
        for name in (LOCK, ".offramp-own-run", ".offramp-egress.new", ".offramp-items", ".offramp-items.new"):
            (self.output / name).touch()
        lock, why = self.room()
        self.assertEqual("", why, "notes are no work")
        lock.close()

    def test_links_and_pipes_are_refused_and_not_followed(self):
        (self.root / "elsewhere").write_text(HEADER)
        for plant in (lambda path: os.symlink(self.root / "elsewhere", path), os.mkfifo):
            plant(self.output / CHECKPOINT)
            self.assertIn("holds the work of an earlier run", self.room()[1])
            take_away(self.output / CHECKPOINT)

    def test_files_of_no_run_are_refused_even_with_overwrite(self):
        (self.output / "notes").mkdir()
        (self.output / "notes/a.txt").write_text("precious")
        for config in ({}, {"overwrite": True}, {"resume": True}):
            self.assertIn(
                f"--output {self.output} holds notes/a.txt, which is of no Offramp run", self.room(**config)[1]
            )
        self.assertIn("contradict each other", self.room(overwrite=True, resume=True)[1])
        self.assertEqual({"notes/a.txt": b"precious"}, contents(self.output))

    def test_overwrite_keeps_the_results_under_the_name_it_states(self):
        before = self.work()
        mode = self.output.stat().st_mode
        lock, _ = self.room(overwrite=True)
        aside = self.root / "masks.before-new"
        self.assertIn(str(aside), "\n".join(self.notes))
        self.assertEqual(before, contents(aside))
        self.assertEqual(([LOCK], mode), (os.listdir(self.output), self.output.stat().st_mode))
        self.assertFalse((aside / LOCK).exists())
        lock.require_in_place()
        with self.assertRaisesRegex(LaunchError, "run new"):
            OutputLock(self.output, "another", self.note)
        (self.output / "result").touch()
        lock.close()
        self.assertEqual((before, {"result": b""}), (contents(aside), contents(self.output)))

    def test_a_run_without_a_result_gives_the_name_back(self):
        before = self.work()
        lock, _ = self.room(overwrite=True)
        (self.output / "mask-png/deeper").mkdir(parents=True)
        for name in (".offramp-own-run", ".offramp-egress.new", ".offramp-items"):
            (self.output / name).write_text("new\n")
        lock.put_back()
        self.assertIn("this run made no result", self.notes[-1])
        lock.require_in_place()
        self.assertEqual(["masks"], os.listdir(self.root))
        lock.close()
        self.assertEqual(before, contents(self.output))
        self.assertFalse((self.output / LOCK).exists())

    def test_any_file_of_the_new_run_keeps_both(self):
        for name in (CHECKPOINT, "mask-png/2.png", ".offramp-segments/checksum/1.tsv"):
            self.work()
            lock, _ = self.room(overwrite=True)
            (self.output / name).parent.mkdir(parents=True, exist_ok=True)
            (self.output / name).touch()
            lock.close()
            self.assertTrue((self.output / name).exists(), name)
            shutil.rmtree(self.output)
            (self.root / "masks.before-new").rename(self.output)
            shutil.rmtree(self.output)
            self.output.mkdir()

    def test_a_name_in_use_is_refused_before_anything_moves(self):
        before = self.work()
        (self.root / "masks.before-new").mkdir()
        lock = OutputLock(self.output, "new", self.note)
        with self.assertRaisesRegex(LaunchError, "cannot rename .*masks to .*masks.before-new: File exists") as refused:
            make_room(lock, self.output, {"overwrite": True})
        self.assertEqual(ExitCode.CANNOT_WRITE, refused.exception.code)
        lock.close()
        self.assertEqual((before, {}), (contents(self.output), contents(self.root / "masks.before-new")))

    def test_a_link_to_the_output_stays_a_link(self):
        before = self.work()
        (self.root / "link").symlink_to(self.output)
        lock = OutputLock(self.root / "link", "new", self.note)
        make_room(lock, self.root / "link", {"overwrite": True})
        self.assertEqual(before, contents(self.root / "masks.before-new"))
        self.assertTrue((self.root / "link").is_symlink())
        lock.close()
        self.assertEqual(before, contents(self.root / "link"))

    def test_the_folder_of_write_follows_the_same_rule(self):
        written = self.root / "written"
        written.mkdir()
        (written / "1.bin").write_bytes(b"one")
        config = {"processor": "checksum,write", "write_path": str(written)}
        for more in ({}, {"overwrite": True}, {"resume": True}):
            self.assertIn(
                f"--write-path {written} is not empty: it holds 1.bin",
                self.room(**config, **more)[1],
                "it may be another run's",
            )
        before = self.work(write_path=str(written))
        lock, _ = self.room(**config, resume=True)
        lock.close()
        lock, _ = self.room(**config, overwrite=True)
        self.assertEqual(
            ({"1.bin": b"one"}, before),
            (contents(self.root / "written.before-new"), contents(self.root / "masks.before-new")),
        )
        lock.close()
        self.assertEqual(
            ({"1.bin": b"one"}, before), (contents(written), contents(self.output)), "both have their names again"
        )
        self.assertEqual(["masks", "written"], sorted(os.listdir(self.root)))
        for within in (self.output, self.output / "mask-png"):
            lock, _ = self.room(processor="write", write_path=str(within), overwrite=True)
            lock.close()
            self.assertEqual(before, contents(self.output), "it is part of the output")

    def test_a_start_that_waits_does_not_keep_a_renamed_folder(self):
        before = self.work()
        first = OutputLock(self.output, "first", self.note)
        with mock.patch.object(
            OutputLock,
            "_wait_for_programs_left_over",
            lambda waiting, *_: (make_room(first, self.output, {"overwrite": True}), first.close()),
        ):
            (self.output / "keeps").touch()
            second = OutputLock(self.output, "second", self.note)
        second.require_in_place()
        self.assertIn(LOCK, os.listdir(self.output))
        second.close()
        self.assertEqual(
            before.keys() | {"keeps"}, contents(self.output).keys() | contents(self.root / "masks.before-first").keys()
        )

    def test_a_folder_that_was_moved_away_is_not_replaced(self):
        before = self.work()
        lock, _ = self.room(overwrite=True)
        (self.output / "result").touch()
        self.output.rename(self.root / "moved")
        lock.put_back()
        self.assertFalse(self.output.exists())
        self.assertEqual(
            (before, {"result": b""}), (contents(self.root / "masks.before-new"), contents(self.root / "moved"))
        )
        lock.close()

    def test_a_folder_that_cannot_be_made_anew_keeps_its_name(self):
        before = self.work()
        lock = OutputLock(self.output, "new", self.note)
        with (
            mock.patch("os.mkdir", side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
            self.assertRaisesRegex(LaunchError, "No space left on device"),
        ):
            make_room(lock, self.output, {"overwrite": True})
        lock.close()
        self.assertEqual((["masks"], before), (os.listdir(self.root), contents(self.output)))

    def test_a_custom_programs_results_are_not_continued_by_another_run(self):
        self.output.mkdir(exist_ok=True)
        (self.output / "a.npy").touch()
        (self.output / ".offramp-own-run").write_text("a run\n")
        self.assertIn("holds the work of an earlier run", self.room(resume=True)[1])

    def test_a_kill_at_each_step_keeps_the_results_whole(self):
        """
        The process dies right before or after each system call that changes a name; the next run finds the results
        whole.
        """
        steps = 0
        while True:
            shutil.rmtree(self.output, ignore_errors=True)
            self.output.mkdir()
            before = self.work()
            done = subprocess.run(
                [sys.executable, "-c", KILLED, str(self.output), str(steps)],
                check=False,
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            if done.returncode == 0:
                break
            self.assertEqual(-signal.SIGKILL, done.returncode, done.stderr)
            steps += 1
            aside = self.root / "masks.before-new"
            self.assertEqual(before, contents(aside if aside.exists() else self.output), f"killed at step {steps}")
            if aside.exists():
                self.assertIn(str(aside), done.stdout, "the name was stated before")
                self.assertEqual({}, contents(self.output) if self.output.exists() else {})
                self.output.mkdir(exist_ok=True)
                # a leftover lock is no obstacle, the empty folder is free
                lock = OutputLock(self.output, "next", self.note)
                make_room(lock, self.output, {})
                lock.close()
                shutil.rmtree(aside)
        self.assertGreaterEqual(steps, 6, done.stdout)


# Sets the output aside and puts it back, and dies at the Nth event before a system call that changes names.
KILLED = """
import os, signal, sys
from offramp_launch.output_folder import OutputLock, make_room
output, at = sys.argv[1], int(sys.argv[2])
events = 0
def kill(event, _):
    global events
    if event in ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.chmod", "os.chown"):
        if events == at:
            os.kill(os.getpid(), signal.SIGKILL)
        events += 1
lock = OutputLock(output, "new")
sys.addaudithook(kill)
make_room(lock, output, {"overwrite": True})
lock.close()
"""


def contents(folder):
    """{relative name: bytes} of all files, but for the lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file() and path.name != LOCK
    }
