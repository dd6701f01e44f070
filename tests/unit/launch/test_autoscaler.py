"""Autoscaling on simulated runs: throughput beside the best fixed number, and the number of changes."""

import unittest

from simulated_run import SimulatedRun, best_rate

from offramp_launch.exit_code import LaunchError
from offramp_launch.supervision.autoscaler import Bounds, Autoscaler

REACHED = 0.97          # of the best fixed number's rate
TOO_MANY = 2            # changes beyond the one that a phase needs


class BoundsTest(unittest.TestCase):
    def test_what_is_given(self):
        self.assertEqual(Bounds(1, 16), Bounds.of("auto", 16, 64))
        self.assertEqual(Bounds(2, 12), Bounds.of("2..12", 16, 64))
        self.assertEqual(Bounds(5, 5), Bounds.of("5..5", 4, 64))
        for number in ("4", "", "0", "two", "2..", "..3", "-1..4", "2...4", "2..4..6"):
            self.assertIsNone(Bounds.of(number, 16, 64), number)
        for bad in ("0..4", "4..2", "1..65"):
            with self.assertRaisesRegex(LaunchError, bad.replace(".", r"\.")):
                Bounds.of(bad, 16, 64)


class PhasesTest(unittest.TestCase):
    """Loads that change while a run goes on."""

    def follow(self, phases, bounds=Bounds(1, 12), consumers=2, seconds=90, settled=40, changes=TOO_MANY, reached=REACHED, **given):
        """`phases`: (seconds that the producer takes for a slab, that a consumer does). Returns (the run, [(time, number, why)] by phase)."""
        def at(which):
            return lambda now: phases[min(int(now // seconds), len(phases) - 1)][which]
        run = SimulatedRun(at(0), at(1), consumers, **given)
        following, told = Autoscaler(bounds), []
        for number, (make, take) in enumerate(phases):
            changed = run.follow(following, number * seconds + settled)
            before = run.released
            changed += run.follow(following, (number + 1) * seconds)
            rate, best = (run.released - before) / (seconds - settled), best_rate(bounds.most, make, take, **given)
            self.assertGreaterEqual(rate, reached * best, f"phase {number}: {rate:.1f} samples/s, {best:.1f} with the best number; {changed}")
            self.assertLessEqual(len(changed), 1 + changes, changed)
            told.append(changed)
        return run, told

    def test_a_load_that_changes_twice(self):
        for noise in (0.0, 0.3, 0.6):
            with self.subTest(noise=noise):
                run, told = self.follow([(0.05, 0.08), (0.05, 0.28), (0.05, 0.14)], noise=noise)
                self.assertEqual([], told[0], "two were right")
                self.assertLessEqual(run.wanted, 5, "of 12 that may be there")

    def test_the_reason_is_reported(self):
        _, told = self.follow([(0.05, 0.08), (0.05, 0.28), (0.05, 0.08)])
        self.assertRegex(told[1][0][2], r"^the run waits for consumers \d+ % of the time$")
        self.assertRegex(told[2][0][2], r"^of \d+ consumers \d\.\d are at work, in the mean$")

    def test_an_estimate_is_taken_in_one_step_where_the_rate_without_waiting_is_known(self):
        _, told = self.follow([(0.05, 0.08), (0.05, 0.45)])
        self.assertEqual(1, len(told[1]), told)

    def test_from_one_on_it_doubles(self):
        _, told = self.follow([(0.1, 0.75)], consumers=1, slabs=16)
        self.assertEqual([2, 4, 8], [number for _, number, _ in told[0]])

    def test_what_a_load_before_left_is_not_taken_for_one_that_grew(self):
        run, told = self.follow([(0.05, 0.08), (0.05, 0.28), (0.05, 0.13)], ahead=40, slabs=16)
        self.assertLessEqual(max(number for changed in told for _, number, _ in changed), 7, told)

    def test_a_load_that_grows_with_the_input(self):
        run, told = self.follow([(0.2, 0.28), (0.03, 0.28)], seconds=120, settled=60, slabs=16)
        self.assertGreaterEqual(run.wanted, 9)

    def test_few_slabs(self):
        for slabs in (2, 3):
            with self.subTest(slabs=slabs):
                run, _ = self.follow([(0.1, 0.25), (0.1, 0.12)], slabs=slabs)
                self.assertLessEqual(run.wanted, slabs)

    def test_slabs_that_take_ten_seconds(self):
        self.follow([(2.0, 10.0)], seconds=700, settled=400, slabs=16)

    def test_slabs_that_take_a_minute(self):
        run, _ = self.follow([(7.5, 60.0)], seconds=3000, settled=1500, slabs=16, changes=6)
        self.assertGreaterEqual(run.wanted, 7)

    def test_an_input_that_stops_and_continues(self):
        run, told = self.follow([(0.05, 0.2), (5.0, 0.2), (0.05, 0.2)], settled=50)
        self.assertEqual(1, told[1][-1][1], "nobody has anything to do")

    def test_consumers_that_are_many_and_fast(self):
        self.follow([(0.002, 0.001), (0.002, 0.008), (0.002, 0.003)], Bounds(1, 6), seconds=60, settled=30)

    def test_it_goes_back_where_consumers_take_the_cores_from_each_other(self):
        for cores, slabs in ((4, 8), (8, 16)):
            with self.subTest(cores=cores):
                run, told = self.follow([(0.02, 0.2)], Bounds(1, 16), consumers=cores // 2, slabs=slabs, cores=cores, seconds=120, reached=0.95)
                self.assertLessEqual(run.wanted, 2 * cores, told)

    def test_what_did_not_help_is_not_tried_again_for_the_same_load(self):
        run = SimulatedRun(lambda _: 0.02, lambda _: 0.1, 4, cores=2)
        following = Autoscaler(Bounds(1, 6))
        changes = run.follow(following, 60)
        self.assertRegex(changes[-1][2], r"^more did not help: [\d.]+ samples/s with 4, [\d.]+ with 6$")
        self.assertEqual((4, []), (run.wanted, run.follow(following, 1200)))

    def test_what_was_too_few_is_not_tried_again_for_the_same_load(self):
        run = SimulatedRun(lambda _: 0.1, lambda _: 0.27, 4, slabs=4, noise=0.9)
        following = Autoscaler(Bounds(1, 8))
        run.follow(following, 120)
        self.assertLessEqual(len(run.follow(following, 1800)), TOO_MANY)


class SlabsTest(unittest.TestCase):
    def test_those_that_are_of_no_use_any_more_need_no_consumers(self):
        run = SimulatedRun(lambda _: 0.05, lambda _: 0.5, 2, slabs=4)
        run.follow(Autoscaler(Bounds(1, 12)), 90, told=lambda status: {**status, "slabs": {**status["slabs"], "retired": 3, "dead_letters": 2}})
        self.assertEqual(4, run.wanted)


class QuietTest(unittest.TestCase):
    """When nothing is to be changed."""

    def setUp(self):
        self.run_ = SimulatedRun(lambda _: 0.05, lambda _: 0.28, 2)
        self.following = Autoscaler(Bounds(1, 12))

    def test_by_consumers_whose_work_is_not_reported(self):
        run = SimulatedRun(lambda _: 0.05, lambda _: 0.02, 6)

        def does_not_tell(status):
            return {**status, "consumers": [{name: value for name, value in each.items() if name != "busy_seconds"} for each in status["consumers"]]}
        self.assertEqual([], run.follow(self.following, 60, told=does_not_tell))

    def test_while_a_run_drains(self):
        self.run_.state = "draining"
        self.assertEqual([], self.run_.follow(self.following, 60))

    def test_before_the_first_slab_is_done(self):
        idle = SimulatedRun(lambda _: 1000.0, lambda _: 0.1, 4)
        self.assertEqual([], idle.follow(self.following, 300))

    def test_by_a_status_that_does_not_change(self):
        self.run_.advance(20)
        status = self.run_.status()
        self.assertEqual([None] * 200, [self.following.look(status, 2) for _ in range(200)])

    def test_by_a_status_that_comes_seldom(self):
        times = iter(range(1000))
        changes = self.run_.follow(self.following, 90, told=lambda status: status if next(times) % 12 == 0 else None)
        self.assertGreaterEqual(self.run_.wanted, 6)
        self.assertLessEqual(len(changes), 1 + TOO_MANY)

    def test_while_all_of_the_input_is_in_slabs(self):
        run = SimulatedRun(lambda _: 0.2, lambda _: 0.2, 6)
        self.assertEqual([], run.follow(self.following, 60, told=lambda status: {**status, "limiting_stage": "consumers"}))

    def test_another_producer_is_measured_anew(self):
        self.run_.follow(self.following, 3.5)
        self.run_.take_over()
        changes = self.run_.follow(self.following, 7)
        self.assertEqual([], changes, "two windows of its own are not there yet")
        self.run_.follow(self.following, 60)
        self.assertGreaterEqual(self.run_.wanted, 6)

    def test_consumers_that_die_are_not_mended_by_more(self):
        def half_are_dead(status):
            return {**status, "consumers": status["consumers"][:1]}
        self.assertEqual([], self.run_.follow(self.following, 60, told=half_are_dead))

    def test_bounds_hold_at_once(self):
        run = SimulatedRun(lambda _: 0.05, lambda _: 0.01, 8)
        changes = run.follow(Autoscaler(Bounds(2, 3)), 60)
        self.assertEqual([3, 2], [number for _, number, _ in changes])
        self.assertEqual([], run.follow(Autoscaler(Bounds(2, 3)), 90))


class DroppedTest(unittest.TestCase):
    def test_samples_that_find_no_slab_are_work_that_waits(self):
        """With --when-full drop or spill nothing waits for a slab."""
        run = SimulatedRun(lambda _: 0.05, lambda _: 0.2, 2)

        def drops(status):
            made = int(status["slab_wait_seconds"] / 0.05) * 4
            return {**status, "slab_wait_seconds": 0.0, "dropped_samples": made}
        changes = run.follow(Autoscaler(Bounds(1, 12)), 60, told=drops)
        self.assertGreaterEqual(run.wanted, 4, changes)


if __name__ == "__main__":
    unittest.main()
