"""
The demo's loop: generates pictures, scores them and submits the scores. In your own loop these are a data loader and a
model.
"""

import network
import numpy
import offramp
import pictures

BATCH = 4


def main():
    with offramp.Egress() as egress:  # `offramp demo` starts it like `offramp run --producer "python loop.py"`
        for first in range(0, pictures.COUNT, BATCH):
            numbers = range(first, min(first + BATCH, pictures.COUNT))
            images = numpy.stack([pictures.make(number)[0] for number in numbers])
            egress.submit({"logits": network.logits(images)}, keys=[f"picture-{number:02}" for number in numbers])


if __name__ == "__main__":
    main()
