import pathlib
import signal
import sys

from stage import OFFRAMP, WATCHDOG_SECONDS, OnStage, kill, wait_until_gone

from offramp_launch.exit_code import ExitCode
from offramp_launch.supervision.recovery import Recovery

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support.small_memory import small_memory  # noqa: E402


class RecoveryTest(OnStage):
    def start_run(self, restarts, consumers=1, *flags):
        launcher, producer, started = self.stage.start_run(consumers, "--producer-restarts", str(restarts), *flags)
        producer.order(meet=True)
        return launcher, producer, started

    def test_another_producer_takes_over_from_a_killed_one(self):
        launcher, producer, consumers = self.start_run(3, 2)
        kill(producer)
        successor = self.stage.enter()
        self.assertEqual("producer", successor.role, "no consumer is restarted")
        self.assertIn("recover", successor.argv)
        self.assertNotIn("recover", producer.argv)
        self.assertEqual(
            [word for word in successor.argv if word != "recover"], producer.argv, "the other arguments are the same"
        )
        output = self.stage.end(launcher, successor, consumers, summary={})
        self.assertEqual(0, launcher.returncode, output)
        self.assertIn("1 of 3", output)
        self.assertEqual(1, self.stage.summary()["producer_restarts"])

    def test_a_death_before_the_endpoint_leaves_nothing_to_take_over(self):
        launcher, producer, consumers = self.stage.start_run(1, "--producer-restarts", "1")
        kill(producer)
        successor = self.stage.enter()
        self.assertNotIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_a_swept_run_begins_again(self):
        self.stage.sweep()
        launcher, producer, consumers = self.start_run(1)
        kill(producer)
        successor = self.stage.enter()
        self.assertNotIn("recover", successor.argv, "nothing is left to take over")
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_a_death_after_the_summary_causes_no_restart(self):
        for code in (0, int(ExitCode.DEAD_LETTERS)):
            with self.subTest(code=code):
                launcher, producer, consumers = self.start_run(3)
                producer.order(summary={"exit": code})
                consumers[0].order(exit=0)
                kill(producer)
                output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
                self.assertEqual(code, launcher.returncode, output)
                self.assertIn("the run was already over", output)
                self.assertEqual([], [word for word in output.splitlines() if "takes over" in word])

    def test_a_death_after_a_reported_error_causes_a_restart(self):
        launcher, producer, consumers = self.start_run(3)
        producer.order(summary={"exit": None})
        kill(producer)
        successor = self.stage.enter()
        self.assertIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_the_run_ends_once_all_restarts_are_used(self):
        launcher, producer, consumers = self.start_run(2)
        for _ in range(2):
            kill(producer)
            producer = self.stage.enter()
            producer.order(meet=True)
        kill(producer)
        self.assertEqual({"signal": "SIGTERM"}, consumers[0].next_message())
        consumers[0].order(exit=86)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(128 + signal.SIGKILL, launcher.returncode, output)
        self.assertIn("died 3 times", output)
        self.assertIn("--producer-restarts", output)
        self.assertTrue(self.stage.no_puppet_starts_before(launcher))

    def test_a_lost_device_causes_a_restart(self):
        launcher, producer, consumers = self.start_run(1)
        producer.order(exit=82)
        successor = self.stage.enter()
        self.assertIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_an_unknown_exit_code_causes_a_restart(self):
        for code in (3, 2, 127, 255):
            self.assertTrue(Recovery.is_death(code, True), code)
        launcher, producer, consumers = self.start_run(1)
        producer.order(exit=3)
        successor = self.stage.enter()
        self.assertIn("recover", successor.argv)
        output = self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode, output)

    def test_a_deliberate_exit_causes_no_restart(self):
        for code in (
            ExitCode.OK,
            ExitCode.INTERNAL,
            ExitCode.USAGE,
            ExitCode.BAD_INPUT,
            ExitCode.NO_INPUT,
            ExitCode.COUNT_MISMATCH,
            ExitCode.CANNOT_WRITE,
            ExitCode.PROTOCOL,
            ExitCode.CONFIG,
            ExitCode.SHARED_MEMORY_FULL,
            ExitCode.DEAD_LETTERS,
            ExitCode.DEVICE_UNSUPPORTED,
            ExitCode.RUN_IN_USE,
            ExitCode.INTERRUPTED,
        ):
            self.assertFalse(Recovery.is_death(code, True), code)
        self.assertFalse(Recovery.is_death(ExitCode.DEVICE_OUT_OF_MEMORY, False))
        self.assertTrue(Recovery.is_death(ExitCode.DEVICE_OUT_OF_MEMORY, True))
        launcher, producer, consumers = self.start_run(3)
        producer.order(exit=65)
        consumers[0].order(exit=0)
        launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(65, launcher.returncode)
        self.assertTrue(self.stage.no_puppet_starts_before(launcher))

    def test_out_of_memory_at_the_start_ends_the_run_with_its_reason(self):
        """The producer has published its endpoint, but leaves nothing to take over."""
        for gone, lock in ((self.stage.remove_memory, "stays"), (self.stage.sweep, "goes, too")):
            with self.subTest(lock=lock):
                launcher, producer, consumers = self.start_run(3)
                gone()
                producer.order(
                    log="[2026-11-24 05:00:00.000] [error] offramp-producer: out of memory for a batch. Use a smaller --batch",
                    exit=81,
                )
                consumers[0].order(exit=69)
                output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
                self.assertEqual(81, launcher.returncode, output)
                self.assertIn("Use a smaller --batch", output.splitlines()[-1])
                self.assertNotIn("takes over", output)
                self.assertTrue(self.stage.no_puppet_starts_before(launcher))

    def test_an_early_out_of_memory_kill_causes_no_restart(self):
        for done in (0, 3):
            with self.subTest(done=done), small_memory(self, 192 << 20) as processes:
                launcher = self.stage.launch_shell(
                    f"echo $$ > {processes}; exec {OFFRAMP} run --consumers 1 --producer-restarts 3"
                )
                entered = {puppet.role: puppet for puppet in (self.stage.enter(), self.stage.enter())}
                producer, consumer = entered["producer"], entered["consumer"]
                producer.order(
                    meet=True,
                    status={"state": "running", "done_samples": done, "released_samples": done, "total_samples": 8},
                )
                producer.order(eats=True)
                if done:
                    self.stage.end(launcher, self.stage.enter(), [consumer], summary={})
                    self.assertEqual(0, launcher.returncode)
                    continue
                self.assertEqual({"signal": "SIGTERM"}, consumer.next_message())
                consumer.order(exit=86)
                output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
                self.assertEqual(71, launcher.returncode, output)
                self.assertRegex(
                    output,
                    r"too little memory for this run: its producer was killed before any batch was done, with 0\.\d GiB in use \(the kernel killed a process of "
                    r"this control group for lack of memory; its limit is 0\.2 GiB\); of this machine's [\d.]+ GiB, [\d.]+ GiB are available now",
                )
                self.assertIn("smaller --batch", output)
                self.assertNotIn("takes over", output)
                self.assertTrue(self.stage.no_puppet_starts_before(launcher))

    def test_a_full_device_during_a_run_causes_a_restart(self):
        launcher, producer, consumers = self.start_run(1)
        producer.order(exit=81)
        successor = self.stage.enter()
        self.assertIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_a_device_lost_at_the_start_causes_a_new_beginning(self):
        launcher, producer, consumers = self.start_run(2)
        self.stage.remove_memory()
        producer.order(exit=82)
        successor = self.stage.enter()
        self.assertNotIn("recover", successor.argv)
        self.stage.end(launcher, successor, consumers)
        self.assertEqual(0, launcher.returncode)

    def test_a_draining_run_gets_no_other_producer(self):
        launcher, producer, consumers = self.start_run(3)
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        kill(producer)
        self.assertTrue(wait_until_gone(producer.pid))
        consumers[0].order(exit=86)
        launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(128 + signal.SIGKILL, launcher.returncode)
        self.assertTrue(self.stage.no_puppet_starts_before(launcher))

    def test_a_strategy_that_cannot_be_taken_over_is_reported(self):
        launcher, producer, consumers = self.start_run(3, 1, "--strategy", "workers")
        kill(producer)
        self.assertTrue(wait_until_gone(producer.pid))
        consumers[0].order(exit=86)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(128 + signal.SIGKILL, launcher.returncode)
        self.assertIn("--strategy workers does not survive", output)

    def test_a_consumer_that_dies_during_a_takeover_is_restarted(self):
        launcher, producer, consumers = self.start_run(3)
        kill(producer)
        kill(consumers[0])
        entered = {puppet.role: puppet for puppet in (self.stage.enter(), self.stage.enter())}
        self.assertEqual({"producer", "consumer"}, set(entered))
        self.stage.end(launcher, entered["producer"], [entered["consumer"]])
        self.assertEqual(0, launcher.returncode)
