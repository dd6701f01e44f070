"""The message benchmark in a small form: everything is reported, and nothing is lost."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from tests.support.real_run import left_behind

PROGRAM = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]) / "offramp-message-bench"


def bench(*arguments):
    usual = [] if "--seconds" in arguments else ["--seconds", "0.3", "--warm-up", "0.1"]
    done = subprocess.run([PROGRAM, *usual, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def wait_until(is_so):
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class MessageBench(unittest.TestCase):
    def test_rates_with_several_consumers(self):
        result = bench("--consumers", "2", "--slabs", "16", "--window", "8")
        for key in (
            "slabs_per_second",
            "producer_cpu_us_per_slab",
            "consumer_cpu_us_per_slab",
            "tickets_per_message",
            "releases_per_message",
        ):
            self.assertGreater(result[key], 0, key)
        self.assertEqual((result["consumers"], result["slabs"], result["window"]), (2, 16, 8))
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

    def test_a_run_for_a_launcher_reports_itself_until_it_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            status = pathlib.Path(folder, "status.json")
            run = subprocess.Popen([PROGRAM, "--slabs", "8", "--run-dir", folder])
            consumer = None
            try:
                wait_until(status.exists)
                consumer = subprocess.Popen(
                    [
                        PROGRAM.with_name("offramp-consumer"),
                        "--run-dir",
                        folder,
                        "--processor",
                        "none",
                        "--output",
                        folder + "/out",
                    ],
                    stderr=subprocess.DEVNULL,
                )
                wait_until(lambda: json.loads(status.read_text())["released_samples"] > 100)
                run.send_signal(signal.SIGTERM)
                self.assertEqual((0, 0), (run.wait(30), consumer.wait(30)))
            finally:
                for process in filter(None, (run, consumer)):
                    process.kill()
                    process.wait()
            report = json.loads(status.read_text())
            self.assertEqual(("ended", report["submitted_samples"]), (report["state"], report["released_samples"]))
            self.assertEqual(
                [], left_behind(lambda: [path.name for path in pathlib.Path("/dev/shm").glob(f"*{report['nonce']}*")])
            )

    def test_a_consumer_that_cannot_work_ends_it_and_reports_why(self):
        done = subprocess.run(
            [PROGRAM, "--", "--processor", "so:/nowhere/mine.so"], capture_output=True, text=True, timeout=60
        )
        self.assertNotEqual(0, done.returncode)
        self.assertIn("/nowhere/mine.so", done.stderr)
        self.assertIn("an offramp-consumer ended with exit code 64", done.stderr)
