"""The command `reload`: a new consumer processes slabs before an old one is drained, and one that cannot start changes nothing."""

import json
import signal
import unittest

from stage import WATCHDOG_SECONDS, Stage, kill, until


class ReloadTest(unittest.TestCase):
    def setUp(self):
        self.stage = Stage()
        self.addCleanup(self.stage.close)

    def start(self, consumers):
        self.launcher, self.producer, self.consumers = self.stage.start_run(consumers)
        self.command = self.stage.launch("reload")

    def enter(self):
        puppet = self.stage.enter()
        self.assertEqual("consumer", puppet.role)
        return puppet

    def take_slabs(self, *puppets, but=(), stalled=()):
        """The run says so of these, and of others that they do not, or that they are stalled."""
        told = [*((puppet.pid, True) for puppet in puppets), *((puppet.pid, False) for puppet in but)]
        self.producer.order(status={"state": "running", "done_samples": len(told), "total_samples": 8,
                                    "consumers": [{"pid": pid, "ready": ready, "holding": 0, "stalled": pid in stalled} for pid, ready in told]})
        return len(told)

    def wait_until_that_is_seen(self, done):
        until(lambda: json.loads(self.stage.call("status", "--json")[1])["status"].get("done_samples") == done)

    def leave(self, *candidates):
        """The one of these that is sent away, and goes."""
        until(lambda: any(puppet.has_said_something() for puppet in candidates))
        leaver = next(puppet for puppet in candidates if puppet.has_said_something())
        self.assertEqual({"signal": "SIGTERM"}, leaver.hear())
        leaver.order(exit=0)
        return leaver

    def assert_nobody_was_sent_away(self):
        self.assertFalse(any(puppet.has_said_something() for puppet in self.consumers))

    def end_of_command(self, code):
        said, _ = self.command.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(code, self.command.returncode, said)
        return said

    def end(self, *consumers):
        self.stage.end(self.launcher, self.producer, consumers)
        self.assertEqual(0, self.launcher.returncode)
        self.assertTrue(self.stage.nobody_enters_before(self.launcher))
        return self.stage.summary()

    def test_each_is_replaced_by_one_that_takes_slabs_before(self):
        self.start(2)
        old, new = list(self.consumers), []
        for number in range(2):
            new.append(self.enter())
            self.wait_until_that_is_seen(self.take_slabs(*old, *new[:-1], but=new[-1:]))
            self.assert_nobody_was_sent_away()      # since the newcomer takes no slabs yet
            self.take_slabs(*old, *new)
            gone = self.leave(*old)
            old.remove(gone)
            self.consumers.remove(gone)
        said = self.end_of_command(0)
        self.assertEqual(["0 of 2", "2 of 2"], [said.splitlines()[line].split(": ")[1].removesuffix(" consumers replaced") for line in (0, -1)])
        self.assertEqual(4, len(self.end(*new)["consumers"]))

    def test_an_old_one_that_does_not_finish_its_slab_is_killed_once_it_is_stalled(self):
        self.start(2)
        old, new = list(self.consumers), [self.enter()]
        self.take_slabs(*old, *new, stalled=[each.pid for each in old])
        until(lambda: any(puppet.has_said_something() for puppet in old))
        hanging = next(puppet for puppet in old if puppet.has_said_something())
        self.assertEqual({"signal": "SIGTERM"}, hanging.hear())
        self.assertIsNone(hanging.hear(), "it does not go, and is killed")
        old.remove(hanging)
        new.append(self.enter())
        self.take_slabs(*old, *new)
        self.leave(*old)
        self.assertIn("2 of 2 consumers replaced", self.end_of_command(0))
        ends = {each["pid"]: each["exit"] for each in self.end(*new)["consumers"]}
        self.assertEqual(({hanging.pid}, 4), ({pid for pid, code in ends.items() if code == -signal.SIGKILL}, len(ends)))

    def test_a_newcomer_that_cannot_begin_changes_nothing_and_its_reason_is_reported(self):
        self.start(2)
        self.enter().order(log="12:00:00.000 error   offramp-consumer[1] ModuleNotFoundError: No module named 'nothing'", exit=64)
        said = self.end_of_command(64)
        self.assertRegex(said, r"2 of 2 consumers stay as they were: consumer-3.* ended with exit code 64: ModuleNotFoundError: No module named 'nothing'")
        self.assert_nobody_was_sent_away()
        summary = self.end(*self.consumers)
        self.assertEqual((0, 3), (summary["exit"], len(summary["consumers"])), "the run did not fail of it")

    def test_one_that_dies_meanwhile_is_followed_by_a_new_one_that_need_not_be_replaced(self):
        self.start(1)
        newcomer = self.enter()
        kill(self.consumers.pop())
        follower = self.enter()
        self.take_slabs(newcomer, follower)
        self.consumers = [newcomer]
        self.assertIs(newcomer, self.leave(newcomer), "one too many")
        self.end_of_command(0)
        self.end(follower)

    def test_a_second_reload_takes_the_place_of_one_whose_newcomer_hangs(self):
        self.start(1)
        hanging = self.enter()
        first, self.command = self.command, self.stage.launch("reload")
        self.assertEqual({"signal": "SIGTERM"}, hanging.hear())
        newcomer = self.enter()
        said, _ = first.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(130, first.returncode, said)
        self.assertIn("another reload has taken its place", said)
        self.take_slabs(*self.consumers, newcomer)
        self.leave(*self.consumers)
        self.end_of_command(0)
        self.assertIsNone(hanging.hear(), "who does not go is killed")
        self.assertEqual(-signal.SIGKILL, next(each["exit"] for each in self.end(newcomer)["consumers"] if each["pid"] == hanging.pid))

    def test_a_run_that_ends_ends_the_reload(self):
        self.start(1)
        newcomer = self.enter()
        self.launcher.send_signal(signal.SIGINT)
        self.assertEqual({"signal": "SIGTERM"}, self.producer.hear())
        self.assertEqual({"signal": "SIGTERM"}, newcomer.hear())
        newcomer.order(exit=0)      # before its two seconds are over
        self.assertIn("the run is ending", self.end_of_command(69))
        code, said = self.stage.call("reload")
        self.assertEqual((69, True), (code, "takes no consumers any more" in said), said)
        self.end(*self.consumers)

    def test_there_must_be_room_for_one_more(self):
        self.launcher, self.producer, self.consumers = self.stage.start_run(64)
        code, said = self.stage.call("reload")
        self.assertEqual(64, code, said)
        self.assertIn("scale 63", said)
        self.end(*self.consumers)

    def test_without_a_run_there_is_nothing_to_reload(self):
        self.assertEqual(69, self.stage.call("reload")[0])
        self.assertEqual(64, self.stage.call("reload", "now")[0])


if __name__ == "__main__":
    unittest.main()
