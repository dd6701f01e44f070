"""Whole runs over pictures of many kinds, against the Pillow that is installed: pixels as they are decoded, and what cut-outs keep of an original."""

import importlib.util
import io
import pathlib
import tempfile
import unittest

import numpy
from PIL import Image, ImageCms, ImageOps

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import networks_in
from tests.support.launched_run import LaunchedRun
from tests.support.real_run import left_behind, shared_memory

NETWORKS = """
import torch


class Everything(torch.nn.Module):
    '''All is foreground: a cut-out then shows the original as it was decoded.'''

    def forward(self, x):
        return x[:, :1] * 0.0 + 1.0
"""
NOTES = 'image-size = 64\nmean = "0, 0, 0"\nstd = "1, 1, 1"\n'


def noise(seed, *shape):
    return numpy.random.default_rng(seed).integers(0, 256, shape, dtype=numpy.uint8)


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class AgainstPillow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import torch
        cls.before = shared_memory()
        kept = tempfile.TemporaryDirectory(prefix="offramp-pillow-")
        cls.addClassCleanup(kept.cleanup)
        cls.folder = pathlib.Path(kept.name)
        torch.jit.script(networks_in(cls.folder, NETWORKS).Everything().eval()).save(str(cls.folder / "everything.pt"))
        (cls.folder / "everything.toml").write_text(NOTES)

    def setUp(self):
        self.pictures = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="offramp-pillow-")))

    def enterContext(self, context):  # Python 3.10 has none
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def tearDown(self):
        self.assertEqual(left_behind(lambda: shared_memory() - self.before), set(), "something was left in /dev/shm")

    def run_of(self, processor, *flags):
        """(files, what was said) of a run over self.pictures."""
        with LaunchedRun("--model", str(self.folder / "everything.pt"), "--input", str(self.pictures), "--device", DEVICE, "--processor", processor,
                         "--batch", "4", "--consumers", "1", *flags) as run:
            code, said, files = run.start().wait(), run.said(), run.files()
        self.assertEqual(code, 0, said)
        return files, said

    def cut_outs(self):
        """{key: picture} of a run over self.pictures."""
        files, _ = self.run_of("cut-out")
        self.assertEqual(len(files), len(list(self.pictures.iterdir())))
        return {name.removesuffix(".png"): Image.open(io.BytesIO(content)) for name, content in files.items()}

    def test_inks_of_tiff_become_pillows_colours(self):
        inks = numpy.stack(numpy.meshgrid(range(0, 256, 17), range(0, 256, 51), range(0, 256, 85), range(0, 256, 5), indexing="ij"), -1)
        picture = Image.fromarray(inks.reshape(-1, 96, 4).astype(numpy.uint8), "CMYK")
        for name in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            picture.save(self.pictures / f"{name}.tif", compression=name)
        picture.save(self.pictures / "jpeg.tif", compression="jpeg", quality=95)
        for key, found in self.cut_outs().items():
            wanted = numpy.asarray(Image.open(self.pictures / f"{key}.tif").convert("RGB"))
            numpy.testing.assert_array_equal(numpy.asarray(found)[..., :3], wanted, key)

    def test_notes_of_orientation_in_png_turn_the_picture_as_pillow_turns_it(self):
        for value in range(1, 9):
            exif = Image.Exif()
            exif[274] = value
            Image.fromarray(noise(value, 40, 56, 3)).save(self.pictures / f"turned-{value}.png", exif=exif)
        for key, found in self.cut_outs().items():
            wanted = numpy.asarray(ImageOps.exif_transpose(Image.open(self.pictures / f"{key}.png")))
            numpy.testing.assert_array_equal(numpy.asarray(found)[..., :3], wanted, key)
        masks, _ = self.run_of("mask-png")
        for name, content in masks.items():
            self.assertEqual(Image.open(io.BytesIO(content)).size, ImageOps.exif_transpose(Image.open(self.pictures / name)).size, name)

    def test_png_of_16_bits_is_read_as_tiff_of_16_bits(self):
        numbers = numpy.random.default_rng(3).integers(0, 65536, (33, 47), dtype=numpy.uint16)
        for form in ("png", "tif"):
            Image.fromarray(numbers).save(self.pictures / f"{form}.{form}")
        for key, found in self.cut_outs().items():
            wanted = numpy.repeat(numpy.rint(numbers / 257.0)[..., None], 3, 2)
            numpy.testing.assert_array_equal(numpy.asarray(found)[..., :3], wanted, key)

    def test_what_was_transparent_stays_so_and_colours_keep_their_profile(self):
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        rgba = Image.fromarray(noise(5, 30, 44, 4), "RGBA")
        for extension in ("png", "webp", "tif"):
            exactly = {"lossless": True, "exact": True} if extension == "webp" else {}
            rgba.save(self.pictures / f"seen-through-{extension}.{extension}", icc_profile=profile, **exactly)
        rgba.convert("RGB").save(self.pictures / "photo.jpg", icc_profile=profile)
        found = self.cut_outs()
        for key, cut in found.items():
            self.assertEqual(cut.info.get("icc_profile"), profile, key)
            alpha = numpy.asarray(cut)[..., 3]
            numpy.testing.assert_array_equal(alpha, 255 if key == "photo" else numpy.asarray(rgba)[..., 3], key)
            if key != "photo":
                numpy.testing.assert_array_equal(numpy.asarray(cut)[..., :3], numpy.where(alpha[..., None] > 0, numpy.asarray(rgba)[..., :3], 0), key)
        for name, content in self.run_of("overlay")[0].items():
            self.assertEqual(Image.open(io.BytesIO(content)).info.get("icc_profile"), profile, name)

    def test_pictures_that_use_few_of_16_bits_are_warned_of(self):
        numbers = (numpy.arange(48 * 80).reshape(48, 80) % 4096).astype(numpy.uint16)
        for form in ("png", "tif"):
            for path in self.pictures.iterdir():
                path.unlink()
            Image.fromarray(numbers).save(self.pictures / f"cells.{form}")
            said = self.run_of("cut-out")[1]
            self.assertIn("uses 12 of them", said, form)


if __name__ == "__main__":
    unittest.main()
