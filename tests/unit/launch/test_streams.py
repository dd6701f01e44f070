"""Runs whose output cannot be written, and runs without room for their own files."""

import errno
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

from stage import OFFRAMP, WATCHDOG_SECONDS, OnStage, Stage

from offramp_launch import run_command
from offramp_launch.output_folder import OutputLock
from offramp_launch.places import Places
from offramp_launch.run_dir import RunDir
from offramp_launch.supervision.watch import RunPlan

SUMMARY = {"samples": {"released": 8}}


class StreamsTest(OnStage):
    def ended(self, code, redirected):
        launcher, producer, consumers = self.stage.start_run(1, redirected=redirected)
        output = self.stage.end(launcher, producer, consumers, code=code, summary=SUMMARY)
        self.assertNotIn("Traceback", output)
        self.assertNotIn("Exception ignored", output)
        self.assertEqual(code, launcher.returncode, output)
        self.assertEqual(code, self.stage.summary()["exit"])

    def test_a_closed_standard_output(self):
        self.ended(0, ">&-")

    def test_closed_streams_are_not_mistaken_for_files_of_the_run(self):
        self.ended(84, "<&- >&- 2>&-")

    def test_a_full_disk_behind_standard_output(self):
        self.ended(0, "> /dev/full")
        self.assertEqual(1, len(list((self.stage.folder / "build" / "runs").iterdir())))

    def test_a_failed_run_keeps_its_code_on_a_full_disk(self):
        self.ended(65, "> /dev/full")

    def test_a_reader_that_leaves(self):
        reader, writer = os.pipe()
        with self.stage.launch("run", "--consumers", "1", redirected=f">/proc/{os.getpid()}/fd/{writer}") as launcher:
            entered = [self.stage.enter() for _ in range(2)]
            producer = next(puppet for puppet in entered if puppet.role == "producer")
            consumer = next(puppet for puppet in entered if puppet.role == "consumer")
            os.read(reader, 1)
            os.close(reader)
            os.close(writer)
            producer.order(status={"state": "running", "done_samples": 1})
            producer.order(summary=SUMMARY, exit=0)
            consumer.order(exit=0)
            output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual((0, ""), (launcher.returncode, output))

    def test_another_command_reports_a_lost_answer(self):
        launcher, producer, consumers = self.stage.start_run(1)
        answer = self.stage.launch("status", redirected="> /dev/full")
        output, _ = answer.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(
            (73, "offramp: standard output cannot be written: No space left on device\n"), (answer.returncode, output)
        )
        self.stage.end(launcher, producer, consumers)

    def test_with_json_logs_every_line_is_json(self):
        launcher, producer, consumers = self.stage.start_run(1, "--log-format", "json")
        output = self.stage.end(launcher, producer, consumers, summary=SUMMARY)
        lines = [json.loads(line) for line in output.splitlines()]
        self.assertTrue(any(line.get("message", "").startswith("run ") for line in lines), output)
        self.assertIn("Run ", lines[-1]["message"])


@unittest.skipUnless(os.geteuid() == 0, "only root may mount")
class FullRunDirectoryTest(unittest.TestCase):
    """A full tmpfs in its own mount namespace."""

    def ended_in_a_full_one(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as name:
            folder = pathlib.Path(name)
            stage = Stage()
            try:
                (folder / "small").mkdir()
                script = (
                    f"mount -t tmpfs -o size=4096 none {folder}/small && head -c 4096 /dev/zero > {folder}/small/full && "
                    f"exec '{OFFRAMP}' run --consumers 1 --run-dir {folder}/small/run --output {folder}/out"
                )
                done = subprocess.run(
                    ["unshare", "--mount", "sh", "-c", script],
                    env=stage.environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=WATCHDOG_SECONDS,
                    check=False,
                )
            finally:
                stage.close()
            return done.returncode, done.stdout

    def test_a_full_disk_is_reported_with_code_73(self):
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no namespaces here")
        code, output = self.ended_in_a_full_one()
        self.assertNotIn("Traceback", output)
        self.assertEqual(73, code, output)
        self.assertRegex(output, r"offramp: .*/small/run cannot be written: No space left on device\n.*--run-dir")

    def test_a_report_that_cannot_be_written(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        lock = OutputLock(folder.name, "a-run")
        self.addCleanup(lock.close)
        run_dir = RunDir(
            Places(root=pathlib.Path(folder.name), build=pathlib.Path(folder.name, "build")),
            pathlib.Path(folder.name, "run"),
        )
        self.addCleanup(os.close, run_dir._lock)
        plan = RunPlan("a-run", run_dir, [], ["true"], 1, output_lock=lock)
        supervisor = mock.Mock(
            failure=None, records=[], producer_cpu_seconds=1.0, producer_status=0, producer_restarts=0
        )
        supervisor.producer_end_reason.return_value = None
        finishing = mock.Mock()
        finishing.wait.side_effect = lambda program: program.reap()
        with mock.patch.object(
            run_command.summary, "write", side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        ):
            for ended_with, text in (
                (0, "the run is done, but"),
                (84, "dead-letters retry --all --run-dir {run_dir.path}. Besides,"),
            ):
                code, whole = run_command.conclude(plan, supervisor, ended_with, {}, finishing)
                self.assertEqual((73, 73), (code, whole["exit"]))
                self.assertIn(
                    f"{text.format(run_dir=run_dir)} its summary.json cannot be written: No space left",
                    whole["failure"],
                )
                status = json.loads(run_dir.file("status.json").read_text())
                self.assertEqual(("failed", 73, whole["failure"]), (status["state"], status["exit"], status["failure"]))
