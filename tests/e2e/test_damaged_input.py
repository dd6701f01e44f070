"""Unreadable pictures in runs whose producer is killed: each is retried, reported once, counted once, and never has a result."""

import contextlib
import os
import pathlib
import signal
import sqlite3
import unittest

from PIL import Image

from tests.support.done_items import items_of_checkpoint
from tests.support.launched_resume import World
from tests.support.real_run import left_behind

BIN = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).absolute()
FLAGS = ("--device", "cpu", "--model", "cutout", "--image-size", "64", "--batch", "1", "--batches-per-slab", "1", "--slabs", "4", "--consumers", "2",
         "--max-errors", "100%", "--processor", "mask-png,records", "--status-seconds", "0.05")
PICTURES = 12
KILLED = 128 + signal.SIGKILL


class DamagedInput(unittest.TestCase):
    def world(self, *flags):
        world = World(*FLAGS, *flags)
        self.addCleanup(lambda: self.assertEqual(left_behind(world.shared_memory), set(), "something was left in /dev/shm"))
        self.addCleanup(world.__exit__)
        return world

    def painted(self, *flags, damaged=()):
        """A world with an input of its own."""
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
        """The numbers of the items by what became of them."""
        with contextlib.closing(sqlite3.connect(world.output / "records/records.sqlite")) as database:
            rows = database.execute("SELECT item, status FROM records ORDER BY item").fetchall()
        return {status: [item for item, found in rows if found == status] for status in ("done", "skipped")}

    def masks(self, world):
        return {path.name: path.read_bytes() for path in (world.output / "mask-png").iterdir()}

    def check_account(self, world, skipped, released, done_before=0, met_by_the_dead=0):
        """`met_by_the_dead`: how many of the first skipped items are counted and reported only by number."""
        summary = world.summary()
        listed = [f"{number:02}.png" for number in skipped[met_by_the_dead:]]
        self.assertEqual([pathlib.Path(item["origin"]).name for item in summary["skipped"]], listed, world.said())
        told = (world.folder / "launcher.log").read_text()
        for name in listed:
            self.assertEqual(told.count(f"{world.pictures / name}: not an image"), 1, told)
        self.assertEqual(f"and {met_by_the_dead} more: a producer that died met them" in told, met_by_the_dead > 0, told)
        self.assertEqual({name: summary["samples"][name] for name in ("skipped", "released", "done_before")},
                         {"skipped": len(skipped), "released": released, "done_before": done_before}, world.said())
        self.assertTrue(summary["conserved"])

    def killed_behind_the_skipped(self, world):
        """A run whose producer is killed when the skipped item, and three more, are done; its exit code."""
        with world.gate() as gate:
            world.start()
            gate.let(4)
            world.until(lambda: world.status().get("done_samples", 0) >= 3, "the skipped one, and three more")
            world.until(lambda: items_of_checkpoint(world.output), "the checkpoint has some of them")
            os.kill(world.status()["pid"], signal.SIGKILL)
            gate.open()
            return world.wait()

    def test_what_was_skipped_in_a_killed_run_is_tried_once_more_by_the_next(self):
        world = self.painted("--producer-restarts", "0", damaged=(1,))
        self.assertEqual(self.killed_behind_the_skipped(world), KILLED, world.said())
        self.assertEqual(world.start("--resume").wait(), 0, world.said())
        done = world.summary()["samples"]["done_before"]
        self.assertGreaterEqual(done, 1)
        self.check_account(world, skipped=[1], released=PICTURES - 1 - done, done_before=done)
        self.assertEqual(self.rows(world), {"done": [0, *range(2, PICTURES)], "skipped": [1]})
        self.paint(world, 1)
        self.assertEqual(world.start("--resume").wait(), 0, world.said())
        self.check_account(world, skipped=[], released=1, done_before=PICTURES - 1)
        self.assertEqual(self.rows(world), {"done": list(range(PICTURES)), "skipped": []})
        self.assertEqual(len(self.masks(world)), PICTURES)

    def test_a_producer_that_takes_over_counts_it_once(self):
        world = self.painted("--producer-restarts", "1", damaged=(1, PICTURES - 1))
        self.assertEqual(self.killed_behind_the_skipped(world), 0, world.said())
        self.assertEqual(world.summary()["producer_restarts"], 1)
        self.check_account(world, skipped=[1, PICTURES - 1], released=PICTURES - 2, met_by_the_dead=1)
        self.assertEqual(self.rows(world), {"done": [0, *range(2, PICTURES - 1)], "skipped": [1, PICTURES - 1]})

    def killed_behind_holes(self, world, *flags):
        """A run that replaces another one, whose producer dies when it has published two slabs, of damaged pictures alone; its exit code."""
        once = world.folder / "once"
        once.mkdir()
        before = world.environment
        world.environment = {**before, "LD_PRELOAD": str(BIN / "tests/libofframp_failpoints.so"), "OFFRAMP_FAILPOINT": "ledger.ready#2:kill",
                             "OFFRAMP_FAILPOINT_ONCE": str(once)}
        code = world.start("--overwrite", *flags).wait()
        world.environment = before
        self.assertTrue((once / "ledger.ready").exists(), world.said())
        return code

    def test_behind_slabs_of_damaged_pictures_alone_the_earlier_run_is_there_and_a_successor_begins_anew(self):
        damaged = (0, 1, 2)
        world = self.painted()
        self.assertEqual(world.start().wait(), 0, world.said())
        masks, checkpoint = self.masks(world), (world.output / ".offramp-checkpoint").read_bytes()
        self.damage(world, damaged)
        for restarts in ("0", "1"):
            with self.subTest(restarts=restarts):
                code = self.killed_behind_holes(world, "--producer-restarts", restarts)
                if restarts == "0":
                    self.assertEqual(code, KILLED, world.said())
                    self.assertEqual((self.masks(world), (world.output / ".offramp-checkpoint").read_bytes()), (masks, checkpoint))
                    self.assertEqual(self.rows(world), {"done": list(range(PICTURES)), "skipped": []})
                    (world.folder / "once/ledger.ready").unlink()
                    (world.folder / "once").rmdir()
                else:
                    self.assertEqual(code, 0, world.said())
                    self.check_account(world, skipped=damaged, released=PICTURES - len(damaged), met_by_the_dead=2)
                    self.assertEqual(self.rows(world), {"done": list(range(len(damaged), PICTURES)), "skipped": list(damaged)})
                    self.assertEqual(self.masks(world), masks, "of the damaged ones the earlier run's are the only ones")


if __name__ == "__main__":
    unittest.main()
