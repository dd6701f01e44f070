"""Kills a few producers in mid-copy and checks the recovery."""

import unittest
import unittest.mock

from tests.crash import producer_deaths
from tests.crash.producer_deaths import SMALL, STEPS, Deaths
from tests.support import run_memory
from tests.support.run_memory import SHM, RunMemory


class Tampered(RunMemory):
    """Another process writes to a slab whose producer is dead and reaped."""

    def sums(self):
        before = super().sums()
        with open(SHM / (self._prefix + "s0"), "r+b") as file:
            file.seek(self.slab_bytes // 2)
            byte = file.read(1)[0]
            file.seek(self.slab_bytes // 2)
            file.write(bytes([byte ^ 1]))
        return before


class ProducerDeaths(unittest.TestCase):
    def test_no_byte_changes_and_the_run_continues(self):
        deaths = Deaths(SMALL, deaths=6, consumers=2, spread=0.05, seed=1).run()
        print("\n" + producer_deaths.report(deaths), flush=True)
        self.assertEqual([], deaths.wrong)
        self.assertEqual(6, len(deaths.recorded))
        self.assertGreater(sum(death["slabs that kept their bytes"] for death in deaths.recorded), 0)
        self.assertEqual(set(STEPS), set(deaths.recorded[0]["seconds"]), "a death in mid-run has every step")

    def test_a_byte_that_changes_is_found(self):
        with unittest.mock.patch.object(run_memory, "RunMemory", Tampered):
            deaths = Deaths(SMALL, deaths=1, consumers=2, spread=0.05, seed=1).run()
        self.assertIn("bytes of slabs changed", "\n".join(deaths.wrong))
