"""Invalid TorchScript files are refused by name. A network that reuses its output buffer overwrites no results."""

import importlib.util
import unittest
import zipfile

import numpy
from PIL import Image

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import ModelRuns

SIDE = 32
IMAGES = 24
# Too large to be copied before the next batch starts.
WIDTH = 1 << 20

NETWORKS = """
import torch


class Mean(torch.nn.Module):
    def forward(self, x):
        return torch.square(x.mean((2, 3)))


class NoForward(torch.nn.Module):
    @torch.jit.export
    def encode(self, x):
        return x.mean((2, 3))


class Changing(torch.nn.Module):
    '''Another type for another picture.'''

    def forward(self, x):
        y = x.mean((2, 3))
        if bool(x.abs().sum() > 0):
            return y.half()
        return y


class Shrinking(torch.nn.Module):
    '''Another shape for another picture.'''

    def forward(self, x):
        y = x.mean((2, 3))
        if bool(x.abs().sum() > 0):
            return y[:, :1]
        return y


class Itself(torch.nn.Module):
    def forward(self, x):
        return x.clone()


class Thing(torch.nn.Module):
    '''Sees one everywhere.'''

    def forward(self, x):
        nine = x[:, 0] * 0 + 9
        return torch.stack((-nine, nine), 1)


class Raising(torch.nn.Module):
    def forward(self, x):
        if x.numel() > 0:
            raise ValueError("boom at this picture")
        return x.mean([1, 2, 3]).reshape(-1, 1)


class Slices(torch.nn.Module):
    '''Outputs that keep the strides of what they are cut from, where a dimension has one element.'''

    def forward(self, x):
        both = torch.stack((x.mean(1), x.amax(1)), 1)
        return {"part": both[:, 1:2], "plane": both[:, 0], "packed": both[:, :1].contiguous(), "column": both[:, :, :, 5:6], "row": both[:, 1:2, 3:4, :],
                "turned": both[:, :1].transpose(2, 3), "last": x.flatten(1)[:, :1]}


class Volumes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv3d(1, 2, 3, padding=1)

    def forward(self, x):
        return self.layer(x)


class Hungry(torch.nn.Module):
    def forward(self, x):
        return torch.zeros([x.size(0), 1 << 47], device=x.device) + x.mean()


class Keeping(torch.nn.Module):
    '''Its output is its own buffer: whole, as a view, and twice.'''

    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("kept", torch.zeros(1, width))
        self.register_buffer("other", torch.zeros(2, 1, width))

    def forward(self, x):
        mean = x.mean()
        self.kept.fill_(mean)
        self.other.fill_(mean)
        return {"kept": self.kept, "part": self.other[1], "fresh": torch.zeros_like(self.kept) + mean}
"""


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class TorchScript(ModelRuns):
    source = NETWORKS
    flags = ("--consumers", "1")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for index in range(IMAGES):
            Image.new("RGB", (SIDE, SIDE), (10 * index + 5,) * 3).save(cls.images / f"{index:02}.png")

    def run_of(self, model, *flags):
        return super().run_of(model, "--image-size", str(SIDE), *flags)

    def arrays_of(self, model, given, *flags, code=0):
        """(all output, {name of a .npy: array}) of a run over an input, with --output alone."""
        with self.launched(model, *flags, images=given) as run:
            self.assertEqual(run.start().wait(), code, run.logs())
            return run.logs(), {
                path.name.removesuffix(".npy"): numpy.load(path) for path in run.output.glob("**/*.npy")
            }

    def test_the_stride_of_one_element_does_not_count(self):
        import torch

        model = self.saved(
            self.networks.Slices(), "slices.pt", f'image-size = {SIDE}\nmean = "0, 0, 0"\nstd = "1, 1, 1"\n'
        )
        random = numpy.random.default_rng(3).random((3, 3, SIDE, SIDE), numpy.float32)
        numpy.save(self.folder / "slices.npy", random)
        wanted = self.networks.Slices()(torch.from_numpy(random))
        for batch in (1, 2):
            _, found = self.arrays_of(model, self.folder / "slices.npy", "--batch", str(batch), "--processor", "npy")
            self.assertEqual(set(found), {f"{item}.{name}" for item in range(3) for name in wanted})
            for name, tensor in wanted.items():
                for item in range(3):
                    numpy.testing.assert_allclose(
                        found[f"{item}.{name}"],
                        tensor[item].numpy(),
                        rtol=1e-6,
                        err_msg=f"{name} of {item}, --batch {batch}",
                    )

    def test_an_array_defines_the_input_and_outputs_are_written(self):
        import torch

        network = self.networks.Volumes()
        model = self.saved(network, "volumes.pt")
        random = numpy.random.default_rng(4).random((5, 1, 6, 10, 8), numpy.float32)
        numpy.save(self.folder / "volumes.npy", random)
        with torch.no_grad():
            wanted = network(torch.from_numpy(random)).numpy()
        for notes in ("", 'input-shape = "1x6x10x8"\n'):
            (self.folder / "volumes.toml").write_text(notes)
            printed, found = self.arrays_of(model, self.folder / "volumes.npy", "--batch", "2")
            self.assertEqual(set(found), {f"{item}.output" for item in range(5)}, printed)
            self.assertIn("\n  processor  npy\n", printed)
            for item in range(5):
                numpy.testing.assert_allclose(found[f"{item}.output"], wanted[item], rtol=1e-3, atol=1e-5)

    def test_a_folder_has_an_array_for_each_sample(self):
        import torch

        network = self.networks.Volumes()
        model = self.saved(network, "volumes.pt")
        random = numpy.random.default_rng(6).random((3, 1, 6, 10, 8), numpy.float32)
        folder = self.folder / "cases"
        folder.mkdir()
        for name, array in zip(("ann", "bob.v2", "cid"), random):
            numpy.save(folder / f"{name}.npy", array)
        numpy.save(folder / "dan.npy", random[0, :, :5])
        (folder / "notes.txt").write_text("of no case")
        with torch.no_grad():
            wanted = network(torch.from_numpy(random)).numpy()
        printed, found = self.arrays_of(model, folder, "--batch", "2", "--max-errors", "1")
        self.assertEqual(set(found), {"ann.output", "bob.v2.output", "cid.output"}, printed)
        for name, array in zip(("ann", "bob.v2", "cid"), wanted):
            numpy.testing.assert_allclose(found[f"{name}.output"], array, rtol=1e-3, atol=1e-5)
        self.assertIn("dan.npy': an array <f4 [1, 5, 10, 8] has rows of [1, 5, 10, 8], and the model", printed)

    def test_arrays_of_pictures_with_their_own_size(self):
        model = self.saved(self.networks.Itself(), "itself.pt", 'mean = "0, 0, 0"\nstd = "1, 1, 1"\n')
        pixels = numpy.random.default_rng(5).integers(0, 256, (3, 12, 20, 3), numpy.uint8)
        wanted = pixels.transpose(0, 3, 1, 2).astype(numpy.float32) / 255
        for name, array in (
            ("hwc", pixels),
            ("chw", numpy.ascontiguousarray(pixels.transpose(0, 3, 1, 2))),
            ("float", wanted),
        ):
            numpy.save(self.folder / f"{name}.npy", array)
            printed, found = self.arrays_of(model, self.folder / f"{name}.npy", "--batch", "2", "--processor", "npy")
            for item in range(3):
                numpy.testing.assert_allclose(found[f"{item}.output"], wanted[item], atol=1e-6, err_msg=name)
            self.assertNotIn("a default", printed)

    def test_a_missing_size_is_reported_with_its_flag(self):
        printed, found = self.arrays_of(
            self.saved(self.networks.Itself(), "itself.pt"), self.images, "--processor", "npy", "--limit", "2"
        )
        self.assertEqual({array.shape for array in found.values()}, {(3, 224, 224)})
        self.assertIn("pictures are resized to 224 x 224 pixels, a default", printed)
        self.assertIn("Give --image-size N, or write image-size = N there", printed)

    def test_wrong_model_input_is_reported(self):
        model = self.saved(self.networks.Volumes(), "volumes.pt")
        printed, _ = self.arrays_of(model, self.images, "--batch", "4", code=65)
        for word in (
            "failed in its own code on image float32 [4, 3, 224, 224], pictures by --image-size 224: ",
            "Describe one sample in",
            'input-shape = "1x32x48x48"',
            "image-size = N",
            "input-dtype",
        ):
            self.assertIn(word, printed)
        model = self.saved(self.networks.Volumes(), "volumes.pt", 'input-shape = "2x6x10x8"\n')
        numpy.save(self.folder / "one.npy", numpy.zeros((1, 1, 6, 10, 8), numpy.float32))
        printed, _ = self.arrays_of(model, self.folder / "one.npy", "--batch", "4", code=65)
        self.assertIn("on input float32 [4, 2, 6, 10, 8], by ", printed)

    def test_a_torch_save_file_is_refused_with_a_way_to_export_it(self):
        import torch

        torch.save(torch.nn.Linear(3, 3), self.folder / "pickled.pt")
        self.refused(
            "pickled.pt' is not TorchScript",
            "def make(): return torch.load(",
            "./launch/offramp export net.py:make --output compiled.pt2",
            "--weights",
            model="pickled.pt",
        )

    def refused(self, *words, model):
        code, printed, _ = self.run_of(model, "--processor", "none", "--batch", "2")
        self.assertEqual(code, 65, printed)
        for word in words:
            self.assertIn(word, printed)

    def test_an_operator_that_is_not_there(self):
        known = self.folder / self.saved(self.networks.Mean(), "known.pt")
        with zipfile.ZipFile(known) as old, zipfile.ZipFile(self.folder / "unknown.pt", "w", zipfile.ZIP_STORED) as new:
            for path in old.namelist():
                content = old.read(path)
                new.writestr(
                    path, content.replace(b"torch.square(", b"ops.nowhere.square(") if path.endswith(".py") else content
                )
        self.refused(
            "unknown.pt' is not TorchScript that this LibTorch reads: Unknown builtin op: nowhere::square",
            model="unknown.pt",
        )

    def test_a_network_without_forward(self):
        self.refused("without.pt' has no forward", model=self.saved(self.networks.NoForward(), "without.pt"))

    def test_a_raising_network_is_reported_with_its_message(self):
        self.refused(
            "with batch 2 failed in its own code",
            "boom at this picture",
            model=self.saved(self.networks.Raising(), "raising.pt"),
        )

    def test_a_network_that_takes_too_much_memory(self):
        model = self.saved(self.networks.Hungry(), "hungry.pt")
        code, printed, _ = self.run_of(model, "--processor", "none", "--batch", "2")
        self.assertEqual(code, 71 if DEVICE == "cpu" else 81, printed)
        self.assertIn(
            "does not fit in this machine's memory" if DEVICE == "cpu" else "does not fit on the GPU", printed
        )

    def test_an_output_whose_type_changes(self):
        self.refused(
            "of type Half",
            "where the first batch's was output float32",
            model=self.saved(self.networks.Changing(), "changing.pt"),
        )

    def test_a_batch_whose_output_has_another_shape_is_named(self):
        given = numpy.zeros((5, 3, SIDE, SIDE), numpy.float32)
        given[3] = 1
        path = self.folder / "shrinking.npy"
        numpy.save(path, given)
        model = self.saved(self.networks.Shrinking(), "shrinking.pt")
        for batch, named in (("2", f"{path} row 2 to {path} row 3"), ("1", f"{path} row 3")):
            printed, _ = self.arrays_of(model, path, "--processor", "npy", "--batch", batch, code=65)
            self.assertIn(
                f"the batch of {named}: the model '{self.folder / model}' gave the output 'output' of shape [{batch}, 1]",
                printed,
            )
            self.assertIn(f"where the first batch's was output float32 [{batch}, 3]", printed)
            self.assertIn("Use a model whose outputs have the same shape for every input", printed)

    def test_an_output_that_the_network_keeps(self):
        model = self.saved(self.networks.Keeping(WIDTH), "keeping.pt", 'mean = "0, 0, 0"\nstd = "1, 1, 1"\n')
        code, printed, files = self.run_of(model, "--processor", "write", "--batch", "1")
        self.assertEqual(code, 0, printed)
        self.assertEqual(len(files), 3 * IMAGES, sorted(files))
        for index in range(IMAGES):
            for output in ("kept", "part", "fresh"):
                values = numpy.frombuffer(files[f"{index:02}.{output}.bin"], numpy.float32)
                self.assertEqual(values.size, WIDTH)
                numpy.testing.assert_allclose(
                    values, (10 * index + 5) / 255, rtol=1e-5, err_msg=f"{output} of picture {index}"
                )

    @unittest.skipUnless(
        importlib.util.find_spec("torchvision"), "skipped: no torchvision here (launch/requirements-test.txt)"
    )
    def test_the_middle_of_a_picture_is_torchvisions(self):
        from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize

        images = self.folder / "of-many-sizes"
        images.mkdir()
        random = numpy.random.default_rng(8)
        for width, height in ((200, 133), (133, 200), (80, 80), (64, 64), (300, 41), (37, 35)):
            Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=numpy.uint8)).save(
                images / f"{width}x{height}.png"
            )
        for way in InterpolationMode.BILINEAR, InterpolationMode.BICUBIC:
            self.saved(
                self.networks.Itself(),
                "itself.pt",
                f'image-size = 64\nresize-size = 80\ninterpolation = "{way.value}"\nmean = "0, 0, 0"\nstd = "1, 1, 1"\n',
            )
            with self.launched("itself.pt", "--processor", "npy", images=images) as run:
                self.assertEqual(run.start().wait(), 0, run.logs())
                found = {path.name.removesuffix(".output.npy"): numpy.load(path) for path in run.output.glob("*.npy")}
            wanted = Compose([Resize(80, way), CenterCrop(64)])
            self.assertEqual(len(found), 6, sorted(found))
            for path in images.iterdir():
                middle = numpy.asarray(wanted(Image.open(path)), numpy.int16).transpose(2, 0, 1)
                # PIL may resize columns first, which changes some last bits.
                difference = numpy.abs(numpy.rint(found[path.stem] * 255) - middle)
                self.assertLessEqual(difference.max(), 1 if way == InterpolationMode.BILINEAR else 2, path.name)
                self.assertLess((difference != 0).mean(), 0.1, path.name)

    def test_the_mask_is_put_back_where_the_crop_was(self):
        self.saved(self.networks.Thing(), "thing.pt", "image-size = 64\nresize-size = 80\n")
        images = self.folder / "tall-and-wide"
        images.mkdir()
        for name, size in (("tall", (100, 200)), ("wide", (200, 100))):
            Image.new("RGB", size, "white").save(images / f"{name}.png")
        with self.launched("thing.pt", "--processor", "cut-out,mask-png", images=images) as run:
            self.assertEqual(run.start().wait(), 0, run.logs())
            alpha = {path.stem: numpy.asarray(Image.open(path))[..., 3] for path in run.output.glob("cut-out/*.png")}
            masks = {path.stem: numpy.asarray(Image.open(path)) for path in run.output.glob("mask-png/*.png")}
        # 64 of the 80 pixels to which the shorter side of 100 was resized.
        wide = numpy.zeros((100, 200), numpy.uint8)
        wide[10:90, 60:140] = 255
        numpy.testing.assert_array_equal(alpha["wide"], wide)
        numpy.testing.assert_array_equal(alpha["tall"], wide.T)
        numpy.testing.assert_array_equal(masks["wide"], wide > 0)
        numpy.testing.assert_array_equal(masks["tall"], wide.T > 0)
