import pathlib
import signal
import sys
import unittest

from stage import OFFRAMP, WATCHDOG_SECONDS, Stage, kill, wait_until_gone

from offramp_launch.exit_code import ExitCode
from offramp_launch.supervision.recovery import Recovery

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support.small_memory import small_memory  # noqa: E402


class RecoveryTest(unittest.TestCase):
    def setUp(self):
        self.stage = Stage()
        self.addCleanup(self.stage.close)

    def start_run(self, restarts, consumers=1, *flags):
        launcher, producer, seats = self.stage.start_run(consumers, "--producer-restarts", str(restarts), *flags)
        producer.order(meet=True)
        return launcher, producer, seats

    def test_a_killed_producer_is_followed_by_one_that_takes_over(self):
        launcher, producer, consumers = self.start_run(3, 2)
        kill(producer)
        successor = self.stage.enter()
        self.assertEqual("producer", successor.role, "the consumers are still there")
        self.assertIn("recover", successor.argv)
        self.assertNotIn("recover", producer.argv)
        self.assertEqual([word for word in successor.argv if word != "recover"], producer.argv, "everything else is as before")
        said = self.stage.end(launcher, successor, consumers, summary={})
        self.assertEqual(0, launcher.returncode, said)
        self.assertIn("1 of 3", said)
        self.assertEqual(1, self.stage.summary()["producer_restarts"])

    def test_one_that_died_before_anyone_could_join_left_nothing_to_take_over(self):
        launcher, producer, consumers = self.stage.start_run(1, "--producer-restarts", "1")
        kill(producer)
        successor = self.stage.enter()
        self.assertNotIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_one_that_was_swept_before_anyone_held_it_begins_anew(self):
        self.stage.sweep()
        launcher, producer, consumers = self.start_run(1)
        kill(producer)
        successor = self.stage.enter()
        self.assertNotIn("recover", successor.argv, "there is nothing to take over any more")
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_one_that_died_after_its_account_is_not_followed(self):
        for told in (0, int(ExitCode.DEAD_LETTERS)):
            with self.subTest(told=told):
                launcher, producer, consumers = self.start_run(3)
                producer.order(summary={"exit": told})
                consumers[0].order(exit=0)
                kill(producer)
                said, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
                self.assertEqual(told, launcher.returncode, said)
                self.assertIn("the run was over by then", said)
                self.assertEqual([], [word for word in said.splitlines() if "takes over" in word])

    def test_one_that_died_of_an_error_it_had_reported_is_followed(self):
        launcher, producer, consumers = self.start_run(3)
        producer.order(summary={"exit": None})
        kill(producer)
        successor = self.stage.enter()
        self.assertIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_when_the_restarts_are_used_up_the_run_ends_and_reports_it(self):
        launcher, producer, consumers = self.start_run(2)
        for _ in range(2):
            kill(producer)
            producer = self.stage.enter()
            producer.order(meet=True)
        kill(producer)
        self.assertEqual({"signal": "SIGTERM"}, consumers[0].hear())
        consumers[0].order(exit=86)
        said, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(128 + signal.SIGKILL, launcher.returncode, said)
        self.assertIn("died 3 times", said)
        self.assertIn("--producer-restarts", said)
        self.assertTrue(self.stage.nobody_enters_before(launcher))

    def test_a_lost_device_is_a_death(self):
        launcher, producer, consumers = self.start_run(1)
        producer.order(exit=82)
        successor = self.stage.enter()
        self.assertIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_an_unknown_exit_code_is_a_death(self):
        for code in (3, 2, 127, 255):
            self.assertTrue(Recovery.is_death(code, True), code)
        launcher, producer, consumers = self.start_run(1)
        producer.order(exit=3)
        successor = self.stage.enter()
        self.assertIn("recover", successor.argv)
        said = self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode, said)

    def test_what_a_producer_means_is_no_death(self):
        for code in (ExitCode.OK, ExitCode.INTERNAL, ExitCode.USAGE, ExitCode.BAD_INPUT, ExitCode.NO_INPUT, ExitCode.COUNT_MISMATCH,
                     ExitCode.CANNOT_WRITE, ExitCode.PROTOCOL, ExitCode.CONFIG, ExitCode.SHARED_MEMORY_FULL, ExitCode.DEAD_LETTERS,
                     ExitCode.DEVICE_UNSUPPORTED, ExitCode.RUN_IN_USE, ExitCode.INTERRUPTED):
            self.assertFalse(Recovery.is_death(code, True), code)
        self.assertFalse(Recovery.is_death(ExitCode.DEVICE_OUT_OF_MEMORY, False))
        self.assertTrue(Recovery.is_death(ExitCode.DEVICE_OUT_OF_MEMORY, True))
        launcher, producer, consumers = self.start_run(3)
        producer.order(exit=65)
        consumers[0].order(exit=0)
        launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(65, launcher.returncode)
        self.assertTrue(self.stage.nobody_enters_before(launcher))

    def test_one_that_is_too_big_while_it_sets_up_ends_the_run_with_its_own_reason(self):
        """It can be met by then, but what could be taken over goes with it."""
        for gone, lock in ((self.stage.remove_memory, "stays"), (self.stage.sweep, "goes, too")):
            with self.subTest(lock=lock):
                launcher, producer, consumers = self.start_run(3)
                gone()
                producer.order(log="[2026-11-24 05:00:00.000] [error] offramp-producer: out of memory for a batch. Use a smaller --batch", exit=81)
                consumers[0].order(exit=69)
                said, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
                self.assertEqual(81, launcher.returncode, said)
                self.assertIn("Use a smaller --batch", said.splitlines()[-1])
                self.assertNotIn("takes over", said)
                self.assertTrue(self.stage.nobody_enters_before(launcher))

    def test_one_that_the_kernel_ends_for_want_of_memory_before_anything_was_done_is_not_followed(self):
        for done in (0, 3):
            with self.subTest(done=done), small_memory(self, 192 << 20) as processes:
                launcher = self.stage.launch_shell(f"echo $$ > {processes}; exec {OFFRAMP} run --consumers 1 --producer-restarts 3")
                entered = {puppet.role: puppet for puppet in (self.stage.enter(), self.stage.enter())}
                producer, consumer = entered["producer"], entered["consumer"]
                producer.order(meet=True, status={"state": "running", "done_samples": done, "released_samples": done, "total_samples": 8})
                producer.order(eats=True)
                if done:
                    self.stage.end(launcher, self.stage.enter(), [consumer], summary={})
                    self.assertEqual(0, launcher.returncode)
                    continue
                self.assertEqual({"signal": "SIGTERM"}, consumer.hear())
                consumer.order(exit=86)
                said, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
                self.assertEqual(71, launcher.returncode, said)
                self.assertRegex(said, r"too little memory for this run: its producer was killed before any batch was done, with 0\.\d GiB of its own \(the kernel ended a process of "
                                 r"this control group for want of memory; its limit is 0\.2 GiB\); of this machine's [\d.]+ GiB, [\d.]+ GiB are available now")
                self.assertIn("smaller --batch", said)
                self.assertNotIn("takes over", said)
                self.assertTrue(self.stage.nobody_enters_before(launcher))

    def test_a_full_device_in_the_midst_of_a_run_is_a_death(self):
        launcher, producer, consumers = self.start_run(1)
        producer.order(exit=81)
        successor = self.stage.enter()
        self.assertIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_one_that_lost_its_device_while_it_set_up_is_followed_by_one_that_begins_anew(self):
        launcher, producer, consumers = self.start_run(2)
        self.stage.remove_memory()
        producer.order(exit=82)
        successor = self.stage.enter()
        self.assertNotIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_a_run_that_is_being_drained_gets_no_other_producer(self):
        launcher, producer, consumers = self.start_run(3)
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual({"signal": "SIGTERM"}, producer.hear())
        kill(producer)
        self.assertTrue(wait_until_gone(producer.pid))
        consumers[0].order(exit=86)
        launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(128 + signal.SIGKILL, launcher.returncode)
        self.assertTrue(self.stage.nobody_enters_before(launcher))

    def test_a_rung_whose_slabs_go_with_the_producer_reports_it(self):
        launcher, producer, consumers = self.start_run(3, 1, "--strategy", "workers")
        kill(producer)
        self.assertTrue(wait_until_gone(producer.pid))
        consumers[0].order(exit=86)
        said, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(128 + signal.SIGKILL, launcher.returncode)
        self.assertIn("--strategy workers does not survive", said)

    def test_a_consumer_that_dies_in_between_is_started_again(self):
        launcher, producer, consumers = self.start_run(3)
        kill(producer)
        kill(consumers[0])
        entered = {puppet.role: puppet for puppet in (self.stage.enter(), self.stage.enter())}
        self.assertEqual({"producer", "consumer"}, set(entered))
        self.stage.end(launcher, entered["producer"], [entered["consumer"]])
        self.assertEqual(0, launcher.returncode)


if __name__ == "__main__":
    unittest.main()
