#!/usr/bin/env python3
"""
JPEG files to PNG masks by Ray Data, as its guide for batch inference has it: read_images(), map_batches() with an actor that has the network, and map_batches()
with actors that write. A peer of the benchmark; a machine's cores are divided as Ray does it.
"""

import argparse
import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
MASK = "mask"


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True, help="a folder of pictures")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--weights", default=str(HERE.parents[2] / "launch/demo/cutout.safetensors"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--image-size", type=int, default=256)
    parser.add_argument("--writers", type=int, default=1)
    parser.add_argument("--png-level", type=int, default=3)
    return parser.parse_args()


class Network:
    """Of an actor: pictures to classes."""

    def __init__(self, options):
        sys.path[:0] = [str(HERE), str(HERE.parent)]
        import torch
        from segmentation import make_network
        self._torch, self._device = torch, torch.device(options.device)
        self._network = make_network("cutout", options.weights, options.precision, self._device)

    def __call__(self, batch):
        with self._torch.inference_mode():
            pictures = self._torch.from_numpy(numpy.ascontiguousarray(batch["image"].transpose(0, 3, 1, 2))).to(self._device)
            classes = self._network(pictures).argmax(dim=1).to(self._torch.uint8)
            return {MASK: classes.cpu().numpy(), "path": batch["path"]}


class Writer:
    def __init__(self, options):
        self._output, self._level = options.output, options.png_level

    def __call__(self, batch):
        from PIL import Image
        for path, mask in zip(batch["path"], batch[MASK]):
            image = Image.fromarray(mask, mode="P")
            image.putpalette([0, 0, 0, 128, 0, 0])
            image.save(self._output / (pathlib.Path(path).stem + ".png"), compress_level=self._level)
        return {"path": batch["path"]}


def main():
    options = parse()
    options.output.mkdir(parents=True)
    import ray
    import ray.data
    ray.data.DataContext.get_current().enable_progress_bars = False
    side = options.image_size
    on_device = {"num_gpus": 1} if options.device == "cuda" else {"num_cpus": 0.5}
    pictures = ray.data.read_images(options.input, size=(side, side), mode="RGB", include_paths=True)
    masks = pictures.map_batches(Network, fn_constructor_args=(options,), batch_size=options.batch, concurrency=1, **on_device)
    written = masks.map_batches(Writer, fn_constructor_args=(options,), batch_size=options.batch, concurrency=options.writers, num_cpus=0.25)
    print(written.count())


if __name__ == "__main__":
    main()
