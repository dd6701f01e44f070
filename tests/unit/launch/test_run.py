import json
import os
import pathlib
import pwd
import re
import signal
import sys
import unittest

from stage import OFFRAMP, WATCHDOG_SECONDS, Stage, kill, reachable_as, until, wait_until_gone


class RunTest(unittest.TestCase):
    def setUp(self):
        self.stage = Stage()
        self.addCleanup(self.stage.close)

    def test_passes_the_same_flags_to_all_and_merges_their_accounts(self):
        launcher, producer, consumers = self.stage.start_run(2, "--processor", "none")
        for program in (producer, *consumers):
            self.assertEqual("none", program.flag("--processor"))
            self.assertEqual(producer.flag("--run-dir"), program.flag("--run-dir"))
            self.assertEqual(producer.flag("--run-dir") + "/output", program.flag("--output"))
        said = self.stage.end(launcher, producer, consumers, summary={
            "samples": {"released": 8}, "skipped": [{"item": 3, "origin": "bad.jpg", "reason": "not an image"}],
            "consumers": [{"pid": consumers[0].pid, "batches": 5, "samples": 8}]})
        self.assertEqual(0, launcher.returncode, said)
        self.assertIn("bad.jpg: not an image", said)
        listed = {entry["pid"]: entry for entry in self.stage.summary()["consumers"]}
        self.assertEqual({puppet.pid for puppet in consumers}, set(listed))
        self.assertEqual(5, listed[consumers[0].pid]["batches"])
        self.assertEqual(0, listed[consumers[1].pid]["batches"])
        self.assertGreater(listed[consumers[1].pid]["cpu_seconds"], 0)
        self.assertEqual(["producer sweep", "consumer finish", "producer sweep"], self.stage.errands())
        self.assertEqual(0o700, os.stat(producer.flag("--run-dir")).st_mode & 0o777)

    def test_consumers_receive_settings_the_producer_detects(self):
        launcher, producer, (consumer,) = self.stage.start_run(1)
        self.assertEqual("checksum", consumer.flag("--processor"))
        self.assertNotIn("--processor", producer.argv)
        self.assertNotIn("--model", consumer.argv, "what all of them know is not said again")
        self.stage.end(launcher, producer, [consumer])

    def test_a_rung_is_run_by_the_ladders_program(self):
        for flags, consumers, program in (((), 1, "offramp-producer"), (("--strategy", "streams"), 1, "offramp-producer"),
                                          (("--strategy", "async"), 1, "offramp-ladder"), (("--strategy", "sequential"), 0, "offramp-ladder")):
            with self.subTest(flags):
                launcher, producer, started = self.stage.start_run(consumers, *flags)
                self.assertEqual(program, producer.program)
                self.stage.end(launcher, producer, started, summary={})
                self.assertEqual(0, launcher.returncode)

    def test_a_killed_consumer_is_started_again(self):
        launcher, producer, consumers = self.stage.start_run(1)
        kill(consumers[0])
        successor = self.stage.enter()
        self.assertNotEqual(consumers[0].pid, successor.pid)
        said = self.stage.end(launcher, producer, [successor], summary={})
        self.assertEqual(0, launcher.returncode, said)
        self.assertIn("was killed by SIGKILL", said)
        self.assertEqual([(-9, "SIGKILL"), (0, None)],
                         [(entry["exit"], entry["signal"]) for entry in self.stage.summary()["consumers"]])

    def test_a_consumer_that_ends_while_the_run_continues_is_started_again(self):
        launcher, producer, consumers = self.stage.start_run(1)
        consumers[0].order(exit=0)
        successor = self.stage.enter()
        self.stage.end(launcher, producer, [successor])
        self.assertEqual(0, launcher.returncode)

    def test_a_consumer_that_would_end_so_again_stops_the_run(self):
        launcher, producer, consumers = self.stage.start_run(2)
        consumers[0].order(log="the output folder cannot be written", exit=73)
        self.assertEqual({"signal": "SIGTERM"}, producer.hear())
        said = self.stage.end(launcher, producer, consumers[1:])
        self.assertEqual(73, launcher.returncode)
        self.assertIn("the output folder cannot be written", said)

    def test_deaths_without_progress_stop_the_run(self):
        launcher, producer, consumers = self.stage.start_run(20)
        for consumer in consumers:
            consumer.order(exit=71)
        while (event := producer.hear()) != {"signal": "SIGTERM"}:
            self.assertIsNotNone(event)
        producer.order(exit=0)
        said, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(71, launcher.returncode, said)
        self.assertIn("died 20 times in a row", said)

    def test_a_dead_producer_ends_the_run_with_its_signal(self):
        launcher, producer, consumers = self.stage.start_run(1)
        kill(producer)
        self.assertTrue(wait_until_gone(producer.pid))
        consumers[0].order(exit=86)
        said, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(128 + signal.SIGKILL, launcher.returncode, said)
        self.assertTrue(self.stage.summary()["incomplete"])
        self.assertEqual("producer sweep", self.stage.errands()[-1])

    def test_a_consumer_that_outlives_its_producer_is_asked_and_then_killed(self):
        launcher, producer, consumers = self.stage.start_run(1)
        producer.order(exit=0)
        self.assertEqual({"signal": "SIGTERM"}, consumers[0].hear())
        self.assertIsNone(consumers[0].hear())
        launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(-9, self.stage.summary()["consumers"][0]["exit"])

    def test_ctrl_c_drains_and_a_second_one_abandons(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, producer.hear())
        launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, producer.hear(), "it may abandon by itself, and write its account")
        launcher.send_signal(signal.SIGINT)
        self.assertIsNone(producer.hear(), "a third one kills")
        self.assertIsNone(consumers[0].hear())
        said, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(130, launcher.returncode, said)
        self.assertEqual("producer sweep", self.stage.errands()[-1])

    def test_a_drained_run_ends_with_the_producers_code(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual({"signal": "SIGTERM"}, producer.hear())
        self.stage.end(launcher, producer, consumers, code=84)
        self.assertEqual(84, launcher.returncode)

    def test_the_launchers_death_is_seen_by_all(self):
        launcher, producer, consumers = self.stage.start_run(2)
        launcher.kill()
        for puppet in (producer, *consumers):
            self.assertEqual({"lifeline": "ended"}, puppet.hear())
            self.assertTrue(wait_until_gone(puppet.pid))

    def test_a_terminals_signals_reach_the_launcher_only(self):
        launcher, producer, consumers = self.stage.start_run(1)
        for puppet in (producer, *consumers):
            self.assertEqual(puppet.pid, os.getpgid(puppet.pid))
        self.stage.end(launcher, producer, consumers)

    def test_warnings_are_relayed_and_the_rest_stays_in_the_log(self):
        launcher, producer, consumers = self.stage.start_run(1)
        producer.order(log="12:00:00.000 warning offramp-producer[1] no weights were given")
        producer.order(log="12:00:00.000 warning offramp-producer[1] a \x1b]0;title\x07 \u009b31m name [/x]")
        producer.order(log="12:00:00.000 info    offramp-producer[1] all is well")
        said = self.stage.end(launcher, producer, consumers)
        self.assertIn("producer: warning: no weights were given", said)
        self.assertIn("producer: warning: a \\x1b]0;title\\x07 \\x9b31m name [/x]", said)
        self.assertNotIn("all is well", said)

    def test_what_is_left_of_a_run_is_made_by_the_command_at_its_end(self):
        output = str(self.stage.folder / "of two words")
        launcher, producer, consumers = self.stage.start_run(1, "--output", output)
        said = self.stage.end(launcher, producer, consumers, code=130)
        self.assertIn(f"  go on      (cd {os.getcwd()} && {OFFRAMP} run --consumers 1 --output '{output}' --resume)\n", said)

    def test_that_command_means_the_same_wherever_it_is_typed(self):
        here, elsewhere = self.stage.folder / "of two words", self.stage.folder / "elsewhere"
        for folder in (here, elsewhere):
            folder.mkdir()
        self.stage.working_folder = here
        launcher, producer, consumers = self.stage.start_run(1, "--input", "photos", "--output", "masks")
        said = self.stage.end(launcher, producer, consumers, code=130)
        command = re.search(r"  go on      (.*)\n", said)[1]
        self.stage.working_folder = elsewhere
        launcher = self.stage.launch_shell(command)
        again = [self.stage.enter() for _ in range(2)]
        producer = next(puppet for puppet in again if puppet.role == "producer")
        settings = json.loads((pathlib.Path(producer.flag("--run-dir")) / "config.json").read_text())
        self.assertEqual(("photos", str(here / "masks")), (settings["input"], settings["output"]))
        self.assertEqual(str(here), os.readlink(f"/proc/{producer.pid}/cwd"))
        self.assertIn("--resume", producer.argv)
        self.stage.end(launcher, producer, [puppet for puppet in again if puppet is not producer])
        self.assertEqual([], os.listdir(elsewhere))

    def test_a_run_without_an_output_of_its_own_continues_by_its_directory(self):
        launcher, producer, consumers = self.stage.start_run(1, "--run-id", "this-one")
        said = self.stage.end(launcher, producer, consumers, code=73)
        self.assertIn(f"  go on      (cd {os.getcwd()} && {OFFRAMP} run --consumers 1 --run-dir {producer.flag('--run-dir')} --resume)\n", said)
        self.assertEqual("this-one", producer.flag("--run-id"))

    def test_a_run_that_has_replaced_nothing_yet_is_begun_again(self):
        output = self.stage.folder / "masks"
        output.mkdir()
        for noted, flags, wanted in (("former", ("--overwrite",), "--overwrite"), ("former", (), ""), ("former", ("--resume",), "--resume"),
                                     ("this-one", ("--overwrite",), "--resume")):
            header = {"run": noted, "identity": {"items": "8"}}
            (output / ".offramp-checkpoint").write_text(json.dumps(header) + "\n" + json.dumps({"done": [[0, 4]]}) + "\n")
            launcher, producer, consumers = self.stage.start_run(1, "--output", str(output), *flags, "--run-id", "this-one")
            command = re.search(r"  go on      (.*)\)\n", self.stage.end(launcher, producer, consumers, code=130))[1]
            self.assertEqual([wanted] if wanted else [], [word for word in command.split() if word in ("--overwrite", "--resume")], command)

    def test_nothing_continues_after_a_wrong_setting_nor_after_a_complete_run(self):
        for code, summary in ((64, None), (66, None), (0, {"samples": {"released": 8}})):
            launcher, producer, consumers = self.stage.start_run(1)
            orders = {"summary": summary} if summary else {}
            self.assertNotIn("--resume", self.stage.end(launcher, producer, consumers, code=code, **orders))

    def test_a_folder_of_the_users_own_is_no_run_directory_and_stays_as_it_is(self):
        folder = self.stage.folder / "mine"
        folder.mkdir(mode=0o755)
        (folder / "logs").mkdir()
        for name in ("config.json", "summary.json", "status.json", "logs/producer.log"):
            (folder / name).write_text("mine")
        code, said = self.stage.call("run", "--run-dir", str(folder))
        self.assertEqual(64, code, said)
        self.assertIn("is not a run's directory", said)
        self.assertEqual(["config.json", "logs", "logs/producer.log", "status.json", "summary.json"],
                         sorted(str(path.relative_to(folder)) for path in folder.rglob("*")))
        self.assertEqual({"mine"}, {path.read_text() for path in folder.rglob("*") if path.is_file()})
        self.assertEqual(0o755, folder.stat().st_mode & 0o777)

    def test_results_among_their_input_are_refused_before_anything_is_made(self):
        pictures = self.stage.folder / "pictures"
        pictures.mkdir()
        for output in (pictures, pictures / "masks", pictures / "a" / ".." / "masks"):
            code, said = self.stage.call("run", "--input", str(pictures), "--output", str(output), "--run-dir", str(self.stage.folder / "run"))
            self.assertEqual(64, code, said)
            self.assertIn("results could replace what they are made from", said)
        code, said = self.stage.call("run", "--input", str(pictures), "--run-dir", str(pictures / "run"))
        self.assertEqual(64, code, said)
        self.assertIn(f"the folder for results, {pictures}/run/output, is in the --input folder", said)
        self.assertEqual([], os.listdir(pictures))
        self.assertFalse((self.stage.folder / "run").exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root may start programs as another user")
    def test_consumers_run_as_their_own_user(self):
        nobody = pwd.getpwnam("nobody")
        self.stage.folder.chmod(0o755)
        (self.stage.folder / "door").chmod(0o777)
        os.close(os.open(self.stage.environment["PUPPET_ERRANDS"], os.O_CREAT | os.O_WRONLY, 0o666))
        os.chmod(self.stage.environment["PUPPET_ERRANDS"], 0o666)
        if not all(reachable_as(nobody, path) for path in (os.path.abspath(__file__), os.__file__, sys.executable)):
            self.skipTest("another user can read neither this folder nor this Python")
        launcher, producer, consumers = self.stage.start_run(1, "--consumer-user", "nobody")
        self.assertEqual((0, nobody.pw_uid), (producer.uid, consumers[0].uid))
        (group,) = set(consumers[0].groups)
        self.assertNotIn(group, (nobody.pw_gid, os.getgid()), "nor the launcher's, to which other files are open, nor one that others are in")
        self.assertEqual(group, producer.groups[0], "whose files they are to read")
        self.assertEqual(group, os.stat(producer.flag("--run-dir")).st_gid)
        self.assertEqual(nobody.pw_uid, os.stat(producer.flag("--output")).st_uid)
        self.assertEqual(0o710, os.stat(producer.flag("--run-dir")).st_mode & 0o777)
        self.stage.end(launcher, producer, consumers)
        self.assertEqual(0, launcher.returncode)


class ControlTest(unittest.TestCase):
    def setUp(self):
        self.stage = Stage()
        self.addCleanup(self.stage.close)

    def test_scale_adds_and_drains_the_newest(self):
        launcher, producer, consumers = self.stage.start_run(1)
        code, said = self.stage.call("scale", "3")
        self.assertEqual(0, code, said)
        added = [self.stage.enter(), self.stage.enter()]
        self.assertEqual(0, self.stage.call("scale", "1")[0])
        for puppet in added:
            self.assertEqual({"signal": "SIGTERM"}, puppet.hear())
            puppet.order(exit=0)
        self.stage.end(launcher, producer, consumers)
        self.assertTrue(self.stage.nobody_enters_before(launcher))
        self.assertEqual(3, len(self.stage.summary()["consumers"]))

    def told(self):
        code, said = self.stage.call("status", "--json")
        self.assertEqual(0, code, said)
        return json.loads(said)

    def test_consumers_follow_the_work_until_a_number_is_given(self):
        launcher = self.stage.launch("run", "--consumers", "1..3")
        entered = [self.stage.enter() for _ in range(3)]
        producer, consumers = entered.pop(next(number for number, each in enumerate(entered) if each.role == "producer")), entered
        # It waits for slabs all of the time, while two consumers do two slabs a second each.
        seconds = 0

        def a_third_is_wanted():
            nonlocal seconds
            seconds += 3
            each = {"slabs": 6 * seconds, "samples": 24 * seconds, "busy_seconds": float(seconds), "ready": True, "end": ""}
            producer.order(status={"state": "running", "pid": producer.pid, "now_ns": seconds * 10**9, "released_samples": 48 * seconds, "last_release_ns": seconds * 10**9,
                                   "slab_wait_seconds": 0.4 * seconds, "slabs": {"free": 2, "leased": 2, "filling": 4},
                                   "consumers": [{"session": session, **each} for session in (1, 2)]})
            until(lambda: self.told()["status"].get("now_ns") == seconds * 10**9)
            return self.told()["consumers_wanted"] == 3

        until(a_third_is_wanted)
        consumers.append(self.stage.enter())
        self.assertEqual({"bounds": "1..3", "follows": True, "changes": 1}, {name: self.told()["following"][name] for name in ("bounds", "follows", "changes")})
        self.assertIn("(within 1..3 as the work wants; changes: 1, ", self.stage.call("status")[1])
        code, said = self.stage.call("scale", "2")
        self.assertIn("3 -> 2 consumers, which do not follow the work any more", said)
        self.assertEqual({"signal": "SIGTERM"}, consumers[2].hear(), "the newest")
        consumers.pop().order(exit=0)
        self.assertIs(False, self.told()["following"]["follows"])
        code, said = self.stage.call("scale", "3..5")
        self.assertIn("2 -> 3 consumers, which follow the work from now on, within 3..5", said)
        consumers.append(self.stage.enter())
        self.assertEqual(64, self.stage.call("scale", "5..3")[0])
        self.assertIn("3 -> 3 consumers, which follow the work from now on, within 1..", self.stage.call("scale", "auto")[1])
        said = self.stage.end(launcher, producer, consumers)
        self.assertIn("consumers: 2 -> 3: the run waits for consumers 40 % of the time", said)
        self.assertEqual(1, self.stage.summary()["following"]["changes"])
        self.assertIn('consumers = "1..3"', next((self.stage.folder / "build" / "runs").glob("*/config.toml")).read_text())

    def test_a_consumer_that_dies_while_it_drains_is_not_started_again(self):
        launcher, producer, consumers = self.stage.start_run(1)
        self.stage.call("scale", "2")
        added = self.stage.enter()
        self.stage.call("scale", "1")
        kill(added)
        self.assertTrue(wait_until_gone(added.pid))
        self.stage.end(launcher, producer, consumers)
        self.assertTrue(self.stage.nobody_enters_before(launcher))

    def test_status_prints_the_producers_values(self):
        launcher, producer, consumers = self.stage.start_run(1)
        answers = []

        def shows_the_status():
            code, said = self.stage.call("status", "--json")
            self.assertEqual(0, code, said)
            answers.append(json.loads(said))
            return answers[-1]["status"].get("total_samples") == 8

        until(shows_the_status)
        self.assertEqual((1, 1, producer.pid),
                         (answers[-1]["consumers_wanted"], answers[-1]["consumers_alive"], answers[-1]["producer_pid"]))
        self.stage.end(launcher, producer, consumers)

    def test_stop_drains_and_returns_when_the_run_has_ended(self):
        launcher, producer, consumers = self.stage.start_run(1)
        stop = self.stage.launch("stop")
        self.assertEqual({"signal": "SIGTERM"}, producer.hear())
        self.assertIsNone(stop.poll())
        self.stage.end(launcher, producer, consumers)
        said, _ = stop.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, stop.returncode, said)
        self.assertTrue(self.stage.summary())

    def test_stop_now_abandons(self):
        for _ in range(3):      # two signals that come while the producer has no core are one
            if self.is_abandoned():
                return
            self.stage = Stage()
            self.addCleanup(self.stage.close)
        self.fail("the second SIGTERM, which abandons, never came")

    def is_abandoned(self):
        """It is asked to drain, then to abandon; whether it heard both."""
        launcher, producer, consumers = self.stage.start_run(1)
        stop = self.stage.launch("stop", "--now")
        self.assertEqual({"signal": "SIGTERM"}, producer.hear(), "drain")
        if (abandon := producer.hear()) is not None:
            self.assertEqual({"signal": "SIGTERM"}, abandon)
            self.assertIsNone(producer.hear(), "one that does neither is killed")
        self.assertIsNone(consumers[0].hear())
        stop.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, stop.returncode)
        launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(130, launcher.returncode)
        return abandon is not None

    def test_a_launcher_that_is_stopped_is_not_waited_for(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGSTOP)
        try:
            for command in (["status"], ["scale", "2"], ["stop"]):
                code, said = self.stage.call(*command)
                self.assertEqual(69, code, said)
                self.assertIn("lives and gives no answer", said)
        finally:
            launcher.send_signal(signal.SIGCONT)
        # Requests made meanwhile are carried out: one consumer is added, then all drain.
        added = self.stage.enter()
        self.assertEqual({"signal": "SIGTERM"}, producer.hear())
        self.stage.end(launcher, producer, [*consumers, added])

    def test_an_ending_run_takes_no_more_consumers(self):
        launcher, producer, consumers = self.stage.start_run(1)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, producer.hear())
        code, said = self.stage.call("scale", "2")
        self.assertEqual(69, code, said)
        self.stage.end(launcher, producer, consumers)

    def test_bad_numbers_are_refused_with_the_value(self):
        launcher, producer, consumers = self.stage.start_run(1)
        for value in ("0", "-1", "65", "two", "1.5", "99999999999999999999"):
            code, said = self.stage.call("scale", value)
            self.assertEqual(64, code, said)
            self.assertIn(value, said)
        self.stage.end(launcher, producer, consumers)

    def test_without_a_run_there_is_nothing_to_control(self):
        for command in (["scale", "2"], ["stop"], ["status"], ["status", "--run-dir", "/nowhere"]):
            code, said = self.stage.call(*command)
            self.assertEqual(69, code, said)
            self.assertIn("no live run", said)

    def test_of_several_runs_one_must_be_named(self):
        first = self.stage.start_run(1)
        second_dir = str(self.stage.folder / "elsewhere")
        second = self.stage.start_run(1, "--run-dir", second_dir)
        code, said = self.stage.call("status")
        self.assertEqual(64, code)
        self.assertIn(f"--run-dir {second_dir}", said)
        self.assertEqual(0, self.stage.call("status", "--run-dir", second_dir)[0])
        self.stage.end(*first)
        self.stage.end(*second)

    def test_a_second_run_in_the_same_directory_is_refused(self):
        run_dir = str(self.stage.folder / "run")
        launcher, producer, consumers = self.stage.start_run(1, "--run-dir", run_dir)
        code, said = self.stage.call("run", "--run-dir", run_dir)
        self.assertEqual(85, code, said)
        self.assertIn(run_dir, said)
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
        code, said = self.stage.call("run", "--colour", "red")
        self.assertEqual(64, code)
        self.assertIn("unknown flag --colour", said)

    def test_more_consumers_than_a_run_can_hold_are_refused(self):
        code, said = self.stage.call("run", "--consumers", "65")
        self.assertEqual(64, code)
        self.assertIn("--consumers 65", said)

    def test_a_run_directory_too_deep_for_a_socket_is_refused(self):
        code, said = self.stage.call("run", "--run-dir", "/tmp/" + "deep/" * 30)
        self.assertEqual(64, code)
        self.assertIn("too long", said)


if __name__ == "__main__":
    unittest.main()
