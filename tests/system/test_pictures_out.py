"""Models that output pictures or unknown tensors: picture files or arrays, never an error at the first slab."""

import importlib.util
import io
import unittest

import numpy
from PIL import Image

from tests.support.device import ON_GPU, setUpModule  # noqa: F401
from tests.support.exported_model import ModelRuns

SIDE = 48

NETWORKS = """
import torch


class Negative(torch.nn.Module):
    '''A picture twice as large, its colours turned round.'''

    def forward(self, x):
        return 1 - torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")


class Tanh(torch.nn.Module):
    '''The picture itself, black at -1.'''

    def forward(self, x):
        return x * 2 - 1


class WithAlpha(torch.nn.Module):
    '''Bytes, the last of which are alpha.'''

    def forward(self, x):
        return (torch.cat((x, x[:, :1]), 1) * 255).round().to(torch.uint8)


class Classifier(torch.nn.Module):
    def forward(self, x):
        return x.mean((2, 3))
"""
NOTES = 'mean = "0, 0, 0"\nstd = "1, 1, 1"\n'


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class PicturesOut(ModelRuns):
    source = NETWORKS
    flags = (*"--consumers 2 --batch 2 --image-size".split(), str(SIDE))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("Negative", "Tanh", "WithAlpha", "Classifier"):
            cls.saved(getattr(cls.networks, name)(), f"{name}.pt", NOTES)
        random = numpy.random.default_rng(2)
        cls.pictures = {}
        for index in range(5):
            coarse = Image.fromarray(random.integers(0, 256, (6, 6, 3), dtype=numpy.uint8)).resize(
                (SIDE, SIDE), Image.BICUBIC
            )
            coarse.save(cls.images / f"{index}.png")
            cls.pictures[str(index)] = numpy.asarray(coarse)

    def pictures_of(self, model, *flags, extension=".png"):
        code, printed, files = self.run_of(model, "--processor", "image", *flags)
        self.assertEqual(code, 0, printed)
        self.assertEqual(set(files), {key + extension for key in self.pictures})
        return {
            name.removesuffix(extension): numpy.asarray(Image.open(io.BytesIO(content))).astype(int)
            for name, content in files.items()
        }

    def test_png_files_hold_what_the_network_gave(self):
        for key, found in self.pictures_of("Negative.pt").items():
            wanted = 255 - self.pictures[key].repeat(2, 0).repeat(2, 1).astype(int)
            self.assertEqual(found.shape, (2 * SIDE, 2 * SIDE, 3))
            self.assertLessEqual(numpy.abs(found - wanted).max(), 1, key)

    def test_pictures_keep_their_proportions_in_enlarging_networks(self):
        wide = self.folder / "wide"
        wide.mkdir()
        sizes = {"wide": (80, 40), "high": (30, 90), "square": (SIDE, SIDE), "small": (7, 3)}
        for name, (width, height) in sizes.items():
            Image.fromarray(numpy.random.default_rng(4).integers(0, 256, (height, width, 3), dtype=numpy.uint8)).save(
                wide / f"{name}.png"
            )
        for flags, size_of in (
            ((), lambda size: (2 * size[0], 2 * size[1])),
            (("--picture-size", "model"), lambda size: (2 * SIDE, 2 * SIDE)),
        ):
            with self.launched("Negative.pt", "--processor", "image", *flags, images=wide) as run:
                code, printed, files = run.start().wait(), run.logs(), run.files()
            self.assertEqual(code, 0, printed)
            found = {name.removesuffix(".png"): Image.open(io.BytesIO(content)).size for name, content in files.items()}
            self.assertEqual(found, {name: size_of(size) for name, size in sizes.items()})

    def test_jpeg_and_webp(self):
        for form, extension in (("jpeg", ".jpg"), ("webp", ".webp")):
            for key, found in self.pictures_of(
                "Negative.pt", "--image-format", form, "--image-quality", "95", extension=extension
            ).items():
                wanted = 255 - self.pictures[key].repeat(2, 0).repeat(2, 1).astype(int)
                self.assertLess(numpy.abs(found - wanted).mean(), 6, f"{key}.{form}")

    def encoded(self, place, model, *flags):
        """{name: bytes} of JPEG files."""
        code, printed, files = self.run_of(
            model,
            "--processor",
            "image",
            "--image-format",
            "jpeg",
            "--picture-size",
            "model",
            "--encode",
            place,
            *flags,
        )
        self.assertEqual((code, set(files)), (0, {f"{key}.jpg" for key in self.pictures}), printed)
        return files

    @unittest.skipUnless(ON_GPU, "skipped: no GPU (OFFRAMP_TEST_DEVICE=cuda)")
    def test_a_gpu_encodes_the_same_pictures(self):
        for model, flags in (("Negative.pt", ()), ("Tanh.pt", ("--image-range=-1:1", "--image-quality", "98"))):
            by_consumers = self.encoded("cpu", model, *flags)
            for place in ("gpu", "auto"):
                for name, data in self.encoded(place, model, *flags).items():
                    self.assertNotEqual(data, by_consumers[name], "consumers have another encoder")
                    found, wanted = (
                        numpy.asarray(Image.open(io.BytesIO(each))).astype(int) for each in (data, by_consumers[name])
                    )
                    self.assertLess(numpy.abs(found - wanted).mean(), 3, name)
        code, printed, files = self.run_of(
            "Tanh.pt", *"--processor image --image-format jpeg --picture-size model --encode gpu".split()
        )
        self.assertEqual((code, files), (64, {}), printed)
        self.assertIn("--image-range", printed)

    @unittest.skipIf(ON_GPU, "for a run on the CPU")
    def test_without_a_gpu_consumers_encode(self):
        words = "--processor image --image-format jpeg --picture-size model --encode".split()
        self.assertEqual(self.encoded("cpu", "Negative.pt"), self.encoded("auto", "Negative.pt"))
        code, printed, files = self.run_of("Negative.pt", *words, "gpu")
        self.assertEqual((code, files), (64, {}), printed)
        self.assertIn("pictures cannot be encoded on a GPU: this run uses the CPU", printed)

    def test_other_ranges_and_alpha(self):
        for key, found in self.pictures_of("Tanh.pt", "--image-range=-1:1").items():
            self.assertLessEqual(numpy.abs(found - self.pictures[key]).max(), 1, key)
        for key, found in self.pictures_of("WithAlpha.pt").items():
            self.assertEqual(found.shape, (SIDE, SIDE, 4))
            numpy.testing.assert_array_equal(found[..., :3], self.pictures[key], key)
            numpy.testing.assert_array_equal(found[..., 3], self.pictures[key][..., 0], key)

    def test_a_wrong_range_ends_the_run(self):
        code, printed, files = self.run_of("Tanh.pt", "--processor", "image")
        self.assertEqual((code, files), (64, {}), printed)
        self.assertIn("--image-range", printed)

    def test_a_model_without_masks_gives_arrays_by_default_and_reports_it(self):
        code, printed, files = self.run_of("Classifier.pt")
        self.assertEqual(code, 0, printed)
        self.assertEqual(set(files), {f"{key}.output.npy" for key in self.pictures})
        for key, picture in self.pictures.items():
            numpy.testing.assert_allclose(
                numpy.load(io.BytesIO(files[f"{key}.output.npy"])), picture.mean((0, 1)) / 255, rtol=1e-4
            )
        self.assertEqual(
            printed.count("each is written as an array, as by --processor npy"),
            printed.count("producer.log") + 1,
            printed,
        )

    def test_a_processor_that_was_chosen_still_refuses(self):
        code, printed, files = self.run_of("Classifier.pt", "--processor", "mask-png")
        self.assertEqual((code, files), (64, {}), printed)
        self.assertIn("expected class ids", printed)
