"""torchvision's segmentation networks, exported and run on third-party photographs: the masks equal torchvision's."""

import importlib.util
import pathlib
import shutil
import tempfile
import unittest

import numpy
from PIL import Image

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import export
from tests.support.launched_run import LaunchedRun
from tests.support.photographs import photographs
from tests.support.real_run import LeavesNothing

SIDE = 96
BATCH = 3  # does not divide the number of photographs, so that the last batch is short
CLOSE = 1e-4  # the two best classes may swap if they are closer than this
HAS_ALL = len(photographs()) > 2 and all(
    importlib.util.find_spec(name) for name in ("torch", "torchvision", "safetensors")
)


def lively(network, last_bias, images):
    """Initialises batch normalisation with varied numbers and gives all classes a chance, unlike torchvision."""
    import torch

    for name, module in network.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.6, 1.2)
            torch.nn.init.normal_(module.bias, 0, 0.2)
            torch.nn.init.normal_(module.running_mean, 0, 0.3)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    network.eval()
    with torch.inference_mode():
        last_bias(network).sub_(network(images)["out"].mean(dim=(0, 2, 3)))
    return network


def normalised(pixels):
    import torch

    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return ((pixels.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()


class Torchvision:
    """Tests of both networks; a subclass names one."""

    name = weights_suffix = last_bias = None

    @classmethod
    def setUpClass(cls):
        import torch
        import torchvision

        kept = tempfile.TemporaryDirectory(prefix="offramp-torchvision-")
        cls.addClassCleanup(kept.cleanup)
        cls.folder = pathlib.Path(kept.name)
        cls.originals, cls.exact = cls.folder / "originals", cls.folder / "exact"
        cls.originals.mkdir()
        cls.exact.mkdir()
        for path in photographs():
            shutil.copy(path, cls.originals)
            Image.open(path).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(
                cls.exact / f"{path.stem}.png"
            )
        torch.manual_seed(20)
        cls.input = normalised(
            torch.stack([torch.from_numpy(numpy.array(Image.open(path))) for path in sorted(cls.exact.iterdir())])
        )
        network = torchvision.models.get_model_builder(cls.name)(weights=None, weights_backbone=None)
        cls.network = lively(network, cls.last_bias, cls.input)
        weights = cls.folder / f"weights{cls.weights_suffix}"
        if cls.weights_suffix == ".safetensors":
            from safetensors.torch import save_file

            save_file(cls.network.state_dict(), weights)
        else:
            torch.save(cls.network.state_dict(), weights)
        cls.file = cls.folder / "net.pt2"
        # with the CPU's vector instructions, like a user's export
        cls.printed = export(
            cls.folder,
            f"torchvision:{cls.name}",
            "--weights",
            weights,
            "--batch",
            BATCH,
            "--image-size",
            SIDE,
            "--device",
            DEVICE,
            "--output",
            cls.file,
            environment={},
        )
        assert cls.printed.returncode == 0, cls.printed.stdout + cls.printed.stderr

    def masks_of(self, images):
        with LaunchedRun(
            "--model",
            str(self.file),
            "--input",
            str(images),
            "--device",
            DEVICE,
            *"--consumers 2 --processor mask-png --mask-size model".split(),
        ) as run:
            self.assertEqual(run.start().wait(), 0, run.logs())
            self.assertNotIn("random", run.logs())
            masks = {path.stem: numpy.array(Image.open(path)) for path in run.output.glob("*.png")}
        self.assertEqual(set(masks), {path.stem for path in images.iterdir()})
        return numpy.stack([masks[key] for key in sorted(masks)])

    def scores_of(self, given):
        import torch

        with torch.inference_mode():
            return self.network(given)["out"]

    def test_from_the_same_input_the_masks_are_torchvisions(self):
        scores = self.scores_of(self.input)
        wanted = scores.argmax(1).numpy()
        self.assertGreaterEqual(len(numpy.unique(wanted)), 3, "masks of one class would prove nothing")
        best = scores.topk(2, 1).values
        decided = (best[:, 0] - best[:, 1] > CLOSE).numpy()
        self.assertGreater(decided.mean(), 0.9)
        found = self.masks_of(self.exact)
        equal = (found == wanted)[decided].mean()
        print(f"{self.name}: {equal:.6f} of {decided.sum()} decided pixels equal ({1 - decided.mean():.6f} left out)")
        self.assertGreaterEqual(equal, 0.999)

    def test_own_decoding_and_resizing_change_few_pixels(self):
        import torch
        from torchvision.transforms import functional

        given = [
            functional.resize(
                torch.from_numpy(numpy.array(Image.open(path).convert("RGB"))).permute(2, 0, 1),
                [SIDE, SIDE],
                antialias=True,
            )
            for path in sorted(self.originals.iterdir(), key=lambda path: path.stem)
        ]
        wanted = self.scores_of(normalised(torch.stack(given).permute(0, 2, 3, 1))).argmax(1).numpy()
        share = (self.masks_of(self.originals) != wanted).mean()
        print(
            f"{self.name}: {share:.4f} of the pixels differ where decoding and resizing are our own, from torchvision's"
        )
        self.assertLess(share, 0.2, "the masks differ too much")

    def test_the_export_reports_its_difference_from_eager(self):
        self.assertIn("largest difference from eager PyTorch", self.printed.stdout)
        self.assertIn(f"batch = {BATCH}\nimage-size = {SIDE}\n", self.file.with_suffix(".toml").read_text())


@unittest.skipUnless(
    HAS_ALL, "skipped: no torchvision, scikit-learn and scikit-image here (launch/requirements-test.txt)"
)
class LrAspp(Torchvision, LeavesNothing):
    name = "lraspp_mobilenet_v3_large"
    weights_suffix = ".pth"

    @staticmethod
    def last_bias(network):
        return network.classifier.high_classifier.bias


@unittest.skipUnless(
    HAS_ALL, "skipped: no torchvision, scikit-learn and scikit-image here (launch/requirements-test.txt)"
)
class DeepLabV3(Torchvision, LeavesNothing):
    name = "deeplabv3_resnet50"
    weights_suffix = ".safetensors"

    @staticmethod
    def last_bias(network):
        return network.classifier[4].bias
