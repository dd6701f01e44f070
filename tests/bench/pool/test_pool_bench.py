"""The pool benchmark in a small form: every way of making the pool is reported, and nothing is left behind."""

import json
import os
import pathlib
import subprocess
import unittest

PROGRAM = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]) / "offramp-pool-bench"


class PoolBench(unittest.TestCase):
    def test_every_way_has_its_times(self):
        done = subprocess.run([PROGRAM, "--slabs", "3", "--slab-bytes", "2000000", "--rounds", "2", "--device", "cpu"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["spans"], 3)
        for way in ("pool", "span-by-span", "one-object"):
            self.assertGreater(result[way]["first_seconds"], 0)
            self.assertGreaterEqual(result[way]["all_seconds"], result[way]["first_seconds"])
        self.assertGreater(result["pool_all_over_one_object"], 0)
        self.assertEqual([name for name in os.listdir("/dev/shm") if name.startswith("offramp-pool-bench-")], [])


if __name__ == "__main__":
    unittest.main()
