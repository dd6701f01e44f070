"""Pictures to masks with several producers: the results of one producer, even after a killed launcher."""

import pathlib
import signal
import sys
import tempfile
import unittest

from PIL import Image

from tests.support.done_items import items_of_checkpoint
from tests.support.launched_gpus import GpusWorld
from tests.support.launched_resume import World
from tests.support.real_run import require_nothing_left
from tests.support.sets_of_pictures import make_pictures

PICTURES = 14
ON_THE_CPU = ("--device", "cpu", "--batch", "2", "--slabs", "12", "--consumers", "3", "--status-seconds", "0.05")
# One item, and the last shard of four.
BAD = ("set 0/bild-ä03.png", "set 2/bild-ä05.png", "set 2/bild-ä08.png", "set 2/bild-ä11.png")
MASKS = (*ON_THE_CPU, "--model", "cutout", "--processor", "mask-png,cut-out,records")


class Gpus(unittest.TestCase):
    maxDiff = 2000

    def world(self, kind, *flags, **more):
        world = kind(*flags, **more)
        world.environment["OFFRAMP_PYTHON"] = sys.executable
        self.addCleanup(world.__exit__, None, None, None)
        self.addCleanup(require_nothing_left, self, world.shared_memory)
        return world

    def kill_launcher(self, world, samples):
        with world.gate() as gate:
            world.start()
            gate.let(3)
            shards = world.output / ".offramp-shards"
            world.until(
                lambda: sum(len(items_of_checkpoint(shard)) for shard in shards.glob("[0-9]*")) >= samples,
                "the first samples in checkpoints",
            )
            self.assertGreaterEqual(
                world.kill_everything(), 4, "the launcher, and a worker with its producer and its consumer"
            )

    def test_masks_are_those_of_one_producer(self):
        pictures = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        make_pictures(pictures, PICTURES, BAD)
        flags = (*MASKS, "--input", str(pictures), "--max-errors", "4")
        one = self.world(World, *flags)
        self.assertEqual(one.start().wait(), 0, one.logs())
        world = self.world(GpusWorld, *flags, shards=4)
        self.kill_launcher(world, 1)
        self.assertEqual(world.start("--resume", "--max-errors", "3").wait(), 65, world.logs())
        self.assertIn("and --max-errors allows 3", world.logs())
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.results(), one.results())
        summary = world.summary()
        self.assertEqual(
            {entry["origin"] for entry in summary["skipped"]}, {entry["origin"] for entry in one.summary()["skipped"]}
        )
        self.assertEqual((summary["skipped_samples"], len(summary["skipped"]), summary["conserved"]), (4, 4, True))
        Image.new("RGB", (9, 9)).save(pictures / "later.png")
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        samples = world.summary()["samples"]
        self.assertEqual(
            (samples["done_before"], samples["skipped"], samples["released"]), (PICTURES - 4, 4, 1), "the added picture"
        )

    def test_a_run_of_unreadable_items_fails_and_is_continued(self):
        pictures = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        for index in range(4):
            (pictures / f"{index}.png").write_bytes(b"is not a picture")
        world = self.world(GpusWorld, *MASKS, "--input", str(pictures), "--max-errors", "100%", workers=2, shards=2)
        self.assertEqual(world.start().wait(), 65, world.logs())
        self.assertIn("none of the 4 items has a result", world.logs())
        self.assertEqual((world.summary()["skipped_samples"], len(world.summary()["skipped"])), (4, 4))
        Image.new("RGB", (9, 9)).save(pictures / "2.png")
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual((world.summary()["samples"]["skipped"], world.summary()["samples"]["released"]), (3, 1))

    def test_a_shards_report_outlives_the_launcher_and_the_run_directory(self):
        pictures = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        for index in range(4):
            Image.new("RGB", (9, 9)).save(pictures / f"{index}.png")
        bad = {str(pictures / f"{index}.png") for index in (0, 2)}  # one per shard
        for path in bad:
            pathlib.Path(path).write_bytes(b"is not a picture")
        world = self.world(GpusWorld, *MASKS, "--input", str(pictures), "--max-errors", "2", workers=2, shards=2)
        with world.gate() as gate:
            world.start()
            world.until(lambda: len(world.status().get("consumers") or []) == 3, "the consumers of two workers")
            world.launcher.send_signal(signal.SIGSTOP)
            gate.let(1)
            world.until(lambda: list((world.output / ".offramp-shards/job/done").glob("*.json")), "a shard's record")
            world.kill_everything()
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())  # it removes the previous run's directory
        summary = world.summary()
        self.assertEqual({entry["origin"] for entry in summary["skipped"]}, bad)
        self.assertEqual(
            (summary["samples"]["done_before"], summary["samples"]["released"], summary["skipped_samples"]), (1, 1, 2)
        )

    def test_a_permanent_failure_ends_all_workers_with_its_reason(self):
        folder = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        make_pictures(folder, PICTURES, BAD)
        names, listed = sorted(str(path) for path in folder.rglob("*.png")), folder / "list.txt"
        listed.write_text("\n".join(names))
        world = self.world(GpusWorld, *MASKS, "--input", str(listed), "--max-errors", "4", workers=2, shards=4)
        with world.gate() as gate:
            world.start()
            world.until(lambda: len(world.status().get("consumers") or []) == 3, "the consumers of two workers")
            listed.write_text("\n".join(names[:-1]))  # the other two shards find this list
            gate.open()
            self.assertEqual(world.wait(), 65, world.logs())
        self.assertRegex(
            world.logs(),
            r"offramp: shard \d on producer \d ended with exit code 65, which a retry cannot fix: .*items was 14 and is 13",
        )
        listed.write_text("\n".join(names))
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        samples = world.summary()["samples"]
        self.assertEqual((samples["done_before"] + samples["released"], samples["skipped"]), (PICTURES - 4, 4))

    def enter(self, context):  # of a Python before 3.11
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()
