"""Pictures to masks and cut-outs as a job: one shard is killed, and the merged results equal those of one run."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import unittest

from PIL import Image

from tests.support.exported_model import folder_of_class, networks_in
from tests.support.launched_job import JobWorld
from tests.support.launched_resume import World
from tests.support.sets_of_pictures import make_pictures

PICTURES = 11
BAD = ("set 1/bild-ä04.png",)  # item 5
FLAGS = (
    *"--model cutout --device cpu --batch 2 --slabs 4 --consumers 2 --status-seconds 0.05".split(),
    *"--max-errors 2 --processor mask-png,cut-out,npy,mask-rle,records".split(),
)

WHOLE = "the whole list is read"
NETWORKS = """
import torch


class Found(torch.nn.Module):
    '''As many rows as the brightest picture of a batch says. With a white one, rows of another length.'''

    def forward(self, x):
        most = x.mean((1, 2, 3)).max()
        return x.mean((2, 3)).unsqueeze(1).repeat(1, int(most * 20) + 1, 2 if bool(most > 0.99) else 1)
"""


def in_parts(path, files):
    """Writes a list in which each file is in another part of an index: comments of a MiB are between them."""
    path.write_text("".join(f"{file}\n#{'-' * (1 << 20)}\n" for file in files))
    return path


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
        self.assertEqual(
            {path.name for path in world.job.iterdir()}, {"job.json", "input.list", "input.index", "input.items"}
        )
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

    def job_of_a_list(self, listed, flags=FLAGS):
        world = self.world(JobWorld, *flags, "--input", str(listed))
        code, printed = world.init(3)
        self.assertEqual(code, 0, printed)
        return world

    def producers_said(self, world, text):
        """The number of shards' runs whose producer logged it."""
        return sum(text in log.read_text() for log in (world.folder / "build/runs").glob("job-*/logs/producer*"))

    def identities(self, world):
        """What each shard's checkpoint holds of its items."""
        found = []
        for index in range(3):
            place = world.output / ".offramp-shards" / str(index)
            header = json.loads((place / ".offramp-checkpoint").read_text().splitlines()[0])
            found.append((header["identity"], (place / ".offramp-items").read_bytes()))
        return found

    def test_shards_with_an_index_of_their_list_make_the_same(self):
        """They read their parts of it, also at the same time and after a kill. Without the index they read all."""
        one = self.world(World)
        pictures = one.folder / "pictures"
        make_pictures(pictures, PICTURES, BAD)
        listed = in_parts(one.folder / "list.txt", sorted(pictures.rglob("*.png")))
        one.flags = (*FLAGS, "--input", str(listed))
        self.assertEqual(one.start().wait(), 0, one.logs())

        world = self.job_of_a_list(listed)
        items = world.job / "input.items"
        first = world.shard(0).launcher
        self.assertEqual((world.shard(1).wait(), first.wait(120)), (0, 0), world.logs())
        with world.gate() as gate:
            world.shard(2)
            gate.let(1)
            world.until(lambda: world.status().get("done_samples", 0) > 0, "the first mask")
            self.assertGreaterEqual(world.kill_everything(), 4, "launcher, producer, two consumers")
        self.assertEqual(world.shard(2).wait(), 0, world.logs())
        self.assertEqual(
            (self.producers_said(world, WHOLE), self.producers_said(world, "of 11 items are done")), (0, 1)
        )
        self.assertEqual(items.stat().st_nlink, 4)

        other = self.job_of_a_list(listed)
        index = other.job / "input.index"
        whole = index.read_bytes()
        for number, damage in enumerate((b"", whole[:-1], None)):
            index.write_bytes(damage) if damage is not None else os.utime(listed)
            self.assertEqual(other.shard(number).wait(), 0, other.logs())
            self.assertEqual(self.producers_said(other, WHOLE), number + 1)
            index.write_bytes(whole)
        self.assertEqual(self.identities(other), self.identities(world))
        for job in (world, other):
            code, printed = job.merge()
            self.assertEqual(code, 0, printed)
            self.assertEqual(job.results(), one.results())
            self.assertFalse((job.job / "input.items").exists())

    @unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: needs torch")
    def test_batches_at_the_edges_of_a_shard_have_pictures_of_others(self):
        """What a network computes depends on a whole batch, also if it fails. Shards begin at items 4 and 8."""
        import torch

        folder = folder_of_class(type(self), "neighbours")
        model = folder / "found.pt"
        torch.jit.script(networks_in(folder, NETWORKS).Found().eval()).save(str(model))
        model.with_suffix(".toml").write_text('output-shapes = "?x3"\nmean = "0, 0, 0"\nstd = "1, 1, 1"\n')
        flags = ("--model", str(model), *"--image-size 32 --processor npy".split(), *FLAGS[2:10], "--batch", "3")
        files = [folder / f"{item}.png" for item in range(PICTURES)]
        for file, level in zip(files, (10, 0, 20, 90, 30, 220, 200, 10, 30, 60, 250)):
            Image.new("RGB", (40, 40), (level, level // 2, level)).save(file)
        one = self.world(World, *flags, "--input", str(in_parts(folder / "list.txt", files)))
        self.assertEqual(one.start().wait(), 0, one.logs())
        world = self.job_of_a_list(folder / "list.txt", flags)
        for index in range(3):
            self.assertEqual(world.shard(index).wait(), 0, world.logs())
        code, printed = world.merge()
        self.assertEqual(code, 0, printed)
        self.assertEqual((self.producers_said(world, WHOLE), world.results()), (0, one.results()))

        Image.new("RGB", (40, 40), "white").save(files[3])
        code = one.start("--overwrite").wait()
        self.assertNotEqual(code, 0)
        (batch,) = set(re.findall("the batch of .*/3.png to .*/5.png: ", one.logs()))
        world = self.job_of_a_list(folder / "list.txt", flags)
        for index in (0, 1):
            self.assertEqual(world.shard(index).wait(), code, world.logs())
            self.assertIn(batch, world.logs())
        self.assertEqual(self.producers_said(world, WHOLE), 0)

    def test_what_a_shard_cannot_know_from_its_part_needs_the_whole_list(self):
        folder = folder_of_class(type(self), "whole-lists")
        files = [folder / f"{item}.png" for item in range(PICTURES)]
        for file in files:
            Image.new("RGB", (40, 40)).save(file)
        listed = in_parts(folder / "list.txt", files)
        for has_index, *flags in ((True,), (False, "--limit", "9"), (False, *"--tile 32 --processor mask-png".split())):
            world = self.job_of_a_list(listed, (*FLAGS, *flags))
            self.assertEqual(
                ("input.index" in os.listdir(world.job), "input.items" in os.listdir(world.job)), (has_index,) * 2
            )
        for name, code, said in (
            ("1.gif", 0, "begins"),  # its key is also that of 1.png
            (
                f"{world.output}/npy/1.rows.npy",
                64,
                "/npy: '1.rows.npy' is read from there, and results of npy could replace it",
            ),
        ):
            world = self.world(JobWorld, *FLAGS, "--input", str(in_parts(listed, [*files, name])))
            found, printed = world.call(
                "job",
                "init",
                "--job",
                world.job,
                "--shards",
                "3",
                "--output",
                pathlib.Path(name).parents[1] if code else world.output,
                *world.flags,
            )
            self.assertEqual((found, "input.index" in os.listdir(world.job)), (code, False), printed)
            self.assertIn(said, printed)

    def test_a_list_that_changed_is_found_beside_arrays(self):
        """A folder of arrays is no list of pictures: an error about the list must not make it one."""
        folder = folder_of_class(type(self), "beside-arrays")
        for item in range(PICTURES):
            Image.new("RGB", (40, 40)).save(folder / f"{item}.png")
        (folder / "a.npy").touch()
        world = self.job_of_a_list(folder)
        listed = world.job / "input.list"
        listed.write_bytes(listed.read_bytes().replace(b"\x001.png", b"\x001.pnf"))
        code = world.shard(0).wait()
        self.assertEqual(code, 65, world.logs())
        self.assertIn("has changed since the job began", world.logs())

    def test_an_index_of_another_job_in_the_folder_is_not_used(self):
        """Of a job that was discarded, and of one with --limit, which has none: also if a file comes back."""
        folder = folder_of_class(type(self), "other-jobs")
        files = [folder / f"{item}.png" for item in range(PICTURES)]
        for file in files:
            Image.new("RGB", (40, 40)).save(file)
        world = self.job_of_a_list(in_parts(folder / "list.txt", files), (*FLAGS, "--processor", "mask-png,cut-out"))
        kept = {name: (world.job / name).read_bytes() for name in ("input.items", "input.index")}
        (world.job / "job.json").unlink()
        shutil.rmtree(world.output)
        code, printed = world.init(3, "--limit", "6")
        self.assertEqual(code, 0, printed)
        self.assertEqual({path.name for path in world.job.iterdir()}, {"job.json"})
        for name, content in kept.items():
            (world.job / name).write_bytes(content)
        for index in range(3):
            self.assertEqual(world.shard(index).wait(), 0, world.logs())
        code, printed = world.merge()
        self.assertEqual((code, world.job_summary()["items"]), (0, 6), printed)

    def test_a_job_whose_folder_has_no_name_in_utf_8(self):
        """A program's settings cannot hold the path of the index: shards then read the whole list."""
        folder = folder_of_class(type(self), "names")
        Image.new("RGB", (40, 40)).save(folder / "one.png")
        (folder / "list.txt").write_text("one.png\n")
        world = self.world(JobWorld, *FLAGS, "--input", str(folder / "list.txt"))
        world.job = world.folder / os.fsdecode(b"job-\xff")
        code, printed = world.init(1)
        self.assertEqual(code, 0, printed)
        self.assertEqual(world.shard(0).wait(), 0, world.logs())
        self.assertEqual(world.merge()[0], 0)

    def test_a_job_without_an_input_has_the_message_of_a_run(self):
        world = self.world(JobWorld, *FLAGS, "--source", "images")
        code, printed = world.init(3)
        self.assertEqual(code, 66, printed)
        self.assertIn("--input '': the source images needs an input", printed)
