#!/usr/bin/env python3
"""
JPEG files to PNG files as PyTorch users write it: a DataLoader whose processes decode, the network, and a pool of
writing processes. A peer of the benchmark that runs until its driver kills it.
"""

import argparse
import collections
import json
import multiprocessing
import pathlib

import numpy
import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms.v2.functional import resize

from processes import die_with_parent
from progress import ProgressCell

IN_FLIGHT = 4  # batches in the writers


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=("cutout", "deeplabv3"), required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument(
        "--input", type=pathlib.Path, required=True, help="a list of paths, or a JSONL manifest with ids and uris"
    )
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--loaders", type=int, default=1, help="processes that decode")
    parser.add_argument("--readers", type=int, default=1, help="processes that write")
    parser.add_argument("--cut-outs", action="store_true", help="beside the masks")
    parser.add_argument("--png-level", type=int, default=3)
    parser.add_argument(
        "--progress", required=True, help="a file of cells, one for this process and one for each that writes"
    )
    return parser.parse_args()


def list_pictures(listing):
    listing = pathlib.Path(listing)
    lines = listing.read_text().splitlines()
    names = [json.loads(line)["uri"] for line in lines] if listing.suffix == ".jsonl" else lines
    return [str(listing.parent / name) for name in names]


class Pictures(torch.utils.data.Dataset):
    """Number and pixels, uint8 [3, side, side]."""

    def __init__(self, paths, side):
        self._paths, self._side = paths, side

    def __len__(self):
        return len(self._paths)

    def __getitem__(self, number):
        picture = decode_jpeg(read_file(self._paths[number]), mode=ImageReadMode.RGB)
        return number, resize(picture, [self._side, self._side], antialias=True)


def palette():
    """PASCAL VOC's."""
    colours = []
    for index in range(256):
        colour = [0, 0, 0]
        for bit in range(8):
            for channel in range(3):
                colour[channel] |= (index >> (3 * bit + channel) & 1) << (7 - bit)
        colours += colour
    return colours


class Writer:
    """One of the pool's processes."""

    def __init__(self, options, paths, index):
        self._options, self._paths = options, paths
        self._cell = ProgressCell(options.progress, index)
        self._palette = palette()

    def write(self, number, classes, alpha):
        mask = Image.fromarray(classes)
        mask.putpalette(self._palette)
        mask.save(self._options.output / "masks" / f"{number}.png", compress_level=self._options.png_level)
        if alpha is not None:
            self._cut_out(number, alpha)
        self._cell.add(1, classes.nbytes + (0 if alpha is None else alpha.nbytes))

    def _cut_out(self, number, alpha):
        with Image.open(self._paths[number]) as original:
            rgba = numpy.array(original.convert("RGBA"))
        rgba[..., 3] = numpy.asarray(
            Image.fromarray(alpha).resize((rgba.shape[1], rgba.shape[0]), Image.Resampling.BILINEAR)
        )
        rgba[rgba[..., 3] == 0] = 0
        Image.fromarray(rgba).save(
            self._options.output / "cut-outs" / f"{number}.png", compress_level=self._options.png_level
        )


writer = None


def begin_writer(options, paths, count):
    global writer
    die_with_parent()
    with count:
        count.value += 1
        index = count.value
    writer = Writer(options, paths, index)


def write(job):
    writer.write(*job)


def begin_loader(number):
    die_with_parent()


def outputs_of(scores, cut_outs):
    """(class, 1 - probability of the background) of each pixel, both in 8 bits."""
    classes = scores.argmax(1).to(torch.uint8)
    if not cut_outs:
        return classes.cpu().numpy(), [None] * len(classes)
    alpha = ((1 - scores.softmax(1)[:, 0]) * 255 + 0.5).to(torch.uint8)
    return classes.cpu().numpy(), alpha.cpu().numpy()


def main():
    options = parse()
    for name in ("masks", "cut-outs"):
        (options.output / name).mkdir(parents=True, exist_ok=True)
    paths = list_pictures(options.input)
    # Both fork, which must happen before CUDA or PyTorch's threads start.
    context = multiprocessing.get_context("fork")
    pool = context.Pool(options.readers, begin_writer, (options, paths, context.Value("i", 0)))
    gpu = torch.cuda.is_available()
    batches = iter(
        torch.utils.data.DataLoader(
            Pictures(paths, options.image_size),
            options.batch,
            num_workers=options.loaders,
            pin_memory=gpu,
            worker_init_fn=begin_loader,
            multiprocessing_context=context,
        )
    )
    from segmentation import make_network

    device = torch.device("cuda" if gpu else "cpu")
    run = make_network(options.network, options.weights, options.precision, device)
    share = max(1, options.batch // (4 * options.readers))
    in_flight = collections.deque()
    with torch.no_grad():
        for numbers, pictures in batches:
            classes, alpha = outputs_of(run(pictures.to(device, non_blocking=True)), options.cut_outs)
            in_flight.append(pool.map_async(write, list(zip(numbers.tolist(), classes, alpha)), share))
            if len(in_flight) >= IN_FLIGHT:
                in_flight.popleft().get()


if __name__ == "__main__":
    main()
