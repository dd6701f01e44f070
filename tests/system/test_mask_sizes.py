"""Masks match their pictures: resized as PyTorch resizes scores, and measured by pycocotools."""

import contextlib
import importlib.util
import io
import json
import unittest

import numpy
from PIL import Image, ImageOps

from tests.support.device import setUpModule  # noqa: F401
from tests.support.exported_model import ModelRuns

SIDE = 64
# Rounding decides between two scores that are closer than this.
CLOSE = 1e-4

NETWORKS = """
import torch


class Colours(torch.nn.Module):
    '''Scores of the background and of three colours, half as large as the picture.'''

    def forward(self, x):
        y = torch.nn.functional.avg_pool2d(x, 2)
        return torch.cat((y.mean(1, keepdim=True) + 0.02, y), 1)


class Bright(torch.nn.Module):
    '''One thing: what is bright.'''

    def forward(self, x):
        y = x.mean(1) - 0.5
        return torch.stack((-y, y), 1)
"""
NOTES = 'mean = "0, 0, 0"\nstd = "1, 1, 1"\n'


def noise(size, seed):
    coarse = numpy.random.default_rng(seed).integers(0, 256, (7, 7, 3), dtype=numpy.uint8)
    return Image.fromarray(coarse).resize(size, Image.BICUBIC)


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class MaskSizes(ModelRuns):
    source = NETWORKS
    flags = (*"--consumers 2 --batch 2 --image-size".split(), str(SIDE))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("Colours", "Bright"):
            cls.saved(getattr(cls.networks, name)(), f"{name}.pt", NOTES)
        for seed, size in enumerate(((97, 61), (40, 131), (SIDE, SIDE), (SIDE // 2, SIDE // 2), (1500, 20), (9, 7))):
            noise(size, seed).save(cls.images / f"{size[0]}x{size[1]}.png")
        turned = Image.Exif()
        turned[274] = 6
        noise((120, 80), 7).save(cls.images / "turned.jpg", exif=turned)
        noise((120, 80), 8).save(cls.images / "turned.webp", exif=turned)

    def files_of(self, model, processor, *flags, **more):
        code, printed, files = self.run_of(model, "--processor", processor, *flags, **more)
        self.assertEqual(code, 0, printed)
        return files

    def scores(self, files, key):
        return numpy.load(io.BytesIO(files[f"npy/{key}.output.npy"]))

    @staticmethod
    def mask(files, key):
        return numpy.asarray(Image.open(io.BytesIO(files[f"mask-png/{key}.png"])))

    def keys(self, files):
        keys = {name.removeprefix("npy/").removesuffix(".output.npy") for name in files if name.startswith("npy/")}
        self.assertEqual(len(keys), len(list(self.images.iterdir())))
        return keys

    def picture(self, key):
        found = [path for path in self.images.iterdir() if key in (path.stem, path.name)]
        return ImageOps.exif_transpose(Image.open(found[0]))

    def test_masks_equal_those_of_scores_resized_by_pytorch(self):
        import pycocotools.mask
        import torch

        files = self.files_of("Colours.pt", "npy,mask-png,mask-rle")
        lines = {line["key"]: line for line in map(json.loads, files["mask-rle/masks.jsonl"].splitlines())}
        for key in self.keys(files):
            width, height = self.picture(key).size
            scores = torch.nn.functional.interpolate(
                torch.as_tensor(self.scores(files, key))[None], size=(height, width), mode="bilinear"
            )[0]
            best = scores.topk(2, 0).values
            decided = (best[0] - best[1] > CLOSE).numpy()
            mask = self.mask(files, key)
            self.assertEqual(mask.shape, (height, width), key)
            self.assertGreater(decided.mean(), 0.95, key)
            numpy.testing.assert_array_equal(mask[decided], scores.argmax(0).numpy()[decided], key)
            self.assertEqual(lines[key]["size"], [height, width])
            for annotation in lines[key]["annotations"]:
                decoded = pycocotools.mask.decode(annotation["segmentation"])
                numpy.testing.assert_array_equal(decoded == 1, mask == annotation["category_id"])

    def test_masks_of_the_models_size_are_asked_for(self):
        files = self.files_of("Colours.pt", "npy,mask-png,mask-rle", "--mask-size", "model")
        for line in map(json.loads, files["mask-rle/masks.jsonl"].splitlines()):
            self.assertEqual(line["size"], [SIDE // 2, SIDE // 2])
        for key in self.keys(files):
            numpy.testing.assert_array_equal(self.mask(files, key), self.scores(files, key).argmax(0), key)

    def test_classes_of_the_device_become_as_large_as_the_picture(self):
        files = self.files_of("Bright.pt", "mask-png", "--transform", "class-map")
        self.assertEqual(len(files), len(list(self.images.iterdir())))
        for name, content in files.items():
            self.assertEqual(Image.open(io.BytesIO(content)).size, self.picture(name.removesuffix(".png")).size, name)

    def test_cocoeval_takes_masks_for_the_originals(self):
        from pycocotools import mask as coco_mask
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        images = self.folder / "coco"
        images.mkdir()
        random = numpy.random.default_rng(1)
        truth = {"info": {}, "images": [], "annotations": [], "categories": [{"id": 1, "name": "thing"}]}
        for number in range(1, 9):
            width, height = (int(side) for side in random.integers(120, 400, 2))
            thing = numpy.zeros((height, width), numpy.uint8)
            thing[height // 5 : height * 4 // 5, width // 4 : width * 3 // 4] = 1
            Image.fromarray(thing * 255).convert("RGB").save(images / f"{number}.png")
            encoded = coco_mask.encode(numpy.asfortranarray(thing))
            truth["images"].append({"id": number, "width": width, "height": height})
            truth["annotations"].append(
                {
                    "id": number,
                    "image_id": number,
                    "category_id": 1,
                    "iscrowd": 0,
                    "area": int(coco_mask.area(encoded)),
                    "bbox": coco_mask.toBbox(encoded).tolist(),
                    "segmentation": {"size": encoded["size"], "counts": encoded["counts"].decode()},
                }
            )
        files = self.files_of("Bright.pt", "mask-rle", images=images)
        found = [
            {
                "image_id": int(line["key"]),
                "category_id": one["category_id"],
                "segmentation": one["segmentation"],
                "score": 1.0,
            }
            for line in map(json.loads, files["masks.jsonl"].splitlines())
            for one in line["annotations"]
        ]
        with contextlib.redirect_stdout(io.StringIO()):
            true = COCO()
            true.dataset = truth
            true.createIndex()
            measured = COCOeval(true, true.loadRes(found), "segm")
            measured.evaluate()
            measured.accumulate()
            measured.summarize()
        self.assertGreater(measured.stats[0], 0.85, "mean average precision")
        self.assertEqual(measured.stats[1], 1, "at an IoU of a half")
