"""Consumers that exit cleanly: when they are replaced, and when not any more."""

import selectors
import signal
import unittest
from unittest import mock

from stage import WATCHDOG_SECONDS, InFolder, Stage

from offramp_launch.supervision.backoff import DEATHS_WITHOUT_PROGRESS, LONGEST_SECONDS
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.consumer_slots import (
    ENDS_WITHOUT_SINK,
    UNASKED_END_SECONDS,
    ConsumerSlots,
    is_work_left,
)
from offramp_launch.supervision.events import Timers


class WorkLeftTest(unittest.TestCase):
    def test_work_is_left_by_the_producers_status(self):
        for status, draining, left in (
            ({}, False, True),
            ({"state": "running"}, False, True),
            ({"state": "starting"}, False, True),
            ({"state": "running"}, True, False),
            ({"state": "ending", "slabs": {"free": 4}}, False, False),
            ({"state": "draining", "slabs": {"free": 3, "ready": 1}}, False, True),
            ({"state": "running", "slabs": {"leased": 1}}, True, True),
            ({"state": "draining", "slabs": {"filling": 1}}, True, True),
            ({"state": "draining", "slabs": {"retired": 1, "dead_letters": 2}}, True, False),
            ({"state": "draining", "slabs": {"free": 4}, "spilled_samples": 9}, True, True),
        ):
            self.assertEqual(left, is_work_left(status, draining), (status, draining))


class ConsumerSlotsTest(InFolder):
    """Real children that exit immediately, with a fake clock and run."""

    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.timers = Timers(clock=lambda: self.now)
        self.selector = selectors.DefaultSelector()
        self.addCleanup(self.selector.close)
        self.run = mock.Mock()
        self.run.wants_consumers.return_value = True
        self.run.has_work_for_consumers.return_value = True
        self.run.is_draining.return_value = False
        self.run.completed.return_value = 0
        self.command = ["true"]
        self.started = 0
        self.slots = ConsumerSlots(
            self.run,
            self.start,
            lambda name: self.folder / f"{name}.log",
            self.selector,
            self.timers,
            mock.Mock(),
            mock.Mock(),
            mock.Mock(),
        )

    def start(self, name):
        self.started += 1
        return Child(name, self.command, self.folder / f"{name}.log", ())

    def let_it_end(self):
        for key, _ in self.selector.select(WATCHDOG_SECONDS):
            key.data()

    def pass_time(self):
        self.now += max(UNASKED_END_SECONDS, LONGEST_SECONDS)
        self.timers.run_due()

    def test_a_consumer_that_exits_early_is_restarted(self):
        self.slots.add()
        self.let_it_end()
        self.assertEqual(1, self.started, "the run may be over as well")
        self.pass_time()
        self.assertEqual(2, self.started)
        self.let_it_end()

    def test_work_that_arrives_later_restarts_a_consumer(self):
        self.run.has_work_for_consumers.return_value = False
        self.slots.add()
        self.let_it_end()
        for _ in range(5):
            self.pass_time()
        self.assertEqual(1, self.started)
        self.run.has_work_for_consumers.return_value = True
        self.pass_time()
        self.assertEqual(2, self.started)
        self.let_it_end()

    def test_no_consumer_is_restarted_after_the_run(self):
        self.slots.add()
        self.let_it_end()
        self.run.wants_consumers.return_value = False
        self.pass_time()
        self.pass_time()
        self.assertEqual(1, self.started)
        self.assertIsNone(self.timers.next_in())

    def test_ends_without_progress_end_the_run_with_a_reason(self):
        self.slots.add()
        for number in range(DEATHS_WITHOUT_PROGRESS):
            self.let_it_end()
            self.run.fail.assert_not_called()
            self.pass_time()
        self.assertEqual(DEATHS_WITHOUT_PROGRESS, self.started)
        (problem,), _ = self.run.fail.call_args
        self.assertRegex(
            str(problem),
            r"consumers ended 20 times in a row and nothing was completed.* consumer-1, ended with exit code 0",
        )
        self.assertEqual(71, problem.code)

    def lose_the_sink(self, times):
        for _ in range(times):
            self.let_it_end()
            self.run.fail.assert_not_called()
            self.pass_time()

    def test_an_unavailable_sink_is_awaited_until_the_run_drains(self):
        self.command = ["sh", "-c", "echo nobody listens >&2; exit 75"]
        self.slots.add()
        self.lose_the_sink(DEATHS_WITHOUT_PROGRESS)
        self.run.is_draining.return_value = True
        self.lose_the_sink(ENDS_WITHOUT_SINK - 1)
        self.run.completed.return_value = 4  # it was back for a while
        self.lose_the_sink(ENDS_WITHOUT_SINK - 1)
        self.let_it_end()
        (problem,), _ = self.run.fail.call_args
        self.assertRegex(
            str(problem),
            r"3 times in a row a consumer gave up.* consumer-1, ended with exit code 75: nobody listens\n.*--resume",
        )
        self.assertEqual(75, problem.code)


class DrainingTest(unittest.TestCase):
    def test_one_signal_ends_a_run_with_an_unavailable_sink(self):
        stage = Stage()
        self.addCleanup(stage.close)
        launcher, producer, consumers = stage.start_run(1, "--output", str(stage.folder / "output"))
        producer.order(status={"state": "running", "done_samples": 0, "total_samples": 8, "slabs": {"ready": 4}})
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        consumers[0].order(log="12:00:00.000 error   offramp-consumer[1] nobody listens there", exit=75)
        for _ in range(ENDS_WITHOUT_SINK - 1):
            stage.enter().order(log="12:00:00.000 error   offramp-consumer[1] nobody listens there", exit=75)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message(), "it abandons what nobody can take")
        said = stage.end(
            launcher, producer, [], code=130, summary={"samples": {"released": 0, "sourced": 8}, "failure": None}
        )
        self.assertEqual(75, launcher.returncode, said)
        self.assertTrue(stage.no_puppet_starts_before(launcher))
        self.assertEqual(75, stage.summary()["exit"])
        self.assertRegex(stage.summary()["failure"], "nobody listens there.*Start again with --resume")
        self.assertEqual("offramp: " + stage.summary()["failure"], said.splitlines()[-2])
        self.assertRegex(said.splitlines()[-1], "^  continue .* --resume")

    def test_a_run_that_drains_without_consumers_gets_others(self):
        stage = Stage()
        self.addCleanup(stage.close)
        launcher, producer, consumers = stage.start_run(1)
        producer.order(status={"state": "draining", "slabs": {"free": 3, "ready": 1}})
        consumers[0].order(exit=0)
        successor = stage.enter()
        self.assertEqual("consumer", successor.role)
        said = stage.end(launcher, producer, [successor])
        self.assertEqual(0, launcher.returncode, said)
        self.assertIn("ended with exit code 0 before the run was over", said)
