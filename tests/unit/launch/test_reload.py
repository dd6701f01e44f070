"""The command `reload`: a new consumer takes slabs before an old one drains, and a failed start changes nothing."""

import json
import signal

from stage import WATCHDOG_SECONDS, OnStage, kill, until


class ReloadTest(OnStage):
    def start(self, consumers):
        self.launcher, self.producer, self.consumers = self.stage.start_run(consumers)
        self.command = self.stage.launch("reload")

    def enter(self):
        puppet = self.stage.enter()
        self.assertEqual("consumer", puppet.role)
        return puppet

    def take_slabs(self, *puppets, but=(), stalled=()):
        """
        The run reports that these consumers take slabs and those of `but` do not. `stalled`: pids of stalled ones.
        """
        states = [*((puppet.pid, True) for puppet in puppets), *((puppet.pid, False) for puppet in but)]
        self.producer.order(
            status={
                "state": "running",
                "done_samples": len(states),
                "total_samples": 8,
                "consumers": [
                    {"pid": pid, "ready": ready, "holding": 0, "stalled": pid in stalled} for pid, ready in states
                ],
            }
        )
        return len(states)

    def wait_until_seen(self, done):
        until(lambda: json.loads(self.stage.call("status", "--json")[1])["status"].get("done_samples") == done)

    def leave(self, *candidates):
        """Waits until one of the candidates is asked to drain, ends it and returns it."""
        until(lambda: any(puppet.has_message() for puppet in candidates))
        leaver = next(puppet for puppet in candidates if puppet.has_message())
        self.assertEqual({"signal": "SIGTERM"}, leaver.next_message())
        leaver.order(exit=0)
        return leaver

    def assert_no_consumer_drains(self):
        self.assertFalse(any(puppet.has_message() for puppet in self.consumers))

    def end_of_command(self, code):
        output, _ = self.command.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(code, self.command.returncode, output)
        return output

    def end(self, *consumers):
        self.stage.end(self.launcher, self.producer, consumers)
        self.assertEqual(0, self.launcher.returncode)
        self.assertTrue(self.stage.no_puppet_starts_before(self.launcher))
        return self.stage.summary()

    def test_each_consumer_drains_after_its_replacement_takes_slabs(self):
        self.start(2)
        old, new = list(self.consumers), []
        for number in range(2):
            new.append(self.enter())
            self.wait_until_seen(self.take_slabs(*old, *new[:-1], but=new[-1:]))
            self.assert_no_consumer_drains()  # because the newcomer takes no slabs yet
            self.take_slabs(*old, *new)
            gone = self.leave(*old)
            old.remove(gone)
            self.consumers.remove(gone)
        output = self.end_of_command(0)
        self.assertEqual(
            ["0 of 2", "2 of 2"],
            [output.splitlines()[line].split(": ")[1].removesuffix(" consumers replaced") for line in (0, -1)],
        )
        self.assertEqual(4, len(self.end(*new)["consumers"]))

    def test_a_stalled_old_consumer_is_killed(self):
        self.start(2)
        old, new = list(self.consumers), [self.enter()]
        self.take_slabs(*old, *new, stalled=[each.pid for each in old])
        until(lambda: any(puppet.has_message() for puppet in old))
        hanging = next(puppet for puppet in old if puppet.has_message())
        self.assertEqual({"signal": "SIGTERM"}, hanging.next_message())
        self.assertIsNone(hanging.next_message(), "a consumer that does not exit is killed")
        old.remove(hanging)
        new.append(self.enter())
        self.take_slabs(*old, *new)
        self.leave(*old)
        self.assertIn("2 of 2 consumers replaced", self.end_of_command(0))
        ends = {each["pid"]: each["exit"] for each in self.end(*new)["consumers"]}
        self.assertEqual(
            ({hanging.pid}, 4), ({pid for pid, code in ends.items() if code == -signal.SIGKILL}, len(ends))
        )

    def test_a_newcomer_that_cannot_start_changes_nothing(self):
        self.start(2)
        self.enter().order(
            log="12:00:00.000 error   offramp-consumer[1] ModuleNotFoundError: No module named 'nothing'", exit=64
        )
        output = self.end_of_command(64)
        self.assertRegex(
            output,
            r"2 of 2 consumers were not replaced: consumer-3.* ended with exit code 64: ModuleNotFoundError: No module named 'nothing'",
        )
        self.assert_no_consumer_drains()
        summary = self.end(*self.consumers)
        self.assertEqual((0, 3), (summary["exit"], len(summary["consumers"])), "the run did not fail")

    def test_a_consumer_restarted_meanwhile_is_not_replaced(self):
        self.start(1)
        newcomer = self.enter()
        kill(self.consumers.pop())
        follower = self.enter()
        self.take_slabs(newcomer, follower)
        self.consumers = [newcomer]
        self.assertIs(newcomer, self.leave(newcomer), "one consumer too many drains")
        self.end_of_command(0)
        self.end(follower)

    def test_a_second_reload_replaces_a_hanging_one(self):
        self.start(1)
        hanging = self.enter()
        first, self.command = self.command, self.stage.launch("reload")
        self.assertEqual({"signal": "SIGTERM"}, hanging.next_message())
        newcomer = self.enter()
        output, _ = first.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(130, first.returncode, output)
        self.assertIn("another reload has superseded it", output)
        self.take_slabs(*self.consumers, newcomer)
        self.leave(*self.consumers)
        self.end_of_command(0)
        self.assertIsNone(hanging.next_message(), "a consumer that does not exit is killed")
        self.assertEqual(
            -signal.SIGKILL,
            next(each["exit"] for each in self.end(newcomer)["consumers"] if each["pid"] == hanging.pid),
        )

    def test_the_end_of_the_run_ends_the_reload(self):
        self.start(1)
        newcomer = self.enter()
        self.launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, self.producer.next_message())
        self.assertEqual({"signal": "SIGTERM"}, newcomer.next_message())
        newcomer.order(exit=0)  # within its two seconds of grace
        self.assertIn("the run is ending", self.end_of_command(69))
        code, output = self.stage.call("reload")
        self.assertEqual((69, True), (code, "accepts no more consumers" in output), output)
        self.end(*self.consumers)

    def test_needs_room_for_one_more_consumer(self):
        self.launcher, self.producer, self.consumers = self.stage.start_run(64)
        code, output = self.stage.call("reload")
        self.assertEqual(64, code, output)
        self.assertIn("scale 63", output)
        self.end(*self.consumers)

    def test_refused_without_a_run(self):
        self.assertEqual(69, self.stage.call("reload")[0])
        self.assertEqual(64, self.stage.call("reload", "a", "b")[0])
        self.assertEqual(64, self.stage.call("reload", "--now")[0])
