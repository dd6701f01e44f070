#!/usr/bin/env python3
"""
The article's design in Python, one program for all its rungs: a peer of the benchmark, run by its driver until it is
killed.

0              compute, output.cpu(), serialise, all in one process
1              output.cpu() through a queue to worker processes: a new shared segment per batch
2              a pool of buffers and a free list; blocking copies. The pool is made as the article makes it,
               torch.empty(pin_memory=True).share_memory_(), which does not leave it page-locked
3              non-blocking copies, each with an event; another thread publishes once the event is done
4              the same on a separate stream
4-pinned       the same into a pool that is page-locked: cudaHostRegister on the shared storage
compute-alone  outputs are dropped on the device
"""

import argparse
import collections
import queue
import threading

import readers
import torch
import torch.multiprocessing
from inputs import WAYS, make_feed
from models import make_model
from page_locking import page_lock
from progress import ProgressCell

RUNGS = ("0", "1", "2", "3", "4", "4-pinned", "compute-alone")
IN_FLIGHT = 3  # limit of unfinished batches if nothing else limits them


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", choices=RUNGS, required=True)
    parser.add_argument("--model", choices=("deeplabv3", "copy", "encoder"), default="deeplabv3")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--copy-bytes", type=int, default=1 << 20)
    parser.add_argument("--input", choices=WAYS, default="device")
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--reader", choices=("write-copy", "read-all"), default="read-all")
    parser.add_argument("--native-reader", default="", help="the library of our own consumers' hash loop")
    parser.add_argument("--slabs", type=int, default=8)
    parser.add_argument(
        "--progress", required=True, help="a file of cells, one for this process and one for each reader"
    )
    return parser.parse_args()


class DoneEvent:
    """An event on the CPU, where work is finished when its call returns."""

    def record(self, stream=None):
        pass

    def synchronize(self):
        pass


def make_event(device):
    return torch.cuda.Event(blocking=True) if device.type == "cuda" else DoneEvent()


class ComputeAlone:
    def __init__(self, options, device, output):
        self._device, self._batch = device, options.batch
        self._cell = ProgressCell(options.progress, 0)
        self._in_flight = collections.deque()

    def deliver(self, output):
        event = make_event(self._device)
        event.record()
        self._in_flight.append((event, output))
        if len(self._in_flight) >= IN_FLIGHT:
            self._in_flight.popleft()[0].synchronize()
            self._cell.add(self._batch)


class Sequential:
    def __init__(self, options, device, output):
        self._reader = readers.make_reader(options.reader, options.native_reader)
        self._cell, self._batch = ProgressCell(options.progress, 0), options.batch

    def deliver(self, output):
        flat = readers.flat_bytes(output.cpu())
        self._reader.read(flat)
        self._cell.add(self._batch, flat.size)


def process_context():
    """
    Workers must not inherit CUDA's state, so a fork server without CUDA forks them. Without a GPU there is no such
    state.
    """
    return torch.multiprocessing.get_context("forkserver" if torch.cuda.is_available() else "fork")


def start_workers(options, target, *arguments):
    for index in range(1, options.readers + 1):
        process_context().Process(target=target, args=(index, options, *arguments), daemon=True).start()


class Workers:
    def __init__(self, options, device, output):
        self._work = process_context().Queue(options.slabs)
        start_workers(options, readers.read_fresh_tensors, self._work)

    def deliver(self, output):
        self._work.put(output.cpu())


class Pool:
    def __init__(self, options, device, output):
        context = process_context()
        self._work, self._free = context.Queue(), context.Queue()
        self._buffers = [self._make_buffer(device, output) for _ in range(options.slabs)]
        start_workers(options, readers.read_pool, self._buffers, self._work, self._free)
        for slab in range(options.slabs):
            self._free.put(slab)

    def _make_buffer(self, device, output):
        return torch.empty(output.shape, dtype=output.dtype, pin_memory=device.type == "cuda").share_memory_()

    def deliver(self, output):
        slab = self._free.get()
        self._buffers[slab].copy_(output)
        self._work.put(slab)


class Async(Pool):
    def __init__(self, options, device, output):
        super().__init__(options, device, output)
        self._device = device
        self._copied = queue.Queue()
        threading.Thread(target=self._publish, daemon=True).start()

    def deliver(self, output):
        slab = self._free.get()
        event = make_event(self._device)
        self._copy(self._buffers[slab], output, event)
        self._copied.put((slab, event, output))

    def _copy(self, buffer, output, event):
        buffer.copy_(output, non_blocking=True)
        event.record()

    def _publish(self):
        while True:
            slab, event, output = self._copied.get()
            event.synchronize()
            del output  # the model may reuse its memory only now
            self._work.put(slab)


class Streams(Async):
    def __init__(self, options, device, output):
        super().__init__(options, device, output)
        self._egress = torch.cuda.Stream() if device.type == "cuda" else None

    def _copy(self, buffer, output, event):
        if self._egress is None:
            buffer.copy_(output)
            return
        self._egress.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._egress):
            buffer.copy_(output, non_blocking=True)
            event.record(self._egress)


class PinnedStreams(Streams):
    def _make_buffer(self, device, output):
        buffer = torch.empty(output.shape, dtype=output.dtype).share_memory_()
        if device.type == "cuda":
            buffer.zero_()  # creates every page before locking
            storage = buffer.untyped_storage()
            page_lock(storage.data_ptr(), storage.nbytes())
        return buffer


def main():
    options = parse()
    torch.multiprocessing.get_context("forkserver").set_forkserver_preload(["readers"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rung = {
        "0": Sequential,
        "1": Workers,
        "2": Pool,
        "3": Async,
        "4": Streams,
        "4-pinned": PinnedStreams,
        "compute-alone": ComputeAlone,
    }[options.rung]
    with torch.no_grad():
        model = make_model(options, device)
        feed = make_feed(options.input, model.input_shape, device)
        delivery = rung(options, device, model.run(feed.take()))
        while True:
            output = model.run(feed.take())
            feed.used()
            delivery.deliver(output)
            del output


if __name__ == "__main__":
    main()
