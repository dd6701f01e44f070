#!/usr/bin/env python3
"""
Writes references for the C++ models: seeded weights and PyTorch's outputs, as .safetensors.

    export_torchvision_golden.py FOLDER

deeplabv3_weights.safetensors   torchvision's whole state dict, with the auxiliary head and the counters
deeplabv3_golden.safetensors    normalised images [2, 3, 128, 128]; from torchvision's eager fp32 model on the CPU the
logits, the small logits
                                before the last enlargement, and PyTorch's reductions: classes of both, confidence of
                                    the large ones,
                                half and bfloat16 of the logits, small_half of the small ones
cutout_golden.safetensors       the same images; from launch/demo/network.py with the shipped weights the logits, and
the small ones before
                                the enlargement
encoder_weights.safetensors     a state dict of torch.nn.TransformerEncoder and the encoder's other layers
encoder_golden.safetensors      tokens [3, 128, 256] and embeddings [3, 1024]
"""

import importlib.util
import json
import pathlib
import struct
import sys

import numpy
import torch
import torchvision
from PIL import Image

SIDE = 128
DTYPES = {torch.float32: "F32", torch.int64: "I64", torch.uint8: "U8", torch.int16: "I16"}


def save(path, tensors):
    """Writes the header without padding, as the format allows, so that the tensors are misaligned."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header).encode()
    text += b" " * ((1 - len(text)) % 4)  # 8 + an odd length: misaligned for sure
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().numpy().tobytes())


def photographs():
    """scikit-learn's two photographs: a building and a flower."""
    found = importlib.util.find_spec("sklearn")
    if found is None:
        sys.exit("scikit-learn, which has the test's photographs, is not installed (launch/requirements-test.txt)")
    folder = pathlib.Path(found.submodule_search_locations[0]) / "datasets" / "images"
    for name in ("china.jpg", "flower.jpg"):
        yield Image.open(folder / name).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)


def normalised(images):
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    pixels = torch.stack([torch.from_numpy(numpy.array(image)) for image in images])
    return ((pixels / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()


def deeplabv3_model(images):
    """torchvision's network with seeded, varied weights, in float32 on the CPU."""
    # torchvision initialises batch normalisation almost as the identity, so give it varied numbers.
    model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, aux_loss=True)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            branch_end = name.endswith("bn3")
            torch.nn.init.uniform_(module.weight, 0.3 if branch_end else 0.8, 0.6 if branch_end else 1.2)
            torch.nn.init.normal_(module.bias, 0, 0.2)
            torch.nn.init.normal_(module.running_mean, 0, 0.3)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    model.eval()
    with torch.no_grad():
        # Otherwise one class wins nearly everywhere, as in random networks.
        model.classifier[4].bias -= model(images)["out"].mean(dim=(0, 2, 3))
    return model


def deeplabv3(folder):
    images = normalised(photographs())
    model = deeplabv3_model(images)
    with torch.inference_mode():
        logits = model(images)["out"]
        small = model.classifier(model.backbone(images)["out"])
        assert torch.equal(
            torch.nn.functional.interpolate(small, size=SIDE, mode="bilinear", align_corners=False), logits
        )
        probabilities = logits.softmax(1).max(1).values
    classes = logits.argmax(1).unique().numel()
    spread = logits.std(dim=(2, 3)).mean().item() / logits.abs().max().item()
    if classes < 3 or spread < 0.01 or not logits.isfinite().all():
        sys.exit(f"degenerate logits ({classes} classes, relative spread {spread:.4f}): they would prove nothing")
    save(folder / "deeplabv3_weights.safetensors", model.state_dict())
    save(
        folder / "deeplabv3_golden.safetensors",
        {
            "image": images,
            "logits": logits,
            "small_logits": small,
            "classes": logits.argmax(1).to(torch.uint8),
            "confidence": (probabilities * 255).round().to(torch.uint8),
            "half": logits.half().view(torch.int16),
            "bfloat16": logits.bfloat16().view(torch.int16),
            "small_half": small.half().view(torch.int16),
            "small_bfloat16": small.bfloat16().view(torch.int16),
        },
    )


def cutout(folder):
    demo = pathlib.Path(__file__).resolve().parents[2] / "launch" / "demo"
    sys.path.insert(0, str(demo.parent))
    from demo.network import Cutout, enlarged
    from safetensors.torch import load_file

    model = Cutout().eval()
    model.load_state_dict({name: value.float() for name, value in load_file(demo / "cutout.safetensors").items()})
    images = normalised(photographs())
    with torch.inference_mode():
        small = model(images)
        logits = enlarged(small)
    if not logits.isfinite().all() or logits.argmax(1).unique().numel() < 2:
        sys.exit("degenerate logits: they would prove nothing")
    save(folder / "cutout_golden.safetensors", {"image": images, "logits": logits, "small_logits": small})


class Encoder(torch.nn.Module):
    """The encoder of producer/runner/models/plugins/encoder.cpp, around PyTorch's transformer encoder."""

    def __init__(self):
        super().__init__()
        self.layers_and_norm, self.project = encoder_parts()
        self.position = torch.nn.Parameter(torch.randn(128, 256) * 0.2, requires_grad=False)

    def forward(self, tokens):
        return self.project(self.layers_and_norm(tokens + self.position).mean(1))

    def weights(self):
        """The weights by the names in our model."""
        return (
            dict(self.layers_and_norm.state_dict())
            | {f"project.{name}": value for name, value in self.project.state_dict().items()}
            | {"position": self.position.data}
        )


def encoder_parts():
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, activation="gelu", batch_first=True, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 4, norm=torch.nn.LayerNorm(256), enable_nested_tensor=False).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.1 if parameter.dim() == 1 else 0.06)
    return model, torch.nn.Linear(256, 1024).eval()


def encoder(folder):
    model = Encoder().eval()
    tokens = torch.randn(3, 128, 256)
    with torch.inference_mode():
        embedding = model(tokens)
    save(folder / "encoder_weights.safetensors", model.weights())
    save(folder / "encoder_golden.safetensors", {"tokens": tokens, "embedding": embedding})


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(20)
    deeplabv3(folder)
    cutout(folder)
    encoder(folder)


if __name__ == "__main__":
    main()
