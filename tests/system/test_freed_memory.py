"""Programs reuse freed memory for the next batch: large blocks are in the heap, which glibc does not shrink."""

import importlib.util
import os
import pathlib
import signal
import tempfile
import time
import unittest

from PIL import Image

from tests.support.device import setUpModule  # noqa: F401
from tests.support.exported_model import networks_in
from tests.support.real_run import RealRun

NETWORKS = """
import torch


class Colours(torch.nn.Module):
    def forward(self, x):
        return torch.cat((x.mean(1, keepdim=True) + 0.02, x), 1)
"""
SIZE = (8000, 6000)  # 144 MB of RGB
SIDE, BATCH = 1024, 8  # 128 MiB of outputs
BATCHES = 40  # the test ends the run long before these are done
WANTED = (BATCH * 4 * SIDE * SIDE * 4, SIZE[0] * SIZE[1] * 3)  # bytes, of the producer's heap and the consumer's


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class FreedMemory(unittest.TestCase):
    def setUp(self):
        import torch

        scratch = tempfile.TemporaryDirectory(prefix="offramp-freed-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        torch.jit.script(networks_in(self.folder, NETWORKS).Colours().eval()).save(str(self.folder / "Colours.pt"))
        (self.folder / "Colours.toml").write_text('mean = "0, 0, 0"\nstd = "1, 1, 1"\n')
        images = self.folder / "images"
        images.mkdir()
        for number in range(BATCH):
            image = images / f"{number}.jpg"
            Image.new("RGB", (SIZE if number < 2 else (100, 100)), (number, 99, 200)).save(image)
            for batch in range(1, BATCHES):
                os.link(image, images / f"{batch}-{number}.jpg")

    def test_large_blocks_are_in_the_heap(self):
        with RealRun(
            "--model",
            str(self.folder / "Colours.pt"),
            "--input",
            str(self.folder / "images"),
            "--device",
            "cpu",
            "--image-size",
            str(SIDE),
            "--batch",
            str(BATCH),
            *"--slabs 2 --decode-workers 1 --processor cut-out --consumers 1".split(),
        ) as run:
            programs = [run.start_producer(), run.start_consumer()]
            heaps = [0, 0]

            def are_seen():
                time.sleep(0.05)
                self.assertEqual(
                    [None, None],
                    [program.poll() for program in programs],
                    f"ended with heaps of {heaps}, {WANTED} wanted\n{run.logs()}",
                )
                heaps[:] = [max(heap, heap_bytes(program.pid)) for heap, program in zip(heaps, programs)]
                return all(heap > wanted for heap, wanted in zip(heaps, WANTED))

            run.until(are_seen, f"heaps of {WANTED} bytes, producer's and consumer's")
            programs[0].send_signal(signal.SIGTERM)
            self.assertEqual([130, 0], [run.wait(program) for program in programs], run.logs())


def heap_bytes(pid):
    """The size of the process's heap; 0 once it has ended."""
    try:
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return 0
    begin_end = next((line.split()[0] for line in maps.splitlines() if line.endswith("[heap]")), "0-0")
    begin, end = (int(part, 16) for part in begin_end.split("-"))
    return end - begin
