#!/usr/bin/env python3
"""
A loop in PyTorch that segments the same batch of pictures, which is on the device, again and again. Runs until SIGTERM.

    --way map            offramp.map(), with its own consumers
    --way lightning      Trainer.predict() with offramp.lightning.PredictionWriter
    --way loop, trainer  the same two without Offramp: outputs are dropped
"""

import argparse
import collections
import itertools
import pathlib
import signal
import sys

import offramp
import torch
from progress import ProgressCell
from torchvision.models.segmentation import deeplabv3_resnet50

IN_FLIGHT = 2  # batches that a loop without Offramp queues on the device
NEVER_SECONDS = 3600.0  # a visibility timeout: the benchmark stops consumers
BATCHES = 1_000_000_000


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=("map", "lightning", "loop", "trainer"), required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--image-size", type=int, required=True)
    parser.add_argument("--precision", choices=("bf16", "fp32"), required=True)
    parser.add_argument("--processor", default="checksum")
    parser.add_argument("--consumers", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--run-dir")
    parser.add_argument("--run-id", default="")
    parser.add_argument("--progress", help="a file of cells, the first for this process")
    return parser.parse_args()


class Segments:
    """torchvision's DeepLabV3 and its pictures."""

    def __init__(self, options):
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        how = {
            "device": self._device,
            "dtype": torch.bfloat16 if options.precision == "bf16" else torch.float32,
            "memory_format": torch.channels_last,
        }
        self.network = deeplabv3_resnet50(weights=None, weights_backbone=None).eval().to(**how)
        self._pictures = torch.rand(options.batch, 3, options.image_size, options.image_size).to(**how)
        self._cell = ProgressCell(options.progress, 0) if options.progress else None
        self._in_flight = collections.deque()

    def scores(self, *_):
        return self.network(self._pictures)["out"].float()

    def drop(self):
        """Counts the batch once the device has finished it."""
        if self._device.type == "cuda":
            event = torch.cuda.Event(blocking=True)
            event.record()
            self._in_flight.append(event)
            if len(self._in_flight) <= IN_FLIGHT:
                return
            self._in_flight.popleft().synchronize()
        self._cell.add(len(self._pictures))


def run_alone(segments):
    with torch.inference_mode():
        while True:
            segments.scores()
            segments.drop()


def run_trainer(segments, options, writer=None):
    import lightning.pytorch

    class Module(lightning.pytorch.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = segments.network

        def predict_step(self, batch, number):
            found = segments.scores()
            if writer is None:
                segments.drop()
            return found

    lightning.pytorch.Trainer(
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[writer] if writer else [],
    ).predict(
        Module(),
        torch.utils.data.DataLoader(range(BATCHES * options.batch), options.batch),
        return_predictions=False,
    )


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    segments = Segments(options)
    where = {
        "output": options.output,
        "processor": options.processor,
        "consumers": options.consumers,
        "run_dir": options.run_dir,
        "run_id": options.run_id,
        "visibility_timeout": NEVER_SECONDS,
    }
    if options.way == "map":
        numbers = itertools.count(step=options.batch)
        offramp.map(((range(n, n + options.batch), n) for n in numbers), segments.scores, progress=False, **where)
    elif options.way == "lightning":
        from offramp.lightning import PredictionWriter

        run_trainer(segments, options, PredictionWriter(**where))
    elif options.way == "trainer":
        run_trainer(segments, options)
    else:
        run_alone(segments)


if __name__ == "__main__":
    main()
