"""The search of `tune` on simulated machines, compared with the best of the whole grid, and its refusals."""

import dataclasses
import itertools
import math
import pathlib
import random
import sys
import tempfile
import time
import unittest
from unittest import mock

from stage import OnStage

from offramp_launch.supervision.autoscaler import Bounds
from offramp_launch.tuning.search import GAIN, Outcome, Search
from offramp_launch.tuning.trial import Trials

REACHED = 0.95  # share of the best rate of the grid
GRID = {
    "batch": [2**power for power in range(9)],
    "decode-workers": [2**power for power in range(6)],
    "slabs": [2**power for power in range(1, 7)],
}
MOST = {name: values[-1] for name, values in GRID.items()}
START = {"batch": 8, "decode-workers": 4, "slabs": 0}


@dataclasses.dataclass
class Machine:
    """A machine whose rate is that of its slowest stage."""

    cores: int = 16
    launch_seconds: float = 0.01  # of a batch
    sample_seconds: float = 0.0005  # of the model
    decode_seconds: float = 0.01
    consume_seconds: float = 0.004
    slabs_for_speed: int = 8
    memory: int = 4096  # samples in all slabs
    most_consumers: int = 16
    noise: float = 0.0
    dice: random.Random = dataclasses.field(default_factory=lambda: random.Random(5))

    def outcome(self, setting):
        batch, decode, slabs = setting["batch"], setting["decode-workers"], setting["slabs"] or 8
        if batch * slabs > self.memory:
            return Outcome(error="shared memory is full", code=73)
        stages = {
            "compute": batch / (self.launch_seconds + self.sample_seconds * batch),
            "input": min(decode, self.cores) / self.decode_seconds,
        }
        if decode > self.cores:
            stages["input"] *= 0.8
        stages["copy to host"] = min(1.0, slabs / self.slabs_for_speed) * 4000
        wanted = min(stages.values()) * self.consume_seconds
        consumers = min(self.most_consumers, math.ceil(wanted))
        stages["consumers"] = consumers / self.consume_seconds
        limiting = min(stages, key=stages.get)
        return Outcome(
            stages[limiting] * (1 + self.noise * self.dice.uniform(-1, 1)), limiting, consumers, slabs, wanted
        )

    def best_of_the_grid(self):
        still = dataclasses.replace(self, noise=0.0)
        return max(still.outcome(dict(zip(GRID, values))).rate for values in itertools.product(*GRID.values()))


def searched(machine, fixed=(), trials=100):
    search = Search(START, fixed, {**MOST, "decode-workers": max(4, 2 * machine.cores)})
    for _ in range(trials):
        setting = search.next()
        if setting is None:
            break
        search.note(machine.outcome(setting))
    return search


class SearchTest(unittest.TestCase):
    MACHINES = {
        "compute, which wants large batches": Machine(launch_seconds=0.05),
        "the model alone": Machine(sample_seconds=0.01, launch_seconds=0.0),
        "decoding": Machine(decode_seconds=0.05),
        "decoding on few cores": Machine(cores=2, decode_seconds=0.02),
        "consumers": Machine(consume_seconds=0.02),
        "slabs": Machine(
            slabs_for_speed=32,
            sample_seconds=0.00001,
            launch_seconds=0.001,
            decode_seconds=0.001,
            consume_seconds=0.001,
        ),
        "little memory": Machine(memory=256, launch_seconds=0.05),
    }

    def test_gets_close_to_the_best_of_the_grid_in_few_trials(self):
        for name, machine in self.MACHINES.items():
            with self.subTest(name):
                search = searched(machine)
                self.assertGreaterEqual(
                    machine.outcome(search.best).rate, REACHED * machine.best_of_the_grid(), search.trials
                )
                self.assertLessEqual(len(search.trials), 24, search.trials)

    def test_gets_close_with_noisy_trials(self):
        for name, machine in self.MACHINES.items():
            for seed in range(5):
                with self.subTest(name, seed=seed):
                    search = searched(dataclasses.replace(machine, noise=0.02, dice=random.Random(seed)))
                    self.assertGreaterEqual(
                        dataclasses.replace(machine, noise=0.0).outcome(search.best).rate,
                        REACHED * machine.best_of_the_grid(),
                        search.trials,
                    )

    def test_changes_the_limiting_stage_first(self):
        for machine, changed in (
            (Machine(decode_seconds=0.05), "decode-workers"),
            (Machine(launch_seconds=0.05), "batch"),
            (Machine(consume_seconds=0.2), "slabs"),
        ):
            search = searched(machine, trials=2)
            first, second = (setting for setting, _ in search.trials)
            self.assertEqual([changed], [name for name in first if first[name] != second[name]], search.trials)

    def test_continues_a_change_that_helped(self):
        search = searched(Machine(launch_seconds=0.5, decode_seconds=0.0001), trials=5)
        self.assertEqual([8, 16, 32, 64, 128], [setting["batch"] for setting, _ in search.trials])

    def test_keeps_the_settings_of_the_user(self):
        search = searched(Machine(launch_seconds=0.05, decode_seconds=0.05), fixed=("batch", "slabs"))
        self.assertEqual({(8, 8)}, {(setting["batch"], setting["slabs"]) for setting, _ in search.trials})

    def test_a_failing_setting_is_recorded_and_avoided(self):
        search = searched(Machine(memory=64, launch_seconds=0.05))
        self.assertTrue(any(outcome.error for _, outcome in search.trials))
        self.assertLessEqual(search.best["batch"] * search.best["slabs"], 64)

    def test_stops_if_the_first_trial_fails(self):
        search = searched(Machine(memory=8))
        self.assertEqual((None, 1), (search.best, len(search.trials)))

    def test_one_outlier_does_not_decide(self):
        machine, numbers = Machine(), itertools.count()

        class Outlier:
            cores = machine.cores

            def outcome(self, setting):
                outcome = machine.outcome(setting)
                return dataclasses.replace(outcome, rate=outcome.rate * 3) if next(numbers) == 1 else outcome

        search = searched(Outlier())
        self.assertGreaterEqual(
            machine.outcome(search.best).rate, (1 - GAIN) * machine.outcome(search.trials[0][0]).rate, search.trials
        )


class TrialTest(unittest.TestCase):
    # A run that reports seven slabs in twenty seconds of 0.1 s each, and exits with code 71.
    RUN = """
import json, os, pathlib, sys, time
run_dir = pathlib.Path(sys.argv[sys.argv.index("--run-dir") + 1])
run_dir.mkdir()
for second in range(1, 21):
    slabs = min(second, 7)
    (run_dir / "new").write_text(json.dumps({"state": "running", "pid": 1, "now_ns": second * 10**9, "released_samples": 4 * slabs, "last_release_ns": slabs * 10**9,
        "slabs": {"free": 4}, "consumers": [{"session": 1, "slabs": slabs, "samples": 4 * slabs, "busy_seconds": slabs / 2, "ready": True, "end": ""}]}))
    os.replace(run_dir / "new", run_dir / "status.json")
    time.sleep(0.1)
print("offramp: it went wrong", flush=True)
sys.exit(71)
"""

    def test_a_failed_trial_has_no_rate(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "run.py"
            program.write_text(self.RUN)
            places = mock.Mock()
            places.python_command.return_value = [sys.executable, str(program)]
            trials = Trials(places, [], {}, folder)
            self.addCleanup(trials.close)
            outcome = trials.measure({"batch": 4}, 1, Bounds(1, 1), time.monotonic() + 60)
        self.assertEqual((0.0, "it went wrong", 71), (outcome.rate, outcome.error, outcome.code))


class CommandTest(OnStage):
    """Arguments that `tune` refuses before any trial."""

    def refused(self, *words, code=64):
        given, output = self.stage.call("tune", *words)
        self.assertEqual(code, given, output)
        return output

    def test_refuses_unsupported_flags(self):
        for flag, why in (
            ("--sink=postgres://host/db", "would write to that database"),
            ("--gpus=all", "one producer"),
            ("--http-url=http://there", "post their results"),
            ("--consumer-user=nobody", "may not enter the folders of trials"),
        ):
            output = self.refused(flag, "--input", "there")
            self.assertIn(f"tune does not accept {flag.partition('=')[0]}: ", output)
            self.assertIn(why, output)

    def test_refuses_zero_consumers(self):
        self.assertIn(
            "--consumers 0: the outputs need at least one consumer",
            self.refused("--consumers", "0", "--input", "there", "--model", "copy"),
        )

    def test_refuses_an_invalid_time(self):
        self.assertIn("--seconds is 'soon'", self.refused("--seconds", "soon"))
        self.assertIn("--seconds 9 is too short", self.refused("--seconds=9"))
