"""A failed run prints its reason last and records it in its summary, whichever program failed."""

import datetime
import json
import os
import re
import signal
import subprocess
import unittest
from unittest import mock

from stage import WATCHDOG_SECONDS, InFolder, OnStage, kill, until, wait_until_gone

from offramp_launch import progress
from offramp_launch.supervision import control_groups, log_follower
from offramp_launch.exit_code import ExitCode, in_one_line

CRITICAL = "12:00:00.000 critical offramp-producer[1] "


class FailureTest(OnStage):
    def ended(self, launcher):
        """(output, summary) of a finished run. The output ends with the failure and how to continue."""
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        summary = self.stage.summary()
        self.assertEqual(launcher.returncode, summary["exit"], output)
        self.assertTrue(
            re.sub(r"  continue   .*\n$", "", output).endswith(f"\nofframp: {summary['failure']}\n"), output
        )
        self.assertNotIn("its log says why", output)
        self.assertNotIn("\n", summary["failure"])
        status = self.stage.read_json("status.json")
        self.assertEqual(
            (summary["exit"], summary["failure"], summary["ended"]), (status["exit"], status["failure"], status["time"])
        )
        self.assertEqual("failed" if summary["exit"] not in (84, 130) else status["state"], status["state"])
        self.assertNotEqual("running", status["state"])
        states = [
            json.loads(line)["progress"]["state"] for line in output.splitlines() if line.startswith('{"progress": ')
        ]
        self.assertEqual(status["state"], states[-1])
        self.assertEqual(1, sum(state in progress.ENDS for state in states), states)
        return output, summary

    def test_input_refused_by_the_producer(self):
        launcher, producer, consumers = self.stage.start_run(1)
        producer.order(log=CRITICAL + "model 'x.pt2' wants 3 channels: the input has 4. Convert it")
        producer.order(log="12:00:00.001 info    offramp-producer[1] removed 2 objects")
        producer.order(exit=65)
        consumers[0].order(exit=0)
        output, summary = self.ended(launcher)
        self.assertEqual(65, summary["exit"])
        self.assertTrue(
            summary["failure"].startswith("model 'x.pt2' wants 3 channels: the input has 4. Convert it. Its log: "),
            summary["failure"],
        )
        self.assertIn("logs/producer.log", summary["failure"])
        self.assertEqual(2, output.count("wants 3 channels"), "the message appears when it happens and at the end")

    def test_standard_error_has_only_the_reason(self):
        for form in ("text", "json"):
            with self.subTest(form):
                self.new_stage()
                launcher, producer, consumers = self.stage.start_run(
                    1, "--log-format", form, redirected=f"2> {self.stage.folder}/problems"
                )
                producer.order(log=CRITICAL + "model 'x.pt2' wants 3 channels: the input has 4. Convert it", exit=65)
                consumers[0].order(exit=0)
                output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
                problems = (self.stage.folder / "problems").read_text()
                self.assertNotIn("offramp: ", output)
                self.assertIn("ended with exit code 65", output)
                reason = f"offramp: {self.stage.summary()['failure']}"
                self.assertEqual(reason, problems.strip() if form == "text" else json.loads(problems)["message"])

    def test_failure_from_the_producer_summary(self):
        launcher, producer, consumers = self.stage.start_run(1)
        producer.order(
            summary={"failure": "results cannot be written: No space left on device. Make room"},
            log=CRITICAL + "another",
            exit=73,
        )
        consumers[0].order(exit=0)
        self.assertEqual(
            "results cannot be written: No space left on device. Make room", self.ended(launcher)[1]["failure"]
        )

    def test_a_library_ends_the_producer(self):
        launcher, producer, consumers = self.stage.start_run(1, "--producer-restarts", "0")
        producer.order(
            log="terminate called after throwing an instance of 'zmq::error_t'\n  what():  Too many open files", exit=3
        )
        consumers[0].order(exit=0)
        self.assertIn("what():  Too many open files", self.ended(launcher)[1]["failure"])

    def test_a_killed_producer(self):
        launcher, producer, consumers = self.stage.start_run(1)
        kill(producer)
        self.assertTrue(wait_until_gone(producer.pid))
        consumers[0].order(exit=86)
        self.assertIn("was killed by SIGKILL", self.ended(launcher)[1]["failure"])

    def test_a_consumer_that_cannot_continue(self):
        launcher, producer, consumers = self.stage.start_run(2)
        consumers[0].order(
            log="12:00:00.000 error   offramp-consumer[1] '/out/a.png' cannot be written: No space left on device. Make room",
            exit=73,
        )
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        producer.order(exit=0)
        consumers[1].order(exit=0)
        output, summary = self.ended(launcher)
        self.assertIn(
            "'/out/a.png' cannot be written: No space left on device. Make room. Its log: ", summary["failure"]
        )
        self.assertRegex(summary["failure"], r"consumer-\d .* Its log: .*logs/consumer-\d.log$")

    def test_too_many_deaths_of_consumers(self):
        launcher, producer, consumers = self.stage.start_run(20)
        for consumer in consumers:
            consumer.order(log="12:00:00.000 error   offramp-consumer[1] the server answers 422", exit=71)
        while (event := producer.next_message()) != {"signal": "SIGTERM"}:
            self.assertIsNotNone(event)
        producer.order(exit=0)
        failure = self.ended(launcher)[1]["failure"]
        self.assertIn("died 20 times in a row", failure)
        self.assertIn("the server answers 422", failure)

    def test_outputs_that_cannot_be_merged(self):
        self.stage.environment["PUPPET_FINISH_FAILURE"] = (
            "12:00:00.000 error   offramp-consumer[9] 'lines.tsv' cannot be written: disk full"
        )
        launcher, producer, consumers = self.stage.start_run(1)
        producer.order(summary={}, exit=0)
        consumers[0].order(exit=0)
        summary = self.ended(launcher)[1]
        self.assertEqual(73, summary["exit"])
        self.assertIn("'lines.tsv' cannot be written: disk full", summary["failure"])

    def test_a_failed_merge_outweighs_dead_letters(self):
        self.stage.environment["PUPPET_FINISH_FAILURE"] = (
            "12:00:00.000 error   offramp-consumer[9] 'lines.tsv' cannot be written: disk full"
        )
        launcher, producer, consumers = self.stage.start_run(1)
        producer.order(summary={"samples": {"dead_letters": 4}}, exit=84)
        consumers[0].order(exit=0)
        summary = self.ended(launcher)[1]
        self.assertEqual(73, summary["exit"])
        self.assertIn("'lines.tsv' cannot be written: disk full", summary["failure"])

    def test_dead_letters(self):
        launcher, producer, consumers = self.stage.start_run(1)
        producer.order(summary={"samples": {"dead_letters": 4}}, exit=84)
        consumers[0].order(exit=0)
        failure = self.ended(launcher)[1]["failure"]
        self.assertIn("4 samples were dead-lettered", failure)
        self.assertIn("dead-letters list --run-dir", failure)

    def test_a_stopped_run(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        producer.order(summary={}, exit=130)
        consumers[0].order(exit=0)
        self.assertIn("stopped before its input was used up", self.ended(launcher)[1]["failure"])

    def test_stopped_before_the_producer_handles_signals(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        producer.order(dies_of="SIGTERM")
        consumers[0].order(exit=0)
        output, summary = self.ended(launcher)
        self.assertEqual(130, summary["exit"])
        self.assertIn("stopped before its input was used up", summary["failure"])
        self.assertNotIn("killed by SIGTERM", output)

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def on_new_stages(self, test):
        """Runs `test` on a new stage for each signal that ends a run."""
        for number in self.SIGNALS:
            with self.subTest(number):
                self.new_stage()
                test(number)

    def assert_stopped_before_it_began(self, launcher, words=""):
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual((130, words + "offramp: interrupted\n"), (launcher.returncode, output))
        for name in ("summary.json", "status.json"):
            report = self.stage.read_json(name)
            self.assertEqual((130, "the run was stopped before it began"), (report["exit"], report["failure"]), name)

    def test_stopped_while_waiting_to_begin(self):
        self.on_new_stages(self.stopped_while_it_waits)

    def holder_of(self, lock):
        """A process that holds the lock until communicate() ends it."""
        holder = subprocess.Popen(
            ["flock", lock, "sh", "-c", "echo; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        holder.stdout.readline()
        return holder

    def stopped_while_it_waits(self, number):
        output = self.stage.folder / "output"
        output.mkdir()
        holder = self.holder_of(output / ".offramp-lock")
        self.addCleanup(holder.communicate)
        gone = subprocess.Popen(["true"])
        gone.wait()
        (output / ".offramp-lock").write_text(json.dumps({"run": "dead", "pid": gone.pid}))
        launcher = self.stage.launch("run", "--output", str(output))
        self.assertIn("waiting for the last programs of run dead", launcher.stdout.readline())
        launcher.send_signal(number)
        self.assert_stopped_before_it_began(launcher)

    def preparing(self):
        """(launcher, output folder, fifo on which the preparing consumer waits, pid of that consumer)."""
        output, door = self.stage.folder / "output", self.stage.folder / "prepares-until"
        output.mkdir()
        (output / ".offramp-checkpoint").write_text('{"run": "former", "identity": {"items": "8"}}\n')
        os.mkfifo(door)
        self.stage.environment["PUPPET_PREPARES_UNTIL"] = str(door)
        launcher = self.stage.launch("run", "--output", str(output), "--resume")
        pid = door.with_name(door.name + ".pid")
        until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        return launcher, output, door, int(pid.read_text())

    def test_stopped_while_its_output_is_prepared(self):
        self.on_new_stages(self.stopped_while_it_prepares)

    def stopped_while_it_prepares(self, number):
        launcher, output, door, program = self.preparing()
        self.assertEqual(program, os.getsid(program), "a terminal's Ctrl-C does not reach it")
        launcher.send_signal(number)
        self.assertIn(f"[run] checking {output} (another signal stops it)", launcher.stdout.readline())
        self.assertNotEqual(
            0, subprocess.run(["flock", "-n", output / ".offramp-lock", "true"], check=False).returncode
        )
        door.write_text("on\n")
        self.assert_stopped_before_it_began(launcher)
        self.assertFalse((output / ".offramp-lock").exists())
        self.assertEqual(["consumer prepare"], self.stage.errands())

    def test_stopped_twice_while_its_output_is_prepared(self):
        self.on_new_stages(self.stopped_twice_while_it_prepares)

    def stopped_twice_while_it_prepares(self, number):
        launcher, output, _, program = self.preparing()
        launcher.send_signal(number)
        self.assertIn(f"[run] checking {output} (another signal stops it)", launcher.stdout.readline())
        launcher.send_signal(signal.SIGTERM)
        self.assert_stopped_before_it_began(launcher, f"[run] stopped checking {output}\n")
        self.assertTrue(wait_until_gone(program))

    def test_the_summary_has_the_reason_why_a_run_did_not_start(self):
        output = self.stage.folder / "output"
        first = self.stage.start_run(1, "--output", str(output))
        run_dir = self.stage.folder / "second"
        code, printed = self.stage.call("run", "--output", str(output), "--run-dir", str(run_dir))
        self.assertEqual(ExitCode.RUN_IN_USE, code, printed)
        summary = json.loads((run_dir / "summary.json").read_text())
        self.assertEqual(ExitCode.RUN_IN_USE, summary["exit"])
        self.assertIn(summary["failure"], in_one_line(printed))
        status = json.loads((run_dir / "status.json").read_text())
        self.assertEqual(
            ("failed", ExitCode.RUN_IN_USE, summary["failure"]),
            tuple(status[key] for key in ("state", "exit", "failure")),
        )
        self.stage.end(*first)

    def test_the_reports_of_the_last_run_that_has_begun_are_kept(self):
        run_dir, output = self.stage.folder / "run", self.stage.folder / "output"
        launcher, producer, consumers = self.stage.start_run(
            1, "--run-dir", str(run_dir), "--input", "first", "--output", str(output)
        )
        (run_dir / "dropped.jsonl").write_text("{}\n")
        self.stage.end(launcher, producer, consumers, summary={"samples": {"released": 8}})
        names = ["status.json", "summary.json", "dropped.jsonl", "config.toml", "metrics.prom"]
        names += [f"logs/{path.name}" for path in (run_dir / "logs").iterdir()]
        self.assertIn("logs/producer.log", names)
        files = {name: (run_dir / name).read_bytes() for name in names}
        again = ("run", "--consumers", "1", "--run-dir", str(run_dir), "--input", "second", "--resume", "--output")

        def summary_beside_them():
            self.assertEqual(files, {name: (run_dir / "before" / name).read_bytes() for name in files})
            return json.loads((run_dir / "summary.json").read_text())

        holder = self.holder_of(output / ".offramp-lock")
        (output / ".offramp-lock").write_text(json.dumps({"run": "another", "pid": os.getpid()}))
        code, printed = self.stage.call(*again, str(output))
        self.assertEqual(ExitCode.RUN_IN_USE, code, printed)
        self.assertEqual(ExitCode.RUN_IN_USE, summary_beside_them()["exit"])
        holder.communicate()
        (output / ".offramp-lock").unlink()

        for code in (64, 130):  # a refusal by the producer; a stop before its first report
            launcher = self.stage.launch(*again, str(output))
            producer, consumer = sorted(
                (self.stage.enter() for _ in range(2)), key=lambda puppet: puppet.role != "producer"
            )
            printed = self.stage.end(launcher, producer, [consumer], code=code)
            self.assertIn(f"{run_dir}/summary.json, logs in {run_dir}/logs/", printed)
            self.assertTrue((run_dir / "logs" / "producer.log").exists())
            self.assertEqual(
                (code, "second", True), tuple(summary_beside_them()[key] for key in ("exit", "input", "incomplete"))
            )

        launcher, producer, consumers = self.stage.start_run(1, *again[3:], str(output))
        self.assertFalse((run_dir / "summary.json").exists(), "the summary of the refused run is removed")
        self.stage.end(launcher, producer, consumers, summary={"samples": {"released": 3}})
        self.assertEqual({"released": 3}, summary_beside_them()["samples"])
        self.assertFalse((run_dir / "dropped.jsonl").exists())

    def test_an_unused_new_output_folder_is_removed(self):
        mine, made = self.stage.folder / "mine", self.stage.folder / "made" / "within" / "it"
        mine.mkdir()
        for code, makes, stays in ((65, False, False), (73, True, True), (0, False, True)):
            for output in (mine, made):
                launcher, producer, consumers = self.stage.start_run(1, "--output", str(output))
                if makes:
                    (output / "result").touch()
                printed = self.stage.end(launcher, producer, consumers, code=code)
                self.assertEqual(code, launcher.returncode, printed)
                self.assertEqual(stays or output is mine, output.exists())
                self.assertEqual(stays, f"  outputs    {output}\n" in printed, printed)
                if makes:
                    (output / "result").unlink()
            self.assertEqual(stays, (self.stage.folder / "made").exists())

    def test_a_successful_run_has_no_failure(self):
        began = datetime.datetime.now(datetime.timezone.utc)
        launcher, producer, consumers = self.stage.start_run(
            1, "--input", "/photos", "--output", str(self.stage.folder / "out")
        )
        output = self.stage.end(
            launcher, producer, consumers, summary={"samples": {"released": 6, "skipped": 2}, "failure": None}
        )
        summary = self.stage.summary()
        self.assertIsNone(summary["failure"])
        status = self.stage.read_json("status.json")
        self.assertEqual(
            ("ended", 0, None, 8), tuple(status[key] for key in ("state", "exit", "failure", "total_samples"))
        )
        self.assertEqual(os.getcwd(), summary["cwd"])
        self.assertNotIn("offramp: ", output)
        self.assertEqual(
            (1, "1.2.3", "/photos", str(self.stage.folder / "out"), "checksum", 2),
            tuple(summary[key] for key in ("schema", "version", "input", "output", "processor", "skipped_samples")),
        )
        self.assertEqual(["run", "--consumers", "1", "--input", "/photos"], summary["command"][:5])
        times = [datetime.datetime.fromisoformat(summary[key].replace("Z", "+00:00")) for key in ("began", "ended")]
        self.assertLess(began - datetime.timedelta(seconds=1), times[0])
        self.assertLessEqual(times[0], times[1])


class LastErrorTest(unittest.TestCase):
    def test_the_last_error_includes_its_continuation_lines(self):
        for text, expected in (
            ("", None),
            ("12:00:00.000 info    offramp-producer[1] all is well", None),
            (
                "12:00:00.000 error   offramp-producer[1] first\n12:00:00.000 critical offramp-producer[1] second",
                "second",
            ),
            (
                "12:00:00.000 error   offramp-producer[1] first\n  more\n12:00:00.000 info    offramp-producer[1] end\n  of it",
                "first\n  more",
            ),
            ("offramp-consumer: --batch 'x' is not a number\n", "--batch 'x' is not a number"),
            (
                json.dumps({"level": "error", "message": "a\nb"})
                + "\n"
                + json.dumps({"level": "info", "message": "m"}),
                "a\nb",
            ),
        ):
            self.assertEqual(expected, log_follower.last_error(text), text)


class MemoryKillsTest(InFolder):
    def setUp(self):
        super().setUp()
        (self.folder / "job").mkdir()
        (self.folder / "membership").write_text("0::/job\n")
        for module, name, value in (
            (control_groups, "MOUNT", self.folder),
            (control_groups, "MEMBERSHIP", self.folder / "membership"),
            (control_groups, "MACHINE", self.folder / "vmstat"),
        ):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, group, machine):
        (self.folder / "job" / "memory.events").write_text(f"low 0\noom 1\noom_kill {group}\n")
        (self.folder / "job" / "memory.max").write_text(f"{2 << 30}\n")
        (self.folder / "vmstat").write_text(f"nr_free_pages 9\noom_kill {machine}\n")

    def test_the_groups_limit_and_the_machines_are_distinguished(self):
        self.write(3, 8)
        before = control_groups.memory_kills()
        self.assertEqual((3, 8), before)
        self.assertEqual("", control_groups.memory_kills_since(before))
        self.write(3, 9)
        self.assertIn("of this machine", control_groups.memory_kills_since(before))
        self.write(4, 9)
        self.assertIn("its limit is 2.0 GiB", control_groups.memory_kills_since(before))

    def test_reads_a_group_of_version_1(self):
        self.write(3, 8)
        (self.folder / "membership").write_text("5:memory:/job\n")
        (self.folder / "memory/job").mkdir(parents=True)
        (self.folder / "memory/job/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
        (self.folder / "memory/job/memory.limit_in_bytes").write_text(f"{1 << 30}\n")
        self.assertEqual((4, 8), control_groups.memory_kills())
        self.assertIn("its limit is 1.0 GiB", control_groups.memory_kills_since((3, 8)))

    def test_a_kernel_without_the_counter(self):
        os.remove(self.folder / "membership")
        self.assertEqual((None, None), control_groups.memory_kills())
        self.assertEqual("", control_groups.memory_kills_since((None, None)))
