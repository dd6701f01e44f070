"""Programs keep the memory that they freed for the next batch: what is large lies in the heap, which glibc then gives back to nobody, and not in mappings of its own."""

import importlib.util
import pathlib
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
SIZE = (8000, 6000)     # 144 MB of RGB
SIDE, BATCH = 1024, 8   # 128 MiB of outputs


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
            Image.new("RGB", (SIZE if number < 2 else (100, 100)), (number, 99, 200)).save(images / f"{number}.jpg")

    def test_what_is_large_lies_in_the_heap(self):
        with RealRun("--model", str(self.folder / "Colours.pt"), "--input", str(self.folder / "images"), "--device", "cpu", "--image-size", str(SIDE), "--batch", str(BATCH),
                     "--slabs", "2", "--decode-workers", "1", "--processor", "cut-out", "--consumers", "1") as run:
            programs = [run.start_producer(), run.start_consumer()]
            heaps = [0, 0]
            while any(program.poll() is None for program in programs):
                heaps = [max(heap, heap_bytes(program.pid)) for heap, program in zip(heaps, programs)]
                time.sleep(0.005)
            self.assertEqual([0, 0], [run.wait(program) for program in programs], run.logs())
        self.assertGreater(heaps[0], BATCH * 4 * SIDE * SIDE * 4, "the producer's")
        self.assertGreater(heaps[1], SIZE[0] * SIZE[1] * 3, "the consumer's")


def heap_bytes(pid):
    """0 once the program has ended."""
    try:
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return 0
    begin_end = next((line.split()[0] for line in maps.splitlines() if line.endswith("[heap]")), "0-0")
    begin, end = (int(part, 16) for part in begin_end.split("-"))
    return end - begin


if __name__ == "__main__":
    unittest.main()
