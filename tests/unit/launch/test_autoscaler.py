"""Autoscaling on simulated runs: throughput compared with the best fixed number, and the number of changes."""

import unittest

from simulated_run import SimulatedGroups, SimulatedRun, SimulatedSlots, best_rate

from offramp_launch.exit_code import LaunchError
from offramp_launch.supervision.autoscaler import Bounds, Autoscaler
from offramp_launch.supervision.group_status import GroupStatus
from offramp_launch.supervision.scaling import ConsumerScaling

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


class GroupsTest(unittest.TestCase):
    """Groups share the slabs and the cores. Each has an autoscaler, which knows only its own group's figures."""

    def follow(self, phases, reached=0.95, seconds=90, settled=45, fixed=(), **given):
        """
        `phases`: (producer seconds per slab, each group's consumer seconds per slab). `fixed`: groups that are not
        autoscaled. Returns (run, the notes of each phase).
        """
        names = "abc"[: len(phases[0]) - 1]

        def at(which):
            return lambda now: phases[min(int(now // seconds), len(phases) - 1)][which]

        takes = {name: at(number) for number, name in enumerate(names, start=1)}
        run = SimulatedGroups(at(0), takes, dict.fromkeys(names, 2), **given)
        notes, scalings, by_phase = [], [], []
        for name in names:
            see = GroupStatus(name).of
            scalings.append(ConsumerScaling(SimulatedSlots(run, name), notes.append, name, see, lambda: run.now))
            if name not in fixed:
                scalings[-1].take_up(Bounds(1, 12))
        for number, phase in enumerate(phases):
            run.follow(scalings, number * seconds + settled)
            before = run.released
            run.follow(scalings, (number + 1) * seconds)
            rate = (run.released - before) / (seconds - settled)
            best = 4 * min(1 / phase[0], *(12 / take for take in phase[1:]), (run.cores or 1000) / sum(phase))
            best = min(best, *(4 * 2 / phase[names.index(name) + 1] for name in fixed), 1e9)
            wanted = {name: run.wanted_of(name) for name in names}
            self.assertGreaterEqual(
                rate, reached * best, f"phase {number}: {rate:.1f} of {best:.1f}; {wanted}; {notes}"
            )
            by_phase.append(list(notes))
            notes.clear()
        return run, by_phase

    def assert_only(self, group, notes):
        self.assertEqual([], [note for note in notes if not note.startswith(f"consumers of {group}: ")])
        self.assertIn(len(notes), (1, 2))

    def test_only_the_group_whose_load_grows_gets_more(self):
        for noise in (0.0, 0.3):
            with self.subTest(noise=noise):
                run, notes = self.follow([(0.05, 0.08, 0.08), (0.05, 0.28, 0.08)], noise=noise)
                self.assertEqual([], notes[0])
                self.assert_only("a", notes[1])
                self.assertRegex(
                    notes[1][0], r"^consumers of a: 2 -> \d: the run waits for consumers \d+ % of the time$"
                )

    def test_a_load_that_moves_to_another_group(self):
        run, notes = self.follow([(0.05, 0.28, 0.08), (0.05, 0.08, 0.28)])
        self.assertEqual({"a": 2, "b": 6}, {name: run.wanted_of(name) for name in "ab"})

    def test_groups_that_are_equally_slow(self):
        """More consumers of one alone do not help, as the run then waits for the other."""
        self.follow([(0.05, 0.28, 0.28)], slabs=16)
        self.follow([(0.1, 0.4, 0.05, 0.1), (0.03, 0.4, 0.02, 0.4)], reached=0.9, seconds=120, settled=75, slabs=16)

    def test_groups_that_compete_for_cores(self):
        for cores in (4, 8):
            with self.subTest(cores=cores):
                given = {"seconds": 240, "settled": 120, "slabs": 16, "noise": 0.3}
                run, notes = self.follow([(0.02, 0.2, 0.2)], reached=0.9, cores=cores, **given)
                self.assertLessEqual(len(notes[0]), 10, "they settle")

    def test_a_group_with_a_fixed_number_limits_the_other(self):
        run, notes = self.follow([(0.05, 0.28, 0.28)], fixed="b", slabs=16)
        self.assertEqual(2, run.wanted_of("b"))
        self.assertLessEqual(run.wanted_of("a"), 3)


class GroupStatusTest(unittest.TestCase):
    def setUp(self):
        self.view = {name: GroupStatus(name) for name in ("slow", "fast", "extra")}

    def see(self, waited, slow=(6, 2), fast=(0, 1), extra=(0, 2), pid=1, more_of_slow=()):
        """What each group sees of a status in which the run has waited so long. `slow`...: waiting, leased slabs."""
        status = {
            "pid": pid,
            "slab_wait_seconds": waited,
            "dropped_samples": 70,
            "slabs": {"free": 0, "filling": 1, "ready": 5, "leased": 4, "retired": 3},
            "groups": [
                {"name": name, "optional": name == "extra", "waiting_slabs": waiting, "leased_slabs": leased, **more}
                for name, (waiting, leased), more in (
                    ("slow", slow, {"released_samples": 10, "last_release_ns": 3, **dict(more_of_slow)}),
                    ("fast", fast, {"released_samples": 30, "last_release_ns": 4}),
                    ("extra", extra, {"released_samples": 20, "dropped_samples": 7}),
                )
            ],
            "consumers": [{"session": 1, "group": "slow"}, {"session": 1, "group": "fast"}],
        }
        return {name: view.of(status) for name, view in self.view.items()}

    def waits(self, seen):
        return {name: (own["slab_wait_seconds"], own["slab_wait_elsewhere_seconds"]) for name, own in seen.items()}

    def test_the_run_waits_for_the_slowest_group(self):
        self.see(1.0)
        self.assertEqual({"slow": (2, 0), "fast": (0, 2), "extra": (0, 2)}, self.waits(self.see(3.0)))
        self.assertEqual({"slow": (2, 0), "fast": (0, 2), "extra": (0, 2)}, self.waits(self.see(3.0)), "the same again")
        both = self.waits(self.see(4.0, fast=(7, 1)))
        self.assertEqual({"slow": (3, 0), "fast": (1, 2), "extra": (0, 3)}, both, "both have eight slabs")
        self.assertEqual((3, 1), self.waits(self.see(5.0, extra=(0, 9), fast=(8, 1)))["slow"])

    def test_a_group_that_drops_keeps_no_run_waiting(self):
        """Twin: with another policy, the same group with the most slabs is waited for."""
        for policy, waited in (("drop-oldest", {"slow": (0, 2), "fast": (2, 0)}), ("wait", {"slow": (2, 0)})):
            with self.subTest(policy):
                self.setUp()
                self.see(1.0)
                seen = self.see(3.0, more_of_slow={"dropped_samples": 4, "when_full": policy})
                self.assertEqual(waited, {name: waits for name, waits in self.waits(seen).items() if name in waited})
                self.assertEqual(4, seen["slow"]["dropped_samples"])

    def test_another_producer_counts_from_the_start(self):
        self.see(100.0)
        self.see(2.0, pid=2)
        self.assertEqual((1, 0), self.waits(self.see(3.0, pid=2))["slow"])

    def test_each_group_sees_its_own_figures(self):
        seen = self.see(1.0)
        self.assertEqual((10, 3, None), self.figures(seen["slow"]))
        self.assertEqual((20, None, 7), self.figures(seen["extra"]), "what it dropped was too much for its consumers")
        self.assertEqual([{"session": 1, "group": "slow"}], seen["slow"]["consumers"])
        self.assertEqual({"free": 2, "ready": 6, "leased": 2, "retired": 3}, seen["slow"]["slabs"])
        self.assertEqual({"free": 9, "ready": 0, "leased": 1, "retired": 3}, seen["fast"]["slabs"])

    def figures(self, seen):
        return seen["released_samples"], seen["last_release_ns"], seen["dropped_samples"]

    def test_a_status_without_groups_has_nothing_done(self):
        own = self.view["slow"].of({"pid": 1, "released_samples": 9, "slab_wait_seconds": 1.0})
        self.assertEqual((None, []), (own["released_samples"], own["consumers"]))
        self.assertIsNone(Autoscaler(Bounds(1, 9)).look({**own, "state": "running", "now_ns": 5}, 2))
