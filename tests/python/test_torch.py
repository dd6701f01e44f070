"""Tensors of PyTorch, on the CPU and, where there is one, on a GPU: what arrives, what is refused, and that nothing is freed before it is copied."""

import importlib.util
import os
import unittest

import offramp
from offramp._run import Releases
from test_egress import Egresses, needs_numpy

TORCH = importlib.util.find_spec("torch") is not None
ON_GPU = os.environ.get("OFFRAMP_TEST_DEVICE", "cpu") != "cpu"
# Every sample's values are the number that is its key: says how many samples were so, and the keys of those that were not.
CHECKER = """
    import sys, offramp
    right, wrong = 0, []
    for slab in offramp.Consumer(sys.argv[1], wait_for_run=100):
        for sample, values in slab:
            if (values == int(sample.key)).all():
                right += 1
            else:
                wrong.append(sample.key)
    print(right, wrong)
"""


@unittest.skipUnless(TORCH, "skipped: no PyTorch")
@needs_numpy
class OnTheCpu(Egresses):
    def test_every_type_arrives_as_it_was(self):
        import torch

        made = {name: torch.arange(12).reshape(3, 4).to(getattr(torch, name)) for name in
                ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bool")}
        reader = self.reader()
        with offramp.Egress(self.run_dir, {name: (tensor.dtype, tensor.shape) for name, tensor in made.items()}, "cpu") as egress:
            with torch.inference_mode():
                egress.submit(made, ["a", "b", "c"])
        seen = self.seen_by(reader)
        for row, key in enumerate("abc"):
            self.assertEqual((row, {name: name for name in made}, {name: tensor[row].tolist() for name, tensor in made.items()}), seen[key])

    def test_bfloat16_goes_through(self):
        import torch

        reader = self.python("""
            import sys, numpy, offramp
            for slab in offramp.Consumer(sys.argv[1]):
                print(slab.tensors[0].dtype, slab.tensors[0].shape)
        """, self.run_dir)
        with offramp.Egress(self.run_dir) as egress:
            egress.submit(torch.ones(2, 3, dtype=torch.bfloat16))
        self.assertEqual("bfloat16 (2, 3)\n", self.end(reader))

    def test_what_was_submitted_is_held_until_it_is_copied(self):
        import torch

        egress = offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4)
        for batch in range(6):
            egress.submit(torch.full((4, 1000), batch, dtype=torch.int32), [str(batch)] * 4)
        others = [torch.full((4, 1000), -1, dtype=torch.int32) for _ in range(50)]
        checker = self.python(CHECKER, self.run_dir)
        egress.drain()
        egress.close()
        self.assertEqual("24 []\n", self.end(checker))
        del others

    def test_a_copy_may_be_written_to_and_is_dense(self):
        import torch

        columns = torch.zeros(100, 4, dtype=torch.int32)
        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir) as egress:
            for batch in range(20):
                columns.fill_(batch)
                egress.submit(columns.t(), [str(batch)] * 4, copy=True)
            columns.fill_(-1)
        self.assertEqual("80 []\n", self.end(checker))

    def test_what_cannot_be_taken_is_refused_and_says_what_to_call(self):
        import torch

        good = torch.zeros(4, 6)
        with offramp.Egress(self.run_dir, {"output": ("float32", (4, 6))}, "cpu") as egress:
            for tensor, kind, text in (
                    (good.t().contiguous().t(), offramp.BadArgument, "Submit tensor.contiguous()"),
                    (good.to_sparse(), TypeError, "Submit tensor.to_dense()"),
                    (good.clone().requires_grad_(), offramp.BadArgument, "Submit tensor.detach()"),
                    (torch.quantize_per_tensor(good, 0.1, 0, torch.quint8), TypeError, "Submit tensor.dequantize()"),
                    (good.to(torch.complex64), TypeError, "complex64"),
                    (good.to("meta"), offramp.BadArgument, "the device 'meta'. Submit tensor.cpu()"),
                    (torch.zeros(4, 6, dtype=torch.complex64).conj().imag, offramp.BadArgument, "resolve_neg"),
                    (torch.tensor(3.0), offramp.BadArgument, "no dimensions"),
                    (good.double(), TypeError, "elements of type float64")):
                with self.subTest(text), self.assertRaisesRegex(kind, text.replace("(", r"\(").replace(")", r"\)")):
                    egress.submit(tensor)
            self.assertEqual(0, egress.figures().batches_submitted)
            egress.close()


@unittest.skipUnless(TORCH and ON_GPU, "skipped: no GPU (OFFRAMP_TEST_DEVICE=cuda)")
@needs_numpy
class OnAGpu(Egresses):
    def test_nothing_is_freed_or_read_too_early_on_any_stream(self):
        import torch

        for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
            with self.subTest(stream), torch.cuda.stream(stream), torch.inference_mode():
                checker = self.python(CHECKER, self.run_dir)
                with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress:
                    for batch in range(60):
                        torch.cuda._sleep(2_000_000)        # the submit comes long before the values
                        outputs = torch.full((8, 1 << 18), batch, dtype=torch.int32, device="cuda")
                        egress.submit(outputs, [str(batch)] * 8)
                        del outputs                         # the next one would lie in the same memory
                self.assertEqual("480 []\n", self.end(checker))

    def test_let_go_at_submit_it_would_be_overwritten(self):
        """The twin: without what holds the tensors the test above finds that they are."""
        import torch

        hold = Releases.hold
        self.addCleanup(setattr, Releases, "hold", hold)
        Releases.hold = lambda releases, number, owners: hold(releases, number, [])
        with torch.inference_mode():
            checker = self.python(CHECKER, self.run_dir)
            with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress:
                for batch in range(60):
                    torch.cuda._sleep(2_000_000)
                    outputs = torch.full((8, 1 << 18), batch, dtype=torch.int32, device="cuda")
                    egress.submit(outputs, [str(batch)] * 8)
                    del outputs
        self.assertNotIn("480 []", self.end(checker))

    def test_a_stream_may_be_named_and_a_copy_may_be_written_to(self):
        import torch

        stream = torch.cuda.Stream()
        outputs = torch.zeros((8, 1 << 18), dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress:
            for batch in range(20):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(2_000_000)
                    outputs.fill_(batch)
                    egress.submit(outputs, [str(batch)] * 8, copy=True)
                    other = torch.full_like(outputs, 1000 + batch)
                egress.submit(other, [str(1000 + batch)] * 8, stream=stream if batch % 2 else stream.cuda_stream)
                del other
        self.assertEqual("320 []\n", self.end(checker))

    def test_what_is_elsewhere_or_being_captured_is_refused(self):
        import torch

        with offramp.Egress(self.run_dir, {"output": ("float32", (4, 6))}, "cuda") as egress:
            with self.assertRaisesRegex(offramp.BadArgument, "a batch on the device 'cpu'; the run is for 'cuda:0'"):
                egress.submit(torch.zeros(4, 6))
            outputs = torch.zeros(4, 6, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outputs.add_(1)
                with self.assertRaisesRegex(offramp.BadArgument, "is being captured"):
                    egress.submit(outputs)
            graph.replay()
            reader = self.reader()
            egress.submit(outputs)
            egress.drain()
            self.assertEqual({"output": [1.0] * 6}, self.seen_by(reader)["3"][2])


if __name__ == "__main__":
    unittest.main()
