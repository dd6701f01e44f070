"""
Unreadable pictures in runs whose producer is killed: each is retried, reported once, counted once, and never has a
result.
"""

import contextlib
import os
import pathlib
import signal
import sqlite3
import unittest

from PIL import Image

from tests.support.done_items import items_of_checkpoint
from tests.support.launched_resume import World
from tests.support.real_run import require_nothing_left

BIN = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).absolute()
FLAGS = (
    *"--device cpu --model cutout --image-size 64 --batch 1 --batches-per-slab 1 --slabs 4".split(),
    *"--consumers 2 --max-errors 100% --processor mask-png,records --status-seconds 0.05".split(),
)
PICTURES = 12
KILLED = 128 + signal.SIGKILL


class DamagedInput(unittest.TestCase):
    def world(self, *flags):
        world = World(*FLAGS, *flags)
        self.addCleanup(require_nothing_left, self, world.shared_memory)
        self.addCleanup(world.__exit__)
        return world

    def painted(self, *flags, damaged=()):
        """A world with its own input folder."""
        world = self.world(*flags)
        world.pictures = world.folder / "pictures"
        world.pictures.mkdir()
        world.flags = (*world.flags, "--input", str(world.pictures))
        for number in range(PICTURES):
            self.paint(world, number)
        self.damage(world, damaged)
        return world

    def paint(self, world, number):
        Image.new("RGB", (70 + number, 60), (20 * number, 90, 200)).save(world.pictures / f"{number:02}.png")

    def damage(self, world, numbers):
        for number in numbers:
            (world.pictures / f"{number:02}.png").write_bytes(b"no picture")

    def rows(self, world):
        """{status: numbers of the items}"""
        with contextlib.closing(sqlite3.connect(world.output / "records/records.sqlite")) as database:
            rows = database.execute("SELECT item, status FROM records ORDER BY item").fetchall()
        return {status: [item for item, found in rows if found == status] for status in ("done", "skipped")}

    def masks(self, world):
        return {path.name: path.read_bytes() for path in (world.output / "mask-png").iterdir()}

    def check_summary(self, world, skipped, released, done_before=0, met_by_the_dead=0):
        """`met_by_the_dead`: how many of the first skipped items are counted and reported only by number."""
        summary = world.summary()
        listed = [f"{number:02}.png" for number in skipped[met_by_the_dead:]]
        self.assertEqual([pathlib.Path(item["origin"]).name for item in summary["skipped"]], listed, world.logs())
        log = (world.folder / "launcher.log").read_text()
        for name in listed:
            self.assertEqual(log.count(f"{world.pictures / name}: not an image"), 1, log)
        self.assertEqual(
            f"and {met_by_the_dead} more: a producer that died found them" in log, met_by_the_dead > 0, log
        )
        self.assertEqual(
            {name: summary["samples"][name] for name in ("skipped", "released", "done_before")},
            {"skipped": len(skipped), "released": released, "done_before": done_before},
            world.logs(),
        )
        self.assertTrue(summary["conserved"])

    def killed_behind_the_skipped(self, world):
        """Kills a run's producer once the skipped item and three more are done. Returns the run's exit code."""
        with world.gate() as gate:
            world.start()
            gate.let(4)
            world.until(lambda: world.status().get("done_samples", 0) >= 3, "the skipped item and three more")
            world.until(lambda: items_of_checkpoint(world.output), "some items in the checkpoint")
            os.kill(world.status()["pid"], signal.SIGKILL)
            gate.open()
            return world.wait()

    def test_items_skipped_in_a_killed_run_are_tried_again_by_the_next(self):
        world = self.painted("--producer-restarts", "0", damaged=(1,))
        self.assertEqual(self.killed_behind_the_skipped(world), KILLED, world.logs())
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        done = world.summary()["samples"]["done_before"]
        self.assertGreaterEqual(done, 1)
        self.check_summary(world, skipped=[1], released=PICTURES - 1 - done, done_before=done)
        self.assertEqual(self.rows(world), {"done": [0, *range(2, PICTURES)], "skipped": [1]})
        self.paint(world, 1)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.check_summary(world, skipped=[], released=1, done_before=PICTURES - 1)
        self.assertEqual(self.rows(world), {"done": list(range(PICTURES)), "skipped": []})
        self.assertEqual(len(self.masks(world)), PICTURES)

    def test_a_producer_that_takes_over_counts_it_once(self):
        world = self.painted("--producer-restarts", "1", damaged=(1, PICTURES - 1))
        self.assertEqual(self.killed_behind_the_skipped(world), 0, world.logs())
        self.assertEqual(world.summary()["producer_restarts"], 1)
        self.check_summary(world, skipped=[1, PICTURES - 1], released=PICTURES - 2, met_by_the_dead=1)
        self.assertEqual(self.rows(world), {"done": [0, *range(2, PICTURES - 1)], "skipped": [1, PICTURES - 1]})

    def killed_behind_holes(self, world, *flags):
        """
        Starts a run with --overwrite whose producer dies after two slabs of damaged pictures. Returns the exit code.
        """
        once = world.folder / "once"
        once.mkdir()
        before = world.environment
        world.environment = {
            **before,
            "LD_PRELOAD": str(BIN / "tests/libofframp_failpoints.so"),
            "OFFRAMP_FAILPOINT": "ledger.ready#2:kill",
            "OFFRAMP_FAILPOINT_ONCE": str(once),
        }
        code = world.start("--overwrite", *flags).wait()
        world.environment = before
        self.assertTrue((once / "ledger.ready").exists(), world.logs())
        return code

    def test_damaged_pictures_alone_are_no_result_and_a_successor_restarts(self):
        damaged = (0, 1, 2)
        world = self.painted()
        self.assertEqual(world.start().wait(), 0, world.logs())
        masks, checkpoint = self.masks(world), (world.output / ".offramp-checkpoint").read_bytes()
        self.damage(world, damaged)
        for restarts in ("0", "1"):
            with self.subTest(restarts=restarts):
                code = self.killed_behind_holes(world, "--producer-restarts", restarts)
                if restarts == "0":
                    self.assertEqual(code, KILLED, world.logs())
                    self.assertEqual(
                        (self.masks(world), (world.output / ".offramp-checkpoint").read_bytes()), (masks, checkpoint)
                    )
                    self.assertEqual(self.rows(world), {"done": list(range(PICTURES)), "skipped": []})
                    (world.folder / "once/ledger.ready").unlink()
                    (world.folder / "once").rmdir()
                else:
                    self.assertEqual(code, 0, world.logs())
                    self.check_summary(world, skipped=damaged, released=PICTURES - len(damaged), met_by_the_dead=2)
                    self.assertEqual(
                        self.rows(world), {"done": list(range(len(damaged), PICTURES)), "skipped": list(damaged)}
                    )
                    self.assertEqual(
                        self.masks(world), {name: mask for name, mask in masks.items() if int(name[:2]) not in damaged}
                    )
                    world.output = world.output.with_name(f"{world.output.name}.before-{world.run_id()}")
                    self.assertEqual(
                        (self.masks(world), (world.output / ".offramp-checkpoint").read_bytes()), (masks, checkpoint)
                    )
