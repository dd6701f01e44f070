"""GeoTIFF files of many bands as a model's input, and masks at their place as Cloud Optimised GeoTIFFs."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import networks_in
from tests.support.launched_resume import WATCHDOG_SECONDS, World
from tests.support.launched_run import ROOT
from tests.support.real_run import require_nothing_left

BANDS, CRS, PIXEL = 5, "EPSG:32633", 10
NETWORK = """
import torch


class Index(torch.nn.Module):
    '''Scores of three classes, from two of the bands.'''

    def forward(self, x):
        difference = x[:, 4:] - x[:, 1:2]
        return torch.cat((torch.zeros_like(difference) + 300.0, difference, -difference), 1)
"""
# Forms of files: size, type, creation options.
SCENES = {
    "tiles": ((700, 601), "uint16", {"tiled": True, "blockxsize": 128, "blockysize": 64, "compress": "deflate"}),
    "planes": ((90, 233), "float32", {"interleave": "band", "compress": "lzw", "predictor": 3}),
    "strips": ((300, 77), "int16", {"interleave": "pixel", "compress": "zstd", "predictor": 2}),
    "deep/plain": ((41, 30), "uint16", {"tiled": True, "blockxsize": 16, "blockysize": 32, "interleave": "band"}),
}
TILES = "--tile 64 --overlap 12 --batch 4 --samples-per-slab 4 --slabs 4".split()


def scores(values):
    difference = values[4].astype("float32") - values[1].astype("float32")
    return numpy.stack([numpy.full_like(difference, 300), difference, -difference])


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
@unittest.skipUnless(importlib.util.find_spec("rasterio"), "skipped: no rasterio (launch/requirements-examples.txt)")
class GeoTiff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import torch

        kept = tempfile.TemporaryDirectory(prefix="offramp-geotiff-")
        cls.addClassCleanup(kept.cleanup)
        cls.folder = pathlib.Path(kept.name)
        cls.model = cls.folder / "index.pt"
        torch.jit.script(networks_in(cls.folder, NETWORK).Index().eval()).save(str(cls.model))
        cls.model.with_suffix(".toml").write_text(f'input-shape = "{BANDS}x?x?"\n')
        random = numpy.random.default_rng(7)
        cls.values, cls.scenes = {}, cls.folder / "scenes"
        for name, ((width, height), dtype, options) in SCENES.items():
            coarse = random.integers(0, 3000, (BANDS, height // 8 + 1, width // 8 + 1)) - (dtype != "uint16") * 1500
            cls.values[name] = coarse.repeat(8, 1).repeat(8, 2)[:, :height, :width].astype(dtype)
            cls.write(cls.scenes / f"{name}.tif", cls.values[name], crs=CRS, transform=cls.place(name), **options)

    @staticmethod
    def place(name):
        import rasterio.transform

        return rasterio.transform.from_origin(500_000 + 100 * list(SCENES).index(name), 5_400_000, PIXEL, PIXEL)

    @staticmethod
    def write(path, values, **options):
        import rasterio

        path.parent.mkdir(parents=True, exist_ok=True)
        bands, height, width = values.shape
        with rasterio.open(
            path, "w", driver="GTiff", width=width, height=height, count=bands, dtype=values.dtype, **options
        ) as scene:
            scene.write(values)

    def run_over(self, scenes, *flags):
        world = World("--model", str(self.model), "--input", str(scenes), "--device", DEVICE, *flags)
        self.addCleanup(require_nothing_left, self, world.shared_memory)
        self.addCleanup(world.__exit__, None, None, None)
        self.assertEqual(world.start().wait(), 0, world.logs())
        return world

    def cogs_of(self, scenes, masks, cogs):
        return subprocess.run(
            [sys.executable, "-m", "offramp.geotiff", scenes, masks, cogs],
            env={**os.environ, "PYTHONPATH": f"{ROOT}/launch/python:{os.environ.get('PYTHONPATH', '')}"},
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
        )

    def check_cog(self, path, name):
        import rasterio

        with rasterio.open(path) as cog:
            (width, height), _, _ = SCENES[name]
            self.assertEqual(
                ("COG", "DEFLATE"), tuple(cog.tags(ns="IMAGE_STRUCTURE")[key] for key in ("LAYOUT", "COMPRESSION"))
            )
            self.assertEqual((width, height, 1, "uint8"), (cog.width, cog.height, cog.count, cog.dtypes[0]))
            self.assertEqual((CRS, self.place(name)), (str(cog.crs), cog.transform))
            self.assertEqual([(512, 512)], cog.block_shapes)
            self.assertEqual([2] if width > 512 else [], cog.overviews(1))
            self.assertEqual([(0, 0, 0, 255), (128, 0, 0, 255)], [cog.colormap(1)[each] for each in (0, 1)])
            numpy.testing.assert_array_equal(cog.read(1), scores(self.values[name]).argmax(0), name)

    def test_masks_of_tiles_become_cogs_at_the_place_of_their_scenes(self):
        world = self.run_over(self.scenes, *TILES, "--consumers", "2")
        self.assertEqual({f"{name}.png" for name in SCENES}, set(world.results()))
        cogs = world.folder / "cogs"
        done = self.cogs_of(self.scenes, world.output, cogs)
        self.assertEqual(
            (0, "", "4 written, 0 newer than their masks, 0 failed\n"), (done.returncode, done.stderr, done.stdout)
        )
        self.assertEqual(
            {f"{name}.tif" for name in SCENES}, {str(each.relative_to(cogs)) for each in cogs.rglob("*.*")}
        )
        for name in SCENES:
            with self.subTest(scene=name):
                self.check_cog(cogs / f"{name}.tif", name)
        os.utime(cogs / "strips.tif", (0, 0))
        self.assertEqual(
            "1 written, 3 newer than their masks, 0 failed\n", self.cogs_of(self.scenes, world.output, cogs).stdout
        )
        self.check_cog(cogs / "strips.tif", "strips")
        swapped = self.cogs_of(world.output, self.scenes, cogs)
        self.assertEqual((1, True), (swapped.returncode, "has no masks (.png)" in swapped.stderr), swapped.stderr)
        whole = (world.output / "strips.png").read_bytes()
        (world.output / "strips.png").write_bytes(whole[:-40])
        done = self.cogs_of(self.scenes, world.output, cogs)
        self.assertEqual((1, "0 written, 3 newer than their masks, 1 failed\n"), (done.returncode, done.stdout))
        self.assertIn("strips.png is truncated", done.stderr)
        (world.output / "strips.png").write_bytes(whole)
        done = self.cogs_of(self.scenes, world.output, world.output)
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertIn("has the run's masks. Give another folder", done.stderr)
        self.assertEqual([], list(world.output.rglob("*.tif")))
        before = {path: path.read_bytes() for path in self.scenes.rglob("*.tif")}
        done = self.cogs_of(self.scenes, world.output, self.scenes)
        self.assertEqual((1, "0 written, 0 newer than their masks, 4 failed\n"), (done.returncode, done.stdout))
        self.assertIn("strips.tif exists and is not a file of offramp.geotiff", done.stderr)
        self.assertEqual(before, {path: path.read_bytes() for path in self.scenes.rglob("*.tif")})

    def test_a_scene_without_a_place_is_named_and_the_others_are_written(self):
        scenes = self.folder / "some"
        self.write(scenes / "nowhere.tif", self.values["strips"])
        self.write(scenes / "here.tif", self.values["planes"], crs=CRS, transform=self.place("planes"))
        world = self.run_over(scenes, *TILES)
        self.write(scenes / "here.tiff", self.values["planes"])  # another file with this name
        done = self.cogs_of(scenes, world.output, world.folder / "cogs")
        self.assertEqual((1, "0 written, 0 newer than their masks, 2 failed\n"), (done.returncode, done.stdout))
        self.assertIn("nowhere.tif has no position", done.stderr)
        self.assertIn(f"2 TIFF files in {scenes} are named here", done.stderr)
        self.write(scenes / "here.tiff", self.values["strips"])
        (scenes / "here.tif").unlink()
        done = self.cogs_of(scenes, world.output, world.folder / "cogs")
        self.assertIn("here.tiff has no position", done.stderr)
        self.write(scenes / "here.tiff", self.values["strips"], crs=CRS, transform=self.place("planes"))
        self.assertIn("90 x 233 pixels, and", self.cogs_of(scenes, world.output, world.folder / "cogs").stderr)
        (scenes / "here.tiff").unlink()
        self.write(scenes / "here.tif", self.values["planes"], crs=CRS, transform=self.place("planes"))
        done = self.cogs_of(scenes, world.output, world.folder / "cogs")
        self.assertEqual("1 written, 0 newer than their masks, 1 failed\n", done.stdout, done.stderr)
        self.check_cog(world.folder / "cogs" / "here.tif", "planes")

    def test_shards_cut_scenes_likewise(self):
        world = self.run_over(self.scenes, *TILES, "--gpus", "2", "--consumers", "2")
        wanted = self.run_over(self.scenes, *TILES).results()
        self.assertEqual(wanted, {name: each for name, each in world.results().items() if name.endswith(".png")})

    def test_whole_scenes_keep_their_shapes(self):
        world = self.run_over(self.scenes, "--processor", "npy")
        for name, values in self.values.items():
            found = numpy.load(world.output / f"{name}.output.npy")
            numpy.testing.assert_array_equal(found, scores(values), name)

    def test_scenes_of_one_shape_become_masks(self):
        fixed = self.folder / "fixed.pt"
        fixed.write_bytes(self.model.read_bytes())
        fixed.with_suffix(".toml").write_text(f'input-shape = "{BANDS}x77x300"\n')
        world = self.run_over(self.scenes, "--model", str(fixed), "--max-errors", "100%", "--processor", "mask-png,npy")
        self.assertEqual({"mask-png/strips.png", "npy/strips.output.npy"}, set(world.results()))
        wanted = scores(self.values["strips"])
        numpy.testing.assert_array_equal(numpy.load(world.output / "npy/strips.output.npy"), wanted)
        from PIL import Image

        numpy.testing.assert_array_equal(Image.open(world.output / "mask-png/strips.png"), wanted.argmax(0))
        self.assertIn(
            "TIFF of 601 x 700 pixels, and the model takes 77 x 300. Cut larger ones with --tile", world.logs()
        )

    def test_other_files_are_skipped_by_name(self):
        from PIL import Image

        scenes = self.folder / "mixed"
        self.write(scenes / "good.tif", self.values["strips"])
        self.write(scenes / "three.tif", self.values["strips"][:3])
        self.write(scenes / "wide.tif", self.values["strips"].astype("int32"))
        whole = (self.scenes / "planes.tif").read_bytes()
        (scenes / "cut.tif").write_bytes(whole[: len(whole) // 2])
        Image.new("RGB", (300, 77)).save(scenes / "picture.png")
        for flags in ((), ("--tile", "64")):
            with self.subTest(flags=flags):
                world = self.run_over(scenes, *flags, "--max-errors", "100%")
                self.assertEqual(["good"], sorted({name.split(".")[0] for name in world.results()}))
                for name, reason in (
                    ("three.tif", "TIFF with 3 bands, and the model takes 5"),
                    ("wide.tif", "TIFF with signed numbers of 32 bits"),
                    ("cut.tif", "truncated TIFF"),
                    ("picture.png", "a PNG image; a model that takes 5 bands"),
                ):
                    self.assertRegex(world.logs(), rf"{name}(, tile \d+,\d+)?: {reason}")


if __name__ == "__main__":
    unittest.main()
