"""The pool benchmark in a small form: every way of making the pool is reported, and nothing is left behind."""

import contextlib
import json
import os
import pathlib
import subprocess
import time
import unittest

from contestants import sweep_dead_runs
from left_behind import left_since, objects_of_dead_runs

PROGRAM = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]) / "offramp-pool-bench"


class PoolBench(unittest.TestCase):
    def test_every_way_has_its_times(self):
        before = objects_of_dead_runs()
        done = subprocess.run([PROGRAM, "--slabs", "3", "--slab-bytes", "2000000", "--rounds", "2", "--device", "cpu"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["spans"], 3)
        for way in ("pool", "span-by-span", "one-object"):
            self.assertGreater(result[way]["first_seconds"], 0)
            self.assertGreaterEqual(result[way]["all_seconds"], result[way]["first_seconds"])
        self.assertGreater(result["pool_all_over_one_object"], 0)
        self.assertEqual(left_since(before), set())

    def test_a_sweep_leaves_a_living_ones_memory_and_removes_a_killed_ones(self):
        bench = subprocess.Popen([PROGRAM, "--slabs", "3", "--slab-bytes", "2000000", "--rounds", "1000", "--device", "cpu"],
                                 stdout=subprocess.DEVNULL)
        with contextlib.ExitStack() as stack:
            stack.callback(bench.wait)
            stack.callback(bench.kill)
            # A span is made once the lock is held.
            while ((lock := lock_of(bench.pid)) is None or not lock.with_suffix(".s0").exists()) and bench.poll() is None:
                time.sleep(0.01)
            self.assertIsNotNone(lock)
            sweep_dead_runs(PROGRAM.parent)
            self.assertTrue(lock.exists())
            self.assertIsNone(bench.poll())
        sweep_dead_runs(PROGRAM.parent)
        self.assertEqual(list(lock.parent.glob(f"{lock.stem}.*")), [])


def lock_of(pid):
    """The lock object that the program holds: the other objects of its run have the same name before the dot."""
    for entry in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            path = pathlib.Path(os.readlink(entry))
            if path.match("/dev/shm/offramp-pool-bench-*.lock"):
                return path
    return None


if __name__ == "__main__":
    unittest.main()
