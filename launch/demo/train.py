"""
Trains `cutout` on made photographs and measures it on others that it has not seen: minutes on two cores.

    cd launch && nice ../build/venv/bin/python -m demo.train            writes launch/demo/cutout.safetensors
    cd launch && nice ../build/venv/bin/python -m demo.train --check    only measures what is there

The seeds are fixed; another PyTorch or processor may round otherwise and so end with slightly other weights.
"""

import argparse
import concurrent.futures
import pathlib
import time

import numpy
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from offramp_launch.mask_fit import mean_iou
from demo.network import CLASSES, Cutout, enlarged, normalised_input
from demo.photographs import take_photograph

WEIGHTS = pathlib.Path(__file__).with_name("cutout.safetensors")
TRAINING_SERIES, UNSEEN_SERIES = 1, 2  # seeds of photographs; the shipped ones are series 3
PHOTOGRAPHS, UNSEEN = 2000, 200
LONGEST = 288  # side of a training photograph
SIDES = (160, 192, 224, 256)  # training sizes, one per step
IMAGE_SIZE = 256  # a run's size
STEPS, BATCH, LEARNING_RATE = 900, 16, 4e-3
CORES = 2
WANTED_IOU = 0.90


def training_photograph(index):
    photograph = take_photograph(TRAINING_SERIES, index, LONGEST)
    return photograph.pixels(), photograph.mask


def unseen_photograph(index):
    photograph = take_photograph(UNSEEN_SERIES, index)
    return photograph.pixels(), photograph.mask


def make(function, count):
    """All photographs of a series, rendered by two processes."""
    with concurrent.futures.ProcessPoolExecutor(CORES) as pool:
        return list(pool.map(function, range(count), chunksize=20))


def squared(pixels, mask, side):
    """Resizes picture and mask to a square, like a run."""
    image = Image.fromarray(pixels).resize((side, side), Image.BILINEAR)
    return numpy.asarray(image), numpy.asarray(Image.fromarray(mask * 255).resize((side, side), Image.BILINEAR)) >= 128


def batch_of(random, photographs):
    """Random photographs, randomly mirrored, with random light and colours."""
    side = int(random.choice(SIDES))
    images, masks = [], []
    for index in random.integers(0, len(photographs), BATCH):
        image, mask = squared(*photographs[index], side)
        if random.uniform() < 0.5:
            image, mask = image[:, ::-1], mask[:, ::-1]
        if random.uniform() < 0.3:
            image = image[..., random.permutation(3)]
        gain, shift = random.uniform(0.75, 1.25, 3), random.uniform(-20, 20)
        images.append(numpy.clip(image * gain + shift, 0, 255).astype(numpy.uint8))
        masks.append(mask)
    return normalised_input(numpy.stack(images)), torch.as_tensor(numpy.stack(masks)).long()


def loss_of(logits, masks):
    """Cross entropy plus the Dice loss, at the image's size."""
    logits = enlarged(logits)
    found, true = torch.softmax(logits, 1)[:, 1], masks.float()
    overlap = (2 * (found * true).sum((1, 2)) + 1) / (found.sum((1, 2)) + true.sum((1, 2)) + 1)
    return torch.nn.functional.cross_entropy(logits, masks) + (1 - overlap).mean()


def train(photographs):
    torch.manual_seed(0)
    random = numpy.random.Generator(numpy.random.PCG64(0))
    network = Cutout(normalised=True).train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, STEPS, pct_start=0.15)
    recent = []
    for step in range(1, STEPS + 1):
        images, masks = batch_of(random, photographs)
        loss = loss_of(network(images.contiguous(memory_format=torch.channels_last)), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        recent.append(float(loss.detach()))
        if step % 100 == 0:
            print(f"step {step:5} of {STEPS}: loss {sum(recent) / len(recent):.4f}", flush=True)
            recent.clear()
    return network.eval().folded()


def found_things(network, pixels):
    """The network's mask of one photograph, at the photograph's size."""
    image, _ = squared(pixels, numpy.zeros(pixels.shape[:2], numpy.uint8), IMAGE_SIZE)
    with torch.inference_mode():
        logits = enlarged(network(normalised_input(image[None])))
    probability = torch.softmax(logits, 1)[0, 1].numpy()
    height, width = pixels.shape[:2]
    return numpy.asarray(Image.fromarray(probability).resize((width, height), Image.BILINEAR)) >= 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="train nothing")
    parser.add_argument("--weights", type=pathlib.Path, default=WEIGHTS)
    parser.add_argument(
        "--threads", type=int, default=CORES, help="of the training; one, where other programs keep the cores busy"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    began = time.monotonic()
    if not arguments.check:
        photographs = make(training_photograph, PHOTOGRAPHS)
        print(f"{PHOTOGRAPHS} photographs made: {time.monotonic() - began:.0f} s", flush=True)
        network = train(photographs)
        save_file(
            {name: value.half().contiguous() for name, value in network.state_dict().items()},
            arguments.weights,
            metadata={"architecture": "cutout", "classes": "background,thing"},
        )
        print(
            f"trained: {time.monotonic() - began:.0f} s; {arguments.weights}, {arguments.weights.stat().st_size} bytes",
            flush=True,
        )
    network = Cutout().eval()
    network.load_state_dict({name: value.float() for name, value in load_file(arguments.weights).items()})
    unseen = make(unseen_photograph, UNSEEN)
    figures = mean_iou([(found_things(network, pixels), mask) for pixels, mask in unseen], CLASSES)
    print(f"{UNSEEN} unseen photographs, resized to {IMAGE_SIZE}: {figures.describe()}")
    if figures.mean < WANTED_IOU:
        raise SystemExit(f"that is less than {WANTED_IOU:.2f}")


if __name__ == "__main__":
    main()
