"""Pictures of any size are processed in tiles and get one whole mask each, even if programs die."""

import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import numpy
from PIL import Image

from tests.crash.matrix import OF_TILES
from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import networks_in
from tests.support.launched_resume import World
from tests.support.real_run import BIN, require_nothing_left
from tests.support.small_disk import small_disk
from tests.support.tiff_files import tiff_in_tiles

TILE, OVERLAP = 64, 12
SIZES = {
    "wide": (300, 90),
    "tall": (70, 233),
    "exact": (TILE, TILE),
    "one": (1, 1),
    "narrow": (5, 150),
    "square": (180, 181),
    "deep/down": (65, 64),
}

NETWORKS = """
import torch


class Colours(torch.nn.Module):
    '''Scores of the background and of three colours, of each pixel alone.'''

    def forward(self, x):
        return torch.cat((x.mean(1, keepdim=True) + 0.02, x), 1)


class Brightness(torch.nn.Module):
    '''One channel, a probability.'''

    def forward(self, x):
        return x.mean(1, keepdim=True)


class Blurred(torch.nn.Module):
    '''Each score depends on pixels as far as `reach` around it.'''

    reach = 4

    def forward(self, x):
        y = torch.nn.functional.avg_pool2d(x, 9, 1, 4)
        return torch.cat((y.mean(1, keepdim=True) + 0.02, y), 1)
"""
NOTES = 'mean = "0, 0, 0"\nstd = "1, 1, 1"\n'
FLAGS = (
    "--device",
    DEVICE,
    "--tile",
    str(TILE),
    "--overlap",
    str(OVERLAP),
    *"--batch 4 --samples-per-slab 4 --slabs 4 --status-seconds 0.05".split(),
)


def noise(size, seed, coarse=9):
    random = numpy.random.default_rng(seed).integers(0, 256, (coarse, coarse, 3), dtype=numpy.uint8)
    return Image.fromarray(random).resize(size, Image.BICUBIC)


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class Tiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import torch

        kept = tempfile.TemporaryDirectory(prefix="offramp-tiles-")
        cls.addClassCleanup(kept.cleanup)
        cls.folder = pathlib.Path(kept.name)
        cls.networks = networks_in(cls.folder, NETWORKS)
        for name in ("Colours", "Brightness", "Blurred"):
            torch.jit.script(getattr(cls.networks, name)().eval()).save(str(cls.folder / f"{name}.pt"))
            (cls.folder / f"{name}.toml").write_text(NOTES)
        cls.images = cls.folder / "images"
        for seed, (name, size) in enumerate(SIZES.items()):
            path = cls.images / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise(size, seed).save(path)

    def world(self, network, *flags, images=None, output=None):
        world = World(
            "--model",
            str(self.folder / f"{network}.pt"),
            "--input",
            str(images or self.images),
            *FLAGS,
            *flags,
            output=output,
        )
        self.addCleanup(require_nothing_left, self, world.shared_memory)
        self.addCleanup(world.__exit__, None, None, None)
        return world

    def masks_of(self, network, *flags, code=0, images=None):
        world = self.world(network, *flags, images=images)
        self.assertEqual(world.start().wait(), code, world.logs())
        return world.results()

    def wanted(self, network, picture):
        """Scores of the untiled picture, [classes, height, width]."""
        import torch

        pixels = numpy.asarray(picture, numpy.float32) / 255
        with torch.inference_mode():
            return getattr(self.networks, network)()(torch.from_numpy(pixels.transpose(2, 0, 1)[None].copy()))[
                0
            ].numpy()

    @staticmethod
    def mask(path):
        return numpy.asarray(Image.open(path))

    def check(self, world, network, classes_of):
        for name in SIZES:
            with self.subTest(picture=name):
                scores = self.wanted(network, Image.open(self.images / f"{name}.png"))
                numpy.testing.assert_array_equal(self.mask(world.output / f"{name}.png"), classes_of(scores), name)
        self.assertEqual({name for name in world.results()}, {f"{name}.png" for name in SIZES}, "nothing but masks")

    def test_a_pointwise_network_gives_the_very_masks_of_whole_pictures(self):
        for network, classes_of in (
            ("Colours", lambda scores: scores.argmax(0)),
            ("Brightness", lambda scores: scores[0] >= 0.5),
        ):
            with self.subTest(network=network):
                world = self.world(network)
                self.assertEqual(world.start().wait(), 0, world.logs())
                self.check(world, network, classes_of)

    def test_tiff_in_strips_and_in_tiles_gives_the_masks_of_png(self):
        wanted = self.masks_of("Blurred")
        for form, write in (
            ("strips", lambda picture, path: picture.save(path, compression="tiff_lzw", strip_size=3000)),
            ("tiles", lambda picture, path: path.write_bytes(tiff_in_tiles(numpy.asarray(picture), 48))),
        ):
            images = self.folder / form
            for name in SIZES:
                path = images / f"{name}.tif"
                path.parent.mkdir(parents=True, exist_ok=True)
                write(Image.open(self.images / f"{name}.png"), path)
                numpy.testing.assert_array_equal(
                    numpy.asarray(Image.open(path)),
                    numpy.asarray(Image.open(self.images / f"{name}.png")),
                    "as Pillow reads the picture",
                )
            with self.subTest(form=form):
                self.assertEqual(self.masks_of("Blurred", images=images), wanted)
                self.assertEqual(
                    self.masks_of("Blurred", "--consumers", "2", "--decode-workers", "3", images=images), wanted
                )

    def test_the_intact_tiles_of_a_damaged_tiff_are_made(self):
        images = self.folder / "damaged-tiff"
        images.mkdir()
        whole = tiff_in_tiles(numpy.asarray(noise((300, 300), 5)), 48)
        images.joinpath("a.tif").write_bytes(whole[: len(whole) // 2] + bytes(40) + whole[len(whole) // 2 + 40 :])
        world = self.world("Colours", "--max-errors", "50%", images=images)
        world.start().wait()
        self.assertIn("damaged TIFF", world.logs())
        self.assertIn("a.tif, tile 2,", world.logs())
        self.assertNotIn("a.tif, tile 0,", world.logs())
        self.assertNotIn("a.tif, tile 5,", world.logs())
        self.assertEqual(list(world.output.glob("*.png")), [], "a damaged picture has a mask")

    def test_class_maps_are_cut_in_the_middle_of_their_overlap(self):
        world = self.world("Colours", "--transform", "class-map")
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.check(world, "Colours", lambda scores: scores.argmax(0))

    def test_a_network_that_looks_around_differs_at_edges_of_tiles_alone(self):
        world = self.world("Blurred")
        self.assertEqual(world.start().wait(), 0, world.logs())
        found = self.mask(world.output / "square.png")
        wanted = self.wanted("Blurred", Image.open(self.images / "square.png")).argmax(0)
        differs = found != wanted
        self.assertLess(differs.mean(), 0.02)
        # Seams and their neighbourhood within the network's reach; the last tile of a side has more context.
        step = TILE - OVERLAP
        near = numpy.zeros(181, bool)
        for begin in range(step, 181 - OVERLAP, step):
            near[begin : begin + OVERLAP] = True
        self.assertFalse(differs[numpy.ix_(~near, ~near[:180])].any())

    def test_the_number_of_consumers_changes_no_byte(self):
        one = self.masks_of("Blurred", "--consumers", "1")
        self.assertEqual(self.masks_of("Blurred", "--consumers", "3", "--batch", "3", "--samples-per-slab", "6"), one)

    def test_consumers_die_at_every_step_of_stitching(self):
        wanted = self.masks_of("Blurred", "--consumers", "1")
        self.assertGreaterEqual(len(OF_TILES), 7)
        for point in (*OF_TILES, "sink.commit"):
            with self.subTest(point=point):
                world = self.world("Blurred", "--consumers", "2")
                seen = self.dies_at(world, f"{point}#2:kill", point)
                self.assertEqual(world.start().wait(), 0, world.logs())
                self.assertTrue(seen.exists(), "no program reached the failpoint")
                self.assertEqual(world.results(), wanted)

    def dies_at(self, world, order, point):
        once = world.folder / "once"
        once.mkdir()
        world.environment = {
            **world.environment,
            "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
            "OFFRAMP_FAILPOINT": order,
            "OFFRAMP_FAILPOINT_ONCE": str(once),
        }
        return once / point

    def test_everything_is_killed_and_continues(self):
        wanted = self.masks_of("Blurred", "--consumers", "1")
        for point in ("stitch.noted#3", "stitch.seam#2", "stitch.seam#9", "stitch.committed#2"):
            with self.subTest(point=point):
                world = self.world("Blurred", "--consumers", "1")
                self.killed_at(world, point)
                self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertEqual(world.results(), wanted)

    def test_shards_on_one_host_share_the_pictures_that_they_cut(self):
        wanted = self.masks_of("Blurred", "--consumers", "1")
        world = self.world("Blurred", "--gpus", "3", "--consumers", "3")
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assertEqual({name: value for name, value in world.results().items() if name.endswith(".png")}, wanted)
        self.assertFalse((world.output / ".offramp-tiles").exists(), "working files are left")

    def test_another_run_takes_nothing_from_an_interrupted_one(self):
        wanted = self.masks_of("Colours", "--consumers", "1")
        world = self.world("Blurred", "--consumers", "1")
        self.killed_at(world, "stitch.seam#20")
        world.flags = tuple(
            str(self.folder / "Colours.pt") if flag.endswith("Blurred.pt") else flag for flag in world.flags
        )
        self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
        self.assertEqual(world.results(), wanted)
        self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
        self.assertEqual(world.results(), wanted)

    def killed_at(self, world, order, *more, noted=False):
        """Kills all programs while one is stopped; with `noted`, once the checkpoint has some tiles."""
        before = world.environment
        seen = self.dies_at(world, f"{order}:stop", order.partition("#")[0])
        world.start(*more)
        world.until(seen.exists, f"a consumer at {order}")
        if noted:
            world.until(
                lambda: '"done":[[' in (world.output / ".offramp-checkpoint").read_text(), "tiles in the checkpoint"
            )
        world.kill_everything()
        shutil.rmtree(seen.parent)
        world.environment = before

    def becomes(self, world, network, tile=TILE, overlap=OVERLAP):
        """Sets the network and the tile size of the world's next runs; 0: no tiles."""
        flags = dict(zip(FLAGS[::2], FLAGS[1::2], strict=True)) | {"--tile": str(tile), "--overlap": str(overlap)}
        if tile == 0:
            del flags["--tile"], flags["--overlap"]
            flags["--image-size"] = str(TILE)
        world.flags = (
            "--model",
            str(self.folder / f"{network}.pt"),
            "--input",
            str(self.images),
            *(word for flag in flags.items() for word in flag),
            "--consumers",
            "1",
        )

    def test_tiles_that_were_set_aside_are_continued_there(self):
        wanted = self.masks_of("Blurred", "--consumers", "1")
        for what, tile, overlap, point in (
            ("of the same tiles", TILE, OVERLAP, "stitch.committed#1"),
            ("of no tiles", 0, 0, "sink.committed#1"),
        ):
            for ended in (False, True):
                with self.subTest(another=what, ended=ended):
                    world = self.world("Blurred", "--consumers", "1")
                    if ended:
                        self.assertEqual(world.start().wait(), 0, world.logs())
                    else:
                        self.killed_at(world, "stitch.committed#3")
                    self.becomes(world, "Colours", tile, overlap)
                    self.killed_at(world, point, "--overwrite")
                    self.becomes(world, "Blurred")
                    world.output = world.output.with_name(f"{world.output.name}.before-{world.run_id()}")
                    self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                    self.assertEqual(world.results(), wanted)
                    self.assertFalse((world.output / ".offramp-tiles").exists(), "working files are left")

    def test_a_mask_that_was_moved_away_and_back_is_the_same(self):
        wanted = self.masks_of("Blurred", "--consumers", "1")
        world = self.world("Blurred", "--consumers", "1")
        self.killed_at(world, "canvas.committed#3")
        mask = world.output / "square.png"
        shutil.copy(mask, world.folder / "kept.png")
        mask.unlink()
        shutil.copy(world.folder / "kept.png", mask)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.results(), wanted)
        self.assertNotIn("lack tiles", world.logs())
        self.assertFalse((world.output / ".offramp-tiles").exists(), "working files are left")

    def copied(self, name):
        """A copy of the images that a test may change."""
        images = self.folder / name
        shutil.copytree(self.images, images)
        return images

    def damaged(self, canvas):
        """{kind of damage: function that does it to the working file}"""

        def without_first_cells():
            with open(canvas, "r+b") as file:
                file.seek(4096)
                file.write(bytes(8))

        return {
            "removed": canvas.unlink,
            "cut": lambda: os.truncate(canvas, canvas.stat().st_size // 2),
            "overwritten": lambda: canvas.write_bytes(bytes(5000)),
            "without some of its tiles": without_first_cells,
        }

    def test_lost_working_files_are_made_again(self):
        wanted = self.masks_of("Blurred", "--consumers", "1")
        for what in self.damaged(pathlib.Path("x")):
            with self.subTest(canvas=what):
                world = self.world("Blurred", "--consumers", "1")
                self.killed_at(world, "stitch.seam#25", noted=True)
                for canvas in (world.output / ".offramp-tiles").iterdir():
                    self.damaged(canvas)[what]()
                self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertEqual(world.results(), wanted)
                self.assertFalse((world.output / ".offramp-tiles").exists(), "working files are left")

    def test_working_files_that_were_removed_as_the_run_advised_are_made_again(self):
        images = self.copied("mended-later")
        whole = (images / "square.png").read_bytes()
        (images / "square.png").write_bytes(whole[: len(whole) // 2])
        world = self.world("Blurred", "--consumers", "1", "--max-errors", "100%", images=images)
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assert_reported_as_lacking(world, "square")
        shutil.rmtree(world.output / ".offramp-tiles")
        (images / "square.png").write_bytes(whole)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.results(), self.masks_of("Blurred", "--consumers", "1"))

    def test_a_picture_that_changed_before_the_run_went_on_is_made_anew(self):
        for flags in (("--consumers", "1"), ("--consumers", "3", "--gpus", "3")):
            with self.subTest(flags=flags):
                images = self.copied(f"changed-{len(flags)}")
                world = self.world("Blurred", *flags, images=images)
                self.killed_at(world, "stitch.seam#5" if "--gpus" in flags else "stitch.seam#25")
                made = {str(path.relative_to(world.output).with_suffix("")) for path in world.output.rglob("*.png")}
                begun = len(list((world.output / ".offramp-tiles").iterdir()))
                self.assertGreater(
                    begun,
                    len(made & {name for name, size in SIZES.items() if max(size) > TILE}),
                    "no picture is partly done",
                )
                before = {name: (world.output / f"{name}.png").read_bytes() for name in made}
                for seed, (name, size) in enumerate(SIZES.items(), 100):
                    noise(size, seed).save(images / f"{name}.png")
                self.resume(world)
                of_now = self.masks_of("Blurred", "--consumers", "1", images=images)
                results = {name: value for name, value in world.results().items() if name.endswith(".png")}
                for name, mask in before.items():  # finished tiles that the checkpoint lacks are made again
                    is_as_before = (world.output / f"{name}.png").read_bytes() == mask
                    self.assertTrue(
                        is_as_before or results[f"{name}.png"] == of_now[f"{name}.png"], f"{name} mixes two pictures"
                    )
                for name in set(SIZES) - made:
                    self.assertEqual(results[f"{name}.png"], of_now[f"{name}.png"], name)
                self.assertFalse((world.output / ".offramp-tiles").exists(), "working files are left")

    def test_shards_make_lost_working_files_again(self):
        wanted = self.masks_of("Blurred", "--consumers", "1")
        world = self.world("Blurred", "--gpus", "3", "--consumers", "3")
        self.killed_at(world, "stitch.seam#5")
        shutil.rmtree(world.output / ".offramp-tiles")
        self.resume(world)
        self.assertEqual({name: value for name, value in world.results().items() if name.endswith(".png")}, wanted)

    def resume(self, world):
        """Resumes the run to its end; with --gpus a first attempt may only report lost working files."""
        if world.start("--resume").wait() == 73 and "--gpus" in world.flags:
            self.assertIn("A run with --resume makes them again", world.logs())
            world.start("--resume")
        self.assertEqual(world.wait(), 0, world.logs())

    def continue_stopped(self, world):
        """Continues the programs that a failpoint stopped."""
        for pid in world.processes():
            os.kill(pid, signal.SIGCONT)

    def test_removed_working_files_end_the_run_and_are_made_again(self):
        wanted = self.masks_of("Blurred", "--consumers", "1")
        world = self.world("Blurred", "--consumers", "1")
        before = world.environment
        seen = self.dies_at(world, "stitch.seam#25:stop", "stitch.seam")
        world.start()
        world.until(seen.exists, "a consumer that summed a seam")
        for canvas in (world.output / ".offramp-tiles").iterdir():
            canvas.unlink()
        self.continue_stopped(world)
        self.assertEqual(world.wait(), 73, world.logs())
        self.assertIn("was removed or changed during the run", world.logs())
        world.environment = before
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.results(), wanted)

    def test_a_picture_that_changes_during_the_run_is_skipped_and_made_anew(self):
        images = self.folder / "changes"
        images.mkdir()
        noise((1200, 1200), 3).save(images / "large.png")  # more tiles than the run reads ahead
        world = self.world("Blurred", "--consumers", "1", "--max-errors", "100%", images=images)
        before = world.environment
        seen = self.dies_at(world, "stitch.seam#2:stop", "stitch.seam")
        world.start()
        world.until(seen.exists, "a consumer that summed a seam")
        noise((1200, 1200), 4).save(images / "large.png")
        self.continue_stopped(world)
        self.assertEqual(world.wait(), 0, world.logs())
        self.assertIn("the picture changed after the run began", world.logs())
        self.assertFalse((world.output / "large.png").exists(), "an incomplete mask was written")
        world.environment = before
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.results(), self.masks_of("Blurred", "--consumers", "1", images=images))

    def test_a_full_disk_is_reported_and_costs_nothing(self):
        wanted = self.masks_of("Blurred", "--consumers", "1")
        disk = self.folder / "disk"
        disk.mkdir()
        with small_disk(self, disk, "size=160k,mode=0755"):
            world = self.world("Blurred", "--consumers", "1", output=disk / "output")
            self.assertEqual(world.start().wait(), 73, world.logs())
            self.assertRegex(
                world.logs(), r"cannot write: the working file of a mask, .*/\.offramp-tiles/.*No space left on device"
            )
            self.assertEqual(subprocess.run(["mount", "-o", "remount,size=16m", disk], check=False).returncode, 0)
            self.assertEqual(world.start("--resume").wait(), 0, world.logs())
            self.assertEqual(world.results(), wanted)

    def test_a_damaged_picture_has_no_mask_and_continues_when_it_is_mended(self):
        images = self.folder / "damaged"
        images.mkdir()
        whole = (self.images / "square.png").read_bytes()
        (images / "good.png").write_bytes((self.images / "wide.png").read_bytes())
        (images / "square.png").write_bytes(whole[: len(whole) // 2])
        world = self.world("Colours", "--max-errors", "100%", images=images)
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assertFalse((world.output / "square.png").exists())
        self.assertIn("truncated PNG", world.logs())
        (skipped,) = world.summary()["skipped"]
        self.assertRegex(skipped["origin"], r"square\.png, tile \d+,\d+$", "tiles with the same reason are one entry")
        self.assertEqual(1 + skipped["similar"], world.summary()["samples"]["skipped"])
        self.assertIn(f"{skipped['reason']} (and {skipped['similar']} more like it)", world.logs())
        self.assert_reported_as_lacking(world, "square")
        (images / "square.png").write_bytes(whole)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(set(world.results()), {"good.png", "square.png"})
        scores = self.wanted("Colours", Image.open(images / "square.png"))
        numpy.testing.assert_array_equal(self.mask(world.output / "square.png"), scores.argmax(0))

    def test_shards_report_a_damaged_picture_once_at_the_end_of_the_whole(self):
        images = self.folder / "damaged-shards"
        images.mkdir()
        for name, part in (("square", 2), ("tall", 1), ("wide", 1)):
            whole = (self.images / f"{name}.png").read_bytes()
            (images / f"{name}.png").write_bytes(whole[: len(whole) // part])
        world = self.world("Colours", "--gpus", "2", "--consumers", "2", "--max-errors", "100%", images=images)
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assert_reported_as_lacking(world, "square", by="merge")
        self.assertEqual(1, (world.folder / "launcher.log").read_text().count(" lacks tiles"))
        self.assertEqual({"tall.png", "wide.png"}, {name for name in world.results() if name.endswith(".png")})

    def assert_reported_as_lacking(self, world, *names, by="finish"):
        """The terminal names the pictures and how to remove the working files."""
        many = len(names) > 1
        folder = re.escape(str(world.output / ".offramp-tiles"))
        self.assertRegex(
            (world.folder / "launcher.log").read_text(),
            rf"\[run\] {by}: {len(names)} {'pictures lack' if many else 'picture lacks'} tiles and {'have' if many else 'has'} no mask: {', '.join(names)}; "
            rf"{'their' if many else 'its'} finished tiles, \d+ MiB in {folder}, are kept for --resume.*remove that folder",
        )
        self.assertEqual(len(names), len(list((world.output / ".offramp-tiles").iterdir())))

    def test_a_run_that_fails_of_damaged_pictures_reports_which_it_has_begun(self):
        images = self.folder / "too-damaged"
        images.mkdir()
        for name in ("square", "tall"):
            whole = (self.images / f"{name}.png").read_bytes()
            (images / f"{name}.png").write_bytes(whole[: len(whole) // 2])
        world = self.world("Colours", "--max-errors", "10%", "--batch", "1", "--samples-per-slab", "1", images=images)
        self.assertEqual(world.start().wait(), 65, world.logs())
        found = [path.name for path in (world.output / ".offramp-tiles").iterdir()]
        self.assertTrue(found, "no tile was done before the damage")
        many = len(found) > 1
        printed = (world.folder / "launcher.log").read_text()
        self.assertRegex(
            printed,
            rf"\[run\] finish: {'2 pictures are' if many else '1 picture is'} not finished: square{', tall' if many else ''}; --resume continues",
        )
        self.assertNotIn("remove that folder", printed)

    def test_flags_that_tiles_exclude(self):
        for words, flags in (
            (f"--overlap '32' is not less than half of --tile {TILE}", ("--overlap", "32")),
            ("--overlap '-1' is not a whole number", ("--overlap", "-1")),
            ("--image-size 128 does not go with --tile", ("--image-size", "128")),
            ("--resize-size 100 does not go with --tile", ("--resize-size", "100")),
            ("--processor 'cut-out' does not go with --tile", ("--processor", "mask-png,cut-out")),
            ("--mask-size 'model' does not go with --tile", ("--mask-size", "model")),
            ("--shard '1/2' does not go with --tile", ("--shard", "1/2")),
        ):
            with self.subTest(flags=flags):
                world = self.world("Colours", *flags)
                self.assertIn(world.start().wait(), (64, 78), world.logs())
                self.assertIn(words, world.logs())

    def test_a_model_of_another_size(self):
        (self.folder / "Colours128.pt").write_bytes((self.folder / "Colours.pt").read_bytes())
        (self.folder / "Colours128.toml").write_text(NOTES + "image-size = 128\n")
        world = self.world("Colours128")
        self.assertEqual(world.start().wait(), 64, world.logs())
        self.assertIn(f"--tile {TILE}: the model takes pictures of 128 x 128 pixels. Give --tile 128", world.logs())
