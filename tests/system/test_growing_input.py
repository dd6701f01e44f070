"""A growing input with results beside it: finished results are kept, new pictures are processed, none is replaced."""

import contextlib
import json
import pathlib
import shutil
import sqlite3
import tempfile
import unittest

from PIL import Image

from tests.support.launched_resume import World
from tests.support.real_run import BIN

FLAGS = ("--device", "cpu", "--model", "cutout", "--consumers", "2", "--slabs", "4")
NAMES = [f"{folder}/{name}" for folder in ("b", "d") for name in ("1.png", "2.jpg", "3.webp")]
JOINING = ["a/1.png", "b/0.png", "c/1.png", "d/9.png", "e/1.jpg"]


def paint(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (90 + sum(name.encode()) % 40, 60), (sum(name.encode()) % 256, 90, 30)).save(path)


def bytes_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class InWorlds(unittest.TestCase):
    def world(self, *flags):
        world = World(*FLAGS, *flags)
        self.addCleanup(world.__exit__)
        world.input = world.folder / "input"
        return world

    def undisturbed(self, world, *flags):
        """The results of an undisturbed run over this world's input."""
        other = self.world(*flags)
        self.assertEqual(other.start("--input", str(world.input)).wait(), 0, other.logs())
        return other


class GrowingInput(InWorlds):
    def lines(self, world):
        """{key: lines of the item}. Added items have later numbers than in a run from the start."""
        lines = [json.loads(line) for line in (world.output / "mask-rle" / "masks.jsonl").read_text().splitlines()]
        self.assertEqual([line.pop("item") for line in lines], list(range(len(lines))))
        return {line["key"]: line for line in lines}

    def rows(self, world):
        with contextlib.closing(sqlite3.connect(world.output / "records" / "records.sqlite")) as database:
            database.row_factory = sqlite3.Row
            rows = [dict(row) for row in database.execute("SELECT * FROM records ORDER BY item")]
        self.assertEqual([row.pop("item") for row in rows], list(range(len(rows))))
        return {row["key"]: row for row in rows}

    def test_new_pictures_anywhere_are_processed_and_nothing_else(self):
        flags = ("--processor", "mask-png,mask-rle,records")
        world = self.world(*flags)
        paint(world.input, NAMES)
        self.assertEqual(world.start("--input", str(world.input), "--batch", "4").wait(), 0, world.logs())
        masks = world.output / "mask-png"
        before = {path: path.stat().st_ino for path in masks.rglob("*.png")}
        self.assertEqual(len(before), len(NAMES))
        for round_, joining in enumerate((JOINING[:3], JOINING[3:], [])):
            paint(world.input, joining)
            # These flags do not change the results.
            more = ("--batch", str(2 + round_), "--slabs", str(5 + round_), "--prefetch", "3")
            self.assertEqual(world.start("--input", str(world.input), "--resume", *more).wait(), 0, world.logs())
            self.assertEqual(world.summary()["samples"]["released"], len(joining), world.logs())
        wanted = self.undisturbed(world, *flags)
        self.assertEqual(self.lines(world), self.lines(wanted))
        self.assertEqual(self.rows(world), self.rows(wanted))
        self.assertEqual(bytes_of(masks), bytes_of(wanted.output / "mask-png"))
        self.assertEqual({path: path.stat().st_ino for path in before}, before, "finished results were made again")

    def test_a_producer_that_dies_over_its_items_file_continues(self):
        world = self.world("--processor", "mask-png")
        for names, flags in ((NAMES, ()), (JOINING, ("--resume",))):
            paint(world.input, names)
            self.killed_at(world, "items.in_place", "--input", str(world.input), *flags)
            self.assertEqual(world.start("--input", str(world.input), *flags).wait(), 0, world.logs())
            self.assertEqual(world.summary()["samples"]["released"], len(names), world.logs())
        self.assertEqual(world.results(), self.undisturbed(world, "--processor", "mask-png").results())

    def killed_at(self, world, failpoint, *flags):
        once = pathlib.Path(tempfile.mkdtemp(prefix="once-", dir=world.folder))
        plain = world.environment
        world.environment = {
            **plain,
            "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
            "OFFRAMP_FAILPOINT": f"{failpoint}#1:kill",
            "OFFRAMP_FAILPOINT_ONCE": str(once),
        }
        self.assertNotEqual(world.start(*flags, "--producer-restarts", "0").wait(), 0, world.logs())
        world.environment = plain
        self.assertTrue(any(once.iterdir()), f"{failpoint} was not reached\n{world.logs()}")

    def test_a_jsonl_manifest_that_grew(self):
        world = self.world("--processor", "mask-rle")
        paint(world.input, NAMES + JOINING)
        listed = world.input / "list.jsonl"
        listed.write_text("".join(json.dumps({"id": name, "uri": name}) + "\n" for name in NAMES))
        self.assertEqual(world.start("--input", str(listed)).wait(), 0, world.logs())
        with open(listed, "a", encoding="utf-8") as file:
            file.writelines(json.dumps({"id": name, "uri": name}) + "\n" for name in JOINING)
        self.assertEqual(world.start("--input", str(listed), "--resume").wait(), 0, world.logs())
        self.assertEqual(world.summary()["samples"]["released"], len(JOINING))
        lines = [json.loads(line)["key"] for line in (world.output / "masks.jsonl").read_text().splitlines()]
        self.assertEqual(lines, NAMES + JOINING)

    def test_items_that_are_gone_or_called_otherwise_are_refused(self):
        world = self.world("--processor", "mask-png")
        paint(world.input, NAMES)
        self.assertEqual(world.start("--input", str(world.input)).wait(), 0, world.logs())
        before = bytes_of(world.output)
        paint(world.input, ["b/2.png"])  # beside b/2.jpg: both have their extension in their keys now
        self.assertEqual(world.start("--input", str(world.input), "--resume").wait(), 64, world.logs())
        self.assertIn("Of its 6 items 1 is gone, or renamed", world.logs())
        shutil.rmtree(world.input / "d")
        self.assertEqual(world.start("--input", str(world.input), "--resume").wait(), 64, world.logs())
        self.assertIn("Of its 6 items 4 are gone, or renamed", world.logs())
        self.assertEqual(bytes_of(world.output), before)


class ResultsBesideTheirInput(InWorlds):
    def test_a_folder_of_pictures_is_no_output(self):
        world = self.world("--processor", "cut-out,mask-png")
        paint(world.input, ["cat.png", "sub/cow.png"])
        before = bytes_of(world.input)
        for world.output, reason in (
            (world.input, "results could replace what they are made from"),
            (world.input.parent, "which is of no Offramp run"),
        ):
            for more in ((), ("--overwrite",), ("--resume",)):
                with self.subTest(reason, more=more):
                    self.assertEqual(world.start("--input", str(world.input), *more).wait(), 64, world.logs())
                    self.assertIn(reason, world.logs())
                    self.assertEqual(bytes_of(world.input), before, "nothing was touched")
