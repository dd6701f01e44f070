"""A small run of death_to_free.py: the measured events happen, and only slabs are excluded from a core file."""

import resource

from tests.crash.death_to_free import HOWS, Deaths, histogram, percentile
from tests.support.real_run import LeavesNothing

MIB = 1 << 20


class DeathToFree(LeavesNothing):
    def test_a_slab_comes_back_from_every_death(self):
        limits = resource.getrlimit(resource.RLIMIT_CORE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, limits)
        resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
        for how in HOWS:
            with self.subTest(how=how):
                found, dumped = Deaths(16 * MIB).measure(3, how)
                self.assertEqual(len(found), 3)
                self.assertGreater(min(death.until_free for death in found), 0)
                if how == "kill":
                    self.assertEqual(dumped, 0)

    def test_figures(self):
        values = [1.0] * 99 + [50.0]
        self.assertEqual((percentile(values, 0.5), percentile(values, 0.99)), (1.0, 50.0))
        self.assertEqual([line.split()[4] for line in histogram(values)], ["99", "1"])
