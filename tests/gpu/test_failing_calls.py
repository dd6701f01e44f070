"""
A GPU that fails at a call of the CUDA runtime, of PyTorch or of Offramp's kernels: its context is lost by an illegal
access just before the call, or the call finds no memory. The run ends with the exit code for it, names no item as the
cause, leaves only right results, and --resume completes it. A second producer completes it too.
"""

import concurrent.futures
import importlib.util
import os
import pathlib
import struct
import unittest

from tests.support.device import ON_GPU, setUpModule  # noqa: F401
from tests.support.exported_model import exported, folder_of_class, networks_in
from tests.support.text_runs import TextRuns
from tests.system.test_gpu_decode import photograph

NETWORK = """
import torch


class Classes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 5, 1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def make():
    return Classes()
"""
COUNT = struct.Struct("56sQ")
AT_ONCE = 6
DEVICE_OUT_OF_MEMORY, DEVICE_BROKEN = 81, 82
KILLED_BY_SIGSEGV = 139  # cuDNN uses a null pointer if the context is lost while it is made
FAILING_CUDA = pathlib.Path(os.environ.get("OFFRAMP_TEST_BIN", "."), "tests", "libofframp_failing_cuda.so").absolute()


def counts_in(path):
    """{function: calls}"""
    counts = ((name.rstrip(b"\0").decode(), calls) for name, calls in COUNT.iter_unpack(path.read_bytes()))
    return {name: calls for name, calls in counts if calls}


@unittest.skipUnless(ON_GPU, "skipped: no GPU is asked for (OFFRAMP_TEST_DEVICE=cuda)")
@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: needs torch")
class FailingCalls(TextRuns, unittest.TestCase):
    processors = ("--processor", "mask-png")
    flags = ("--transform", "class-map", "--image-size", "64", "--producer-restarts", "0", "--max-errors", "100%")

    @classmethod
    def setUpClass(cls):
        import torch

        cls.folder = folder_of_class(cls, "failing-calls")
        cls.model = cls.folder / "classes.pt"
        torch.jit.script(networks_in(cls.folder, NETWORK).Classes().eval()).save(str(cls.model))
        cls.pictures = cls.folder / "pictures"
        cls.pictures.mkdir()
        for number in range(80):
            photograph(number, (90 + number, 70)).save(cls.pictures / f"{number:02}.jpg")

    def of_pictures(self, *flags):
        return self.world("images", self.pictures, *self.flags, *flags)

    def preloaded(self, world, **environment):
        world.environment.update({"LD_PRELOAD": str(FAILING_CUDA)}, **environment)
        return world

    def undisturbed(self, *flags):
        """(results, calls of each function)"""
        world = self.of_pictures(*flags)
        file = world.folder / "counts"
        self.preloaded(world, OFFRAMP_TEST_CUDA_COUNTS=str(file))
        self.assertEqual(world.start().wait(), 0, world.logs())
        results = world.results()
        self.assertEqual(len(results), 80)
        return results, counts_in(file)

    def cells(self, counts):
        for function, calls in counts.items():
            for number in sorted({1, 2, (calls + 1) // 2, max(1, calls * 9 // 10)}):
                yield function, number, "lost"
                if function in ("cudaMalloc", "cudaHostAlloc"):
                    yield function, number, "full"

    def failing(self, cell, *flags):
        """A world whose run fails at this cell, and the file that appears when it does."""
        world = self.of_pictures(*flags)
        marker = world.folder / "failed"
        return self.preloaded(world, OFFRAMP_TEST_CUDA_FAULT=f"{cell[0]} {cell[1]} {cell[2]} {marker}"), marker

    def what_is_wrong(self, cell, wanted, *flags):
        """(what happened at the cell, the exit code, what is wrong with the run or its resumption, or "")"""
        world, marker = self.failing(cell, *flags)
        code = world.start().wait()
        happened = marker.read_text().strip() if marker.exists() else "not reached"
        found = world.results() if world.output.exists() else {}
        logs = world.logs()
        wrong = [f"{name} differs" for name, content in found.items() if wanted.get(name, content) != content]
        meant = {0, DEVICE_OUT_OF_MEMORY if cell[2] == "full" else DEVICE_BROKEN}
        if cell[2] == "lost" and not found:
            meant.add(KILLED_BY_SIGSEGV)
        if code not in meant or (code == 0 and found != wanted):
            wrong.append(f"exit code {code}, {len(found)} results")
        if code and happened not in ("lost", "refused"):
            wrong.append(f"it failed, but the call: {happened}")
        del world.environment["LD_PRELOAD"]
        if code and world.start("--resume").wait():
            wrong.append(f"not resumed: {world.logs()}")
        if world.results() != wanted:
            wrong.append("resumed results differ")
        if world.summary().get("skipped"):
            wrong.append("items are named as the cause")
        print(*cell, happened, f"code {code}, {len(found)} results", *wrong, sep=": ", flush=True)
        return happened, code, f"{cell}: {wrong}\n{logs}" if wrong else ""

    def check(self, cells, wanted, *flags):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as several:
            found = list(several.map(lambda cell: self.what_is_wrong(cell, wanted, *flags), cells))
        wrong = [text for _, _, text in found if text]
        self.assertFalse(wrong, "\n".join(wrong))
        failed = {cell[0] for cell, (happened, _, _) in zip(cells, found) if happened in ("lost", "refused")}
        self.assertEqual({cell[0] for cell in cells}, failed)
        self.assertIn(DEVICE_BROKEN, {code for _, code, _ in found})

    def test_each_function_in_turn(self):
        wanted, counts = self.undisturbed()
        self.assertGreaterEqual(counts.keys(), {"cudaMalloc", "cudaMemcpyAsync", "cudaLaunchKernelExC"})
        self.check(list(self.cells(counts)), wanted)

    def test_each_function_while_the_gpu_decodes(self):
        flags = ("--decode", "gpu")
        wanted, counts = self.undisturbed(*flags)
        self.check([(function, (calls + 1) // 2, "lost") for function, calls in counts.items()], wanted, *flags)

    def test_each_function_of_a_compiled_model(self):
        words = ("networks.py:make", "--batch", "8", "--image-size", "64", "--device", "cuda", "--resize-size", "none")
        words += ("--memory-format", "contiguous")  # --transform class-map takes no other
        flags = ("--model", str(exported(self.folder, *words)))
        wanted, counts = self.undisturbed(*flags)
        cells = {(function, number, "lost") for function, calls in counts.items() for number in (1, (calls + 1) // 2)}
        self.check(sorted(cells), wanted, *flags)

    def test_another_producer_takes_over(self):
        wanted, counts = self.undisturbed()
        for function in ("cudaLaunchKernelExC", "cudaMemcpyAsync"):
            with self.subTest(function):
                world, marker = self.failing((function, counts[function] * 9 // 10, "lost"), "--producer-restarts", "1")
                self.assertEqual(world.start().wait(), 0, world.logs())
                self.assertEqual(marker.read_text(), "lost\n")
                self.assertEqual(world.results(), wanted)


if __name__ == "__main__":
    unittest.main()
