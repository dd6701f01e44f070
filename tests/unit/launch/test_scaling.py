"""Autoscaled consumers that cannot start, do not connect or are killed: effects on the run and their number."""

import math
import os
import pathlib
import selectors
import signal
import tempfile
import unittest
from unittest import mock

from stage import WATCHDOG_SECONDS, InFolder

from offramp_launch.supervision import control_groups
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.scaling import (
    SOON_SECONDS,
    ConsumerScaling,
    cores_of_this_machine,
    most_of_this_machine,
)
from offramp_launch.supervision.autoscaler import Bounds
from offramp_launch.supervision.consumer_slots import ConsumerSlots
from offramp_launch.supervision.events import Timers

STAYS = ["sleep", "1000"]


class ConsumerScalingTest(InFolder):
    """Real children with a fake clock, run and status."""

    def setUp(self):
        super().setUp()
        self.now, self.command, self.notes = 0.0, STAYS, []
        self.selector = selectors.DefaultSelector()
        self.addCleanup(self.selector.close)
        self.run = mock.Mock()
        self.run.wants_consumers.return_value = True
        self.run.completed.return_value = 0
        self.slots = ConsumerSlots(
            self.run,
            lambda name: Child(name, self.command, self.folder / f"{name}.log", ()),
            lambda name: self.folder / f"{name}.log",
            self.selector,
            Timers(clock=lambda: self.now),
            mock.Mock(),
            mock.Mock(),
        )
        self.addCleanup(self.end)
        self.follower = ConsumerScaling(self.slots, self.notes.append, clock=lambda: self.now)
        self.follower.take_up(Bounds(1, 8))
        for _ in range(2):
            self.slots.add()
        self.first = self.slots.children()

    def end(self):
        for child in self.slots.children():
            child.signal(signal.SIGKILL)
            child.reap()

    def look(self, ready=None, **more):
        """Advances one second, with 40 % of it waiting for slabs. `ready`: the children that take slabs (None: all)."""
        self.now += 1.0
        each = {"slabs": int(6 * self.now), "samples": int(24 * self.now), "busy_seconds": self.now, "end": ""}
        there = [
            {"session": child.pid, "pid": child.pid, "ready": ready is None or child in ready, **each}
            for child in self.slots.children()
        ]
        self.follower.look(
            {
                "state": "running",
                "pid": 1,
                "now_ns": int(self.now * 1e9),
                "released_samples": int(48 * self.now),
                "last_release_ns": int(self.now * 1e9),
                "slab_wait_seconds": 0.4 * self.now,
                "slabs": {"free": 8},
                "consumers": there,
                **more,
            }
        )

    def grow(self):
        """Advances until consumers are added or fail to start."""
        while not self.notes:
            self.look(ready=self.first)
        return self.slots.children()[2:]

    def let_one_end(self):
        key, _ = self.selector.select(WATCHDOG_SECONDS)[0]
        key.data()

    def assert_it_stays_at_two(self, why):
        self.run.fail.assert_not_called()
        self.assertRegex(self.notes[-1], rf"^consumers: at most 2 from now on: {why}")
        self.assertIn("scale 1..8 tries again", self.notes[-1])
        count = len(self.notes)
        for _ in range(100):
            self.look()
        self.assertEqual((2, count), (len(self.slots.staying()), len(self.notes)))

    def test_a_consumer_cannot_be_started(self):
        self.command = ["/there/is/none"]
        self.grow()
        self.assert_it_stays_at_two("'/there/is/none' cannot be started")
        self.assertEqual(self.first, self.slots.children())

    def test_no_file_descriptor_is_left(self):
        self.command = STAYS
        with mock.patch.object(os, "pidfd_open", side_effect=OSError(24, "Too many open files")):
            self.grow()
        self.assert_it_stays_at_two("'sleep' cannot be started .Too many open files.. Raise the limit of open files")

    def test_a_consumer_exits_with_a_permanent_failure(self):
        self.command = ["sh", "-c", "echo there is none such >&2; exit 64"]
        self.grow()
        self.let_one_end()
        self.look(ready=self.first)
        self.assert_it_stays_at_two("consumer-[34] ended with exit code 64: there is none such")

    def test_a_consumer_is_killed_soon(self):
        added = self.grow()
        self.look()
        added[0].signal(signal.SIGKILL)
        self.let_one_end()
        self.look()
        self.assert_it_stays_at_two("consumer-[34] was killed by SIGKILL")

    def test_a_consumer_killed_later_is_replaced_as_usual(self):
        added = self.grow()
        for _ in range(SOON_SECONDS + 2):
            self.look(slab_wait_seconds=0.0)
        staying = len(self.slots.staying())
        added[0].signal(signal.SIGKILL)
        self.let_one_end()
        self.look(slab_wait_seconds=0.0)
        self.assertEqual(staying, len(self.slots.staying()))
        self.assertNotIn("at most", "".join(self.notes))

    def test_a_consumer_drained_before_its_start_is_not_a_failure(self):
        added = self.grow()
        self.slots.send_away(self.slots.staying()[2:])
        for _ in added:
            self.let_one_end()
        self.look()
        self.assertNotIn("at most", "".join(self.notes))

    def test_an_invalid_status_ends_autoscaling_and_not_the_run(self):
        for odd in (
            {"now_ns": "5"},
            {"slabs": {"free": "8"}},
            {"consumers": [1]},
            {"slabs": [8]},
            {"released_samples": "many"},
            {"consumers": 7},
        ):
            with self.subTest(odd):
                self.follower.take_up(Bounds(1, 8))
                self.look()
                self.look(**odd)
                self.assertRegex(self.notes[-1], r"^autoscaling has ended: the run's status.json is malformed")
                self.assertIn("scale 1..8 ", self.notes[-1])
                self.assertFalse(self.follower.report()["follows"])
        self.assertEqual(self.first, self.slots.children())

    def test_setting_a_number_keeps_the_current_consumers(self):
        added = self.grow()
        self.follower.leave_off()
        self.command = STAYS
        added[0].signal(signal.SIGKILL)
        self.let_one_end()
        self.assertEqual(2 + len(added), len(self.slots.staying()), "the killed consumer is replaced")


class LimitsTest(unittest.TestCase):
    """The maximum of `auto`, in control groups that the test writes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.mount = pathlib.Path(folder.name)
        for name, value in (("MOUNT", self.mount), ("MEMBERSHIP", self.mount / "membership")):
            patch = mock.patch.object(control_groups, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, membership, **files):
        (self.mount / "membership").write_text(membership)
        for name, text in files.items():
            path = self.mount / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def test_without_control_groups_there_is_no_limit(self):
        self.assertEqual(
            (math.inf, math.inf, [], None),
            (
                control_groups.memory_room(),
                control_groups.cores(),
                list(control_groups.groups("memory")),
                control_groups.memory_limit(),
            ),
        )
        self.write(
            "nothing\n0::/a\n", a__cpu_DOT_max="max 100000\n", a__memory_DOT_max="max\n", a__memory_DOT_current="4096\n"
        )
        self.assertEqual(
            (math.inf, math.inf, (self.mount / "a", False), None),
            (
                control_groups.memory_room(),
                control_groups.cores(),
                list(control_groups.groups("memory"))[0],
                control_groups.memory_limit(),
            ),
        )

    def test_the_tightest_enclosing_group_counts(self):
        self.write(
            "0::/pod/run\n",
            pod__cpu_DOT_max="150000 100000\n",
            pod__run__cpu_DOT_max="800000 100000\n",
            pod__memory_DOT_max=f"{4 << 30}\n",
            pod__memory_DOT_current=f"{3 << 30}\n",
            pod__memory_DOT_stat=f"anon 5\ninactive_file {1 << 29}\nactive_file 0\n",
            pod__run__memory_DOT_max=f"{8 << 30}\n",
            pod__run__memory_DOT_current="0\n",
        )
        self.assertEqual(
            (1.5, 3 << 29, 4 << 30),
            (control_groups.cores(), control_groups.memory_room(), control_groups.memory_limit()),
        )
        self.assertEqual(6, most_of_this_machine(cores=16), "each needs 256 MiB")
        self.assertLessEqual(cores_of_this_machine(), 2)

    def test_reads_groups_of_version_1(self):
        self.write(
            "5:memory:/docker/x\n4:cpu,cpuacct:/\n0::/\n",
            cpu__cpu_DOT_cfs_quota_us="250000\n",
            cpu__cpu_DOT_cfs_period_us="100000\n",
            memory__docker__x__memory_DOT_limit_in_bytes=f"{1 << 30}\n",
            memory__docker__x__memory_DOT_usage_in_bytes=f"{1 << 29}\n",
            memory__docker__x__memory_DOT_stat=f"total_inactive_file {1 << 28}\n",
            memory__memory_DOT_limit_in_bytes="9223372036854771712\n",
            memory__memory_DOT_usage_in_bytes="0\n",
        )
        self.assertEqual(
            (2.5, 3 << 28, 1 << 30),
            (control_groups.cores(), control_groups.memory_room(), control_groups.memory_limit()),
        )
        self.write("4:cpu:/\n", cpu__cpu_DOT_cfs_quota_us="-1\n")
        self.assertEqual(math.inf, control_groups.cores())
