"""Reads a run's slabs in shared memory and prints the sum of each sample. Start as many as there are cores."""

import sys

import offramp

for slab in offramp.Consumer(sys.argv[1]):
    for sample, values in slab:
        print(f"{sample.key} {values.sum():.0f}")
    sys.stdout.flush()  # commits before the loop asks for the next slab
