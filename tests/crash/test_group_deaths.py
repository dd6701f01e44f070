"""Runs with groups of consumers killed at each step of each group: no group loses a result or has another's faults."""

import unittest

from tests.crash import group_deaths
from tests.crash.crash_run import failpoints_of_the_sources, undisturbed
from tests.crash.group_deaths import ARRAYS, EXTRA, OPTIONAL, SUMS, GroupCrashRun, WithAllGroups, of_groups
from tests.support.marked_processes import processes_marked


class GroupsCase(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.outputs = undisturbed(WithAllGroups)
        assert len(cls.outputs) == 2 * group_deaths.SAMPLES + 1, list(cls.outputs)
        cls.expected = of_groups(cls.outputs, ARRAYS, SUMS)

    def check(self, cells):
        results = group_deaths.check_all(cells, self.outputs)
        self.assertEqual({}, {str(cell): wrong for cell, wrong in results.items() if wrong})


class GroupDeaths(GroupsCase):
    def test_a_death_of_each_kind(self):
        self.check(group_deaths.quick_cells())

    def test_an_optional_group_without_consumers_ends_with_the_run(self):
        with HasNoExtra(flags=OPTIONAL) as crash:
            self.assertEqual([], crash.wrong(crash.finish(), self.expected), crash.run.logs())
            extra = next(group for group in crash.run.summary()["groups"] if group["name"] == EXTRA)
            self.assertEqual((0, group_deaths.SAMPLES), (extra["released_samples"], extra["dropped_samples"]))

    def test_an_optional_group_whose_consumers_stall_never_holds_the_pool(self):
        with Stalls(flags=Stalls.FLAGS) as crash:
            self.assertEqual([], crash.wrong(crash.finish(), self.expected), crash.run.logs())
            self.assertGreater(crash.run.summary()["stalled_killed"], 0)

    def test_a_removed_and_a_changed_result_are_found(self):
        with GroupCrashRun() as crash:
            code = crash.finish()
            self.assertEqual([], crash.wrong(code, self.expected), crash.run.logs())
            sums = crash.run.output / SUMS / "checksums.tsv"
            sums.write_bytes(sums.read_bytes()[:-2] + b"?\n")
            self.assertEqual(["outputs differ from the undisturbed run's"], crash.wrong(code, self.expected))
            sums.write_bytes(self.expected[f"{SUMS}/checksums.tsv"])
            (crash.run.output / ARRAYS / "7.payload.npy").unlink()
            self.assertEqual(
                [
                    "done in the checkpoint but missing in the outputs: items [7]",
                    "outputs differ from the undisturbed run's",
                ],
                crash.wrong(code, self.expected),
            )

    def test_a_dead_letter_of_another_group_is_found(self):
        with GroupCrashRun(poisoned=SUMS) as crash:
            self.assertEqual(group_deaths.DEAD_LETTERS, crash.finish(), crash.run.logs())
            crash.poisoned = ARRAYS
            self.assertIn(
                "outputs are not the undisturbed run's without the dead letter of arrays",
                crash.wrong(group_deaths.DEAD_LETTERS, self.expected),
            )

    def test_names_are_failpoints_of_the_sources(self):
        cells = (*group_deaths.quick_cells(), *group_deaths.all_cells())
        self.assertEqual(set(), {cell.failpoint for cell in cells} - set(failpoints_of_the_sources()))


class EveryDeath(GroupsCase):
    def test_every_death_in_a_run_with_groups(self):
        self.check(group_deaths.all_cells())


class HasNoExtra(GroupCrashRun):
    """Consumers of the optional group end before they join it."""

    def consumers(self):
        environment = super().consumers()
        self.replace_consumer(f'case "$*" in finish*) ;; */groups/{EXTRA}*) exit 1 ;; esac')
        return environment


class Stalls(GroupCrashRun):
    """Each consumer of the optional group stops at its first slab. They are more than there are slabs."""

    FLAGS = ("--group", f"{EXTRA}=safetensors:5,optional")

    def __init__(self, **further):
        super().__init__(group=EXTRA, **further)
        del self.run.environment["OFFRAMP_FAILPOINT_ONCE"]
        self.run.environment["OFFRAMP_FAILPOINT"] = "consumer.work_noted#1:stop"

    def processes(self):
        return processes_marked("OFFRAMP_TEST_RECHECK_FILE", self.changed)
