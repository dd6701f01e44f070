"""
Compares the models behind the README's figures, as the real programs run them (fused, autotuned, channels-last; as a
CUDA graph), with eager PyTorch in float64 and the same weights. With OFFRAMP_TEST_DEVICE=cpu: small sizes in float32.

A difference is the largest one relative to the largest expected number; `rms` is the root mean square relative to the
expected one.
"""

import os
import pathlib
import sys
import tempfile
import unittest

from tests.support.real_run import RealRun

try:
    import numpy
    import torch
    import torchvision  # noqa: F401

    from tests.support import export_torchvision_golden as golden

    OBSTACLE = ""
except ImportError as problem:
    OBSTACLE = f"PyTorch or torchvision is missing: {problem}"

DEVICE = os.environ.get("OFFRAMP_TEST_DEVICE", "cuda")
if not OBSTACLE and DEVICE != "cpu" and not torch.cuda.is_available():
    OBSTACLE = "no GPU here"
ON_GPU = DEVICE != "cpu"

# (largest difference, rms) that a precision may have, and the least difference, without which the lower precision is
# not in effect.
DEEPLAB = {"fp32": (2e-5, 2e-5, 0), "tf32": (5e-3, 5e-3, 5e-5), "bf16": (5e-2, 4e-2, 1e-3)}
ENCODER = {"fp32": (1e-5, 1e-5, 0), "tf32": (2e-3, 2e-3, 1e-5), "bf16": (2e-2, 2e-2, 1e-3)}
# Ours may differ at most this many times as much as eager PyTorch in the same precision, because roundings differ.
OVER_EAGER = 2.0
SIDE, BATCH = (512, 64) if ON_GPU else (96, 2)
CHUNK = 8
PRECISIONS = ("fp32", "tf32", "bf16") if ON_GPU else ("fp32",)


class Difference:
    """The difference of found from expected outputs, added sample by sample."""

    def __init__(self):
        self.largest = self.expected = self.squares = self.expected_squares = 0.0

    def add(self, expected, found):
        expected = expected.to(torch.float64)
        difference = (found.to(expected) - expected).abs()
        assert difference.isfinite().all(), "an output is not finite"
        self.largest = max(self.largest, difference.max().item())
        self.expected = max(self.expected, expected.abs().max().item())
        self.squares += difference.square().sum().item()
        self.expected_squares += expected.square().sum().item()

    def share(self):
        return self.largest / self.expected

    def rms(self):
        return (self.squares / self.expected_squares) ** 0.5

    def __str__(self):
        return f"{self.share():.2e}, rms {self.rms():.2e}"


def eager(model, inputs, precision):
    """The model's outputs, chunk by chunk, in PyTorch's precision of this name; "fp64" is the reference."""
    types = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    # On a GPU the fast path uses the tanh form of GELU, off by up to 5e-4 in any precision.
    torch.backends.mha.set_fastpath_enabled(False)
    model = model.to(DEVICE, types[precision])
    if inputs.dim() == 4:
        model = model.to(memory_format=torch.channels_last)
    with torch.inference_mode():
        for first in range(0, len(inputs), CHUNK):
            made = model(inputs[first : first + CHUNK].to(DEVICE, types[precision]))
            yield from (made["out"] if isinstance(made, dict) else made)


class Golden(unittest.TestCase):
    def setUp(self):
        if OBSTACLE:
            self.skipTest(OBSTACLE)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(20)

    def run_ours(self, name, inputs, precision, *flags):
        """Yields each item's output; then the run must succeed."""
        numpy.save(self.folder / "inputs.npy", inputs.numpy())
        with RealRun(
            "--device",
            DEVICE,
            "--model",
            name,
            "--weights",
            str(self.folder / "weights.safetensors"),
            "--precision",
            precision,
            "--source",
            "npy",
            "--input",
            str(self.folder / "inputs.npy"),
            "--processor",
            "npy",
            *flags,
        ) as run:
            run.start_producer()
            run.start_consumer()
            run.start_consumer()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            self.summary = run.summary()
            for item in range(len(inputs)):
                (file,) = run.output.glob(f"{item}.*.npy")
                yield torch.from_numpy(numpy.load(file))

    def compare(self, name, model, inputs, allowed, *flags):
        """Compares ours and eager PyTorch in every precision with float64."""
        golden.save(self.folder / "weights.safetensors", self.weights)
        expected = [one.cpu() for one in eager(model, inputs, "fp64")]
        for precision in PRECISIONS:
            with self.subTest(model=name, precision=precision):
                ours, theirs = Difference(), Difference()
                for wanted, found in zip(expected, self.run_ours(name, inputs, precision, *flags), strict=True):
                    self.assertEqual(wanted.shape, found.shape)
                    self.assertEqual(torch.float32, found.dtype)
                    ours.add(wanted, found)
                for wanted, found in zip(expected, eager(model.float(), inputs, precision), strict=True):
                    theirs.add(wanted, found.cpu())
                print(
                    f"{name} {precision}, {len(inputs)} items: ours {ours}; PyTorch eager {theirs}",
                    file=sys.stderr,
                    flush=True,
                )
                largest, rms, least = allowed[precision]
                self.assertEqual(precision, self.summary["precision"])
                self.assertLessEqual(ours.share(), largest)
                self.assertLessEqual(ours.rms(), rms)
                self.assertGreater(ours.rms(), least)
                if precision != "fp32":
                    self.assertLessEqual(ours.rms(), OVER_EAGER * theirs.rms())

    def test_deeplabv3_fused(self):
        pictures = [image.resize((SIDE + SIDE // 4,) * 2) for image in golden.photographs()]
        crops = []
        for number in range(BATCH):
            left, top = ((number * step) % (SIDE // 4 + 1) for step in (7, 11))
            crops.append(pictures[number % 2].crop((left, top, left + SIDE, top + SIDE)))
        inputs = golden.normalised(crops)
        model = golden.deeplabv3_model(inputs[:2])
        self.weights = model.state_dict()
        self.compare("deeplabv3-resnet50", model, inputs, DEEPLAB, "--batch", str(BATCH), "--image-size", str(SIDE))
        self.assertEqual("channels-last", self.summary["memory_format"])

    def test_encoder_as_a_cuda_graph(self):
        """The graph is recorded in the fourth batch and replayed afterwards."""
        model = golden.Encoder().eval()
        self.weights = model.weights()
        self.compare("encoder", model, torch.randn(6 * BATCH, 128, 256), ENCODER, "--batch", str(BATCH))

    def test_other_weights_are_found_out(self):
        """The twin of the comparison: changed weights of one normalisation are found."""
        model = golden.Encoder().eval()
        inputs = torch.randn(BATCH, 128, 256)
        expected = list(eager(model, inputs, "fp64"))
        self.weights = {name: value.float().cpu() for name, value in model.weights().items()}
        self.weights["norm.weight"] = self.weights["norm.weight"] * 1.2
        golden.save(self.folder / "weights.safetensors", self.weights)
        ours = Difference()
        for wanted, found in zip(
            expected, self.run_ours("encoder", inputs, PRECISIONS[-1], "--batch", str(BATCH)), strict=True
        ):
            ours.add(wanted.cpu(), found)
        self.assertGreater(ours.share(), ENCODER[PRECISIONS[-1]][0])
