"""
Descriptors run out, or another program fills /dev/shm: a clear error or no harm, nothing lost, and the run can resume.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import unittest

from tests.support.launched_resume import World
from tests.support.real_run import (
    BIN,
    SANITIZER,
    LeavesNothing,
    RealRun,
    is_stopped,
    kill,
    left_behind,
    shared_memory,
    undisturbed,
)

COPY = (
    *"--device cpu --model copy --copy-bytes 256KiB --batch 4 --batches 40 --slabs 4".split(),
    *"--processor checksum --log-level info".split(),
)
CLONE_NEWNS = 0x20000
SHM_MIB = 64


class Descriptors(LeavesNothing):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.wanted = undisturbed(*COPY)

    @unittest.skipIf(SANITIZER, "a sanitizer needs descriptors itself to judge an address")
    def test_a_producer_with_few_of_them_reports_it_or_works(self):
        ended = set()
        for few in (*range(8, 40, 4), 64, 128):
            with self.subTest(descriptors=few), RealRun(*COPY) as run:
                run.through = ("prlimit", f"--nofile={few}:{few}")
                run.start_producer()
                run.until(
                    lambda: run.producer.poll() is not None or (run.run_dir / "live/endpoint").exists(),
                    "an endpoint or an end",
                )
                if run.producer.poll() is None:
                    run.through = ()
                    run.start_consumer()
                code = run.wait(run.producer)
                ended.add(code)
                self.assertGreaterEqual(code, 0, f"it died of a signal\n{run.logs()}")
                if code == 0:
                    run.wait_for_consumers()
                    run.finish_outputs()
                    self.assertEqual(run.files(), self.wanted)
                else:
                    self.assertIn("Too many open files", run.logs())
        self.assertIn(0, ended, "with enough of them it works")
        self.assertGreater(len(ended), 1, "with too few it cannot")

    def test_a_consumer_with_few_of_them_leaves_and_others_do_its_work(self):
        failed = 0
        with RealRun(*COPY) as run:
            run.start_producer()
            for few in range(4, 24, 2):
                run.through = ("prlimit", f"--nofile={few}:{few}")
                consumer = run.start_consumer()
                run.until(
                    lambda: consumer.poll() is not None or "session" in run.logs(), "a consumer let in, or its end"
                )
                if consumer.poll() is None:
                    break
                failed += 1
                self.assertGreater(consumer.returncode, 0, f"it died of a signal\n{run.logs()}")
                run.consumers.remove(consumer)
            run.through = ()
            run.start_consumer()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            self.assertGreater(failed, 0, "with too few it cannot")
            self.assertEqual(run.summary()["dead_letters"], [])
            run.finish_outputs()
            self.assertEqual(run.files(), self.wanted)


class FilledSharedMemory(unittest.TestCase):
    """In a private /dev/shm, because a full one would stop other programs on the machine."""

    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
            raise unittest.SkipTest("needs root for a private /dev/shm")
        done = subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise unittest.SkipTest(f"cannot make a private mount namespace: {done.stderr.strip()}")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SHM_MIB}m,mode=1777", "tmpfs", "/dev/shm"], check=True)
        cls.wanted = undisturbed(*COPY)

    def setUp(self):
        self.stranger = pathlib.Path("/dev/shm/another-programs")
        self.addCleanup(self.stranger.unlink, missing_ok=True)

    def take_what_is_free(self):
        """Fills /dev/shm with another program's file."""
        room = os.statvfs("/dev/shm")
        with open(self.stranger, "ab") as file, contextlib.suppress(OSError):  # space may disappear meanwhile
            if room.f_bavail:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), room.f_bavail * room.f_bsize)

    def test_a_pool_that_is_there_stays_there(self):
        with RealRun(*COPY) as run:
            run.start_producer()
            run.until(lambda: run.status().get("slabs", {}).get("ready") == 4, "every slab full")
            self.take_what_is_free()
            self.assertEqual(os.statvfs("/dev/shm").f_bavail, 0)
            run.start_consumer()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            run.finish_outputs()
            self.assertEqual(run.files(), self.wanted)

    @unittest.skipIf(SANITIZER, "preloads a library, and a sanitizer's must come first")
    def test_a_pool_that_cannot_be_made_ends_the_run(self):
        """
        The space that was free at the start is gone when the slabs take it: before the first batch, and during it.
        """
        for span in (1, 3):
            with self.subTest(span=span), RealRun(*COPY) as run:
                run.environment |= {
                    "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
                    "OFFRAMP_FAILPOINT": f"pool.span_named#{span}:stop",
                }
                run.start_producer()
                run.until(lambda: is_stopped(run.producer), "a slab with a name and no memory")
                self.take_what_is_free()
                kill(run.producer, signal.SIGCONT)
                self.assertEqual(run.wait(run.producer), 80, run.logs())
                # The message names the waiting slab, or none.
                self.assertRegex(run.logs(), "/dev/shm is full: enlarge it|No space left on device.*Enlarge /dev/shm")
                self.assertEqual(left_behind(shared_memory), set())
                self.stranger.unlink()

    def test_a_run_that_needs_more_reports_it_and_continues_later(self):
        """Only the strategy `workers` allocates memory in mid-run: a segment per batch."""
        flags = (*COPY, "--strategy", "workers", "--consumers", "1", "--status-seconds", "0.05")
        # Freeing a segment races with creating the next one; among so many segments this test wins once.
        flags = tuple("2000" if word == "40" else word for word in flags)
        with World(*flags) as world:
            with world.gate() as gate:
                world.start()
                gate.let(2)
                world.until(lambda: world.status().get("done_samples", 0) >= 8, "some samples done")
                self.take_what_is_free()
                gate.open()
                while world.launcher.poll() is None:
                    self.take_what_is_free()
                self.assertEqual(world.wait(), 80, world.logs())
            self.assertIn("--shm-size", world.logs())
            self.assertIn("/dev/shm", world.logs())
            self.assertEqual(left_behind(world.shared_memory), set())
            self.stranger.unlink()
            self.assertEqual(world.start("--resume").wait(), 0, world.logs())
            samples = world.summary()["samples"]
            self.assertGreater(samples["done_before"], 0)
            self.assertEqual(samples["done_before"] + samples["released"], 8000)
