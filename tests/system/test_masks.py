"""Masks are the same files, byte for byte, for any number of consumers and any of their failures."""

import io
import pathlib
import tempfile

import numpy
from PIL import Image

from tests.support.launched_run import LaunchedRun
from tests.support.real_run import LeavesNothing

IMAGES = 24


def make_images(folder):
    random = numpy.random.default_rng(7)
    for index in range(IMAGES):
        height, width = (int(size) for size in random.integers(60, 140, 2))
        coarse = random.integers(0, 256, (5, 5, 3), dtype=numpy.uint8)
        image = Image.fromarray(coarse).resize((width, height), Image.BICUBIC)
        place = folder / f"set {index % 3}" / (f"bild-ä{index:03}.png" if index % 4 == 0 else f"{index:03}.jpg")
        place.parent.mkdir(exist_ok=True)
        image.save(place)


class Masks(LeavesNothing):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory(prefix="offramp-images-")
        cls.addClassCleanup(cls.kept.cleanup)
        cls.images = pathlib.Path(cls.kept.name)
        make_images(cls.images)
        cls.wanted, summary = cls.masks_of(1)
        assert len(cls.wanted) == IMAGES, cls.wanted.keys()
        assert summary["samples"]["released"] == IMAGES

    @classmethod
    def run_on_images(cls, consumers, *flags):
        return LaunchedRun(
            "--input",
            str(cls.images),
            *"--model deeplabv3-resnet50 --random-weights --seed 3 --image-size 64 --batch 2 --slabs 4".split(),
            *"--device cpu --consumers".split(),
            str(consumers),
            *flags,
        )

    @classmethod
    def masks_of(cls, consumers, *flags, meanwhile=None):
        """
        (files, summary) of a run. Calls `meanwhile(run, gate)` once the first masks exist and every consumer waits.
        """
        with cls.run_on_images(consumers, *flags) as run, run.gate() as gate:
            run.start()
            if meanwhile:
                gate.let(2)
                run.until(lambda: run.status().get("done_samples", 0) >= 4, "the first masks")
                meanwhile(run, gate)
            gate.open()
            code = run.wait()
            assert code == 0, f"exit code {code}\n{run.logs()}"
            return run.files(), run.summary()

    def test_the_masks_show_classes(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.wanted.items():
                path = pathlib.Path(folder, "mask.png")
                path.write_bytes(content)
                mask = Image.open(path)
                (picture,) = self.images.glob(name.removesuffix(".png") + ".*")
                self.assertEqual((mask.mode, mask.size), ("P", Image.open(picture).size), name)
                self.assertGreater(len(mask.getcolors(256)), 1)
        self.assertGreater(len(set(self.wanted.values())), IMAGES // 2, "different images have different masks")

    def test_two_and_five_consumers(self):
        for consumers in (2, 5):
            files, _ = self.masks_of(consumers)
            self.assertEqual(files, self.wanted, f"{consumers} consumers")

    def test_classes_found_on_the_device_or_by_the_consumers(self):
        wanted, _ = self.masks_of(2, "--mask-size", "model")
        on_device, _ = self.masks_of(2, "--mask-size", "model", "--transform", "class-map", "--confidence")
        by_consumers, _ = self.masks_of(2, "--mask-size", "model", "--transform", "low-res")
        self.assertEqual(on_device, by_consumers, "both use the same formula, to the bit")
        # PyTorch on a CPU without AVX2 may round differently, which matters for nearly equal scores.
        different = sum(self.pixels_that_differ(mask, wanted[name]) for name, mask in on_device.items())
        self.assertEqual(on_device.keys(), wanted.keys())
        self.assertLess(different, IMAGES * 64 * 64 / 10000)

    @staticmethod
    def pixels_that_differ(one, other):
        first, second = (numpy.array(Image.open(io.BytesIO(mask))) for mask in (one, other))
        return int((first != second).sum())

    def test_scaling_in_the_middle(self):
        def scale(run, _):
            for count in ("4", "1"):
                done = run.command("scale", count)
                self.assertEqual(done.returncode, 0, done.stderr)
                if count == "4":
                    run.until(lambda: len(run.status().get("consumers", [])) == 4, "four consumers")

        files, summary = self.masks_of(2, meanwhile=scale)
        self.assertEqual(files, self.wanted)
        self.assertGreaterEqual(len(summary["consumers"]), 4)
