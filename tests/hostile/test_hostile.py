"""A hostile consumer's messages change no other consumer's slab and no result, and are counted by reason."""

import contextlib
import resource
import subprocess
import sys

from tests.hostile import wire
from tests.hostile.zmtp import Connection
from tests.support.real_run import LeavesNothing, RealRun, undisturbed

COPY = (
    *"--device cpu --model copy --copy-bytes 256KiB --batch 4 --batches 200 --slabs 6".split(),
    *"--processor checksum --log-level info".split(),
)
SAMPLES = 800
# Each of these counters must rise.
REFUSED = (
    "hello with more holdings than records",
    "refused: another run",
    "refused: another version",
    "release beyond a gap",
    "release in another's name",
    "release message: another message version",
    "release message: another type",
    "release message: length does not fit the type",
    "release message: not a message of this project",
    "release message: too many records",
    "release message: too short",
    "release message: unknown type",
    "release of an unknown session",
    "release of another run",
    "work message from an unknown consumer",
    "work message of another run",
    "work message out of turn",
    "work message: length does not fit the type",
    "work message: not a message of this project",
    "work message: too many records",
    "work message: too short",
    "work message: unknown type",
)


class Hostile(LeavesNothing):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.wanted = undisturbed(*COPY)

    def start_hostile(self, run, name, *flags):
        run.until(
            lambda: (run.run_dir / "live/endpoint").exists() or run.producer.poll() is not None,
            "the run's endpoint, or its end",
        )
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.hostile_consumer", str(run.run_dir), name, *flags],
            stdout=subprocess.PIPE,
            text=True,
            env=run.environment,
        )
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def assert_the_run_is_as_without(self, run):
        self.assertEqual(run.wait(run.producer), 0, run.logs())
        self.assertEqual(set(run.codes_of_those_let_in()), {0}, run.logs())
        summary = run.summary()
        self.assertTrue(summary["conserved"])
        self.assertEqual(summary["samples"]["released"], SAMPLES)
        self.assertEqual(summary["dead_letters"], [], "no batch is dead-lettered")
        run.finish_outputs()
        self.assertEqual(run.files(), self.wanted)
        return summary

    def test_any_bytes_and_any_lies_change_nothing(self):
        with RealRun(*COPY) as run:
            run.start_producer()
            # The others also send messages in its name, because the working consumers may finish before any message in
            # theirs.
            guest = self.start_hostile(run, "guest")
            self.assertEqual(guest.stdout.readline(), "done\n", run.logs())
            # Twice: without other consumers, so that every slab waits, and beside working consumers.
            for honest in (0, 2):
                for _ in range(honest):
                    run.start_consumer()
                hostile = [
                    self.start_hostile(run, name, "--rounds", rounds, "--seed", str(honest + 1))
                    for name, rounds in (("bytes", "40"), ("messages", "40"), ("member", "10"))
                ]
                printed = [child.stdout.readline() for child in hostile]
                self.assertTrue(set(printed) <= {"done\n", "the run has ended\n"}, f"{printed}\n{run.logs()}")
                if not honest:
                    self.assertEqual(set(printed), {"done\n"})
                for child in (*hostile, guest):
                    child.kill()
                    child.wait()
            summary = self.assert_the_run_is_as_without(run)
            self.assertEqual(
                [reason for reason in REFUSED if not summary["refused"].get(reason)], [], summary["refused"]
            )
            for outcome in ("foreign", "stale", "malformed", "repeated", "returned"):
                self.assertGreater(summary["releases"][outcome], 0, outcome)
            self.assertEqual(summary["releases"]["completed"], SAMPLES // 4)

    def test_a_flood_starves_no_one(self):
        with RealRun(*COPY) as run:
            run.start_producer()
            flood = self.start_hostile(run, "flood", "--rate", "100000")
            self.assertEqual(flood.stdout.readline(), "flooding\n", run.logs())
            for _ in range(2):
                run.start_consumer()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            flood.kill()
            summary = self.assert_the_run_is_as_without(run)
            self.assertGreater(summary["releases"]["repeated"], 1000, "the flood came in")

    def test_connections_without_end_are_cut_off(self):
        """One process opens more connections than the producer may have descriptors, throughout the run."""
        descriptors = 4096
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limits[1] < 4 * descriptors:
            self.skipTest(f"this process may open {limits[1]} files only")
        with RealRun(*COPY) as run, contextlib.ExitStack() as connections:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
            run.through = ("prlimit", f"--nofile={descriptors}:{descriptors}")
            run.start_producer()
            run.through = ()
            run.until(lambda: run.status().get("slabs", {}).get("ready") == 6, "every slab full")
            for _ in range(2 * descriptors):
                run.until(lambda: self.connect(run, connections), "a connection taken")
            for _ in range(2):
                run.start_consumer()
            self.assert_the_run_is_as_without(run)
            self.assertIn("a connection of process", run.logs())

    @staticmethod
    def connect(run, connections):
        """False while the socket's queue is full."""
        try:
            connections.enter_context(Connection(wire.sockets_of(run.run_dir)[0], None))
        except BlockingIOError:
            return False
        return True
