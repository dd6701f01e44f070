"""
Pictures that the GPU decodes (--decode gpu): each is what it is alone, whatever precedes it, and near what the CPU
gives. What the GPU's decoder does not take has the CPU's result, or the CPU's reason.
"""

import importlib.util
import io
import os
import random
import unittest

import numpy
from PIL import Image, ImageFilter

from tests.support.device import ON_GPU, setUpModule  # noqa: F401
from tests.support.exported_model import folder_of_class, networks_in
from tests.support.text_runs import TextRuns

SIDE = 96
ROTATED = 0x0112
NETWORK = """
import torch


class Pixels(torch.nn.Module):
    def forward(self, x):
        return x
"""
ON_A_GPU = unittest.skipUnless(ON_GPU, "skipped: no GPU is asked for (OFFRAMP_TEST_DEVICE=cuda)")


def photograph(seed, size):
    noise = numpy.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), numpy.uint8)
    return Image.fromarray(noise).filter(ImageFilter.GaussianBlur(3))


def jpeg(picture, **options):
    to = io.BytesIO()
    picture.save(to, "JPEG", **{"quality": 90, **options})
    return to.getvalue()


def turned(picture, orientation):
    exif = Image.Exif()
    exif[ROTATED] = orientation
    return jpeg(picture, exif=exif)


def good_files():
    """(name, bytes) of files of which the GPU decodes some, and the CPU the others."""
    for i in range(40):
        size = (70 + 31 * i % 900, 500 - 11 * i)
        picture = photograph(i, size)
        kind = i % 10
        if kind < 4:
            yield f"plain-{i:02}.jpg", jpeg(picture, subsampling=kind % 3, restart_marker_blocks=kind * 3)
        elif kind == 4:
            yield f"turned-{i:02}.jpg", turned(picture, 1 + i % 8)
        elif kind == 5:
            yield f"gray-{i:02}.jpg", jpeg(picture.convert("L"), optimize=True)
        elif kind == 6:
            yield f"progressive-{i:02}.jpg", jpeg(picture, progressive=True)
        elif kind == 7:
            yield f"inks-{i:02}.jpg", jpeg(picture.convert("CMYK"))
        elif kind == 8:
            yield f"behind-{i:02}.jpg", jpeg(picture) + b"what a camera adds"
        else:
            to = io.BytesIO()
            picture.save(to, "PNG")
            yield f"lossless-{i:02}.png", to.getvalue()
    for i in range(4):
        yield f"tiny-{i}.jpg", jpeg(photograph(i, (1 + i, 1)))


def broken_files():
    whole = jpeg(photograph(99, (400, 300)))
    yield "cut-0.jpg", whole[: len(whole) // 2]
    yield "cut-1.jpg", whole[: len(whole) // 3] + b"\xff\xd9"
    yield "noise.jpg", whole[:3000] + bytes(range(1, 200)) * 20 + whole[9000:]
    at = whole.index(b"\xff\xc0")
    yield "bomb.jpg", whole[: at + 5] + b"\xff\xff\xff\xff" + whole[at + 9 :]
    yield "lossless.jpg", whole[: at + 1] + b"\xc3" + whole[at + 2 :]
    yield "text.jpg", b"not a picture"
    yield "empty.jpg", b""


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: needs torch")
class GpuDecode(TextRuns, unittest.TestCase):
    processors = ("--processor", "npy")

    @classmethod
    def setUpClass(cls):
        import torch

        cls.folder = folder_of_class(cls, "gpu-decode")
        cls.model = cls.folder / "pixels.pt"
        torch.jit.script(networks_in(cls.folder, NETWORK).Pixels().eval()).save(str(cls.model))
        cls.model.with_suffix(".toml").write_text('mean = "0, 0, 0"\nstd = "1, 1, 1"\n')
        cls.good, cls.broken = dict(good_files()), dict(broken_files())
        # Of equal small pictures, a batch has more rows than of the large one beside them.
        alike = jpeg(photograph(5, (320, 200)))
        cls.good.update({f"alike-{i:02}.jpg": alike for i in range(40)})
        cls.good["z-large.jpg"] = jpeg(photograph(6, (4000, 3000)))
        cls.mixed = cls.folder / "mixed"
        cls.write_all(cls.mixed, {**cls.good, **cls.broken}, "")

    @classmethod
    def write_all(cls, folder, files, before):
        """Writes files, each name after `before` or a random number, so that they come in another order."""
        folder.mkdir()
        for name, content in files.items():
            number = before if before == "" else f"{before.randrange(10**6):06}-"
            (folder / f"{number}{name}").write_bytes(content)

    def pictures(self, folder, decode, *flags):
        return "images", folder, "--image-size", str(SIDE), "--decode", decode, "--max-errors", "50%", *flags

    def arrays(self, world):
        return {path.name.split(".")[0]: numpy.load(path) for path in world.output.glob("*.npy")}

    def reasons(self, world):
        return {os.path.basename(each["origin"]): each["reason"] for each in world.summary()["skipped"]}

    def test_needs_a_gpu_and_whole_pictures(self):
        if not ON_GPU:
            world = self.world(*self.pictures(self.mixed, "gpu"))
            self.assertEqual(world.start().wait(), 64, world.logs())
            self.assertIn("pictures cannot be decoded on a GPU: this run uses the CPU", world.logs())
        for flags, reason in (
            (("images", self.mixed, "--tile", "96"), "--decode gpu does not go with --tile"),
            (("synthetic", ""), "it gives no pictures"),
        ):
            world = self.world(*flags, "--image-size", "96", "--decode", "gpu")
            self.assertEqual(world.start().wait(), 64, world.logs())
            if ON_GPU:
                self.assertIn(reason, world.logs())

    @unittest.skipIf(ON_GPU, "skipped: for a machine without a GPU")
    def test_auto_is_the_cpu_without_a_gpu(self):
        chosen = self.ended(*self.pictures(self.mixed, "auto"))
        wanted = self.arrays(self.ended(*self.pictures(self.mixed, "cpu")))
        found = self.arrays(chosen)
        self.assertEqual(found.keys(), wanted.keys())
        for name, array in wanted.items():
            numpy.testing.assert_array_equal(found[name], array)

    @ON_A_GPU
    def test_each_picture_is_as_alone_and_near_the_cpus(self):
        on_cpu = self.ended(*self.pictures(self.mixed, "cpu"))
        on_gpu = self.ended(*self.pictures(self.mixed, "gpu"))
        self.assertEqual(self.reasons(on_gpu), self.reasons(on_cpu))
        self.assertEqual(self.reasons(on_gpu).keys(), self.broken.keys())
        wanted, found = self.arrays(on_cpu), self.arrays(on_gpu)
        self.assertEqual(found.keys(), wanted.keys())
        differs = 0
        for name, array in wanted.items():
            kind = name.split("-")[0]
            if kind in ("progressive", "inks", "lossless", "tiny"):
                numpy.testing.assert_array_equal(found[name], array, name)
                continue
            difference = numpy.abs(found[name] - array) * 255
            self.assertLess(difference.mean(), 3, name)
            differs += int(difference.max() > 0)
        self.assertGreater(differs, 10, "the GPU decoded none")
        self.assertGreater(on_gpu.summary()["decoded_on_gpu"], 20)
        for seed in (1, 2, 3):
            folder = self.folder / f"order-{seed}"
            self.write_all(folder, {**self.good, **self.broken}, random.Random(seed))
            again = self.ended(*self.pictures(folder, "gpu", "--batch", str(5 * seed)))
            for name, array in self.arrays(again).items():
                numpy.testing.assert_array_equal(array, found[name.split("-", 1)[1]], name)
            self.assertEqual(sorted(each.split("-", 1)[1] for each in self.reasons(again)), sorted(self.broken))

    @ON_A_GPU
    def test_goes_on_after_kills_and_with_the_same_decoder_alone(self):
        folder = self.folder / "good"
        self.write_all(folder, self.good, "")
        words = self.pictures(folder, "gpu", "--samples-per-slab", "4")
        whole = self.arrays(self.ended(*words))
        again = self.resumed(*words)
        for name, array in self.arrays(again).items():
            numpy.testing.assert_array_equal(array, whole[name], name)
        self.assertEqual(again.summary()["exit"], 0)
        world = self.world(*words)
        self.assertGreaterEqual(world.break_off(slabs=3), 4)
        self.assertEqual(world.start("--resume", "--decode", "cpu").wait(), 64, world.logs())
        self.assertIn("--decode", world.logs())

    @ON_A_GPU
    def test_keeps_shapes(self):
        words = ("images", self.mixed, "--resize", "none", "--max-errors", "50%")
        on_cpu, on_gpu = (self.ended(*words, "--decode", each) for each in ("cpu", "gpu"))
        wanted, found = self.arrays(on_cpu), self.arrays(on_gpu)
        self.assertEqual(found.keys(), wanted.keys())
        for name, array in wanted.items():
            self.assertEqual(found[name].shape, array.shape)
            self.assertLess(numpy.abs(found[name] - array).mean() * 255, 3, name)
        self.assertEqual(self.reasons(on_gpu), self.reasons(on_cpu))

    @ON_A_GPU
    def test_many_tiny_files_take_the_cpus_way(self):
        folder = self.folder / "tiny"
        one = jpeg(photograph(1, (1, 1)))
        self.write_all(folder, {f"{i:04}.jpg": one for i in range(2000)}, "")
        world = self.ended(*self.pictures(folder, "gpu"))
        self.assertEqual(world.summary()["samples"]["released"], 2000)
        self.assertEqual(world.summary()["decoded_on_gpu"], 0)
