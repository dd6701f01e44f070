"""Keys of an Egress that are not texts: paths, and whole numbers of Python, NumPy and PyTorch."""

import importlib.util
import pathlib
import unittest

import offramp
from test_egress import Egresses
from world import needs_numpy

needs_torch = unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch")


@needs_numpy
class Keys(Egresses):
    def keys_seen(self, keys, rows=2):
        """The keys that a consumer sees of a batch with these keys."""
        import numpy

        self.run_dir = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            egress.submit(numpy.zeros((rows, 3), "float32"), keys)
        return sorted(self.seen_by(reader))

    def test_paths_and_numbers_become_texts(self):
        import numpy

        for keys, seen in {
            (pathlib.Path("a/b.png"), "c"): ["a/b.png", "c"],
            (7, numpy.int64(8)): ["7", "8"],
            (numpy.uint8(9), -1): ["-1", "9"],
        }.items():
            with self.subTest(keys=keys):
                self.assertEqual(seen, self.keys_seen(list(keys)))
        self.assertEqual(["3", "4"], self.keys_seen(numpy.arange(3, 5)))
        self.assertEqual(["x", "y"], self.keys_seen(numpy.array(["x", "y"])))
        self.assertEqual(["5", "6"], self.keys_seen(iter((5, 6))))

    @needs_torch
    def test_tensors_of_whole_numbers(self):
        import torch

        self.assertEqual(["3", "4"], self.keys_seen(torch.arange(3, 5)))
        self.assertEqual(["3", "4"], self.keys_seen(list(torch.arange(3, 5))))
        self.assertEqual(["3", "4"], self.keys_seen((torch.tensor(3), "4")))
        with offramp.Egress(self.folder / "refused") as egress:
            for wrong in (torch.rand(2), torch.ones(2, dtype=torch.bool), torch.zeros(2, 2, dtype=torch.int64)):
                with self.assertRaisesRegex(offramp.BadArgument, "Give texts, paths or whole numbers"):
                    egress.submit(torch.rand(2, 3), wrong)
            with self.assertRaisesRegex(offramp.BadArgument, "on the device 'meta'.*Keep keys on the CPU"):
                egress.submit(torch.rand(2, 3), torch.zeros(2, dtype=torch.int64, device="meta"))

    def test_a_number_and_its_text_are_one_key(self):
        import numpy

        values = numpy.zeros((1, 3), "float32")
        with offramp.Egress(output=self.folder / "out", processor="npy", consumers=1) as egress:
            egress.submit(values, [7])
            with self.assertRaisesRegex(offramp.BadArgument, "the key '7' names a sample of an earlier batch"):
                egress.submit(values, ["7"])
        self.assertEqual(["7.output.npy"], [path.name for path in (self.folder / "out").glob("*.npy")])

    def test_pending_takes_them_and_resumes(self):
        import numpy

        keys = [numpy.arange(2), [pathlib.Path("x/a"), 2], (numpy.int32(3), 4)]
        batches = [(each, numpy.zeros((2, 3), "float32")) for each in keys]
        output = self.folder / "out"
        for given, submitted in ((batches[:2], 2), (batches, 1)):
            with offramp.Egress(output=output, processor="npy", consumers=1, resume=True) as egress:
                for each, values in egress.pending(given):
                    egress.submit(values, each)
            self.assertEqual(submitted, egress.stats().batches_submitted)
        names = sorted(str(path.relative_to(output)) for path in output.rglob("*.npy"))
        self.assertEqual([f"{key}.output.npy" for key in ("0", "1", "2", "3", "4", "x/a")], names)
