import json
import os
import pathlib
import pwd
import re
import signal
import sys
import unittest

from stage import OFFRAMP, WATCHDOG_SECONDS, OnStage, kill, reachable_as, until, wait_until_gone

from offramp_launch.run_dir import read_settings


class RunTest(OnStage):
    def test_passes_the_same_flags_to_all_and_merges_their_reports(self):
        launcher, producer, consumers = self.stage.start_run(2, "--processor", "none")
        for program in (producer, *consumers):
            self.assertEqual("none", program.flag("--processor"))
            self.assertEqual(producer.flag("--run-dir"), program.flag("--run-dir"))
            self.assertEqual(producer.flag("--run-dir") + "/output", program.flag("--output"))
        output = self.stage.end(
            launcher,
            producer,
            consumers,
            summary={
                "samples": {"released": 8},
                "skipped": [{"item": 3, "origin": "bad.jpg", "reason": "not an image"}],
                "consumers": [{"pid": consumers[0].pid, "batches": 5, "samples": 8}],
            },
        )
        self.assertEqual(0, launcher.returncode, output)
        self.assertIn("bad.jpg: not an image", output)
        listed = {entry["pid"]: entry for entry in self.stage.summary()["consumers"]}
        self.assertEqual({puppet.pid for puppet in consumers}, set(listed))
        self.assertEqual(5, listed[consumers[0].pid]["batches"])
        self.assertEqual(0, listed[consumers[1].pid]["batches"])
        self.assertGreater(listed[consumers[1].pid]["cpu_seconds"], 0)
        self.assertEqual(["consumer finish"], self.stage.errands())
        self.assertEqual(0o700, os.stat(producer.flag("--run-dir")).st_mode & 0o777)

    def test_consumers_receive_settings_the_producer_detects(self):
        launcher, producer, (consumer,) = self.stage.start_run(1)
        self.assertEqual("checksum", consumer.flag("--processor"))
        self.assertNotIn("--processor", producer.argv)
        self.assertNotIn("--model", consumer.argv, "known settings are not passed again")
        self.stage.end(launcher, producer, [consumer])

    def test_the_strategy_chooses_the_program(self):
        for flags, consumers, program in (
            ((), 1, "offramp-producer"),
            (("--strategy", "streams"), 1, "offramp-producer"),
            (("--strategy", "async"), 1, "offramp-ladder"),
            (("--strategy", "sequential"), 0, "offramp-ladder"),
        ):
            with self.subTest(flags):
                launcher, producer, started = self.stage.start_run(consumers, *flags)
                self.assertEqual(program, producer.program)
                self.stage.end(launcher, producer, started, summary={})
                self.assertEqual(0, launcher.returncode)

    def test_a_killed_consumer_is_restarted(self):
        launcher, producer, consumers = self.stage.start_run(1)
        kill(consumers[0])
        successor = self.stage.enter()
        self.assertNotEqual(consumers[0].pid, successor.pid)
        output = self.stage.end(launcher, producer, [successor], summary={})
        self.assertEqual(0, launcher.returncode, output)
        self.assertIn("was killed by SIGKILL", output)
        self.assertEqual(
            [(-9, "SIGKILL"), (0, None)],
            [(entry["exit"], entry["signal"]) for entry in self.stage.summary()["consumers"]],
        )

    def test_a_consumer_that_exits_during_a_run_is_restarted(self):
        launcher, producer, consumers = self.stage.start_run(1)
        consumers[0].order(exit=0)
        successor = self.stage.enter()
        self.stage.end(launcher, producer, [successor])
        self.assertEqual(0, launcher.returncode)

    def test_a_permanent_failure_of_a_consumer_stops_the_run(self):
        launcher, producer, consumers = self.stage.start_run(2)
        consumers[0].order(log="the output folder cannot be written", exit=73)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        output = self.stage.end(launcher, producer, consumers[1:])
        self.assertEqual(73, launcher.returncode)
        self.assertIn("the output folder cannot be written", output)

    def test_deaths_without_progress_stop_the_run(self):
        launcher, producer, consumers = self.stage.start_run(20)
        for consumer in consumers:
            consumer.order(exit=71)
        while (event := producer.next_message()) != {"signal": "SIGTERM"}:
            self.assertIsNotNone(event)
        producer.order(exit=0)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(71, launcher.returncode, output)
        self.assertIn("died 20 times in a row", output)

    def test_a_dead_producer_ends_the_run_with_its_signal(self):
        launcher, producer, consumers = self.stage.start_run(1)
        kill(producer)
        self.assertTrue(wait_until_gone(producer.pid))
        consumers[0].order(exit=86)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(128 + signal.SIGKILL, launcher.returncode, output)
        self.assertTrue(self.stage.summary()["incomplete"])
        self.assertEqual("consumer finish", self.stage.errands()[-1], "which also sweeps")

    def test_a_consumer_that_outlives_its_producer_is_killed(self):
        launcher, producer, consumers = self.stage.start_run(1)
        producer.order(exit=0)
        self.assertEqual({"signal": "SIGTERM"}, consumers[0].next_message())
        self.assertIsNone(consumers[0].next_message())
        launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(-9, self.stage.summary()["consumers"][0]["exit"])

    def test_ctrl_c_drains_and_a_second_one_abandons(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(
            {"signal": "SIGTERM"}, producer.next_message(), "the producer may abandon its work and write its summary"
        )
        launcher.send_signal(signal.SIGINT)
        self.assertIsNone(producer.next_message(), "a third signal kills it")
        self.assertIsNone(consumers[0].next_message())
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(130, launcher.returncode, output)
        self.assertEqual("consumer finish", self.stage.errands()[-1], "which also sweeps")

    def test_a_drained_run_ends_with_the_producers_code(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        self.stage.end(launcher, producer, consumers, code=84)
        self.assertEqual(84, launcher.returncode)

    def test_every_program_notices_the_launchers_death(self):
        launcher, producer, consumers = self.stage.start_run(2)
        launcher.kill()
        for puppet in (producer, *consumers):
            self.assertEqual({"lifeline": "ended"}, puppet.next_message())
            self.assertTrue(wait_until_gone(puppet.pid))

    def test_signals_of_a_terminal_reach_only_the_launcher(self):
        launcher, producer, consumers = self.stage.start_run(1)
        for puppet in (producer, *consumers):
            self.assertEqual(puppet.pid, os.getpgid(puppet.pid))
        self.stage.end(launcher, producer, consumers)

    def test_warnings_are_relayed_and_the_rest_stays_in_the_log(self):
        launcher, producer, consumers = self.stage.start_run(1)
        producer.order(log="12:00:00.000 warning offramp-producer[1] no weights were given")
        producer.order(log="12:00:00.000 warning offramp-producer[1] a \x1b]0;title\x07 \u009b31m name [/x]")
        producer.order(log="12:00:00.000 info    offramp-producer[1] all is well")
        output = self.stage.end(launcher, producer, consumers)
        self.assertIn("producer: warning: no weights were given", output)
        self.assertIn("producer: warning: a \\x1b]0;title\\x07 \\x9b31m name [/x]", output)
        self.assertNotIn("all is well", output)

    def test_a_stopped_run_prints_how_to_continue(self):
        output = str(self.stage.folder / "of two words")
        launcher, producer, consumers = self.stage.start_run(1, "--output", output)
        printed = self.stage.end(launcher, producer, consumers, code=130)
        self.assertIn(
            f"  continue   (cd {os.getcwd()} && {OFFRAMP} run --consumers 1 --output '{output}' --resume)\n", printed
        )

    def test_the_printed_command_has_the_room_that_an_item_needs(self):
        output = str(self.stage.folder / "masks")
        launcher, producer, consumers = self.stage.start_run(1, "--slab-bytes", "64KiB", "--output", output)
        cause = {"kind": "slab-too-small", "slab_bytes": 70000}
        ended = {"samples": {"released": 3}, "failure": "the outputs of item 3 are too large", "failure_cause": cause}
        printed = self.stage.end(launcher, producer, consumers, code=65, summary=ended)
        self.assertIn(f"run --consumers 1 --output {output} --slab-bytes 70000 --resume)\n", printed)

    def test_the_printed_command_works_in_any_folder(self):
        here, elsewhere = self.stage.folder / "of two words", self.stage.folder / "elsewhere"
        for folder in (here, elsewhere):
            folder.mkdir()
        self.stage.working_folder = here
        launcher, producer, consumers = self.stage.start_run(1, "--input", "photos", "--output", "masks")
        output = self.stage.end(launcher, producer, consumers, code=130)
        command = re.search(r"  continue   (.*)\n", output)[1]
        self.stage.working_folder = elsewhere
        launcher = self.stage.launch_shell(command)
        again = [self.stage.enter() for _ in range(2)]
        producer = next(puppet for puppet in again if puppet.role == "producer")
        settings = read_settings(pathlib.Path(producer.flag("--run-dir")))
        self.assertEqual(("photos", str(here / "masks")), (settings["input"], settings["output"]))
        self.assertEqual(str(here), os.readlink(f"/proc/{producer.pid}/cwd"))
        self.assertIn("--resume", producer.argv)
        self.stage.end(launcher, producer, [puppet for puppet in again if puppet is not producer])
        self.assertEqual([], os.listdir(elsewhere))

    def test_a_run_without_an_output_continues_by_its_directory(self):
        launcher, producer, consumers = self.stage.start_run(1, "--run-id", "this-one")
        output = self.stage.end(launcher, producer, consumers, code=73)
        self.assertIn(
            f"  continue   (cd {os.getcwd()} && {OFFRAMP} run --consumers 1 --run-dir {producer.flag('--run-dir')} --resume)\n",
            output,
        )
        self.assertEqual("this-one", producer.flag("--run-id"))

    def test_a_run_without_results_is_restarted_not_continued(self):
        output, kept = self.stage.folder / "masks", self.stage.folder / "masks.before-this-one"
        output.mkdir()
        checkpoint = output / ".offramp-checkpoint"
        former, own = (
            json.dumps({"run": run, "identity": {"items": "8"}}) + "\n" + json.dumps({"done": [[0, 4]]}) + "\n"
            for run in ("former", "this-one")
        )
        checkpoint.write_text(former)
        for flags, made, wanted in (
            ((), "", None),
            (("--resume",), "", "--resume"),
            (("--overwrite",), "", "--overwrite"),
            (("--overwrite",), own, "--resume"),
        ):
            if wanted is None:
                done = self.stage.launch("run", "--output", str(output), *flags)
                self.assertIn(
                    "holds 4 of 8 items of run former, which has not finished", done.communicate(timeout=60)[0]
                )
                self.assertEqual((64, former), (done.returncode, checkpoint.read_text()))
                continue
            launcher, producer, consumers = self.stage.start_run(
                1, "--output", str(output), *flags, "--run-id", "this-one"
            )
            self.assertEqual("--overwrite" in flags, kept.exists())
            if made:
                checkpoint.write_text(made)
            printed = self.stage.end(launcher, producer, consumers, code=130)
            command = re.search(r"  continue   (.*)\)\n", printed)[1]
            self.assertEqual(
                [wanted], [word for word in command.split() if word in ("--overwrite", "--resume")], command
            )
            self.assertEqual(
                (former, bool(made)), ((kept / checkpoint.name if made else checkpoint).read_text(), kept.exists())
            )
            self.assertEqual("--overwrite" in flags, f"the results in {output} are kept as {kept}" in printed)
            self.assertEqual("--overwrite" in flags and not made, f"{output} has its former content again" in printed)

    def test_no_resume_after_a_wrong_setting_or_a_complete_run(self):
        for code, summary in ((64, None), (66, None), (0, {"samples": {"released": 8}})):
            launcher, producer, consumers = self.stage.start_run(1)
            orders = {"summary": summary} if summary else {}
            self.assertNotIn("--resume", self.stage.end(launcher, producer, consumers, code=code, **orders))

    def test_refuses_and_keeps_a_folder_of_the_user(self):
        folder = self.stage.folder / "mine"
        folder.mkdir(mode=0o755)
        (folder / "logs").mkdir()
        for name in ("config.json", "summary.json", "status.json", "logs/producer.log"):
            (folder / name).write_text("mine")
        code, output = self.stage.call("run", "--run-dir", str(folder))
        self.assertEqual(64, code, output)
        self.assertIn("is not a run's directory", output)
        self.assertEqual(
            ["config.json", "logs", "logs/producer.log", "status.json", "summary.json"],
            sorted(str(path.relative_to(folder)) for path in folder.rglob("*")),
        )
        self.assertEqual({"mine"}, {path.read_text() for path in folder.rglob("*") if path.is_file()})
        self.assertEqual(0o755, folder.stat().st_mode & 0o777)

    def test_refuses_results_in_the_input_first(self):
        pictures = self.stage.folder / "pictures"
        pictures.mkdir()
        for output in (pictures, pictures / "masks", pictures / "a" / ".." / "masks"):
            code, printed = self.stage.call(
                "run", "--input", str(pictures), "--output", str(output), "--run-dir", str(self.stage.folder / "run")
            )
            self.assertEqual(64, code, printed)
            self.assertIn("results could replace what they are made from", printed)
        code, printed = self.stage.call("run", "--input", str(pictures), "--run-dir", str(pictures / "run"))
        self.assertEqual(64, code, printed)
        self.assertIn(f"the folder for results, {pictures}/run/output, is in the --input folder", printed)
        self.assertEqual([], os.listdir(pictures))
        self.assertFalse((self.stage.folder / "run").exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root may start programs as another user")
    def test_consumers_run_as_their_own_user(self):
        user = pwd.getpwnam("nobody")
        self.stage.folder.chmod(0o755)
        (self.stage.folder / "door").chmod(0o777)
        os.close(os.open(self.stage.environment["PUPPET_ERRANDS"], os.O_CREAT | os.O_WRONLY, 0o666))
        os.chmod(self.stage.environment["PUPPET_ERRANDS"], 0o666)
        if not all(reachable_as(user, path) for path in (os.path.abspath(__file__), os.__file__, sys.executable)):
            self.skipTest("another user can read neither this folder nor this Python")
        launcher, producer, consumers = self.stage.start_run(1, "--consumer-user", "nobody")
        self.assertEqual((0, user.pw_uid), (producer.uid, consumers[0].uid))
        (group,) = set(consumers[0].groups)
        self.assertNotIn(
            group, (user.pw_gid, os.getgid()), "neither the group of the launcher nor one with other members"
        )
        self.assertEqual(group, producer.groups[0], "consumers must read the producer's files")
        self.assertEqual(group, os.stat(producer.flag("--run-dir")).st_gid)
        self.assertEqual(user.pw_uid, os.stat(producer.flag("--output")).st_uid)
        self.assertEqual(0o710, os.stat(producer.flag("--run-dir")).st_mode & 0o777)
        self.stage.end(launcher, producer, consumers)
        self.assertEqual(0, launcher.returncode)


class ControlTest(OnStage):
    def test_scale_adds_and_drains_the_newest(self):
        launcher, producer, consumers = self.stage.start_run(1)
        code, output = self.stage.call("scale", "3")
        self.assertEqual(0, code, output)
        added = [self.stage.enter(), self.stage.enter()]
        self.assertEqual(0, self.stage.call("scale", "1")[0])
        for puppet in added:
            self.assertEqual({"signal": "SIGTERM"}, puppet.next_message())
            puppet.order(exit=0)
        self.stage.end(launcher, producer, consumers)
        self.assertTrue(self.stage.no_puppet_starts_before(launcher))
        self.assertEqual(3, len(self.stage.summary()["consumers"]))

    def read_status(self):
        code, output = self.stage.call("status", "--json")
        self.assertEqual(0, code, output)
        return json.loads(output)

    def test_consumers_autoscale_until_a_number_is_set(self):
        launcher = self.stage.launch("run", "--consumers", "1..3")
        entered = [self.stage.enter() for _ in range(3)]
        producer, consumers = (
            entered.pop(next(number for number, each in enumerate(entered) if each.role == "producer")),
            entered,
        )
        # The producer always waits for slabs, while each of two consumers completes two slabs a second.
        seconds = 0

        def a_third_is_wanted():
            nonlocal seconds
            seconds += 3
            each = {
                "slabs": 6 * seconds,
                "samples": 24 * seconds,
                "busy_seconds": float(seconds),
                "ready": True,
                "end": "",
            }
            producer.order(
                status={
                    "state": "running",
                    "pid": producer.pid,
                    "now_ns": seconds * 10**9,
                    "released_samples": 48 * seconds,
                    "last_release_ns": seconds * 10**9,
                    "slab_wait_seconds": 0.4 * seconds,
                    "slabs": {"free": 2, "leased": 2, "filling": 4},
                    "consumers": [{"session": session, **each} for session in (1, 2)],
                }
            )
            until(lambda: self.read_status()["status"].get("now_ns") == seconds * 10**9)
            return self.read_status()["consumers_wanted"] == 3

        until(a_third_is_wanted)
        consumers.append(self.stage.enter())
        self.assertEqual(
            {"bounds": "1..3", "follows": True, "changes": 1},
            {name: self.read_status()["following"][name] for name in ("bounds", "follows", "changes")},
        )
        self.assertIn("(within 1..3, by load; changes: 1, ", self.stage.call("status")[1])
        code, output = self.stage.call("scale", "2")
        self.assertIn("3 -> 2 consumers; autoscaling is off", output)
        self.assertEqual({"signal": "SIGTERM"}, consumers[2].next_message(), "the newest consumer drains")
        consumers.pop().order(exit=0)
        self.assertIs(False, self.read_status()["following"]["follows"])
        code, output = self.stage.call("scale", "3..5")
        self.assertIn("2 -> 3 consumers, autoscaled from now on, within 3..5", output)
        consumers.append(self.stage.enter())
        self.assertEqual(64, self.stage.call("scale", "5..3")[0])
        self.assertIn("3 -> 3 consumers, autoscaled from now on, within 1..", self.stage.call("scale", "auto")[1])
        output = self.stage.end(launcher, producer, consumers)
        self.assertIn("consumers: 2 -> 3: the run waits for consumers 40 % of the time", output)
        self.assertEqual(1, self.stage.summary()["following"]["changes"])
        self.assertIn(
            'consumers = "1..3"', next((self.stage.folder / "build" / "runs").glob("*/config.toml")).read_text()
        )

    def test_a_consumer_that_dies_while_draining_is_not_restarted(self):
        launcher, producer, consumers = self.stage.start_run(1)
        self.stage.call("scale", "2")
        added = self.stage.enter()
        self.stage.call("scale", "1")
        kill(added)
        self.assertTrue(wait_until_gone(added.pid))
        self.stage.end(launcher, producer, consumers)
        self.assertTrue(self.stage.no_puppet_starts_before(launcher))

    def test_status_prints_the_producers_values(self):
        launcher, producer, consumers = self.stage.start_run(1)
        answers = []

        def shows_the_status():
            code, output = self.stage.call("status", "--json")
            self.assertEqual(0, code, output)
            answers.append(json.loads(output))
            return answers[-1]["status"].get("total_samples") == 8

        until(shows_the_status)
        self.assertEqual(
            (1, 1, producer.pid),
            (answers[-1]["consumers_wanted"], answers[-1]["consumers_alive"], answers[-1]["producer_pid"]),
        )
        self.stage.end(launcher, producer, consumers)

    def test_stop_drains_and_returns_when_the_run_has_ended(self):
        launcher, producer, consumers = self.stage.start_run(1)
        stop = self.stage.launch("stop")
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        self.assertIsNone(stop.poll())
        self.stage.end(launcher, producer, consumers)
        output, _ = stop.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, stop.returncode, output)
        self.assertTrue(self.stage.summary())

    def test_stop_now_abandons(self):
        for _ in range(3):  # two signals merge while the producer has no core
            if self.is_abandoned():
                return
            self.new_stage()
        self.fail("the second SIGTERM, which abandons, never came")

    def is_abandoned(self):
        """The producer gets a signal to drain and one to abandon. Returns True if it received both."""
        launcher, producer, consumers = self.stage.start_run(1)
        stop = self.stage.launch("stop", "--now")
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message(), "drain")
        if (abandon := producer.next_message()) is not None:
            self.assertEqual({"signal": "SIGTERM"}, abandon)
            self.assertIsNone(producer.next_message(), "a producer that ignores both is killed")
        self.assertIsNone(consumers[0].next_message())
        stop.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, stop.returncode)
        launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(130, launcher.returncode)
        return abandon is not None

    def test_a_stopped_launcher_is_not_awaited(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGSTOP)
        try:
            for command in (["status"], ["scale", "2"], ["stop"]):
                code, output = self.stage.call(*command)
                self.assertEqual(69, code, output)
                self.assertIn("is alive but does not answer", output)
        finally:
            launcher.send_signal(signal.SIGCONT)
        # The launcher carries out the requests made meanwhile: it adds one consumer, then drains all.
        added = self.stage.enter()
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        self.stage.end(launcher, producer, [*consumers, added])

    def test_an_ending_run_takes_no_more_consumers(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        code, output = self.stage.call("scale", "2")
        self.assertEqual(69, code, output)
        self.stage.end(launcher, producer, consumers)

    def test_bad_numbers_are_refused_with_the_value(self):
        launcher, producer, consumers = self.stage.start_run(1)
        for value in ("0", "-1", "65", "two", "1.5", "99999999999999999999"):
            code, output = self.stage.call("scale", value)
            self.assertEqual(64, code, output)
            self.assertIn(value, output)
        self.stage.end(launcher, producer, consumers)

    def test_refused_without_a_run(self):
        for command in (["scale", "2"], ["stop"], ["status"], ["status", "--run-dir", "/nowhere"]):
            code, output = self.stage.call(*command)
            self.assertEqual(69, code, output)
            self.assertIn("no live run", output)

    def test_several_live_runs_need_run_dir(self):
        first = self.stage.start_run(1)
        second_dir = str(self.stage.folder / "elsewhere")
        second = self.stage.start_run(1, "--run-dir", second_dir)
        code, output = self.stage.call("status")
        self.assertEqual(64, code)
        self.assertIn(f"--run-dir {second_dir}", output)
        self.assertEqual(0, self.stage.call("status", "--run-dir", second_dir)[0])
        self.stage.end(*first)
        self.stage.end(*second)

    def test_a_second_run_in_the_same_directory_is_refused(self):
        run_dir = str(self.stage.folder / "run")
        launcher, producer, consumers = self.stage.start_run(1, "--run-dir", run_dir)
        code, output = self.stage.call("run", "--run-dir", run_dir)
        self.assertEqual(85, code, output)
        self.assertIn(run_dir, output)
        self.assertEqual(0, self.stage.call("status")[0])
        self.stage.end(launcher, producer, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_a_run_directory_can_be_used_again(self):
        run_dir = str(self.stage.folder / "run")
        self.stage.end(*self.stage.start_run(1, "--run-dir", run_dir), summary={"samples": {"released": 8}})
        launcher, producer, consumers = self.stage.start_run(1, "--run-dir", run_dir)
        self.stage.end(launcher, producer, consumers, code=1)
        self.assertTrue(self.stage.summary()["incomplete"])

    def test_the_producers_refusal_is_passed_on(self):
        code, output = self.stage.call("run", "--colour", "red")
        self.assertEqual(64, code)
        self.assertIn("unknown flag --colour", output)

    def test_more_consumers_than_a_run_can_hold_are_refused(self):
        code, output = self.stage.call("run", "--consumers", "65")
        self.assertEqual(64, code)
        self.assertIn("--consumers 65", output)

    def test_a_run_directory_too_deep_for_a_socket_is_refused(self):
        code, output = self.stage.call("run", "--run-dir", "/tmp/" + "deep/" * 30)
        self.assertEqual(64, code)
        self.assertIn("too long", output)
