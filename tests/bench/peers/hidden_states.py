#!/usr/bin/env python3
"""
A loop that gives hidden states of texts: per text and layer a tensor of bfloat16, as long as the text. Runs until
SIGTERM.

    --way packed, lists     into an Egress, whose consumers are other programs
    --way files             as inference engines do: page-locked memory per text, copies on a separate stream, and a
                            pool of threads that writes a safetensors file per text into tmpfs; other processes map,
                            read and remove the files

The tensors are made once and submitted in turn, so the loop's own speed is that of its egress.
"""

import argparse
import concurrent.futures
import itertools
import json
import mmap
import multiprocessing
import os
import pathlib
import signal

import numpy
import offramp
import readers
import torch
from progress import ProgressCell

DTYPE, DTYPE_NAME = torch.bfloat16, "BF16"
NEVER_SECONDS = 3600.0  # a visibility timeout: the benchmark stops consumers


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=("packed", "lists", "files"), required=True)
    parser.add_argument("--lengths", required=True, help="tokens of each text, separated by commas")
    parser.add_argument("--batch", type=int, required=True, help="texts submitted together")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=4096, help="numbers per token and layer")
    parser.add_argument("--run-dir", type=pathlib.Path)
    parser.add_argument("--run-id", default="")
    parser.add_argument("--slabs", type=int, default=0)
    parser.add_argument("--slab-bytes", type=int, default=0)
    parser.add_argument("--folder", type=pathlib.Path, help="of the files")
    parser.add_argument("--writers", type=int, default=8, help="threads that write files")
    parser.add_argument("--texts", type=int, default=8, help="texts that may be in host memory at a time")
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--reader", choices=("read-all",), default="read-all")
    parser.add_argument("--native-reader", default="", help="the library of our own consumers' hash loop")
    parser.add_argument("--progress", help="a file of cells, one for this process and one for each reader")
    return parser.parse_args()


def make_batches(options, device):
    """Each batch as a list of layers, each layer as a list of one tensor per text; and the texts' lengths."""
    lengths = [int(length) for length in options.lengths.split(",")]
    for first in range(0, len(lengths), options.batch):
        texts = lengths[first : first + options.batch]
        layers = [
            [torch.randn(length, options.width, dtype=DTYPE, device=device) for length in texts]
            for _ in range(options.layers)
        ]
        yield layers, texts


def submit(options, device):
    stopping = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    names = [f"layer-{layer}" for layer in range(options.layers)]

    def outputs(layers, lengths):
        if options.way == "lists":
            return dict(zip(names, layers))
        return {name: offramp.packed(torch.cat(layer), lengths) for name, layer in zip(names, layers)}

    batches = itertools.cycle([outputs(*batch) for batch in make_batches(options, device)])
    shape = (options.batch, None, options.width)
    with offramp.Egress(
        options.run_dir,
        dict.fromkeys(names, ("bfloat16", shape)),
        device.type,
        run_id=options.run_id,
        slabs=options.slabs,
        slab_bytes=options.slab_bytes,
        visibility_timeout=NEVER_SECONDS,
    ) as egress:
        while not stopping:
            egress.submit(next(batches))
        egress.drain()
        stats = egress.stats()
    (options.run_dir / "summary.json").write_text(json.dumps(stats._asdict()), encoding="utf-8")


def write(path, tensors):
    """
    A safetensors file, as the library writes it since 0.8: from the tensors' memory, without the interpreter's lock.
    """
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": DTYPE_NAME, "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    parts = [len(text).to_bytes(8, "little") + text, *(readers.flat_bytes(tensor) for tensor in tensors.values())]
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        left = [memoryview(part) for part in parts if len(part)]
        while left:
            written = os.writev(file, left)
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if left:
                left[0] = left[0][written:]
    finally:
        os.close(file)


def read_files(index, options, written, room):
    readers.prepare_worker()
    reader, cell = readers.make_reader(options.reader, options.native_reader), ProgressCell(options.progress, index)
    while True:
        path, payload_bytes = written.get()
        with (
            open(path, "rb") as file,
            mmap.mmap(
                file.fileno(), 0, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0), prot=mmap.PROT_READ
            ) as memory,
        ):
            flat = numpy.frombuffer(memory, dtype=numpy.uint8)
            reader.read(flat)
            del flat  # otherwise the mapping cannot be closed
        os.unlink(path)
        room.release()
        cell.add(1, payload_bytes)


def write_files(options, device):
    context = multiprocessing.get_context("forkserver")  # because workers must not inherit CUDA's state
    context.set_forkserver_preload(["readers"])
    written, room = context.SimpleQueue(), context.Semaphore(options.texts)
    for index in range(1, options.readers + 1):
        context.Process(target=read_files, args=(index, options, written, room), daemon=True).start()
    on_gpu = device.type == "cuda"
    copies = torch.cuda.Stream() if on_gpu else None
    writers = concurrent.futures.ThreadPoolExecutor(options.writers)

    def deliver(number, text):
        room.acquire()
        with torch.cuda.stream(copies):
            if on_gpu:
                copies.wait_stream(torch.cuda.default_stream())
            host = {
                f"layer-{layer}": torch.empty(tensor.shape, dtype=DTYPE, pin_memory=on_gpu).copy_(
                    tensor, non_blocking=True
                )
                for layer, tensor in enumerate(text)
            }
            copied = torch.cuda.Event(blocking=True) if on_gpu else None
            if copied:
                copied.record()
        writers.submit(finish, number, host, copied)

    def finish(number, host, copied):
        try:
            if copied:
                copied.synchronize()
            path = options.folder / f"{number}.safetensors"
            write(path, host)
            written.put((str(path), sum(tensor.nbytes for tensor in host.values())))
        except BaseException as problem:  # the loop would wait forever
            print(f"writing text {number}: {problem!r}", flush=True)
            os._exit(1)

    texts = [text for layers, _ in make_batches(options, device) for text in zip(*layers)]
    for number, text in enumerate(itertools.cycle(texts)):
        deliver(number, text)


def main():
    options = parse()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    (write_files if options.way == "files" else submit)(options, device)


if __name__ == "__main__":
    main()
