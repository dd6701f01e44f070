"""Earlier results, finished or not, outlive mistyped commands and wrong weights byte for byte, under their name."""

import importlib.util
import json
import pathlib
import sqlite3
import struct
import sys
import tempfile
import unittest

from PIL import Image

from tests.support.counting_network import NEEDED, TOKENS, make_counting_network
from tests.support.launched_resume import World
from tests.support.postgres_server import PostgresServer, missing_requirement
from tests.support.real_run import require_nothing_left

LINES = 40
PICTURES = 120  # more than fit in flight
ANEW = ((), ("--overwrite",), ("--resume",))


def everything_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class InWorlds(unittest.TestCase):
    maxDiff = 2000

    def world(self, *flags):
        world = World("--device", "cpu", "--consumers", "2", "--status-seconds", "0.05", *flags)
        world.environment["OFFRAMP_PYTHON"] = sys.executable
        self.addCleanup(require_nothing_left, self, world.shared_memory)
        self.addCleanup(world.__exit__)
        return world


@unittest.skipUnless(
    all(importlib.util.find_spec(name) for name in NEEDED), f"skipped: needs the packages {', '.join(NEEDED)}"
)
class Vectors(InWorlds):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory(prefix="offramp-former-results-")
        cls.addClassCleanup(kept.cleanup)
        cls.folder = pathlib.Path(kept.name)
        make_counting_network(cls.folder, LINES)

    def embeddings(self, *flags):
        return self.world("--profile", "embeddings", "--model", str(self.folder / "counts.pt"), "--batch", "4", *flags)

    def finished(self, *flags):
        world = self.embeddings(*flags)
        self.assertEqual(world.start("--input", str(self.folder / "lines.txt")).wait(), 0, world.logs())
        return world

    def assert_mistyped_runs_touch_nothing(self, world, results):
        """`results()` is compared, together with the output folder."""
        before = everything_in(world.output), results()
        # The launcher finds the first before it creates files; the producer finds the second.
        wrong = [("--input", str(self.folder / "tpyo.txt"), *anew) for anew in ANEW]
        wrong += [
            ("--input", str(self.folder / "lines.txt"), "--tokenizer", str(self.folder / "lines.txt"), "--overwrite")
        ]
        for flags in wrong:
            with self.subTest(flags=flags):
                mistyped = "--tokenizer" not in flags
                self.assertEqual(world.start(*flags).wait(), 66 if mistyped else 65, world.logs())
                self.assertEqual((everything_in(world.output), results()), before)
                self.assertEqual([], list(world.folder.glob("*.before-*")))
                self.assertEqual((world.run_dir / "logs/producer.log").exists(), not mistyped)
                log = (world.folder / "launcher.log").read_text()
                self.assertIn(
                    f"--input '{self.folder}/tpyo.txt': No such file or directory"
                    if mistyped
                    else "Give a tokenizer.json",
                    log,
                )
                self.assertNotIn("  continue ", log)

    def test_a_finished_database_outlives_a_mistyped_input(self):
        world = self.finished()
        database = world.output / "embeddings.sqlite"
        connection = sqlite3.connect(database)
        self.addCleanup(connection.close)
        rows = connection.execute("SELECT item, vector FROM embeddings ORDER BY item").fetchall()
        self.assertEqual(
            rows,
            [
                (line, struct.pack("<5f", *(1.0 if word <= line % TOKENS else 0.0 for word in range(5))))
                for line in range(LINES)
            ],
        )
        connection.close()
        self.assert_mistyped_runs_touch_nothing(world, database.read_bytes)

    @unittest.skipIf(missing_requirement(), missing_requirement())
    def test_a_finished_table_outlives_a_mistyped_input_whatever_the_output_is(self):
        server = PostgresServer()
        self.addCleanup(server.__exit__)
        server.start()
        world = self.finished("--sink", server.uri())

        def rows():
            return server.sql("SELECT item, key, vector FROM embeddings ORDER BY item")

        self.assertEqual(len(rows()), LINES)
        self.assert_mistyped_runs_touch_nothing(world, rows)
        world.output = world.folder / "elsewhere"
        world.output.mkdir()
        self.assert_mistyped_runs_touch_nothing(world, rows)


class Interrupted(InWorlds):
    def test_a_checkpoint_outlives_a_run_of_wrong_weights(self):
        world = self.world(
            *"--model cutout --image-size 64 --batch 1 --batches-per-slab 1 --slabs 2".split(),
            *"--processor mask-png,mask-rle".split(),
        )
        pictures = world.folder / "pictures"
        pictures.mkdir()
        for number in range(PICTURES):
            Image.new("RGB", (70, 60), (2 * number, 90, 200)).save(pictures / f"{number}.png")
        world.flags = (*world.flags, "--input", str(pictures))
        with world.gate() as gate:
            world.start()
            world.interrupt_behind(gate, slabs=2, samples=2)
            self.assertEqual(world.wait(), 130, world.logs())
        made = world.summary()["samples"]["released"]
        self.assertTrue(2 <= made < PICTURES, world.logs())
        before = everything_in(world.output)

        whole = (pathlib.Path(__file__).parents[2] / "launch/demo/cutout.safetensors").read_bytes()
        other = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        for name, weights in (
            ("other.safetensors", struct.pack("<Q", len(other)) + other + bytes(4)),
            ("cut.safetensors", whole[:-9]),
        ):
            (world.folder / name).write_bytes(weights)
        for name, code, *anew in (
            ("wieghts.safetensors", 66, "--overwrite"),
            ("cut.safetensors", 65, "--overwrite"),
            ("other.safetensors", 64),
            ("other.safetensors", 65, "--overwrite"),
            ("other.safetensors", 65, "--resume"),
        ):
            with self.subTest(weights=name, anew=anew):
                self.assertEqual(world.start("--weights", str(world.folder / name), *anew).wait(), code, world.logs())
                self.assertEqual(everything_in(world.output), before)
                self.assertEqual([], list(world.folder.glob("*.before-*")))
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        samples = world.summary()["samples"]
        self.assertEqual((samples["done_before"], samples["released"]), (made, PICTURES - made))
        self.assertEqual(len(list(world.output.glob("mask-png/*.png"))), PICTURES)
        self.assertEqual(len((world.output / "mask-rle/masks.jsonl").read_text().splitlines()), PICTURES)
