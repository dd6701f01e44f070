"""
Jobs: files that are created once, refused files of other jobs, exit codes, and histories of two attempts with kills at
any step.
"""

import contextlib
import errno
import fcntl
import functools
import io
import json
import os
import pathlib
import random
import re
import shutil
import tempfile
import threading
import unittest
from unittest import mock

from histories import History, stepping

from offramp_launch import processes, starting
from offramp_launch.jobs import (
    command as job_command,
    files as job_files,
    merge as job_merge,
    shard_command,
    shard_record,
)
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.jobs.command import (
    hashes_of_processors,
    in_one_form,
    refuse_settings,
    require_job_flags,
    require_empty,
    require_locks,
    require_same_input,
)
from offramp_launch.jobs.folder import Job
from offramp_launch.output_folder import NOTES, OutputLock
from offramp_launch.jobs.shard_record import FATES, exit_of

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
HISTORIES = 400


class InAFolder(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        self.folder = pathlib.Path(kept.name)

    def facts(self, **others):
        return {
            "id": "job-1",
            "items": 10,
            "shards": 3,
            "identity": {"--seed": "0", "weights": "ab"},
            "output": str(self.folder / "out"),
            "folder": str(self.folder),
            "flags": ["--seed", "0"],
            "listed": False,
            **others,
        }

    def job(self, name="job", **others):
        job = Job.begun(self.folder / name, self.facts(**others))[0]
        job.claim_output()
        return job

    @staticmethod
    def parts(place, *processors):
        folders = shard_record.folders_of_processors(processors)
        return job_merge.parts_of(place, job_merge.names_of_parts(place, folders))

    def refused(self, code, work, *arguments, **named):
        with self.assertRaises(LaunchError) as caught:
            work(*arguments, **named)
        self.assertEqual(code, caught.exception.code)
        self.assertTrue(caught.exception.fix)
        return str(caught.exception)


class FlushedNames(InAFolder):
    """Whether names are on the disk, by the flushes of folders."""

    def setUp(self):
        super().setUp()
        self.folder = self.folder.resolve()
        self.inner = self.folder / "a" / "b"
        self.inner.mkdir(parents=True)
        known = mock.patch.object(job_files, "flushed_folders", set())
        known.start()
        self.addCleanup(known.stop)

    def flushed(self, failing=None, problem=0):
        """Flushes the inner folder's names. Returns the folders that were flushed."""
        found = []

        def fsync(folder):
            path = pathlib.Path(os.readlink(f"/proc/self/fd/{folder}"))
            if failing in (path, "all"):
                raise OSError(problem, os.strerror(problem))
            found.append(path)

        with mock.patch("os.fsync", fsync):
            job_files.flush_names(self.inner)
        return found

    def test_folders_above_are_flushed_once(self):
        self.assertEqual(self.flushed()[:3], [self.inner, self.inner.parent, self.folder])
        self.assertEqual(self.flushed(), [self.inner])

    def test_a_failed_flush_is_repeated(self):
        with self.assertRaises(OSError):
            self.flushed(self.folder, errno.EIO)
        self.assertIn(self.folder, self.flushed())

    def test_a_file_system_may_be_unable_to_flush_a_folder(self):
        self.assertEqual(self.flushed("all", errno.EINVAL), [])

    def test_only_a_folder_above_may_be_read_only(self):
        self.assertIn(self.inner, self.flushed(self.folder, errno.EROFS))
        with self.assertRaises(OSError):
            self.flushed(self.inner, errno.EROFS)


class PutOnceTest(InAFolder):
    def test_one_of_many_concurrent_writers_wins(self):
        path = self.folder / "record.json"
        for _ in range(20):
            path.unlink(missing_ok=True)
            together, made = threading.Barrier(8), []

            def put(number, together=together, made=made):
                together.wait()
                if job_files.put_once(path, {"by": number, "text": "x" * 10000}):
                    made.append(number)

            threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(1, len(made))
            self.assertEqual({"by": made[0], "text": "x" * 10000}, job_files.read(path))
            self.assertEqual(["record.json"], os.listdir(self.folder))

    def test_a_link_whose_answer_was_lost_counts_as_made(self):
        """On a network file system the link may succeed while the caller gets EEXIST."""
        first, other = (job_files.write_temporary(self.folder / "a.json", text) for text in (b"1", b"2"))
        os.link(first, self.folder / "a.json")
        self.assertTrue(job_files.link(first, self.folder / "a.json"))
        self.assertFalse(job_files.link(other, self.folder / "a.json"))
        self.assertEqual(1, job_files.read(self.folder / "a.json"))

    def test_a_file_system_without_links_is_reported(self):
        for problem in (errno.EPERM, errno.EOPNOTSUPP):
            with mock.patch.object(job_files.os, "link", side_effect=OSError(problem, os.strerror(problem))):
                self.assertIn(
                    "without hard links", self.refused(ExitCode.CONFIG, job_files.put_once, self.folder / "a.json", {})
                )
            self.assertEqual([], os.listdir(self.folder))

    def test_a_path_that_cannot_be_written_is_reported(self):
        (self.folder / "file").write_text("")
        self.assertIn(
            "Not a directory",
            self.refused(ExitCode.CANNOT_WRITE, job_files.put_once, self.folder / "file" / "a.json", {}),
        )

    def test_a_file_that_is_not_json_is_reported(self):
        (self.folder / "a.json").write_text("{")
        self.assertIn("is damaged", self.refused(ExitCode.BAD_INPUT, job_files.read, self.folder / "a.json"))


class JobTest(InAFolder):
    def test_a_job_begins_once_and_a_different_one_is_refused(self):
        self.assertEqual("job-1", self.job().id)
        job, began = Job.begun(self.folder / "job", self.facts(id="job-2", made_by="another version"))
        self.assertEqual(("job-1", False), (job.id, began), "all hosts use the first one's id")
        printed = self.refused(
            ExitCode.USAGE, self.job, shards=4, identity={"--seed": "7", "weights": "ab"}, flags=["--seed", "7"]
        )
        for difference in ("shards was 3 and is 4", "--seed was 0 and is 7", "flags was --seed 0 and is --seed 7"):
            self.assertIn(difference, printed)
        self.assertNotIn("weights", printed)

    def test_an_output_belongs_to_one_job(self):
        job = self.job()
        job.claim_output()
        other = Job.begun(self.folder / "other", self.facts(id="job-2"))[0]
        self.assertIn(
            f"is the output of job job-1 in {self.folder / 'job'}", self.refused(ExitCode.USAGE, other.claim_output)
        )

    def test_a_write_path_belongs_to_one_job_and_must_be_empty(self):
        written = self.folder / "written"
        written.mkdir()
        job = self.job(write_path=str(written))
        other = Job.begun(
            self.folder / "other", self.facts(id="job-2", output=str(self.folder / "out2"), write_path=str(written))
        )[0]
        self.assertIn("its own --write-path", self.refused(ExitCode.USAGE, other.claim_output))
        for note in NOTES:  # a killed start leaves them
            (written / note).write_text("")
            require_empty(written, "--write-path")
            (written / note).unlink()
        (written / "mine.bin").write_text("")
        self.assertIn("--write-path", self.refused(ExitCode.USAGE, require_empty, written, "--write-path"))
        job_merge.remove_places(job)
        self.assertEqual(["mine.bin"], os.listdir(written))

    def test_a_merged_job_does_not_touch_the_next_one_in_its_output(self):
        job = self.job()
        for _ in range(2):
            job_merge.remove_places(job)
        self.assertEqual([], os.listdir(job.output))
        other = Job.begun(self.folder / "other", self.facts(id="job-2"))[0]
        other.claim_output()
        other.begin_attempt(0)
        job_merge.remove_places(job)
        self.assertEqual(1, len(other.attempts(0)))

    def test_a_shard_does_nothing_in_a_folder_without_the_jobs_claim(self):
        """The folder is not mounted on its host, or the job was discarded and the folder is used otherwise."""
        written = self.folder / "written"
        job = self.job(write_path=str(written))
        for flag, folder in (("--output", job.output), ("--write-path", written)):
            shutil.move(folder / ".offramp-shards", self.folder / "elsewhere")
            (folder / "5.png").write_text("another's")
            with contextlib.redirect_stderr(io.StringIO()) as printed:
                self.assertEqual(75, self.attempt(job, 0, samples={"released": 4}))
            self.assertIn(
                f"{flag} {folder}: .offramp-shards/job.json, which job init wrote, is missing", printed.getvalue()
            )
            self.assertEqual(["5.png"], os.listdir(folder))
            self.assertIn(f"{flag} {folder} is not empty: 5.png", self.refused(ExitCode.USAGE, job_command.claim, job))
            shutil.move(self.folder / "elsewhere", folder / ".offramp-shards")
            (folder / "5.png").unlink()
        shutil.rmtree(job.output / ".offramp-shards")  # after the first check
        self.assertIn("cannot be written", self.refused(ExitCode.CANNOT_WRITE, job.begin_attempt, 0))
        job_command.claim(job)
        self.assertEqual(0, self.attempt(job, 0, samples={"released": 4}))

    def test_a_job_does_not_begin_in_the_output_of_a_run_without_results(self):
        """Nor is it continued there if it was interrupted before its claim."""
        output = self.folder / "out"
        output.mkdir()
        places = mock.Mock(**{"version.return_value": "1", "commit.return_value": "a"})
        begin = functools.partial(
            job_command.begin,
            places,
            self.folder / "job",
            output,
            3,
            ["--seed", "0"],
            {},
            {"items": 10, "identity": {}},
            self.folder / "no list",
        )
        for cut_off in (False, True):
            lock = OutputLock(str(output), "the-run")
            self.assertIn("run the-run", self.refused(ExitCode.RUN_IN_USE, begin))
            self.assertEqual([".offramp-lock"], os.listdir(output))
            self.assertEqual(cut_off, (self.folder / "job" / "job.json").exists())
            lock.close()
            with (
                mock.patch.object(job_command, "prepare"),
                mock.patch.object(Job, "claim_output", side_effect=KeyboardInterrupt),
                self.assertRaises(KeyboardInterrupt),
            ):
                begin()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(0, begin())
            lock = OutputLock(str(output), "a merge")
            self.assertEqual(0, begin(), "it needs no lock")
            lock.close()
        self.assertEqual(2, printed.getvalue().count("exists already"))

    def test_a_killed_init_is_repeated_for_its_index(self):
        """A kill between its two files leaves no index. Without room for it the job begins, with a warning."""
        job = self.job("indexed")
        really = os.replace
        killed = mock.Mock(side_effect=lambda *files: really(*files) if killed.call_count == 1 else self.kill())
        full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
        for replace, content in ((killed, "first"), (full, "second"), (really, "third")):
            with contextlib.redirect_stderr(io.StringIO()) as printed, mock.patch.object(os, "replace", replace):
                with job_command.place_of_a_list(job.folder) as listing:
                    for end in ("items", "index", "index.new"):
                        listing.with_name(f"{listing.name}.{end}").write_text(content)
                    with contextlib.suppress(KeyboardInterrupt):
                        job_command.keep_index(listing, job)
            found = {path.name: path.read_text() for path in job.folder.iterdir() if "input" in path.name}
            self.assertEqual(
                {"input.items": "third", "input.index": "third"} if replace is really else {"input.items": "first"},
                found,
            )
            self.assertEqual(replace is full, "No space left on device. Each shard" in printed.getvalue())

    def test_an_index_that_this_init_did_not_make_is_removed(self):
        """First the index: shards then read no items file. A shard is given only an index that is there."""
        job = self.job("indexed")
        for end in ("items", "index"):
            (job.folder / f"input.{end}").touch()
        self.assertEqual(job.folder / "input.index", job.flags_of_input()["--input-index"])
        really, removed = pathlib.Path.unlink, []
        with mock.patch.object(
            pathlib.Path, "unlink", lambda path, **how: removed.append(path.name) or really(path, **how)
        ):
            job_command.keep_index(job.folder / "no list", job)
        self.assertEqual(["input.index", "input.items"], removed)
        self.assertEqual({"job.json"}, {path.name for path in job.folder.iterdir()})
        self.assertIsNone(job.flags_of_input()["--input-index"])

    def test_an_index_whose_path_a_setting_cannot_hold_is_not_used(self):
        job = self.job(os.fsdecode(b"job-\xff"))
        (job.folder / "input.index").touch()
        self.assertIsNone(job.flags_of_input()["--input-index"])

    def test_a_job_whose_index_cannot_be_written_begins_with_a_warning(self):
        places, facts = mock.Mock(), {"items": 3, "identity": {}}
        answer = json.dumps({**facts, "unwritten": "No space left"})
        with (
            contextlib.redirect_stderr(io.StringIO()) as printed,
            mock.patch.object(job_command, "answer_of", lambda *_: answer),
        ):
            found = job_command.facts_of(places, [], {}, listing=self.folder / "list", output=self.folder)
        self.assertEqual(facts, found)
        self.assertIn("[job] warning: No space left. Each shard reads the whole list", printed.getvalue())

    def test_a_file_beside_a_list_that_stays_does_not_keep_the_others(self):
        with mock.patch.object(pathlib.Path, "unlink", side_effect=[PermissionError, None]) as unlink:
            with job_command.place_of_a_list(self.folder) as listing:
                for end in ("items", "index"):
                    listing.with_name(f"{listing.name}.{end}").touch()
        self.assertEqual(2, unlink.call_count)

    def kill(self):
        raise KeyboardInterrupt

    def test_two_processes_may_remove_the_same_folders(self):
        job, remove = self.job(), os.unlink
        job.begin_attempt(0)

        def by_another(path, **named):
            remove(path, **named)
            remove(path, **named)

        with mock.patch.object(shutil.os, "unlink", by_another):
            job_merge.remove_places(job)
        self.assertEqual([], os.listdir(job.output))

    def test_a_claim_that_is_removed_meanwhile_is_made_again(self):
        """A merge removes it after the first look."""
        job, put_once, calls = self.job(), job_files.put_once, []

        def put(path, value):
            calls.append(path)
            made = put_once(path, value)
            if len(calls) == 1:
                shutil.rmtree(path.parent)
            return made

        shutil.rmtree(job.output / ".offramp-shards")
        with mock.patch.object(job_files, "put_once", put):
            job.claim_output()
        self.assertEqual((2, job.id), (len(calls), job.owner_of(job.output)))

    def test_another_build_is_refused(self):
        job = self.job(made_by="0.1.0 abc")
        for same in ("0.1.0 abc", "0.1.0"):  # a copy may not know its commit
            job.require_made_by(same)
        for other in ("0.2.0 abc", "0.1.0 def"):
            self.assertIn("was made by Offramp 0.1.0 abc", self.refused(ExitCode.PROTOCOL, job.require_made_by, other))

    def test_a_processors_file_is_identified_by_its_hash(self):
        file = self.folder / "post.py"
        hashes = []
        for text in ("a", "b"):
            file.write_text(text)
            hashes.append(hashes_of_processors({"processor": f"mask-png,{file}:Post"}))
        self.assertEqual([f"processor {file}"], list(hashes[0]))
        self.assertNotEqual(*hashes)
        self.assertEqual([f"processor {file}"], list(hashes_of_processors({"processor": f"exec:{file}"})))

    def test_warnings_of_a_merge_are_reported(self):
        warnings = []
        command = [
            "/bin/sh",
            "-c",
            "echo answer; echo '10:00:00.000 warning offramp-consumer[7] 1 picture lacks tiles' >&2; "
            'for level in info error critical; do echo "10:00:00.000 $level offramp-consumer[7] no" >&2; done',
        ]
        self.assertEqual("answer\n", processes.answer_of(command, warned=warnings.append))
        self.assertEqual(["1 picture lacks tiles"], warnings)
        self.assertEqual("answer\n", processes.answer_of(command))

    def test_another_checkout_is_set_up_for_what_the_job_needs(self):
        job = self.job(flags=["--processor", "embeddings-parquet"])
        for argv in (["--job", str(job.folder), "--index", "1"], ["merge", f"--job={job.folder}"]):
            self.assertEqual(
                ("requirements-parquet.txt",), starting.requirements_of([*starting.flags_of_job(argv), *argv], {})
            )
        self.assertEqual([], starting.flags_of_job(["init", "--job", str(self.folder / "new")]))

    def test_settings_of_the_environment_are_refused_like_flags(self):
        refuse_settings({"overwrite": False, "resume": False, "shard": "", "consumer-user": ""})
        self.assertIn("OFFRAMP_OVERWRITE", self.refused(ExitCode.USAGE, refuse_settings, {"overwrite": True}))

    def test_a_late_attempt_does_no_work_after_the_merge(self):
        """It was stopped after its check; meanwhile the shard was done and the job merged."""
        job, run = self.job(), mock.Mock()

        def meanwhile(*_):
            job.note_done(0, {"done": 4, "attempt": 0, "host": "another"})
            job_files.replace(job.folder / "summary.json", {"job": job.id})
            shutil.rmtree(job.output)  # moved away
            job.place(0).mkdir(parents=True)
            return {"items": 10, "identity": job.facts["identity"]}

        with (
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch.object(shard_command, "settings_of", lambda *_: {}),
            mock.patch.object(shard_command, "facts_of", lambda *_, **__: meanwhile()),
            mock.patch.object(shard_command, "run", run),
        ):
            self.assertEqual(0, shard_command.do(shard_command.Attempt(None, job, 0, [])))
            run.assert_not_called()
            self.assertFalse(job.output.exists())
        job.output.mkdir()
        (job.output / "result.png").write_text("")
        job.record_path(0).unlink()
        self.assertIn("the job is merged", self.refused(ExitCode.USAGE, self.attempt, job, 0))
        self.assertEqual(["result.png"], os.listdir(job.output))

    def attempt(self, job, ended_with, strict=False, config=None, **summary):
        """The exit code of an attempt at shard 0 whose run ends with `ended_with`."""
        (self.folder / "summary.json").write_text(json.dumps(summary))
        with (
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch.object(shard_command, "settings_of", lambda *_: config or {}),
            mock.patch.object(
                shard_command, "facts_of", lambda *_, **__: {"items": 10, "identity": job.facts["identity"]}
            ),
            mock.patch.object(shard_command, "run", lambda *_: (ended_with, self.folder)),
        ):
            return shard_command.exit_of_attempt(
                lambda: shard_command.do(shard_command.Attempt(None, job, 0, [], strict)),
                lambda: job.record(0) is not None,
            )

    def test_with_strict_a_shard_with_dead_letters_gets_no_record(self):
        job, samples = self.job(), {"released": 3, "dead_letters": 1}
        self.assertIn(
            "1 items were dead-lettered",
            self.refused(ExitCode.DEAD_LETTERS, self.attempt, job, 84, strict=True, samples=samples),
        )
        self.assertIsNone(job.record(0))
        self.assertEqual(0, self.attempt(job, 84, samples=samples))
        self.assertEqual(1, job.record(0)["dead_letters"])

    def test_a_run_that_ended_after_repeated_failures_reports_why(self):
        job, failure = (
            self.job(),
            "slabs failed 20 times in a row and nothing was completed in between; the last: no CUDA here",
        )
        for samples in ({"released": 1, "dead_letters": 2}, None):
            self.assertIn(
                failure, self.refused(ExitCode.DEAD_LETTERS, self.attempt, job, 84, failure=failure, samples=samples)
            )
            self.assertIsNone(job.record(0))
        self.assertIn(
            "a bug in Offramp", self.refused(ExitCode.COUNT_MISMATCH, self.attempt, job, 0, samples={"released": 3})
        )
        self.assertIn(
            "a bug in Offramp", self.refused(ExitCode.COUNT_MISMATCH, self.attempt, job, 84, samples={"released": 5})
        )

    def test_a_run_that_left_no_summary_is_tried_again(self):
        job = self.job()
        for code in (0, 84):
            with (
                contextlib.redirect_stderr(io.StringIO()) as printed,
                mock.patch.object(
                    shard_command, "note_end", lambda *_, **__: (self.folder / "summary.json").unlink(True)
                ),
            ):
                self.assertEqual(75, self.attempt(job, code))
            self.assertIn("summary.json is missing, and with it the counts of shard 0", printed.getvalue())
            self.assertIsNone(job.record(0))

    def test_a_shard_whose_lines_are_gone_gets_no_record(self):
        job, samples = self.job(), {"done_before": 4}
        for processor, there, gone in (
            ("checksum", (), "checksums.tsv"),
            ("checksum,mask-rle", ("checksum/checksums.tsv",), "mask-rle/masks.jsonl"),
        ):
            (self.folder / "config.toml").write_text(f'processor = "{processor}"\n')
            for name in there:
                (job.place(0) / name).parent.mkdir(parents=True)
                (job.place(0) / name).write_text("")
            self.assertIn(
                f"{job.place(0) / gone} are missing",
                self.refused(ExitCode.BAD_INPUT, self.attempt, job, 0, samples=samples),
            )
            self.assertIsNone(job.record(0))
            self.assertIn(
                "are missing",
                self.refused(ExitCode.BAD_INPUT, self.attempt, job, 84, samples={"done_before": 3, "dead_letters": 1}),
            )
        for processor, samples in (("mask-png,embeddings-postgres", samples), ("checksum", {"dead_letters": 4})):
            (self.folder / "config.toml").write_text(f'processor = "{processor}"\n')
            self.assertEqual(0, self.attempt(job, 84, samples=samples))
            job.record_path(0).unlink()

    def test_a_file_that_an_earlier_attempt_noted_must_exist(self):
        """Even an optional one: the records of a Python function."""
        job, samples = self.job(), {"done_before": 4}
        (self.folder / "config.toml").write_text('processor = "post.py:f"\n')
        records = job.place(0) / "records.jsonl"
        records.parent.mkdir()
        records.write_text("{}\n")
        (job.place(0) / "notes.txt").write_text("a reader's")
        self.assertEqual(75, self.attempt(job, 75, samples=samples))
        records.rename(self.folder / "records.jsonl")
        (job.place(0) / "notes.txt").unlink()
        self.assertIn(f"{records} are missing", self.refused(ExitCode.BAD_INPUT, self.attempt, job, 0, samples=samples))
        self.assertIsNone(job.record(0))
        (self.folder / "records.jsonl").rename(records)
        self.assertEqual(0, self.attempt(job, 0, samples=samples))
        shutil.rmtree(job.place(0))
        job.record_path(0).unlink()
        self.assertEqual(0, self.attempt(job, 0, samples=samples), "no attempt in a new folder noted the file")

    def test_whole_files_are_those_that_the_processors_declare(self):
        declared = {
            file.stem.replace("_", "-"): re.search(r'^whole = "(.*)"', file.read_text(), re.MULTILINE)
            for file in (REPOSITORY / "consumer" / "processors" / "plugins").glob("*.toml")
        }
        self.assertEqual({name: found[1] for name, found in declared.items() if found}, shard_record.WHOLE_FILES)

    def test_a_shard_with_files_that_are_not_joined_gets_no_record(self):
        job, samples = self.job(), {"released": 4}
        for left in (
            ".offramp-segments/checksum/000000000000-000000-00ab.tsv",
            "records/.offramp-segments/records/1-0-00ab.tsv",
        ):
            path = job.place(0) / left
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("0\ta\n")
            with contextlib.redirect_stderr(io.StringIO()) as printed:
                self.assertEqual(75, self.attempt(job, 84, samples=samples), left)
            self.assertIn("is not joined yet", printed.getvalue())
            self.assertIsNone(job.record(0))
            self.assertIn("is not joined yet", self.refused(ExitCode.BAD_INPUT, job_merge.require_merged, job, 0))
            shutil.rmtree(job.place(0))
        (job.place(0) / ".offramp-segments" / "checksum").mkdir(parents=True)
        job_merge.require_merged(job, 0)
        self.assertEqual(0, self.attempt(job, 0, samples=samples))

    def test_each_host_chooses_its_run_directory(self):
        """By a flag of `shard`, its environment or its --config."""
        job, run = self.job(), mock.Mock(return_value=(75, self.folder))
        for flags, config in ((["--run-dir", "/mine"], {"run-dir": "/mine"}), ([], {"run-dir": "/mine"}), ([], {})):
            with (
                mock.patch.object(shard_command, "settings_of", lambda *_, config=config: config),
                mock.patch.object(shard_command, "run", run),
                mock.patch.object(
                    shard_command, "facts_of", lambda *_, **__: {"items": 10, "identity": job.facts["identity"]}
                ),
                mock.patch.object(Job, "found", return_value=job),
                mock.patch.object(shard_command, "build_of", return_value=""),
            ):
                self.assertEqual(75, shard_command.start(None, ["--job", str(job.folder), "--index", "0", *flags]))
            self.assertEqual(["--run-dir", "/mine"] if config else ["--seed", "0"], run.call_args.args[0].flags[-2:])
        self.assertIn(
            "job init does not accept --run-dir",
            self.refused(ExitCode.USAGE, require_job_flags, ["--run-dir", "/mine"]),
        )

    def test_values_are_distinguished_from_the_next_flag(self):
        config = {"durable": True, "confidence": False, "max-errors": "0", "model": "a b", "sink": ""}
        flags = in_one_form(
            ["--durable", "--max-errors", "0", "--confidence=false", "--sink", "", "--model=--x=y"], config
        )
        self.assertEqual(
            ["--durable=true", "--max-errors=0", "--confidence=false", "--sink", "", "--model=--x=y"], flags
        )
        job, given = self.job(flags=flags), []
        with (
            mock.patch.object(shard_command, "settings_of", lambda _, flags: given.append(flags) or {}),
            self.assertRaises(LaunchError),
            mock.patch.object(shard_command, "facts_of", mock.Mock(side_effect=LaunchError("far enough"))),
        ):
            shard_command.do(shard_command.Attempt(None, job, 0, ["--durable", "--sink", "host=here"]))
        self.assertEqual(
            [["--max-errors=0", "--confidence=false", "--model=--x=y", "--durable", "--sink", "host=here"]], given
        )

    def test_a_secret_in_a_header_is_refused(self):
        require_job_flags(["--http-header", "@headers.txt"])
        printed = self.refused(ExitCode.USAGE, require_job_flags, ["--http-header", "Authorization: hush-hush"])
        self.assertNotIn("hush", printed)

    def test_a_folder_without_a_job_of_this_version_is_reported(self):
        self.assertIn("is not a job's folder", self.refused(ExitCode.NO_INPUT, Job.found, self.folder))
        (self.folder / "job.json").write_text('{"version": 2}')
        self.assertIn("version 2", self.refused(ExitCode.PROTOCOL, Job.found, self.folder))

    def test_shards_have_the_sizes_that_the_programs_use(self):
        job = self.job()
        self.assertEqual([4, 3, 3], [job.items_of(index) for index in range(3)])
        self.assertIn("from 0 to 2", self.refused(ExitCode.USAGE, job.require, 3))

    def test_the_first_record_counts_and_one_of_another_job_does_not(self):
        job = self.job()
        self.assertIsNone(job.record(1))
        self.assertTrue(job.note_done(1, {"attempt": 0}))
        self.assertFalse(job.note_done(1, {"attempt": 1}))
        self.assertEqual(0, job.record(1)["attempt"])
        for other in ({"job": "job-2"}, {"index": 2}, {"items": 9}):
            job_files.replace(job.record_path(1), {**job.record(1), **other})
            self.assertIn("not to shard 1 of job job-1", self.refused(ExitCode.USAGE, job.record, 1))
            job_files.replace(
                job.record_path(1), {**job_files.read(job.record_path(1)), "job": "job-1", "index": 1, "items": 3}
            )

    def test_attempts_have_unique_numbers(self):
        job = self.job()
        self.assertEqual(["0.json", "1.json", "2.json"], [job.begin_attempt(2).name for _ in range(3)])
        self.assertEqual(3, len(job.attempts(2)))

    def test_an_attempt_on_another_host_without_an_end_is_reported(self):
        job, printed = self.job(), io.StringIO()
        notes = [job.begin_attempt(0) for _ in range(3)]
        job_files.replace(notes[0], {"host": "lost"})
        job_files.replace(notes[1], {"host": "ended", "exit": 75})
        with contextlib.redirect_stdout(printed):
            shard_command.warn_about_other_shards(job, 0)
            shard_command.warn_about_other_shards(job, 1)
        self.assertIn("an attempt at shard 0 on lost may still be running", printed.getvalue())
        self.assertEqual(1, printed.getvalue().count("\n"))

    def test_an_attempt_that_fails_before_its_run_notes_its_end(self):
        job = self.job()
        job.place(0).mkdir(parents=True)
        lock = OutputLock(str(job.place(0)), "another")
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(75, self.attempt(job, 0))
            lock.close()
            with mock.patch.object(shard_command, "held", side_effect=KeyboardInterrupt):
                self.assertEqual(75, self.attempt(job, 0))
        self.assertEqual([85, 130], [attempt["exit"] for attempt in job.attempts(0)])

    def test_another_input_is_reported(self):
        job = self.job()
        require_same_input(job, {"items": 10, "identity": {"--seed": "0", "weights": "ab"}})
        printed = self.refused(
            ExitCode.BAD_INPUT, require_same_input, job, {"items": 11, "identity": {"--seed": "0", "weights": "cd"}}
        )
        self.assertIn("weights was ab and is cd, items was 10 and is 11", printed)

    def test_an_empty_folder_of_pictures_is_left_to_another_host(self):
        pictures = self.folder / "pictures"
        pictures.mkdir()
        for listed in (True, False):
            job, config = (
                self.job(f"listed-{listed}", listed=listed, output=str(self.folder / f"out-{listed}")),
                {"input": str(pictures)},
            )
            with contextlib.redirect_stderr(io.StringIO()) as printed:
                self.assertEqual(75 if listed else 0, self.attempt(job, 0, config=config, samples={"released": 4}))
            self.assertEqual(
                listed, f"--input {pictures} is empty, but had pictures when the job began" in printed.getvalue()
            )
        (pictures / "a.png").write_text("")
        self.assertEqual(
            0, self.attempt(Job.found(self.folder / "listed-True"), 0, config=config, samples={"released": 4})
        )

    def test_a_missing_processor_file_is_left_to_another_host(self):
        file = self.folder / "post.py"
        job = self.job(identity={f"processor {file}": "ab"})
        self.assertIn(
            "does not exist on this host",
            self.refused(ExitCode.NO_INPUT, require_same_input, job, {"items": 10, "identity": {}}),
        )
        file.write_text("")
        self.assertIn(
            "was ab and is none",
            self.refused(ExitCode.BAD_INPUT, require_same_input, job, {"items": 10, "identity": {}}),
        )

    def test_missing_locks_are_a_permanent_error_and_failing_ones_are_not(self):
        job = self.job()
        job.place(0).mkdir(parents=True)
        for problem, code in (
            (errno.EOPNOTSUPP, ExitCode.CONFIG),
            (errno.ENOLCK, ExitCode.SYSTEM),
            (errno.ESTALE, ExitCode.SYSTEM),
        ):
            with mock.patch.object(fcntl, "flock", side_effect=OSError(problem, os.strerror(problem))):
                self.assertIn(os.strerror(problem), self.refused(code, require_locks, job.place(0)))
        with (
            mock.patch.object(fcntl, "flock", side_effect=[None, *[OSError(errno.ENOLCK, "gone")] * 3]),
            contextlib.redirect_stdout(io.StringIO()),
            self.assertRaises(OSError),
            shard_command.held(job, 0, "a-run"),
        ):
            self.fail("the lock is not held")
        with shard_command.held(job, 0, "a-run"):
            pass

    def test_a_merge_reports_a_missing_folder(self):
        job, argv = self.job(folder=str(self.folder / "gone")), ["merge", "--job", str(self.folder / "job")]
        places = mock.Mock(**{"version.return_value": "", "commit.return_value": ""})
        self.assertIn(
            f"{self.folder / 'gone'}, which the job's paths are relative to, is missing",
            self.refused(ExitCode.SINK_UNAVAILABLE, job_command.start, places, argv),
        )
        (self.folder / "gone").mkdir()
        job.note_done(0, {})
        with mock.patch.object(
            os, "listdir", side_effect=OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(job.folder / "done"))
        ):
            self.assertIn(
                f"{job.folder / 'done'}: Stale file handle",
                self.refused(ExitCode.SYSTEM, job_command.start, places, argv),
            )

    def test_a_merge_refuses_missing_shards(self):
        job = self.job()
        job.note_done(1, {"attempt": 0})
        self.assertIn(
            "2 of the job's 3 shards are not done: 0,2",
            self.refused(ExitCode.NO_INPUT, job_merge.merge, None, job, False, None),
        )
        self.assertEqual("0,2-4,7", job_merge.as_ranges([0, 2, 3, 4, 7]))

    def test_a_job_without_any_result_has_failed(self):
        job = self.job()
        counts = dict.fromkeys(job_merge.COUNTS, 0)
        for skipped, ends in ((9, contextlib.nullcontext()), (10, self.assertRaises(LaunchError))):
            for index in range(3):
                job.note_done(index, {"attempt": 0})
            job_files.replace(
                job.folder / "summary.json",
                {
                    "job": job.id,
                    "output": str(job.output),
                    "partial": False,
                    "items": 10,
                    **counts,
                    "skipped": skipped,
                    "shards": [],
                },
            )
            with ends as caught, contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(job_merge.merge(None, job, False, None), 0)
        self.assertEqual(
            (caught.exception.code, "none of the 10 items has a result" in str(caught.exception)),
            (ExitCode.BAD_INPUT, True),
        )

    def test_results_of_another_run_are_not_overwritten(self):
        job = self.job()
        checkpoint = job.output / ".offramp-checkpoint"
        for run in (job.id, "the-run"):
            checkpoint.write_text(json.dumps({"run": run, "identity": {"items": "10"}}) + "\n")
            if run == job.id:
                job_merge.require_own(job)
        printed = self.refused(ExitCode.USAGE, job_merge.require_own, job)
        self.assertIn("holds results of run the-run", printed)
        self.assertIn(f"remove {checkpoint} and merge again", printed)

    def test_a_part_that_changed_is_not_merged(self):
        job = self.job()
        part = job.place(0) / "lines.tsv"
        part.parent.mkdir(parents=True)
        part.write_text("0\ta\n")
        parts = self.parts(job.place(0), "")
        job_merge.require_parts(job, 0, parts)
        part.write_text("0\tb\n")
        self.assertIn(
            "lines.tsv, which shard 0 wrote, has changed",
            self.refused(ExitCode.BAD_INPUT, job_merge.require_parts, job, 0, parts),
        )
        part.unlink()
        self.assertIn("is missing", self.refused(ExitCode.BAD_INPUT, job_merge.require_parts, job, 0, parts))

    def test_a_part_that_the_merge_left_out_is_kept(self):
        job = self.job(shards=1)
        part = job.place(0) / "lines.tsv"
        part.parent.mkdir(parents=True)
        part.write_text("0\ta\n")
        job.note_done(
            0,
            {
                "done": 10,
                "skipped": 0,
                "dead_letters": 0,
                "dropped": 0,
                "parts": self.parts(job.place(0), ""),
                "attempt": 0,
                "host": "a",
                "seconds": 1,
            },
        )
        places = mock.Mock()
        printed = self.refused(ExitCode.COUNT_MISMATCH, job_merge.merge, places, job, False, lambda *_, **__: None)
        self.assertIn(f"the merge did not create {job.output}/lines.tsv", printed)
        self.assertEqual("0\ta\n", part.read_text())
        self.assertFalse(job_merge.is_merged(job))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(0, job_merge.merge(places, job, False, lambda *_, **__: shutil.copy(part, job.output)))
        self.assertFalse(part.exists())

    def test_files_of_a_databases_readers_are_not_parts(self):
        place = self.job().place(0)
        place.mkdir(parents=True)
        for name in ("embeddings.sqlite", "embeddings.sqlite-wal", "embeddings.sqlite-shm", ".offramp-checkpoint"):
            (place / name).write_text("")
        self.assertEqual({"embeddings.sqlite": None}, self.parts(place, "embeddings-sqlite"))

    def test_other_files_beside_a_part_are_not_parts(self):
        place = self.job().place(0)
        for names, wanted in (
            (["checksum"], ["checksums.tsv"]),
            (["mine"], ["checksum/checksums.tsv", "checksum/notes.txt", "checksums.tsv", "embeddings.parquet"]),
            (["checksum", "post.py:f"], ["checksum/checksums.tsv", "post.py-f/records.jsonl"]),
        ):
            for name in (*wanted, "embeddings.parquet" if len(names) == 1 else "checksum/notes.txt"):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text("")
            self.assertEqual(wanted, list(self.parts(place, *names)))
            shutil.rmtree(place)


class GroupsTest(InAFolder):
    """A job of two shards with two required groups and an optional one; the consumer's commands copy files."""

    FLAGS = ("--seed=0", "--group=a=npy:2", "--group=b=post.py:show:1", "--group=extra=checksum:3,optional")

    def setUp(self):
        super().setUp()
        self.work = self.job(shards=2, flags=list(self.FLAGS))
        self.asked, self.failing, self.notes = [], set(), []
        for index in range(2):
            for name in ("a/lines.tsv", "b/records.jsonl", "extra/checksums.tsv"):
                path = self.work.place(index) / name
                path.parent.mkdir(parents=True)
                path.write_text(f"{index}\t{name}\n")

    def record(self, index, not_merged=(), done_before=0, **counts):
        place, folders = self.work.place(index), {"a": "npy", "b": "post.py:show", "extra": "checksum"}
        names = job_merge.names_of_parts(place, folders)
        kept = [name for name in names if name.partition("/")[0] not in not_merged]
        groups = [
            {"name": name, "optional": name == "extra", "released_samples": 5 - done_before, **counts}
            for name in folders
        ]
        self.work.note_done(
            index,
            {
                **dict.fromkeys(("skipped", "dead_letters", "dropped", "attempt", "seconds"), 0),
                "done": 5,
                "host": "a",
                "parts": job_merge.parts_of(place, kept),
                "not_merged": list(not_merged),
                "report": {"samples": {"done_before": done_before}, "groups": groups},
            },
        )

    def ask(self, command, text="", **_):
        """Joins lines as the consumer does; fails for the groups of `failing`."""
        what = command[1]
        group = command[command.index("--group") + 1].partition("=")[0] if "--group" in command else "checkpoints"
        self.asked.append(f"{what} {group}")
        if f"{what} {group}" in self.failing:
            raise LaunchError("the disk is full", "Make room", ExitCode.CANNOT_WRITE)
        place = pathlib.Path(command[command.index("--output") + 1]) if "--output" in command else None
        if what == "finish" and place != self.work.output:
            shutil.rmtree(place / group / ".offramp-segments")
        if what == "join-shards" and place:
            for line in text.splitlines():
                index, *names = line.split("\t")
                self.assertEqual({group}, {name.partition("/")[0] for name in names})
                for name in names:
                    (self.work.output / name).parent.mkdir(exist_ok=True)
                    with open(self.work.output / name, "a") as file:
                        file.write((self.work.place(int(index)) / name).read_text())

    def merge(self):
        self.asked.clear()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            job_merge.merge(mock.Mock(), self.work, False, self.ask)
        return printed.getvalue()

    def test_each_group_is_merged_alone(self):
        for index in range(2):
            self.record(index, done_before=2 * index)
        printed = self.merge()
        groups = ("a", "b", "extra")
        joins, finishes = ([f"{what} {group}" for group in groups] for what in ("join-shards", "finish"))
        self.assertEqual([*joins, "join-shards checkpoints", *finishes], self.asked)
        self.assertEqual("0\ta/lines.tsv\n1\ta/lines.tsv\n", (self.work.output / "a/lines.tsv").read_text())
        self.assertTrue(job_merge.is_merged(self.work))
        self.assertFalse((self.work.output / ".offramp-shards").exists())
        # Earlier attempts did samples for every required group; for an optional one they may have been dropped.
        self.assertIn("  group      a: 10 items done\n", printed)
        self.assertIn("  group      extra (optional): 8 items done\n", printed)

    def test_a_required_group_that_fails_leaves_the_others_merged(self):
        for index in range(2):
            self.record(index)
        for step in ("join-shards a", "finish a"):
            self.failing = {step}
            problem = self.refused(ExitCode.CANNOT_WRITE, self.merge)
            self.assertIn("merging group a: the disk is full\n    Make room", problem)
            self.assertTrue((self.work.output / "b/records.jsonl").exists())
            self.assertTrue((self.work.output / "extra/checksums.tsv").exists())
            self.assertFalse(job_merge.is_merged(self.work))
            self.assertTrue((self.work.place(0) / "a/lines.tsv").exists(), "it is merged from here later")
            for name in ("b", "extra"):
                self.assertIn(f"{step.partition(' ')[0]} {name}", self.asked)
        self.failing = set()
        self.merge()
        self.assertTrue(job_merge.is_merged(self.work))

    def test_every_required_group_that_fails_is_reported(self):
        for index in range(2):
            self.record(index)
        self.failing = {"join-shards a", "join-shards b"}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            problem = self.refused(ExitCode.CANNOT_WRITE, job_merge.merge, mock.Mock(), self.work, False, self.ask)
        self.assertIn("merging group a: the disk is full", problem)
        self.assertEqual("[job] merging group b: the disk is full\n    Make room\n", printed.getvalue())

    def test_an_optional_group_that_fails_is_merged_later(self):
        for index in range(2):
            self.record(index)
        for step in ("join-shards extra", "finish extra"):
            with self.subTest(step):
                self.failing = {step}
                printed = self.merge()
                self.assertRegex(
                    printed,
                    "merging group extra: the disk is full\n +Make room\n +The merge succeeds without it, because",
                )
                merge = f"{REPOSITORY}/launch/offramp job merge --job {self.work.folder}"
                why = f"  group extra is not merged: the disk is full. Make room. Fix it, then run {merge}\n"
                self.assertIn(why, printed)
                self.assertFalse(job_merge.is_merged(self.work))
                self.assertTrue((self.work.place(1) / "extra/checksums.tsv").exists())
        self.failing = set()
        (self.work.output / "extra/checksums.tsv").unlink()
        self.merge()
        self.assertEqual(["join-shards extra", "join-shards checkpoints", "finish extra"], self.asked)
        self.assertTrue(job_merge.is_merged(self.work))
        self.assertFalse((self.work.output / ".offramp-shards").exists())

    def test_only_a_required_groups_unreadable_folder_fails_the_merge(self):
        for index in range(2):
            self.record(index)
        digest = job_merge.digest

        def failing(folder):
            def read(path):
                if path.parent.name == folder:
                    raise OSError(errno.ESTALE, "Stale file handle", str(path))
                return digest(path)

            return mock.patch.object(job_merge, "digest", read)

        with failing("a"):
            problem = self.refused(ExitCode.SYSTEM, self.merge)
        self.assertRegex(problem, "merging group a: .*a/lines.tsv: Stale file handle\n +Check that")
        self.assertTrue((self.work.output / "b/records.jsonl").exists())
        with failing("extra"):
            self.assertRegex(self.merge(), "merging group extra: .*: Stale file handle")
        self.assertTrue((self.work.output / "a/lines.tsv").exists())
        self.merge()
        self.assertTrue(job_merge.is_merged(self.work))

    def test_a_shards_unmerged_optional_group_is_merged_with_the_job(self):
        segments = self.work.place(1) / "extra/.offramp-segments/1"
        segments.mkdir(parents=True)
        (segments / "0.tsv").write_text("")
        self.record(0)
        self.record(1, not_merged=["extra"])
        self.failing = {"finish extra"}
        self.assertIn("group extra is not merged: the disk is full", self.merge())
        self.assertTrue((segments / "0.tsv").exists())
        self.failing = set()
        self.merge()
        joined = (self.work.output / "extra/checksums.tsv").read_text()
        self.assertEqual("0\textra/checksums.tsv\n1\textra/checksums.tsv\n", joined)
        self.assertTrue(job_merge.is_merged(self.work))

    def test_a_changed_file_of_a_group_is_reported_with_the_group(self):
        for index in range(2):
            self.record(index)
        (self.work.place(0) / "a/lines.tsv").write_text("other\n")
        problem = self.refused(ExitCode.BAD_INPUT, self.merge)
        self.assertRegex(problem, "merging group a: .*lines.tsv, which shard 0 wrote, has changed")
        self.assertTrue((self.work.output / "b/records.jsonl").exists())

    def test_a_shards_run_may_leave_an_optional_group_unmerged(self):
        attempt = shard_command.Attempt(None, self.work, 0, [], groups=shard_command.groups_of(self.config(), []))
        self.assertEqual([], shard_command.groups_not_merged(attempt, "/run"))
        for name in ("extra", "a"):
            segments = self.work.place(0) / name / ".offramp-segments/1"
            segments.mkdir(parents=True)
            (segments / "0.tsv").write_text("")
            if name == "extra":
                self.assertEqual(["extra"], shard_command.groups_not_merged(attempt, "/run"))
        self.refused(ExitCode.CANNOT_WRITE, shard_command.groups_not_merged, attempt, "/run")

    def config(self):
        return {"group": "\n".join(flag.removeprefix("--group=") for flag in self.FLAGS[1:])}

    def test_only_a_required_groups_tiles_are_missed(self):
        whole = dict.fromkeys(shard_record.COUNTS, 0)
        for group in ("extra", "a"):
            tiles = self.work.output / group / ".offramp-tiles"
            tiles.mkdir(parents=True)
            (tiles / "picture").write_text("")
            if group == "extra":
                job_merge.require_whole_pictures(self.work, whole)
        self.refused(ExitCode.CANNOT_WRITE, job_merge.require_whole_pictures, self.work, whole)

    def test_an_optional_group_may_have_no_file(self):
        folders = {"a": "checksum", "extra": "records"}
        check = functools.partial(shard_record.require_whole_files, self.work, 0, folders, 5)
        check(["a/checksums.tsv"], ["extra"])
        self.refused(ExitCode.BAD_INPUT, check, ["a/checksums.tsv"])
        self.refused(ExitCode.BAD_INPUT, check, ["extra/records.sqlite"], ["extra"])


class IndexTest(InAFolder):
    def test_the_index_comes_from_the_flag_or_from_the_engine(self):
        engines = {"RANK": "5", "JOB_COMPLETION_INDEX": "4", "SLURM_ARRAY_TASK_ID": "3", "OFFRAMP_SHARD_INDEX": "2"}
        self.assertEqual(1, shard_command.index_of({"--index": "1"}, engines))
        for variable, index in reversed(engines.items()):
            self.assertEqual(int(index), shard_command.index_of({}, engines))
            engines = {name: value for name, value in engines.items() if name != variable}
        self.assertIn("--index is not given", self.refused(ExitCode.USAGE, shard_command.index_of, {}, {}))
        self.assertIn("RANK is '-1'", self.refused(ExitCode.USAGE, shard_command.index_of, {}, {"RANK": "-1"}))


class ShardExitTest(unittest.TestCase):
    def test_a_failure_that_a_retry_may_fix_ends_with_75(self):
        table = {code: exit_of(code) for code in (*FATES, 137, 139, 143, 2)}
        again = {
            ExitCode.SINK_UNAVAILABLE,
            ExitCode.DEVICE_BROKEN,
            ExitCode.INTERRUPTED,
            ExitCode.PRODUCER_GONE,
            ExitCode.RUN_IN_USE,
            ExitCode.NO_SUCH_RUN,
            ExitCode.SYSTEM,
            ExitCode.CANNOT_WRITE,
            ExitCode.SHARED_MEMORY_FULL,
            ExitCode.DEVICE_OUT_OF_MEMORY,
            ExitCode.NO_INPUT,
            137,
            139,
            143,
        }
        for code, ends_with in table.items():
            wanted = 0 if code in (ExitCode.OK, ExitCode.DEAD_LETTERS) else 75 if code in again else code
            self.assertEqual(wanted, ends_with, code)

    def test_the_reason_for_75_is_printed_and_permanent_errors_are_raised(self):
        def ends(code):
            raise LaunchError("why", "", code)

        with contextlib.redirect_stderr(io.StringIO()) as printed:
            self.assertEqual(75, shard_command.exit_of_attempt(lambda: ends(ExitCode.CANNOT_WRITE), lambda: False))
        self.assertIn("why", printed.getvalue())
        for final in (ExitCode.USAGE, ExitCode.DEAD_LETTERS):  # the latter with --strict
            with self.assertRaises(LaunchError):
                shard_command.exit_of_attempt(lambda final=final: ends(final), lambda: False)

    def test_a_shard_that_another_attempt_completed_is_done(self):
        def ends(code):
            raise LaunchError("why", "", code)

        for code in (ExitCode.RUN_IN_USE, ExitCode.SYSTEM, 137):
            self.assertEqual(0, shard_command.exit_of_attempt(lambda code=code: code, lambda: True))
            self.assertEqual(0, shard_command.exit_of_attempt(lambda code=code: ends(code), lambda: True))
        self.assertEqual(65, shard_command.exit_of_attempt(lambda: 65, lambda: False))
        gone = mock.Mock(side_effect=FileNotFoundError("a merge has removed what it reads"))
        self.assertEqual(0, shard_command.exit_of_attempt(gone, lambda: True))
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            self.assertEqual(75, shard_command.exit_of_attempt(gone, lambda: False))
        self.assertIn("a merge has removed", printed.getvalue())

    def test_a_shard_is_tried_again_if_its_record_cannot_be_read(self):
        """The shared folder may be missing, fail, or hang until a signal."""
        stale = OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        for problem in (
            stale,
            LaunchError("cannot be read", "", ExitCode.SYSTEM),
            LaunchError("holds no job", "", ExitCode.NO_INPUT),
            KeyboardInterrupt(),
        ):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(
                    75, shard_command.exit_of_attempt(mock.Mock(side_effect=stale), mock.Mock(side_effect=problem))
                )
                self.assertEqual(75, shard_command.exit_of_attempt(lambda: 75, mock.Mock(side_effect=problem)))
            if not isinstance(problem, KeyboardInterrupt):
                self.assertEqual(65, shard_command.exit_of_attempt(lambda: 65, mock.Mock(side_effect=problem)))
            with contextlib.redirect_stderr(io.StringIO()), mock.patch.object(Job, "found", side_effect=problem):
                self.assertEqual(75, shard_command.start(None, ["--job", "/nowhere", "--index", "0"]))
        with self.assertRaises(LaunchError):
            shard_command.exit_of_attempt(
                mock.Mock(side_effect=stale), mock.Mock(side_effect=LaunchError("of another job", "", ExitCode.USAGE))
            )

    def test_a_folder_that_cannot_be_read_before_setup_is_tried_again(self):
        with (
            contextlib.redirect_stderr(io.StringIO()) as printed,
            mock.patch.object(pathlib.Path, "read_bytes", side_effect=OSError(errno.EIO, os.strerror(errno.EIO))),
        ):
            self.assertEqual(75, starting.shard(mock.Mock(is_installed=False), ["--job", "/nowhere", "--index", "0"]))
        self.assertIn("/nowhere/job.json cannot be read: Input/output error", printed.getvalue())


class HistoriesTest(InAFolder):
    """
    Two concurrent attempts at one shard, each killed at random file operations and restarted, then a merge that is
    killed the same way; file times jump. Every history ends with one record, and with the bytes of one run: no item is
    lost or duplicated.
    """

    def test_every_history_gives_the_results_of_one_run(self):
        seed = random.SystemRandom().randrange(1 << 32)
        tally = {"kills": 0, "second attempts too late": 0}
        kept = tempfile.TemporaryDirectory(dir="/dev/shm")  # a disk would flush each replaced file
        self.addCleanup(kept.cleanup)
        with stepping():
            for number in range(HISTORIES):
                history = History(pathlib.Path(kept.name) / str(number), random.Random(seed + number))
                try:
                    history.play()
                    history.check()
                except BaseException as problem:
                    raise AssertionError(
                        f"history {seed + number}: {problem!r}\n" + "\n".join(history.steps)
                    ) from problem
                tally["kills"] += history.kills
                tally["second attempts too late"] += history.too_late
                history.remove()
        self.assertGreater(tally["kills"], HISTORIES / 2)
        self.assertGreater(
            tally["second attempts too late"], HISTORIES / 50, "both wrote a record, and the first counts"
        )

    def test_a_record_that_is_written_too_early_is_detected(self):
        """The counterexample: with the record written before the work, some history fails."""
        with self.assertRaises(FileNotFoundError), stepping():
            for number in range(200):
                history = History(self.folder / str(number), random.Random(number), record_first=True)
                history.play()
                history.check()
