"""
`offramp run --producer 'python loop.py'`: a custom loop is supervised, scaled, stopped and restarted like any producer.
"""

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import unittest

from loops import BATCHES, LAUNCHER, LOOP, ROWS, LaunchedLoops, processes_of
from tests.support.waiting import WATCHDOG_SECONDS, put_away
from world import World, needs_numpy, wait_for


class Children(World):
    def test_another_pipe_with_the_lifelines_number_is_rejected(self):
        program = """
            import os, offramp
            other, kept = os.pipe()
            os.environ.update(OFFRAMP_LIFELINE_FD=f"{other}:{os.fstat(other).st_ino + 1}", OFFRAMP_RUN_DIR="run")
            try:
                offramp.Egress()
            except offramp.BadArgument as problem:
                print(problem)
            os.write(kept, b"x")
            print(os.read(other, 1))
        """
        printed = self.end(self.python(program, cwd=self.folder))
        self.assertIn("no launcher answers in run any more (No such file or directory)", printed)
        self.assertEqual("b'x'", printed.splitlines()[-1])

    def test_death_of_a_launcher_before_it_accepts_is_detected(self):
        program = """
            import signal, socket
            from offramp._launched import Launched, LauncherSettings
            listener, connection = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
            listener.bind("control.sock")
            listener.listen()
            connection.connect("control.sock")
            launched = Launched(LauncherSettings("run", "", "", "", "", "", False), connection.detach())
            signal.alarm(20)
            try:
                listener.close()
                while True:
                    signal.pause()
            except KeyboardInterrupt:
                print("ended")
        """
        self.assertEqual("ended\n", self.end(self.python(program, cwd=self.folder)))

    def test_a_launcher_that_does_not_answer_is_reported(self):
        program = """
            import os, socket, offramp
            from offramp import _launched
            _launched.ANSWER_SECONDS = 0.1
            listener = socket.socket(socket.AF_UNIX)
            os.mkdir("live")
            listener.bind("live/control.sock")
            listener.listen()
            os.environ.update(OFFRAMP_LIFELINE_FD="999:1", OFFRAMP_RUN_DIR=".")
            try:
                offramp.Egress()
            except offramp.BadArgument as problem:
                print(problem)
        """
        self.assertIn("no launcher answers in . any more (timed out)", self.end(self.python(program, cwd=self.folder)))

    def test_a_forked_child_ends_by_sigterm(self):
        program = """
            import os, signal
            lifeline, kept = os.pipe()
            os.environ.update(OFFRAMP_LIFELINE_FD=f"{lifeline}:{os.fstat(lifeline).st_ino}", OFFRAMP_RUN_DIR="run")
            from offramp._launched import launched
            launch = launched()
            begun, begin = os.pipe()
            if (child := os.fork()) == 0:
                signal.alarm(20)
                os.write(begin, b"x")
                while True:
                    signal.pause()
            os.read(begun, 1)
            os.kill(child, signal.SIGTERM)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), launch.asked_to_end)
            os.kill(os.getpid(), signal.SIGTERM)
            print(launch.asked_to_end, flush=True)
            os._exit(0)
        """
        self.assertEqual(f"{-signal.SIGTERM} False\nTrue\n", self.end(self.python(program)))


@needs_numpy
class ProgramRuns(LaunchedLoops):
    def wait_for_exit(self, launcher, code):
        """The launcher's output after its exit."""
        printed, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(code, launcher.returncode, printed + self.log())
        self.assertEqual([], processes_of(launcher.args[launcher.args.index("--run-dir") + 1]))
        return printed

    def call(self, *command):
        return subprocess.run(
            [*LAUNCHER, *command, "--run-dir", str(self.work.run_dir)],
            env=self.work.environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def read_json(self, name):
        return json.loads((self.work.run_dir / name).read_text())

    def test_a_whole_run(self):
        printed = self.wait_for_exit(self.launch("--run-id", f"egress-{os.getpid()}-a"), 0)
        self.assertIn("48 samples", printed)
        self.assertEqual(self.undisturbed(), self.work.results())
        summary, status = self.read_json("summary.json"), self.read_json("status.json")
        self.assertEqual(
            (0, None, 0, BATCHES * ROWS),
            (summary["exit"], summary["failure"], summary["producer_restarts"], summary["samples"]["released"]),
        )
        self.assertEqual(("ended", 0, f"egress-{os.getpid()}-a"), (status["state"], status["exit"], status["run_id"]))
        self.wait_for_exit(self.launch("--resume"), 0)
        self.assertEqual(0, self.work.submitted(), "all of it is done")

    def test_a_hanging_function_is_killed_on_request(self):
        self.post.write_text(
            "import time\ndef save(slab):\n    while slab.samples[0].key == 'b002-0':\n        time.sleep(0.01)\n"
        )
        self.wait_for_exit(
            self.launch(
                "--kill-stalled", program=self.program(batches=5, options="visibility_timeout=8.0, max_failures=2")
            ),
            84,
        )
        self.assertEqual(
            (ROWS, 4 * ROWS),
            tuple(self.read_json("summary.json")["samples"][name] for name in ("dead_letters", "released")),
        )

    def wrapped(self, then="echo wrapped\nexit $code", **options):
        """A script that starts the loop and waits for it."""
        return self.script(f"{self.program(**options)}\ncode=$?\n{then}")

    def script(self, text):
        script = self.folder / "wrapper.sh"
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        return str(script)

    def closing(self, **options):
        """
        A program that, like torchrun, starts the loop without inherited descriptors in a new session; before that,
        another Egress.
        """
        script = self.folder / "closing.py"
        script.write_text(
            "import subprocess, sys\n"
            "own = 'import sys, offramp; offramp.Egress(sys.argv[1]).close(); print(\"a separate run\")'\n"
            f"subprocess.run([sys.executable, '-c', own, {str(self.folder / 'own')!r}], check=True)\n"
            f"loop = subprocess.Popen({shlex.split(self.program(**options))!r}, close_fds=True, start_new_session=True)\n"
            "code = loop.wait()\n"
            "sys.exit(code if code >= 0 else 128 - code)\n"
        )
        return shlex.join([sys.executable, str(script)])

    def test_a_loop_behind_a_program_that_closes_its_descriptors(self):
        printed = self.require_that_a_killed_loop_is_followed(self.closing())
        self.assertIn("producer was killed by SIGKILL", printed)
        self.assertEqual(2, self.log().count("a separate run"))

    def test_a_started_loop_ends_with_its_launcher(self):
        launcher, gate = self.at_work(self.closing(batches=100000))
        launcher.kill()
        launcher.wait()
        gate.unlink()
        wait_for(lambda: not processes_of(self.folder), "that loop and consumers end")

    def test_a_loop_of_an_earlier_run_is_reported(self):
        launcher, gate = self.at_work(self.program(batches=BATCHES))
        program = """
            import os, sys, offramp
            os.environ.update(OFFRAMP_LIFELINE_FD="999:1", OFFRAMP_RUN_DIR=sys.argv[1], OFFRAMP_RUN_ID="earlier")
            try:
                offramp.Egress()
            except offramp.BadArgument as problem:
                print(problem)
        """
        printed = self.end(self.python(program, str(self.work.run_dir)))
        self.assertIn("for the run 'earlier', and the launcher in", printed)
        gate.unlink()
        self.wait_for_exit(launcher, 0)

    def under_torchrun(self, **options):
        return shlex.join(
            [
                sys.executable,
                *"-m torch.distributed.run --standalone --nproc-per-node 1".split(),
                *shlex.split(self.program(**options))[1:],
            ]
        )

    @unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch")
    def test_a_killed_loop_under_torchrun_is_restarted(self):
        printed = self.require_that_a_killed_loop_is_followed(self.under_torchrun())
        self.assertIn("producer ended with exit code 1", printed)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch")
    def test_a_loop_under_torchrun_is_stopped(self):
        self.require_that_it_is_stopped(*self.at_work(self.under_torchrun(batches=100000)), code=130)
        self.assertEqual("ended", self.read_json("status.json")["state"])

    def at_work(self, program, gate="b004-0"):
        """(the launcher, the gate that blocks consumers), once there are results."""
        gate = self.work.close_gate(gate)
        launcher = self.launch(program=program)
        wait_for(lambda: self.loop_at_work(), "a loop with results")
        return launcher, gate

    def require_that_it_is_stopped(self, launcher, gate, code):
        launcher.send_signal(signal.SIGINT)
        wait_for(lambda: json.loads(self.call("status", "--json"))["ending"], "that it drains")
        gate.unlink()
        self.wait_for_exit(launcher, code)
        self.assertEqual(ROWS * self.work.submitted() + 1, len(self.work.results()), "all submitted batches are done")

    def test_a_script_that_starts_the_loop(self):
        self.wait_for_exit(self.launch(program=self.wrapped()), 0)
        self.assertEqual(self.undisturbed(), self.work.results())
        self.assertEqual(BATCHES * ROWS, self.read_json("summary.json")["samples"]["released"])

    def test_a_stopped_script_ends_with_its_own_exit_code(self):
        for then, batches, code, is_whole in (
            ("exit $code", BATCHES, 0, True),
            ("exit 3", 100000, 3, False),
            ("exit 0", 100000, 130, False),
        ):
            with self.subTest(then):
                self.at_a_place(f"work-{code}")
                launcher, gate = self.at_work(self.wrapped(then, batches=batches), gate="b011-0")
                if is_whole:
                    wait_for(
                        lambda: "submitted" in (self.work.folder / "noted").read_text(),
                        "that the last batch is submitted",
                    )
                self.require_that_it_is_stopped(launcher, gate, code)
                self.assertEqual(is_whole, '"ended":true' in (self.work.output / ".offramp-checkpoint").read_text())

    def test_an_exit_code_of_the_loop_is_not_a_death(self):
        (self.folder / "leaving.py").write_text(LOOP + "sys.exit(137)\n")
        program = self.program().replace("loop.py", "leaving.py")
        self.assertIn("ended with exit code 137", self.wait_for_exit(self.launch(program=program), 137))
        self.assertEqual(0, self.read_json("summary.json")["producer_restarts"])

    def test_a_loop_that_a_script_starts_again_continues(self):
        launcher, gate = self.at_work(self.script(f"{self.program()} || {self.program()}"), gate="b009-0")
        first = self.loop_at_work()
        wait_for(
            lambda: json.loads(self.call("status", "--json"))["status"].get("released_samples", 0) > ROWS,
            "that the launcher has its status",
        )
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: self.loop_at_work(besides=first), "the next loop")
        gate.unlink()
        self.wait_for_exit(launcher, 0)
        self.assertEqual(self.undisturbed(), self.work.results())
        self.assertLess(self.work.submitted(), BATCHES)
        summary = self.read_json("summary.json")
        self.assertEqual(0, summary["producer_restarts"])
        self.assertGreater(summary["samples"]["released"], ROWS * self.work.submitted(), "both loops count")

    def test_a_run_is_scaled_and_stopped(self):
        gate = self.work.close_gate("b004-0")
        launcher = self.launch(program=self.program(batches=100000))
        wait_for(
            lambda: (
                (self.work.run_dir / "status.json").exists()
                and self.read_json("status.json").get("released_samples", 0) > 0
            ),
            "results",
        )
        self.assertIn("2 -> 3", self.call("scale", "3"))
        wait_for(lambda: len(self.read_json("status.json")["consumers"]) == 3, "three consumers")
        self.assertIn("3 wanted", self.call("status"))
        stopper = subprocess.Popen(
            [*LAUNCHER, "stop", "--run-dir", str(self.work.run_dir)],
            env=self.work.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(put_away, stopper)
        self.assertIn("draining", stopper.stdout.readline())
        gate.unlink()
        self.assertEqual(0, stopper.wait(WATCHDOG_SECONDS))
        printed = self.wait_for_exit(launcher, 130)
        self.assertIn("  continue ", printed)
        self.assertEqual("ended", self.read_json("status.json")["state"])
        noted = self.work.submitted()
        self.assertEqual(ROWS * noted + 1, len(self.work.results()), "all submitted batches are done")
        manifest = self.work.output / ".offramp-checkpoint"
        self.assertNotIn('"ended":true', manifest.read_text(), "the run may be continued")
        self.wait_for_exit(self.launch("--resume", program=self.program(batches=noted + 2)), 0)
        self.assertEqual(2, self.work.submitted())
        self.assertIn('"ended":true', manifest.read_text())

    def test_consumers_are_autoscaled(self):
        """With slow consumers more are started, until a number is set."""
        self.post.write_text("import time\n\ndef save(slab):\n    time.sleep(0.2)\n")
        launcher = self.launch("--consumers", "2..6", program=self.program(batches=100000))
        wait_for(
            lambda: (
                (self.work.run_dir / "status.json").exists()
                and len(self.read_json("status.json").get("consumers") or []) > 2
            ),
            "more consumers",
        )
        self.assertIn("autoscaling is off", self.call("scale", "2"))
        launcher.send_signal(signal.SIGINT)
        self.assertIn("consumers: 2 -> ", self.wait_for_exit(launcher, 130))
        following = self.read_json("summary.json")["following"]
        self.assertEqual(("2..6", False, True), (following["bounds"], following["follows"], following["changes"] >= 1))

    def test_second_stop_abandons_the_run_which_resumes(self):
        gates = [self.work.close_gate(f"b{number:03}-0") for number in range(BATCHES)]
        launcher = self.launch()
        wait_for(
            lambda: (
                (self.work.run_dir / "status.json").exists()
                and self.read_json("status.json").get("submitted_samples", 0) >= 4 * ROWS
            ),
            "full slabs",
        )
        launcher.send_signal(signal.SIGINT)
        wait_for(lambda: json.loads(self.call("status", "--json"))["ending"], "that it drains")
        launcher.send_signal(signal.SIGINT)
        for gate in gates:
            gate.unlink()
        self.wait_for_exit(launcher, 130)
        self.wait_for_exit(self.launch("--resume"), 0)
        self.assertEqual(self.undisturbed(), self.work.results())

    def test_a_killed_loop_is_restarted_and_resumes(self):
        self.require_that_a_killed_loop_is_followed(self.program())

    def test_a_killed_loop_behind_a_script_is_restarted(self):
        printed = self.require_that_a_killed_loop_is_followed(self.wrapped())
        self.assertIn("producer was killed by SIGKILL", printed)
        self.assertIn("wrapped", self.log())

    def test_overwrite_keeps_finished_results_through_each_kind_of_end(self):
        def everything_in(folder):
            return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

        def kept():
            return list(self.work.folder.glob("out.before-*"))

        self.wait_for_exit(self.launch(program=self.program(batches=2)), 0)
        before = everything_in(self.work.output)
        self.assertIn("which has finished", self.wait_for_exit(self.launch(), 64))
        fails = self.launch("--overwrite", program="false")
        self.assertIn("has its former content again", fails.communicate(timeout=WATCHDOG_SECONDS)[0])
        self.assertEqual((before, []), (everything_in(self.work.output), kept()))
        (self.work.run_dir / "status.json").unlink()  # it names an earlier loop
        self.require_that_a_killed_loop_is_followed(self.program(), "--overwrite")
        [aside] = kept()
        self.assertEqual(before, everything_in(aside))

    def require_that_a_killed_loop_is_followed(self, program, *flags):
        """The launcher's output."""
        gate = self.work.close_gate("b009-0")
        launcher = self.launch("--log-format", "json", *flags, program=program)
        first = wait_for(lambda: self.loop_at_work(), "a loop with results")
        os.kill(first, signal.SIGKILL)
        second = wait_for(lambda: self.loop_at_work(besides=first), "the next loop")
        self.assertNotEqual(first, second)
        gate.unlink()
        printed = self.wait_for_exit(launcher, 0)
        self.assertIn("the program is started again", printed)
        self.assertEqual(self.undisturbed(), self.work.results())
        summary = self.read_json("summary.json")
        self.assertEqual((1, 0), (summary["producer_restarts"], summary["exit"]))
        metrics = (self.work.run_dir / "metrics.prom").read_text()
        self.assertIn(
            '\nofframp_samples_total{state="completed"} %d\n' % summary["samples"]["released"],
            metrics,
            "both loops count",
        )
        self.assertIn("\nofframp_producer_takeovers_total 1\n", metrics)
        return printed

    def loop_at_work(self, besides=None):
        """The loop's process, once its run has results, or only blocked batches remain."""
        try:
            status = self.read_json("status.json")
        except (OSError, ValueError):
            return None
        return (
            status["pid"]
            if status["pid"] != besides
            and (status.get("released_samples", 0) >= 4 or besides and status.get("submitted_samples"))
            else None
        )

    def test_without_restarts_a_killed_loop_ends_the_run(self):
        printed = self.wait_for_exit(
            self.launch("--producer-restarts", "0", program=self.program(dies="accepted 5")), 128 + signal.SIGKILL
        )
        self.assertRegex(printed, "offramp: the producer .* was killed by SIGKILL")
        self.assertRegex(printed.splitlines()[-1], "continue .*--resume")
        self.assertEqual("failed", self.read_json("status.json")["state"])
        self.wait_for_exit(self.launch("--resume"), 0)
        self.assertEqual(self.undisturbed(), self.work.results())

    def test_a_program_that_opens_no_run_or_fails_is_reported(self):
        cases = (
            (f"{sys.executable} -c 'print(5)'", 64, "ended without having opened a run"),
            (f"{sys.executable} -c 'import offramp; offramp.Egress()'", 64, "submitted nothing to it"),
            (
                self.program(options="processor='npy'"),
                1,
                "processor is given, and this program was started by `offramp run",
            ),
            (
                f"{sys.executable} -c 'import offramp; offramp.Egress(); offramp.Egress()'",
                1,
                "has made its Egress already",
            ),
            (f"{sys.executable} -c 'import sys; sys.exit(3)'", 3, "ended with exit code 3"),
            ("sh -c 'exit 143'", 143, "ended with exit code 143"),
        )
        launchers = [
            self.launch(program=program, place=self.place(f"case-{number}"))
            for number, (program, _, _) in enumerate(cases)
        ]
        for launcher, (_, code, text) in zip(launchers, cases):
            with self.subTest(text):
                self.assertIn(text, self.wait_for_exit(launcher, code))
        for program, code, text in (
            ("nonsense --x", 66, "'nonsense', which is not a program"),
            ("'", 64, "is not a command"),
            ("", 64, "--producer is empty"),
        ):
            with self.subTest(text):
                self.assertIn(text, self.wait_for_exit(self.launch(program=program), code))
        self.assertIn("run --producer does not accept --model", self.wait_for_exit(self.launch("--model", "x"), 64))
        claim = self.work.output / ".offramp-shards/job.json"
        claim.parent.mkdir(parents=True)
        claim.write_text('{"job": "job-a", "folder": "/jobs/a"}')
        self.assertIn("in use by the shards of job-a in /jobs/a", self.wait_for_exit(self.launch(), 64))

    def test_the_loop_ends_with_its_launcher(self):
        self.work.close_gate("b000-0")
        launcher = self.launch()
        wait_for(lambda: (self.work.run_dir / "status.json").exists(), "a run")
        launcher.kill()
        launcher.wait()
        (self.work.gates / "b000-0").unlink()
        wait_for(lambda: not processes_of(self.folder), "that loop and consumers end")
        self.wait_for_exit(self.launch("--resume"), 0)
        self.assertEqual(self.undisturbed(), self.work.results())
