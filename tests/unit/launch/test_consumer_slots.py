"""Consumers that exit cleanly: when they are replaced, and when not any more."""

import selectors
import signal
import unittest
from unittest import mock

from stage import WATCHDOG_SECONDS, InFolder, Stage, until

from offramp_launch.exit_code import LaunchError
from offramp_launch.supervision.backoff import DEATHS_WITHOUT_PROGRESS, LONGEST_SECONDS
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.consumer_slots import (
    ENDS_WITHOUT_SINK,
    RECORDS_KEPT,
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


class OfSlots(InFolder):
    """Real children, with a fake clock and run."""

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
        self.logbook = mock.Mock()
        self.slots = ConsumerSlots(
            self.run,
            self.start,
            lambda name: self.folder / f"{name}.log",
            self.selector,
            self.timers,
            self.logbook,
            mock.Mock(),
        )
        self.addCleanup(self.end)

    def end(self):
        for child in self.slots.children():
            child.signal(signal.SIGKILL)
            child.reap()

    def start(self, name):
        self.started += 1
        return Child(name, self.command, self.folder / f"{name}.log", ())

    def let_it_end(self):
        for key, _ in self.selector.select(WATCHDOG_SECONDS):
            key.data()

    def pass_time(self):
        self.now += max(UNASKED_END_SECONDS, LONGEST_SECONDS)
        self.timers.run_due()

    def names(self):
        return [slot.name for slot in self.slots.staying()]


class ConsumerSlotsTest(OfSlots):
    """Children that exit immediately."""

    def test_a_consumer_that_exits_early_is_restarted(self):
        self.slots.add()
        self.let_it_end()
        self.assertEqual(1, self.started, "the run may be over as well")
        self.pass_time()
        self.assertEqual(2, self.started)
        self.logbook.count.assert_called_once_with("restarts")
        self.let_it_end()

    def test_a_restart_that_cannot_start_is_not_counted(self):
        self.slots.add()
        self.let_it_end()
        self.command = ["/there/is/none"]
        self.pass_time()
        self.run.fail.assert_called_once()
        self.logbook.count.assert_not_called()

    def test_the_last_consumers_that_ended_are_recorded(self):
        self.slots.records.extend({"pid": None} for _ in range(RECORDS_KEPT))
        self.slots.add()
        self.let_it_end()
        self.assertEqual((RECORDS_KEPT, 0), (len(self.slots.records), self.slots.records[-1]["exit"]))

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


class DismissedTest(OfSlots):
    """Children that stay until they are dismissed."""

    WARNS = "echo '12:00:00.000 warning offramp-consumer[1] here is '$$; exec sleep 1000"

    def setUp(self):
        super().setUp()
        self.command = ["sleep", "1000"]

    def leave(self, number):
        """Dismisses consumers until `number` stay, and waits for their end."""
        self.slots.bring_to(number)
        until(lambda: len(self.slots.children()) == number or self.let_it_end())

    def test_slots_and_logs_do_not_grow_with_changes_of_number(self):
        for _ in range(50):
            self.slots.bring_to(3)
            self.leave(1)
        self.slots.bring_to(3)
        self.assertEqual(103, self.started)
        self.assertEqual(["consumer-1", "consumer-2", "consumer-3"], self.names())
        self.assertEqual(3, len(self.slots._slots))
        self.assertEqual(
            ["consumer-1.log", "consumer-2.log", "consumer-3.log"], sorted(path.name for path in self.folder.iterdir())
        )

    def test_failed_starts_on_trial_leave_no_slots(self):
        self.command = ["/there/is/none"]
        for _ in range(50):
            self.assertRaises(LaunchError, self.slots.add_on_trial, counts=True)
        self.assertEqual(1, len(self.slots._slots))

    def test_a_consumer_that_is_still_leaving_keeps_its_number(self):
        self.slots.bring_to(2)
        self.slots.bring_to(1)
        self.slots.bring_to(2)
        self.assertEqual(["consumer-1", "consumer-3"], self.names())
        self.assertEqual(3, len(self.slots.children()))
        self.let_it_end()
        self.slots.bring_to(3)
        self.assertEqual(["consumer-1", "consumer-3", "consumer-2"], self.names())

    def test_the_newest_leaves_first_whatever_its_number(self):
        self.slots.bring_to(3)
        self.slots.send_away(self.slots.staying()[:1])
        self.let_it_end()
        self.slots.bring_to(3)
        self.assertEqual(["consumer-2", "consumer-3", "consumer-1"], self.names())
        self.leave(2)
        self.assertEqual(["consumer-2", "consumer-3"], self.names())

    def test_a_log_goes_on_where_the_consumer_before_it_ended(self):
        self.command = ["sh", "-c", self.WARNS]
        wanted = []
        for _ in range(3):
            self.slots.bring_to(1)
            [child] = self.slots.children()
            wanted.append(f"consumer-1: warning: here is {child.pid}")
            until(lambda: self.slots.look() or len(self.logbook.note.mock_calls) == len(wanted))
            self.leave(0)
        self.assertEqual([mock.call(text) for text in wanted], self.logbook.note.mock_calls)
        log = (self.folder / "consumer-1.log").read_text()
        self.assertEqual(wanted, [f"consumer-1: warning: {line.partition('] ')[2]}" for line in log.splitlines()])


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
