import contextlib
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess

from stage import WATCHDOG_SECONDS, OnStage, kill, until

NONCE = "00000000000000aa"
NEXT_NONCE = "00000000000000bb"


class OwnProgram:
    """Simulates a program with its own loop: a process, a run directory and the status of the library."""

    def __init__(self, run_dir):
        self.run_dir = run_dir
        self.nonce = NONCE
        self.process = subprocess.Popen(["sleep", "1000"])
        self.pid = self.process.pid

    def begin(self):
        for folder in (self.run_dir, self.run_dir / "live"):
            folder.mkdir(mode=0o700, exist_ok=True)
        (self.run_dir / "live/producer.lock").touch(0o600)
        self.write_status(state="running")
        self._put(
            "live/endpoint", f"offramp-endpoint=1\nrun_id=loop\nnonce={self.nonce}\nproducer_pid={self.pid}\nepoch=1\n"
        )

    def begin_the_next_run(self):
        self.nonce = NEXT_NONCE
        self.begin()

    def write_status(self, **status):
        self._put(
            "status.json",
            json.dumps(
                {
                    "run_id": "loop",
                    "nonce": self.nonce,
                    "pid": self.process.pid,
                    "released_samples": 0,
                    "name": "mine",
                    **status,
                }
            ),
        )

    def die(self):
        self.process.kill()
        self.process.wait()

    def _put(self, name, text):
        (self.run_dir / f"{name}.new").write_text(text)
        os.replace(self.run_dir / f"{name}.new", self.run_dir / name)


class ConsumeTest(OnStage):
    def setUp(self):
        super().setUp()
        self.run_dir = self.stage.folder / "run"
        self.program = OwnProgram(self.run_dir)
        self.addCleanup(self.program.die)

    def launch(self, *flags):
        return self.stage.launch("consume", "--run-dir", str(self.run_dir), "--processor", "npy", *flags)

    def start(self, consumers, *flags):
        self.program.begin()
        launcher = self.launch("--consumers", str(consumers), *flags)
        return launcher, [self.stage.enter() for _ in range(consumers)]

    def end(self, launcher, code):
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(code, launcher.returncode, output)
        return output

    def call(self, *command):
        return self.stage.call(*command, "--run-dir", str(self.run_dir))

    def errands(self):
        return (self.stage.folder / "errands").read_text().splitlines()

    def summary(self):
        return json.loads((self.run_dir / "summary.json").read_text())

    def status(self):
        return json.loads((self.run_dir / "status.json").read_text())

    def test_it_waits_for_the_run_and_ends_with_it(self):
        launcher = self.launch("--consumers", "2", "--output", str(self.stage.folder / "results"))
        self.assertIn("waiting for a run in", launcher.stdout.readline())
        self.program.begin()
        consumers = [self.stage.enter() for _ in range(2)]
        self.assertEqual([str(self.run_dir)] * 2, [consumer.flag("--run-dir") for consumer in consumers])
        self.assertEqual(
            [str(self.stage.folder / "results")] * 2, [consumer.flag("--output") for consumer in consumers]
        )
        self.assertEqual(["npy"] * 2, [consumer.flag("--processor") for consumer in consumers])
        self.assertEqual(
            [["serve", NONCE]] * 2,
            [consumer.argv[:2] for consumer in consumers],
            "serve NONCE comes first, so that no consumer joins another run",
        )
        self.program.write_status(state="ended", released_samples=80, released_batches=10)
        for consumer in consumers:
            consumer.order(exit=0)
        output = self.end(launcher, 0)
        self.assertIn("80 samples", output)
        self.assertEqual(
            [f"consumer prepare for loop-{NONCE}", "consumer finish ended"],
            [line for line in self.errands() if line.startswith("consumer")],
        )
        self.assertEqual(
            (0, None, 80), (self.summary()["exit"], self.summary()["failure"], self.summary()["samples"]["released"])
        )
        self.assertEqual(("ended", 0), (self.status()["state"], self.status()["exit"]))

    def test_a_dead_consumer_is_replaced(self):
        launcher, consumers = self.start(1)
        kill(consumers[0])
        follower = self.stage.enter()
        self.assertEqual(consumers[0].argv, follower.argv)
        self.program.write_status(state="ended", released_samples=1)
        follower.order(exit=0)
        output = self.end(launcher, 0)
        self.assertIn("starting it again", output)
        self.assertIn("1 ended early and were replaced", output)

    def test_a_consumer_with_the_number_of_one_that_left_replaces_none(self):
        launcher, consumers = self.start(1)
        kill(consumers[0])
        consumers = [self.stage.enter()]
        for _ in range(3):
            self.assertEqual(0, self.call("scale", "2")[0])
            added = self.stage.enter()
            self.assertEqual(0, self.call("scale", "1")[0])
            self.assertEqual({"signal": "SIGTERM"}, added.next_message())
            added.order(exit=0)
            until(lambda: json.loads(self.call("status", "--json")[1])["consumers_alive"] == 1)
        self.program.write_status(state="ended", released_samples=1)
        consumers[0].order(exit=0)
        self.assertIn("1 ended early and were replaced", self.end(launcher, 0))
        self.assertEqual(
            ["consumer-1.log", "consumer-2.log"],
            sorted(path.name for path in (self.run_dir / "logs").glob("consumer-*.log")),
        )
        self.assertEqual(5, len(self.summary()["consumers"]))

    def test_a_consumer_too_late_for_its_run_is_not_a_failure(self):
        launcher, consumers = self.start(2)
        self.program.begin_the_next_run()
        for consumer in consumers:
            consumer.order(log="offramp-consumer: the run that this consumer was started for is over", exit=69)
        output = self.end(launcher, 130)
        self.assertIn("the run is over", output.splitlines()[-1])
        self.assertNotIn("starting it again", output)
        self.assertNotIn("ended early", output)
        self.assertTrue(self.stage.no_puppet_starts_before(launcher))
        self.assertEqual(
            ("running", NEXT_NONCE),
            (self.status()["state"], self.status()["nonce"]),
            "the status of the next run is unchanged",
        )
        self.assertNotIn("exit", self.status())

    def test_a_failed_command_starts_no_more_consumers(self):
        launcher, (first, second) = self.start(2)
        first.order(exit=64)
        self.assertEqual({"signal": "SIGTERM"}, second.next_message())
        code, output = self.call("scale", "3")
        self.assertEqual((69, True), (code, "accepts no more consumers" in output), output)
        second.order(exit=0)
        self.end(launcher, 64)

    def test_scale_status_and_stop_leave_the_run_going(self):
        launcher, consumers = self.start(2)
        code, output = self.call("scale", "3")
        self.assertEqual((0, "run loop: 2 -> 3 consumers\n"), (code, output))
        consumers.append(self.stage.enter())
        code, output = self.call("scale", "2")
        self.assertEqual(0, code, output)
        self.assertEqual({"signal": "SIGTERM"}, consumers[2].next_message(), "the newest consumer drains")
        consumers.pop().order(exit=0)
        self.program.write_status(state="running", released_samples=7, done_samples=7)
        code, output = self.call("status", "--json")
        status = json.loads(output)
        self.assertEqual(
            (0, "loop", 2, self.program.process.pid),
            (code, status["run_id"], status["consumers_wanted"], status["producer_pid"]),
        )
        stopper = self.stage.launch("stop", "--run-dir", str(self.run_dir))
        for consumer in consumers:
            self.assertEqual({"signal": "SIGTERM"}, consumer.next_message())
            consumer.order(exit=0)
        self.assertIn("continues without the consumers of this command", self.end(launcher, 130))
        self.assertEqual(0, stopper.wait(WATCHDOG_SECONDS))
        self.assertIsNone(self.program.process.poll(), "the program goes on")
        self.assertEqual("running", self.status()["state"])
        self.assertIn("consumer finish unfinished", self.errands())

    def test_ctrl_c_drains_consumers(self):
        launcher, consumers = self.start(1)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, consumers[0].next_message())
        consumers[0].order(exit=0)
        self.assertIn("draining", self.end(launcher, 130))
        self.assertIn("consumer finish nothing", self.errands())

    def test_ends_when_the_program_dies(self):
        launcher, consumers = self.start(1)
        self.program.write_status(state="running", released_samples=7)
        self.program.die()
        self.assertEqual({"signal": "SIGTERM"}, consumers[0].next_message())
        consumers[0].order(exit=86)
        output = self.end(launcher, 86)
        self.assertIn("died before the run was over", output.splitlines()[-1])
        self.assertEqual(("failed", 86), (self.status()["state"], self.status()["exit"]))
        self.assertIn("consumer finish unfinished", self.errands())

    def test_a_consumer_that_cannot_start_reports_why_on_the_last_line(self):
        launcher, consumers = self.start(1)
        consumers[0].order(log="offramp-consumer: no output of model 'mine' fits", exit=64)
        self.assertIn("no output of model 'mine' fits", self.end(launcher, 64).splitlines()[-1])
        self.assertEqual("running", self.status()["state"])

    def test_reports_abandoned_dead_lettered_and_failed_runs(self):
        for code, words, status in (
            (130, "without draining", {"state": "abandoned"}),
            (84, "2 samples were dead-lettered", {"state": "ended", "dead_lettered_samples": 2}),
            (86, "the disk is full", {"state": "failed", "message": "the disk is full"}),
        ):
            with self.subTest(status):
                launcher, consumers = self.start(1)
                self.program.write_status(**status)
                consumers[0].order(exit=0)
                self.assertIn(words, self.end(launcher, code).splitlines()[-1])

    def test_a_killed_launcher_leaves_no_consumer(self):
        launcher, consumers = self.start(1)
        launcher.kill()
        self.assertEqual({"lifeline": "ended"}, consumers[0].next_message())

    def test_gives_up_waiting_with_the_reason(self):
        output = self.end(self.launch("--wait", "0"), 69)
        self.assertIn("it does not exist", output)
        self.run_dir.mkdir(mode=0o700)
        self.assertIn("no program has begun one", self.end(self.launch("--wait", "0"), 69))
        self.program.write_status(state="running")
        output = self.end(self.launch("--wait", "0"), 69)
        self.assertIn("the run there accepts no consumers yet", output, "the status precedes the endpoint")
        self.program.write_status(state="ended")
        self.assertIn("its earlier run is over", self.end(self.launch("--wait", "0"), 69))
        self.program.begin()
        self.program.die()
        output = self.end(self.launch("--wait", "0"), 69)
        self.assertIn(f"(pid {self.program.process.pid}) is dead", output)
        self.assertFalse((self.run_dir / "live/launcher.lock").exists(), "the directory is unchanged")

    def test_a_program_in_another_pid_namespace_is_refused(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        with socket.socket(socket.AF_UNIX) as door:
            self.program.pid = gone.pid  # the program's pid in its own namespace
            self.program.begin()
            door.bind(str(self.run_dir / "live/work-1.sock"))
            door.listen()
            launcher = self.launch("--consumers", "1")
            output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(
            (77, True), (launcher.returncode, f"(pid {gone.pid}) is in another pid namespace" in output), output
        )
        self.assertIn("Share the pid namespace", output)

    def test_an_egress_is_awaited_while_its_program_lives(self):
        self.program.begin()  # the run of another program in the same directory
        results = self.stage.folder / "results"
        results.mkdir()
        (results / ".offramp-egress.new").write_text('{"work": "mine"}\n')
        launcher = self.launch(
            "--consumers", "1", "--output", str(results), "--program", str(os.getpid()), "--work", "mine"
        )
        self.program.nonce = NEXT_NONCE
        self.program.pid = os.getpid()
        self.program.begin()
        consumer = self.stage.enter()
        self.assertEqual(["serve", NEXT_NONCE], consumer.argv[:2])
        self.assertEqual(["consumer prepare for mine"], self.errands()[:1])
        self.assertEqual('{"work": "mine"}\n', (results / ".offramp-egress").read_text())
        self.assertFalse((results / ".offramp-egress.new").exists())
        self.program.write_status(state="ended", released_samples=1)
        consumer.order(exit=0)
        self.end(launcher, 0)
        self.program.nonce = NONCE
        self.program.begin()
        launcher = self.launch(
            "--consumers", "1", "--output", str(results), "--program", str(os.getpid()), "--work", "mine", "--resume"
        )
        consumer = self.stage.enter()
        self.assertIn("consumer prepare on for mine", self.errands(), "item numbers continue")
        self.program.write_status(state="ended", released_samples=1)
        consumer.order(exit=0)
        self.end(launcher, 0)
        self.assertEqual('{"work": "mine"}\n', (results / ".offramp-egress").read_text())
        for pid in (self.program.process.pid, 1):
            self.assertIn(
                f"the program (pid {pid}) whose outputs were to be consumed ended",
                self.end(self.launch("--program", str(pid)), 69),
                "not a child of this launcher",
            )

    def test_other_work_in_the_output_is_refused_or_kept(self):
        self.program.pid = os.getpid()
        self.program.begin()
        results, kept = self.stage.folder / "results", self.stage.folder / "results.before-loop"
        results.mkdir()
        before = '{"work": "before"}\n{"done": [[0, 4, "00"]]}\n'
        (results / ".offramp-egress").write_text(before)
        flags = ("--consumers", "1", "--output", str(results), "--program", str(os.getpid()), "--work", "mine")
        refused = self.end(self.launch(*flags), 64)
        self.assertRegex(
            refused, f"--output {results} holds the work of an earlier run\n.*--resume .*--overwrite .*another --output"
        )
        self.assertEqual([".offramp-egress"], os.listdir(results))
        for made in (False, True):
            (results / ".offramp-egress.new").write_text('{"work": "mine"}\n')
            launcher = self.launch(*flags, "--overwrite")
            consumer = self.stage.enter()
            self.assertEqual(before, (kept / ".offramp-egress").read_text())
            self.assertEqual([".offramp-egress", ".offramp-lock"], sorted(os.listdir(results)))
            self.assertEqual('{"work": "mine"}\n', (results / ".offramp-egress").read_text())
            if made:
                (results / "1.npy").touch()
            else:
                (results / ".offramp-egress").unlink()
            self.program.write_status(state="ended", released_samples=1)
            consumer.order(exit=0)
            printed = self.end(launcher, 0)
            self.assertIn(f"the results in {results} are kept as {kept}", printed)
            self.assertEqual((made, not made), (kept.exists(), "has its former content again" in printed))
            self.assertEqual(before, ((kept if made else results) / ".offramp-egress").read_text())

    def test_refuses_runs_it_cannot_consume(self):
        self.program.begin()
        (self.run_dir / "live/settings.toml").touch()
        self.assertIn("belongs to offramp-producer", self.end(self.launch(), 64))
        (self.run_dir / "live/settings.toml").unlink()
        with open(self.run_dir / "live/launcher.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("has a launcher already", self.end(self.launch(), 85))
        self.run_dir.chmod(0o770)
        self.assertIn("other users may write", self.end(self.launch(), 64))
        self.run_dir.chmod(0o700)
        if os.getuid() == 0:
            os.chown(self.run_dir, 65534, -1)
            self.assertIn("is another user's (uid 65534)", self.end(self.launch(), 77))

    def test_refuses_flags_without_meaning_by_name(self):
        for flags, words in (
            (["--model", "resnet"], "consume does not accept --model"),
            (["--consumer-user=nobody"], "consume does not accept --consumer-user"),
            (["--processor", "mask-png,cut-out"], "processor cut-out needs the original pictures"),
            (["--consumers", "65"], "Give at most 64"),
            (["--wait", "soon"], "--wait is 'soon'"),
        ):
            with self.subTest(flags):
                self.assertIn(words, self.end(self.launch(*flags), 64))
        code, output = self.stage.call("consume", "--processor", "npy")
        self.assertEqual(64, code)
        self.assertIn("needs the directory of a run", output)

    def test_refuses_an_output_in_use_by_another_run(self):
        self.program.begin()
        output = pathlib.Path(self.stage.folder, "results")
        output.mkdir()
        with open(output / ".offramp-lock", "w", encoding="utf-8") as lock, contextlib.closing(lock):
            lock.write(json.dumps({"run": "another", "pid": os.getpid()}))
            lock.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("run another", self.end(self.launch("--output", str(output)), 85))

    def test_refuses_an_output_of_unmerged_shards(self):
        self.program.begin()
        claim = pathlib.Path(self.stage.folder, "results/.offramp-shards/job.json")
        claim.parent.mkdir(parents=True)
        claim.write_text('{"job": "job-a", "folder": "/jobs/a"}')
        self.assertIn("the shards of job-a", self.end(self.launch("--output", str(claim.parent.parent)), 64))
