"""
The network `cutout`: a small encoder-decoder that separates things from their background.
producer/runner/models/plugins/cutout.cpp is the same network in C++; a test compares the two.

    image [B, 3, S, S], normalised, S a multiple of 32  ->  logits [B, 2, S/2, S/2]: background, thing; enlarged twice
                                                        at the end
"""

import torch
from torch import nn

CLASSES = 2
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# (in, out, stride) of 3x3 convolutions; the decoder adds the outputs of those with stride 1.
ENCODER = (
    (3, 16, 2),
    (16, 16, 1),
    (16, 32, 2),
    (32, 32, 1),
    (32, 64, 2),
    (64, 64, 1),
    (64, 96, 2),
    (96, 96, 1),
    (96, 112, 2),
    (112, 112, 1),
)
# (in, out, kernel).
DECODER = ((112, 96, 1), (96, 64, 3), (64, 32, 3), (32, 16, 3), (16, 16, 3))


class Unit(nn.Conv2d):
    """Convolution, batch normalisation during training, ReLU."""

    def __init__(self, into, out, kernel, stride, normalised):
        super().__init__(into, out, kernel, stride, kernel // 2)
        self.norm = nn.BatchNorm2d(out) if normalised else nn.Identity()

    def forward(self, x):
        return torch.relu(self.norm(super().forward(x)))

    def folded(self):
        """Weight and bias that include the normalisation."""
        scale = self.norm.weight.double() / torch.sqrt(self.norm.running_var.double() + self.norm.eps)
        bias = (self.bias.double() - self.norm.running_mean.double()) * scale + self.norm.bias.double()
        return (self.weight.double() * scale[:, None, None, None]).float(), bias.float()


class Cutout(nn.Module):
    """`normalised`: with batch normalisation, for training; the shipped weights have none."""

    def __init__(self, normalised=False):
        super().__init__()
        self.encoder = nn.ModuleList(Unit(into, out, 3, stride, normalised) for into, out, stride in ENCODER)
        self.decoder = nn.ModuleList(Unit(into, out, kernel, 1, normalised) for into, out, kernel in DECODER)
        self.head = nn.Conv2d(DECODER[-1][1], CLASSES, 1)

    def forward(self, x):
        """Logits of half the image's size."""
        kept = []
        for unit in self.encoder:
            x = unit(x)
            if unit.stride == (1, 1):
                kept.append(x)
        x = self.decoder[0](kept.pop())
        for unit in self.decoder[1:]:
            x = unit(enlarged(x) + kept.pop())
        return self.head(x)

    def folded(self):
        """The same network without batch normalisation."""
        plain = Cutout()
        state = {name: value for name, value in self.state_dict().items() if ".norm." not in name}
        for part in ("encoder", "decoder"):
            for index, unit in enumerate(getattr(self, part)):
                state[f"{part}.{index}.weight"], state[f"{part}.{index}.bias"] = unit.folded()
        plain.load_state_dict(state)
        return plain.eval()


def enlarged(x):
    return nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def normalised_input(images):
    """Converts uint8 [B, S, S, 3] to the network's input."""
    x = torch.tensor(images).permute(0, 3, 1, 2).float() / 255
    return (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
