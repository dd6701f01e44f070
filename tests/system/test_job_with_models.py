"""Pictures to masks and cut-outs as a job: one shard is killed, and the merged results equal those of one run."""

import json
import os
import unittest

from PIL import Image

from tests.support.launched_job import JobWorld
from tests.support.launched_resume import World
from tests.support.sets_of_pictures import make_pictures

PICTURES = 11
BAD = ("set 1/bild-ä04.png",)  # item 5
FLAGS = (
    *"--model cutout --device cpu --batch 2 --slabs 4 --consumers 2 --status-seconds 0.05".split(),
    *"--max-errors 2 --processor mask-png,cut-out,npy,mask-rle,records".split(),
)


class Job(unittest.TestCase):
    maxDiff = 2000

    def world(self, kind, *flags):
        world = kind(*flags)
        self.addCleanup(world.__exit__, None, None, None)
        return world

    def test_masks_of_shards_are_those_of_one_run(self):
        world = self.world(JobWorld, *FLAGS)
        pictures = world.folder / "pictures"
        make_pictures(pictures, PICTURES, BAD)
        flags = (*FLAGS, "--input", str(pictures))
        one = self.world(World, *flags)
        self.assertEqual(one.start().wait(), 0, one.logs())

        # relative to the folder in which the job begins
        world.flags = (
            *FLAGS,
            "--input",
            os.path.relpath(pictures, world.folder),
        )
        code, printed = world.call(
            "job", "init", "--job", world.job, "--shards", 3, "--output", world.output, *world.flags, cwd=world.folder
        )
        self.assertEqual(code, 0, printed)
        self.assertNotEqual(
            world.call(
                "job",
                "init",
                "--job",
                world.job,
                "--shards",
                99,
                "--output",
                world.output,
                *world.flags,
                cwd=world.folder,
            )[0],
            0,
        )
        self.assertEqual({path.name for path in world.job.iterdir()}, {"job.json", "input.list"})
        Image.new("RGB", (9, 9)).save(pictures / "later.png")  # not part of the job
        with world.gate() as gate:
            world.shard(0)
            gate.let(1)
            world.until(lambda: world.status().get("done_samples", 0) > 0, "the first mask")
            self.assertGreaterEqual(world.kill_everything(), 4, "launcher, producer, two consumers")
        self.assertEqual(world.shard(0).wait(), 0, world.logs())
        self.assertEqual(world.shard(1, "--strict").wait(), 65, world.logs())
        self.assertIn("1 items could not be read", world.logs())
        for index in (1, 2):
            self.assertEqual(world.shard(index).wait(), 0, world.logs())
        self.assertEqual([world.record(index)["skipped"] for index in range(3)], [0, 1, 0])
        code, printed = world.merge()
        self.assertEqual(code, 0, printed)
        self.assertIn("1 items could not be read", printed)
        self.assertEqual(world.results(), one.results())
        summary = world.job_summary()
        self.assertEqual((summary["done"], summary["skipped"], summary["conserved"]), (PICTURES - 1, 1, True))
        world.flags = flags
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        samples = json.loads((world.run_dir / "summary.json").read_text())["samples"]
        self.assertEqual(
            (samples["done_before"], samples["skipped"], samples["released"]), (PICTURES - 1, 1, 1), "the added picture"
        )
