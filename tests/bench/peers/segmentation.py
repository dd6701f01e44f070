"""
Segmentation networks in PyTorch with the weights of a file, as the peers run them: 8-bit pictures to logits of the
pictures' size.
"""

import pathlib
import sys

import torch
from models import fold_normalisation
from safetensors.torch import load_file

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make_network(name, weights, precision, device):
    """A function of uint8 [batch, 3, side, side] on the device: float32 [batch, classes, side, side]."""
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    network = {"cutout": make_cutout, "deeplabv3": make_deeplab}[name](weights).to(
        device=device, dtype=dtype, memory_format=torch.channels_last
    )
    mean, std = (torch.tensor(numbers, device=device).view(3, 1, 1) for numbers in (MEAN, STD))

    def run(pictures):
        inputs = ((pictures.float() / 255 - mean) / std).to(dtype=dtype, memory_format=torch.channels_last)
        small = network(inputs).float().contiguous()
        return torch.nn.functional.interpolate(small, size=pictures.shape[2:], mode="bilinear", align_corners=False)

    return run


def make_cutout(weights):
    """The demo's network, from its training file."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "launch"))
    from demo.network import Cutout

    network = Cutout().eval()
    network.load_state_dict({name: tensor.float() for name, tensor in load_file(weights).items()})
    return network


class Deeplab(torch.nn.Module):
    """Without the enlargement, which run() does."""

    def __init__(self, network):
        super().__init__()
        self.backbone, self.classifier = network.backbone, network.classifier

    def forward(self, inputs):
        return self.classifier(self.backbone(inputs)["out"])


def make_deeplab(weights):
    from torchvision.models.segmentation import deeplabv3_resnet50

    network = deeplabv3_resnet50(weights=None, weights_backbone=None).eval()
    network.load_state_dict(load_file(weights))
    fold_normalisation(network)
    return Deeplab(network)
