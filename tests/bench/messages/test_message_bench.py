"""The message benchmark in a small form: everything is reported, and nothing is lost."""

import json
import os
import pathlib
import subprocess
import unittest

PROGRAM = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]) / "offramp-message-bench"


def bench(*arguments):
    done = subprocess.run([PROGRAM, "--seconds", "0.3", "--warm-up", "0.1", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


class MessageBench(unittest.TestCase):
    def test_rates_with_several_consumers(self):
        result = bench("--consumers", "2", "--slabs", "16", "--credits", "8")
        for key in ("slabs_per_second", "producer_cpu_us_per_slab", "consumer_cpu_us_per_slab", "tickets_per_message",
                    "releases_per_message"):
            self.assertGreater(result[key], 0, key)
        self.assertEqual((result["consumers"], result["slabs"], result["credits"]), (2, 16, 8))
        self.assertTrue(result["conserved"])

    def test_latencies_come_with_their_histogram(self):
        for more in ((), ("--bare",)):
            with self.subTest(more=more):
                latency = bench("--latency", *more)["latency"]
                self.assertGreater(latency["count"], 0)
                self.assertEqual(sum(count for _, count in latency["histogram"]), latency["count"])
                self.assertLessEqual(latency["p50_us"], latency["p99_us"])
                self.assertLessEqual(latency["p999_us"], latency["max_us"])

    def test_consumers_are_the_users_program_where_flags_for_it_are_given(self):
        result = bench("--consumers", "2", "--slabs", "16", "--", "--processor", "none")
        for key in ("slabs_per_second", "producer_cpu_us_per_slab", "consumer_cpu_us_per_slab"):
            self.assertGreater(result[key], 0, key)
        self.assertTrue(result["conserved"])

    def test_a_consumer_that_cannot_work_ends_it_and_says_why(self):
        done = subprocess.run([PROGRAM, "--", "--processor", "so:/nowhere/mine.so"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("/nowhere/mine.so", done.stderr)
        self.assertIn("an offramp-consumer ended with exit code 64", done.stderr)


if __name__ == "__main__":
    unittest.main()
