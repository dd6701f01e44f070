"""Autoscaling on simulated runs: throughput compared with the best fixed number, and the number of changes."""

import unittest

from simulated_run import SimulatedRun, best_rate

from offramp_launch.exit_code import LaunchError
from offramp_launch.supervision.autoscaler import Bounds, Autoscaler

REACHED = 0.97  # share of the best fixed number's rate
TOO_MANY = 2  # further changes allowed in a phase that needs one


class BoundsTest(unittest.TestCase):
    def test_parses_bounds(self):
        self.assertEqual(Bounds(1, 16), Bounds.of("auto", 16, 64))
        self.assertEqual(Bounds(2, 12), Bounds.of("2..12", 16, 64))
        self.assertEqual(Bounds(5, 5), Bounds.of("5..5", 4, 64))
        for number in ("4", "", "0", "two", "2..", "..3", "-1..4", "2...4", "2..4..6"):
            self.assertIsNone(Bounds.of(number, 16, 64), number)
        for bad in ("0..4", "4..2", "1..65"):
            with self.assertRaisesRegex(LaunchError, bad.replace(".", r"\.")):
                Bounds.of(bad, 16, 64)


class PhasesTest(unittest.TestCase):
    """Loads that change during a run."""

    def follow(
        self,
        phases,
        bounds=Bounds(1, 12),
        consumers=2,
        seconds=90,
        settled=40,
        changes=TOO_MANY,
        reached=REACHED,
        **given,
    ):
        """
        `phases`: (producer seconds per slab, consumer seconds per slab). Returns (run, [(time, number, why)] of each
        phase).
        """

        def at(which):
            return lambda now: phases[min(int(now // seconds), len(phases) - 1)][which]

        run = SimulatedRun(at(0), at(1), consumers, **given)
        following, by_phase = Autoscaler(bounds), []
        for number, (make, take) in enumerate(phases):
            changed = run.follow(following, number * seconds + settled)
            before = run.released
            changed += run.follow(following, (number + 1) * seconds)
            rate, best = (run.released - before) / (seconds - settled), best_rate(bounds.most, make, take, **given)
            self.assertGreaterEqual(
                rate,
                reached * best,
                f"phase {number}: {rate:.1f} samples/s, {best:.1f} with the best number; {changed}",
            )
            self.assertLessEqual(len(changed), 1 + changes, changed)
            by_phase.append(changed)
        return run, by_phase

    def test_follows_a_load_that_changes_twice(self):
        for noise in (0.0, 0.3, 0.6):
            with self.subTest(noise=noise):
                run, by_phase = self.follow([(0.05, 0.08), (0.05, 0.28), (0.05, 0.14)], noise=noise)
                self.assertEqual([], by_phase[0], "two consumers are enough")
                self.assertLessEqual(run.wanted, 5, "at most 12 are allowed")

    def test_reports_the_reason(self):
        _, by_phase = self.follow([(0.05, 0.08), (0.05, 0.28), (0.05, 0.08)])
        self.assertRegex(by_phase[1][0][2], r"^the run waits for consumers \d+ % of the time$")
        self.assertRegex(by_phase[2][0][2], r"^of \d+ consumers \d\.\d are busy on average$")

    def test_reaches_an_estimate_in_one_step_when_the_rate_is_known(self):
        _, by_phase = self.follow([(0.05, 0.08), (0.05, 0.45)])
        self.assertEqual(1, len(by_phase[1]), by_phase)

    def test_doubles_from_one_consumer(self):
        _, by_phase = self.follow([(0.1, 0.75)], consumers=1, slabs=16)
        self.assertEqual([2, 4, 8], [number for _, number, _ in by_phase[0]])

    def test_a_backlog_is_not_mistaken_for_a_growing_load(self):
        run, by_phase = self.follow([(0.05, 0.08), (0.05, 0.28), (0.05, 0.13)], ahead=40, slabs=16)
        self.assertLessEqual(max(number for changed in by_phase for _, number, _ in changed), 7, by_phase)

    def test_follows_a_load_that_grows_with_the_input(self):
        run, by_phase = self.follow([(0.2, 0.28), (0.03, 0.28)], seconds=120, settled=60, slabs=16)
        self.assertGreaterEqual(run.wanted, 9)

    def test_never_exceeds_the_number_of_slabs(self):
        for slabs in (2, 3):
            with self.subTest(slabs=slabs):
                run, _ = self.follow([(0.1, 0.25), (0.1, 0.12)], slabs=slabs)
                self.assertLessEqual(run.wanted, slabs)

    def test_slabs_that_take_ten_seconds(self):
        self.follow([(2.0, 10.0)], seconds=700, settled=400, slabs=16)

    def test_slabs_that_take_a_minute(self):
        run, _ = self.follow([(7.5, 60.0)], seconds=3000, settled=1500, slabs=16, changes=6)
        self.assertGreaterEqual(run.wanted, 7)

    def test_scales_down_while_the_input_pauses(self):
        run, by_phase = self.follow([(0.05, 0.2), (5.0, 0.2), (0.05, 0.2)], settled=50)
        self.assertEqual(1, by_phase[1][-1][1], "all consumers are idle")

    def test_many_fast_consumers(self):
        self.follow([(0.002, 0.001), (0.002, 0.008), (0.002, 0.003)], Bounds(1, 6), seconds=60, settled=30)

    def test_scales_back_when_consumers_compete_for_cores(self):
        for cores, slabs in ((4, 8), (8, 16)):
            with self.subTest(cores=cores):
                run, by_phase = self.follow(
                    [(0.02, 0.2)],
                    Bounds(1, 16),
                    consumers=cores // 2,
                    slabs=slabs,
                    cores=cores,
                    seconds=120,
                    reached=0.95,
                )
                self.assertLessEqual(run.wanted, 2 * cores, by_phase)

    def test_a_useless_increase_is_not_repeated_for_the_same_load(self):
        run = SimulatedRun(lambda _: 0.02, lambda _: 0.1, 4, cores=2)
        following = Autoscaler(Bounds(1, 6))
        changes = run.follow(following, 60)
        self.assertRegex(changes[-1][2], r"^more did not help: [\d.]+ samples/s with 4, [\d.]+ with 6$")
        self.assertEqual((4, []), (run.wanted, run.follow(following, 1200)))

    def test_too_few_consumers_are_not_tried_again_for_the_same_load(self):
        run = SimulatedRun(lambda _: 0.1, lambda _: 0.27, 4, slabs=4, noise=0.9)
        following = Autoscaler(Bounds(1, 8))
        run.follow(following, 120)
        self.assertLessEqual(len(run.follow(following, 1800)), TOO_MANY)


class SlabsTest(unittest.TestCase):
    def test_unusable_slabs_need_no_consumers(self):
        run = SimulatedRun(lambda _: 0.05, lambda _: 0.5, 2, slabs=4)
        run.follow(
            Autoscaler(Bounds(1, 12)),
            90,
            observe=lambda status: {**status, "slabs": {**status["slabs"], "retired": 3, "dead_letters": 2}},
        )
        self.assertEqual(4, run.wanted)


class NoChangeTest(unittest.TestCase):
    """Situations in which the number must stay."""

    def setUp(self):
        self.run_ = SimulatedRun(lambda _: 0.05, lambda _: 0.28, 2)
        self.following = Autoscaler(Bounds(1, 12))

    def test_ignores_consumers_without_busy_seconds(self):
        run = SimulatedRun(lambda _: 0.05, lambda _: 0.02, 6)

        def without_busy_seconds(status):
            return {
                **status,
                "consumers": [
                    {name: value for name, value in each.items() if name != "busy_seconds"}
                    for each in status["consumers"]
                ],
            }

        self.assertEqual([], run.follow(self.following, 60, observe=without_busy_seconds))

    def test_no_change_while_a_run_drains(self):
        self.run_.state = "draining"
        self.assertEqual([], self.run_.follow(self.following, 60))

    def test_no_change_before_the_first_slab_is_done(self):
        idle = SimulatedRun(lambda _: 1000.0, lambda _: 0.1, 4)
        self.assertEqual([], idle.follow(self.following, 300))

    def test_an_unchanged_status_changes_nothing(self):
        self.run_.advance(20)
        status = self.run_.status()
        self.assertEqual([None] * 200, [self.following.look(status, 2) for _ in range(200)])

    def test_works_with_a_rare_status(self):
        times = iter(range(1000))
        changes = self.run_.follow(self.following, 90, observe=lambda status: status if next(times) % 12 == 0 else None)
        self.assertGreaterEqual(self.run_.wanted, 6)
        self.assertLessEqual(len(changes), 1 + TOO_MANY)

    def test_no_change_once_all_input_is_in_slabs(self):
        run = SimulatedRun(lambda _: 0.2, lambda _: 0.2, 6)
        self.assertEqual(
            [], run.follow(self.following, 60, observe=lambda status: {**status, "limiting_stage": "consumers"})
        )

    def test_restarts_its_measurement_after_a_takeover(self):
        self.run_.follow(self.following, 3.5)
        self.run_.take_over()
        changes = self.run_.follow(self.following, 7)
        self.assertEqual([], changes, "the new producer has not completed two windows")
        self.run_.follow(self.following, 60)
        self.assertGreaterEqual(self.run_.wanted, 6)

    def test_dead_consumers_cause_no_scale_up(self):
        def half_are_dead(status):
            return {**status, "consumers": status["consumers"][:1]}

        self.assertEqual([], self.run_.follow(self.following, 60, observe=half_are_dead))

    def test_bounds_apply_immediately(self):
        run = SimulatedRun(lambda _: 0.05, lambda _: 0.01, 8)
        changes = run.follow(Autoscaler(Bounds(2, 3)), 60)
        self.assertEqual([3, 2], [number for _, number, _ in changes])
        self.assertEqual([], run.follow(Autoscaler(Bounds(2, 3)), 90))


class DroppedTest(unittest.TestCase):
    def test_dropped_samples_count_as_waiting_work(self):
        """With --when-full drop or spill, the producer never waits for a slab."""
        run = SimulatedRun(lambda _: 0.05, lambda _: 0.2, 2)

        def drops(status):
            made = int(status["slab_wait_seconds"] / 0.05) * 4
            return {**status, "slab_wait_seconds": 0.0, "dropped_samples": made}

        changes = run.follow(Autoscaler(Bounds(1, 12)), 60, observe=drops)
        self.assertGreaterEqual(run.wanted, 4, changes)
