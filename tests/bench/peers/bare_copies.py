#!/usr/bin/env python3
"""
Copies back to back and does nothing else: the limit of the link. Runs until the driver kills it.

    --direction d2h --memory page-locked     the copy ceiling: from the device into page-locked shared memory
    --direction h2d --memory ...             the upload from ordinary memory, blocking or not, and from page-locked
                                             memory

On a machine without a GPU the copies are memcpy.
"""

import argparse
import collections

import torch
from page_locking import page_lock
from progress import ProgressCell

IN_FLIGHT = 4  # submitted batches, so that the copy engine always has the next one


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--direction", choices=("d2h", "h2d"), default="d2h")
    parser.add_argument(
        "--memory", choices=("page-locked", "pageable-blocking", "pageable-async"), default="page-locked"
    )
    parser.add_argument("--bytes", required=True, help="of a batch's tensors, separated by commas")
    parser.add_argument("--lengths", help="of a batch's samples, separated by commas: --bytes are those of length 1")
    parser.add_argument("--batch", type=int, required=True, help="samples that a batch counts as")
    parser.add_argument("--buffers", type=int, default=8, help="batches of host memory that are used in turn")
    parser.add_argument("--progress", required=True)
    return parser.parse_args()


def make_host_buffer(size, page_locked):
    """Shared memory like a slab's with all pages present, page-locked if requested."""
    buffer = torch.zeros(size, dtype=torch.uint8).share_memory_()
    if page_locked:
        storage = buffer.untyped_storage()
        page_lock(storage.data_ptr(), storage.nbytes())
    return buffer


def copy_on_the_gpu(options, sizes, cell):
    locked = options.memory == "page-locked"
    device = [torch.randint(256, (size,), dtype=torch.uint8, device="cuda") for size in sizes]
    host = [make_host_buffer(sum(sizes), locked).split(sizes) for _ in range(options.buffers)]
    in_flight = collections.deque()
    number = 0
    while True:
        for on_host, on_device in zip(host[number % len(host)], device):
            to, source = (on_host, on_device) if options.direction == "d2h" else (on_device, on_host)
            to.copy_(source, non_blocking=options.memory != "pageable-blocking")
        done = torch.cuda.Event(blocking=True)
        done.record()
        in_flight.append(done)
        number += 1
        if len(in_flight) >= IN_FLIGHT:
            in_flight.popleft().synchronize()
            cell.add(options.batch, sum(sizes))


def copy_on_the_cpu(options, sizes, cell):
    torch.set_num_threads(1)  # like the copying thread of a run on the CPU
    source = [torch.randint(256, (size,), dtype=torch.uint8) for size in sizes]
    host = [make_host_buffer(sum(sizes), False).split(sizes) for _ in range(options.buffers)]
    number = 0
    while True:
        for to, made in zip(host[number % len(host)], source):
            to.copy_(made)
        number += 1
        cell.add(options.batch, sum(sizes))


def main():
    options = parse()
    sizes = [int(size) for size in options.bytes.split(",")]
    if options.lengths:
        sizes = [int(length) * size for length in options.lengths.split(",") for size in sizes]
    cell = ProgressCell(options.progress, 0)
    (copy_on_the_gpu if torch.cuda.is_available() else copy_on_the_cpu)(options, sizes, cell)


if __name__ == "__main__":
    main()
