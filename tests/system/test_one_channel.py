"""Networks with one channel, as for background removal: the output is the foreground, never an empty mask."""

import importlib.util
import io
import json
import pathlib
import sqlite3
import tempfile
import unittest

import numpy
from PIL import Image

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import ModelRuns, export

SIDE = 32
IMAGES = 5

NETWORKS = """
import torch


class Matte(torch.nn.Module):
    '''How bright a pixel is: a logit of one channel, or its probability.'''

    def __init__(self, logits: bool):
        super().__init__()
        self.logits = logits
        self.layer = torch.nn.Conv2d(3, 1, 1)
        torch.nn.init.constant_(self.layer.weight, 4.0)
        torch.nn.init.constant_(self.layer.bias, -6.0)

    def forward(self, x):
        y = self.layer(x)
        return y if self.logits else torch.sigmoid(y)


class Moody(torch.nn.Module):
    '''No number where the upper left corner is white, and nothing that can be a probability where it is black.'''

    def __init__(self):
        super().__init__()
        self.matte = Matte(False)

    def forward(self, x):
        y = self.matte(x)
        corner = x[:, :1, :1, :1]
        y = torch.where(corner > 0.99, torch.full_like(y, float("nan")), y)
        return torch.where(corner < 0.01, y + 37.0, y)


class Flat(torch.nn.Module):
    '''No channel at all.'''

    def forward(self, x):
        return torch.sigmoid(x.mean(1))


def matte(logits=False):
    return Matte(bool(logits))
"""
NOTES = 'mean = "0, 0, 0"\nstd = "1, 1, 1"\n'
PLAIN = ("--mean", "0,0,0", "--std", "1,1,1", "--image-size", str(SIDE), "--batch", "2", "--device", DEVICE)


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class OneChannel(ModelRuns):
    source = NETWORKS
    flags = (*"--consumers 2 --batch 2 --image-size".split(), str(SIDE))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = numpy.random.default_rng(4)
        # A power of two of even numbers: no logit is 0, so that no rounding decides.
        cls.pictures = {
            f"{index:02}": random.integers(0, 255, (SIDE, SIDE, 3), dtype=numpy.uint8) for index in range(IMAGES)
        }
        for name, pixels in cls.pictures.items():
            Image.fromarray(pixels).save(cls.images / f"{name}.png")
        for logits in (False, True):
            cls.saved(cls.networks.matte(logits), f"{cls.name_of(logits)}.pt", NOTES)
            (cls.folder / "exported").mkdir(exist_ok=True)
            done = export(
                cls.folder,
                "networks.py:matte",
                "--argument",
                f"logits={int(logits)}",
                "--output",
                f"exported/{cls.name_of(logits)}.pt2",
                *(["--scores", "logit"] if logits else []),
                *PLAIN,
            )
            assert done.returncode == 0, done.stdout + done.stderr

    @staticmethod
    def name_of(logits):
        return "logits" if logits else "probabilities"

    def probability_of(self, name):
        logit = (self.pictures[name].astype(numpy.float64) / 255).sum(2) * 4 - 6
        return 1 / (1 + numpy.exp(-logit))

    def expect_results(self, model, *flags, threshold=0.5):
        code, printed, files = self.run_of(
            model, "--processor", "mask-png,cut-out,mask-rle,records", "--threshold", str(threshold), *flags
        )
        self.assertEqual(code, 0, printed)
        lines = {line["key"]: line for line in map(json.loads, files["mask-rle/masks.jsonl"].splitlines())}
        for name in self.pictures:
            probability = self.probability_of(name)
            mask = numpy.asarray(Image.open(io.BytesIO(files[f"mask-png/{name}.png"])))
            wanted = probability >= threshold
            unsure = numpy.abs(probability - threshold) < 1e-5
            self.assertLess(unsure.mean(), 0.01)
            self.assertGreater(wanted.mean(), 0.05, "the test's pictures have a foreground")
            numpy.testing.assert_array_equal(mask[~unsure], wanted[~unsure], name)
            alpha = numpy.asarray(Image.open(io.BytesIO(files[f"cut-out/{name}.png"])))[..., 3]
            self.assertLessEqual(numpy.abs(alpha - probability * 255).max(), 0.51, name)
            (annotation,) = lines[name]["annotations"]
            self.assertEqual((annotation["category_id"], annotation["area"]), (1, int(mask.sum())))
        with tempfile.NamedTemporaryFile(suffix=".sqlite") as database:
            database.write(files["records/records.sqlite"])
            database.flush()
            for key, classes in sqlite3.connect(database.name).execute("SELECT key, classes FROM records"):
                mask = numpy.asarray(Image.open(io.BytesIO(files[f"mask-png/{key}.png"])))
                self.assertAlmostEqual(json.loads(classes)["1"], mask.mean())

    def test_probabilities(self):
        for model in ("probabilities.pt", "exported/probabilities.pt2"):
            self.expect_results(model)
            self.expect_results(model, threshold=0.8)

    def test_logits_by_flag_and_by_the_notes_that_an_export_writes(self):
        self.expect_results("logits.pt", "--scores", "logit")
        self.assertIn('scores = "logit"', (self.folder / "exported/logits.toml").read_text())
        self.expect_results("exported/logits.pt2")
        self.expect_results("exported/logits.pt2", threshold=0.8)

    def test_the_class_map_of_the_device_is_the_same(self):
        for model, flags in (
            ("probabilities.pt", ()),
            ("exported/probabilities.pt2", ()),
            ("logits.pt", ("--scores", "logit")),
        ):
            self.expect_results(model, "--transform", "class-map", "--confidence", *flags)
            self.expect_results(model, "--transform", "class-map", "--confidence", *flags, threshold=0.7)

    def test_undeclared_logits_end_the_run(self):
        for transform in ("none", "class-map"):
            for model in ("logits.pt",):
                code, printed, files = self.run_of(model, "--processor", "mask-png", "--transform", transform)
                self.assertEqual(code, 64, printed)
                self.assertIn("--scores logit", printed)
                self.assertIn("which must be between 0 and 1", printed)
                self.assertEqual([name for name in files if name.endswith(".png")], [], transform)
        # The flag wins over the notes.
        code, printed, _ = self.run_of("exported/logits.pt2", "--processor", "mask-png", "--scores", "probability")
        self.assertEqual(code, 64, printed)

    def pictures_with_corners(self, corners):
        """A folder of pictures; `corners`: the brightness of their upper left corners."""
        folder = self.folder / f"corners-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        for index, corner in enumerate(corners):
            pixels = self.pictures["00"].copy()
            pixels[0, 0] = corner
            Image.fromarray(pixels).save(folder / f"{index:02}.png")
        return folder

    def moody_run(self, corners, *flags):
        self.saved(self.networks.Moody(), "moody.pt", NOTES)
        return self.launched("moody.pt", *flags, images=self.pictures_with_corners(corners))

    def test_an_item_with_invalid_scores_is_skipped_like_an_unreadable_one(self):
        corners = [128] * 20
        corners[0], corners[7] = 0, 255
        good = {f"{index:02}" for index in range(20)} - {"00", "07"}
        for flags in (
            ("--transform", "none"),
            ("--transform", "cast"),
            ("--transform", "class-map"),
            ("--strategy", "sequential"),
        ):
            with self.subTest(flags=flags), self.moody_run(corners, "--processor", "mask-png,records", *flags) as run:
                for again in ((), ("--resume",)):
                    self.assertEqual(run.start(*again).wait(), 0, run.logs())
                    skipped = {pathlib.Path(one["origin"]).stem: one["reason"] for one in run.summary()["skipped"]}
                    self.assertEqual(skipped.keys(), {"00", "07"})
                    self.assertRegex(
                        skipped["00"], r"output .*1, 32, 32\] holds 3[78].* probability, which must be between 0 and 1"
                    )
                    self.assertRegex(skipped["07"], "holds NaN")
                    self.assertEqual(run.summary()["samples"]["skipped"], 2)
                    files = run.files()
                    self.assertEqual({pathlib.Path(name).stem for name in files if name.startswith("mask-png/")}, good)
                    (run.folder / "records.sqlite").write_bytes(files["records/records.sqlite"])
                    rows = dict(
                        sqlite3.connect(run.folder / "records.sqlite").execute("SELECT key, status FROM records")
                    )
                    self.assertEqual(rows, {**dict.fromkeys(good, "done"), "00": "skipped", "07": "skipped"})
                    self.assertEqual(
                        run.summary()["samples"]["done_before"],
                        18 if again else 0,
                        "only the two skipped items are tried again",
                    )

    def test_too_many_unreadable_items_fail_the_run_and_the_rest_is_done(self):
        corners = [128] * 20
        corners[4] = corners[7] = corners[19] = 255
        with self.moody_run(corners, "--processor", "mask-png") as run:
            self.assertEqual(run.start().wait(), 65, run.logs())
            self.assertIn("3 of 20 items had to be skipped, and --max-errors 10% allows 2", run.logs())
            self.assertEqual(len([name for name in run.files() if name.endswith(".png")]), 17)
        with self.moody_run([255] * 3, "--processor", "mask-png", "--max-errors", "100%") as run:
            self.assertEqual(run.start().wait(), 65, run.logs())
            self.assertIn("none of the 3 items has a result", run.logs())

    def test_logits_are_found_out_whatever_may_be_skipped(self):
        with self.moody_run([0] * 20, "--processor", "mask-png", "--max-errors", "100%") as run:
            self.assertEqual(run.start().wait(), 64, run.logs())
            self.assertIn("--scores logit", run.logs())
            self.assertEqual(run.files(), {})
            self.assertFalse((run.output / ".offramp-checkpoint").exists(), "the run left a checkpoint")

    def test_processors_that_take_numbers_as_they_are_get_them(self):
        with self.moody_run([0, 255], "--processor", "npy") as run:
            self.assertEqual(run.start().wait(), 0, run.logs())
            self.assertEqual(len(run.files()), 2)

    def test_an_overlay_shows_the_foreground(self):
        code, printed, files = self.run_of("probabilities.pt", "--processor", "overlay")
        self.assertEqual(code, 0, printed)
        self.assertEqual(set(files), {f"{name}.jpg" for name in self.pictures})
        for name, original in self.pictures.items():
            red = numpy.array([128, 0, 0])  # of class 1
            covered = numpy.where((self.probability_of(name) >= 0.5)[..., None], (original + red) / 2, original).mean(
                (0, 1)
            )
            self.assertGreater(abs(covered - original.mean((0, 1))).max(), 10, "the overlay changes nothing")
            found = numpy.asarray(Image.open(io.BytesIO(files[f"{name}.jpg"])).convert("RGB")).mean((0, 1))
            self.assertLess(abs(found - covered).max(), 4, name)  # JPEG smears single pixels but keeps their mean

    def test_no_channel_is_still_refused(self):
        import torch

        torch.jit.script(self.networks.Flat().eval()).save(str(self.folder / "flat.pt"))
        code, printed, _ = self.run_of("flat.pt", "--processor", "mask-png")
        self.assertEqual(code, 64, printed)
        self.assertRegex(printed, r"output float32 \[\d, 32, 32\]: expected class ids")
