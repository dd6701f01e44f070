"""A custom loop: 10 batches of 8 samples. Offramp copies outputs while the loop computes the next ones."""

import sys

import numpy
import offramp

with offramp.Egress(sys.argv[1], {"values": ("float32", (8, 1000))}, device="cpu") as egress:
    for number in range(10):
        outputs = numpy.full((8, 1000), number, "float32")  # the model's work
        # returns immediately; `outputs` is held until it is copied
        egress.submit({"values": outputs}, [f"batch-{number}/row-{row}" for row in range(8)])
    egress.drain()
    print(egress.stats().samples_completed, "samples done")
