"""The demo's loop: generates pictures, scores them and submits the scores. In your own loop these are a data loader and a model."""

import sys

import network
import numpy
import offramp
import pictures

BATCH = 4


def main(run_dir, count):
    with offramp.Egress(run_dir=run_dir) as egress:
        for first in range(0, count, BATCH):
            numbers = range(first, min(first + BATCH, count))
            images = numpy.stack([pictures.make(number)[0] for number in numbers])
            egress.submit({"logits": network.logits(images)}, keys=[f"picture-{number:02}" for number in numbers])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
