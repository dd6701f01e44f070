"""Consumers in a surviving process return all slabs, and late returns of a dead run do not affect the next."""

import importlib.util
import os
import unittest

from tests.crash import living_consumers
from tests.crash.crash_run import failpoints_of_the_sources
from tests.crash.living_consumers import (
    OF_A_RECOVERY,
    RunDirectory,
    error_at,
    producer_dies_at_slab,
    samples_in,
    wrong_values,
)


@unittest.skipIf(
    os.environ.get("OFFRAMP_TEST_SANITIZER") or importlib.util.find_spec("numpy") is None,
    "skipped: needs NumPy, and a build without sanitizers",
)
class LivingConsumers(unittest.TestCase):
    def test_an_error_at_each_step(self):
        names = [
            name
            for name, program in failpoints_of_the_sources().items()
            if program == "consumer" and name.startswith("consumer.")
        ]
        self.assertEqual([], [name for name in OF_A_RECOVERY if name not in names])
        for name in names:
            if name not in OF_A_RECOVERY:
                with self.subTest(name), RunDirectory() as directory:
                    self.assertEqual([], error_at(name, directory))

    def test_as_many_errors_as_there_are_slabs(self):
        for name in ("consumer.ticket_taken", "consumer.work_noted"):
            with self.subTest(name), RunDirectory() as directory:
                self.assertEqual([], error_at(name, directory, times=3))

    def test_two_consumers_of_one_process_across_two_runs(self):
        for number in (1, 2, 3):
            with self.subTest(f"slab {number}"), RunDirectory() as directory:
                self.assertEqual([], producer_dies_at_slab(number, directory))

    def test_another_samples_bytes_are_found(self):
        samples = samples_in(["sample 3/1 3001 3001", "second holds", "sample 3/2 3001 3001", "sample 4/0 4000 58000"])
        self.assertEqual([("3/2", 3001, 3001), ("4/0", 4000, 58000)], wrong_values(samples))
        self.assertEqual(480, living_consumers.BATCHES * living_consumers.ROWS)
