"""
The producer of following.py: a loop that takes SECONDS for each batch, as a model that is busy elsewhere would, and submits it, for as long as PACE says.

    python3 tests/bench/following_loop.py SECONDS PACE     PACE: a file; what it holds is over when it is gone
"""

import os
import sys
import time

import numpy

import offramp

BATCH = 4


def main():
    seconds, pace = float(sys.argv[1]), sys.argv[2]
    batch = numpy.zeros((BATCH, 1024), dtype=numpy.uint8)
    with offramp.Egress(tensors={"made": ("uint8", batch.shape)}, device="cpu", slabs=16) as egress:
        while os.path.exists(pace):
            time.sleep(seconds)
            egress.submit({"made": batch})
    return 0


if __name__ == "__main__":
    sys.exit(main())
