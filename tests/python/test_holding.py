"""Outputs are held until they are copied and not longer: no byte is wrong, and memory stays small."""

import os
import sys
import unittest
import weakref

import offramp
from offramp._run import Releases
from test_egress import Egresses
from test_torch import CHECKER, ON_GPU, TORCH, keys_of
from world import needs_numpy

MANY_PARTS = int(os.environ.get("OFFRAMP_TEST_PARTS", "4000"))  # samples; 100000 in the long test
# Of batches so large that nothing waits behind one (egress_stream.cpp).
WAITING, BEING_COPIED = 1, 6  # being copied: one is passed on, four are queued, and one is awaited
ROWS, NUMBERS = 64, 32 * 1024
IDLE = """
    import sys, offramp
    for slab in offramp.Consumer(sys.argv[1]):
        pass
"""


class Holding(Egresses):
    def release_at_submit(self):
        hold = Releases.hold
        self.addCleanup(setattr, Releases, "hold", hold)
        Releases.hold = lambda releases, number, owners: hold(releases, number, [])

    def release_late(self):
        """Releases each batch one batch late."""
        drop = Releases.drop
        self.addCleanup(setattr, Releases, "drop", drop)
        Releases.drop = lambda releases, released: drop(releases, max(0, released - 1))


@needs_numpy
class OfNumpy(Holding):
    def outputs_alive(self, batches):
        """The largest number of living large outputs, including the loop's current one."""
        import numpy

        reader = self.python(IDLE, self.run_dir)
        alive = most = 0

        def gone():
            nonlocal alive
            alive -= 1

        with offramp.Egress(
            self.run_dir, {"output": ("float32", (ROWS, NUMBERS))}, "cpu", slabs=16, samples_per_slab=ROWS
        ) as egress:
            for number in range(batches):
                is_large = number % 200 < 12  # copies of many large ones take time
                array = numpy.empty((ROWS if is_large else 1, NUMBERS), "float32")
                if is_large:
                    weakref.finalize(array, gone)
                    alive += 1
                    most = max(most, alive)
                egress.submit(array, copy=False)
                del array
        self.end(reader)
        return most

    def test_it_holds_only_outputs_that_wait_or_are_being_copied(self):
        self.assertLessEqual(self.outputs_alive(10_000), WAITING + BEING_COPIED + 1)

    def test_one_more_held_output_would_be_too_many(self):
        """The counterpart."""
        self.release_late()
        self.assertGreater(self.outputs_alive(1_000), WAITING + BEING_COPIED + 1)


@unittest.skipUnless(TORCH, "skipped: no PyTorch")
@needs_numpy
class OnTheCpu(Holding):
    def freed_immediately(self, parts):
        import torch

        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress:
            for batch in range(parts // 8):
                # released by the loop: the next one would reuse the memory
                egress.submit(torch.full((8, 64), batch, dtype=torch.int32), keys_of(batch, 8))
        return self.end(checker)

    def test_many_small_outputs_freed_immediately_are_correct(self):
        self.assertEqual(f"{MANY_PARTS} []\n", self.freed_immediately(MANY_PARTS))

    def test_small_outputs_released_at_submit_would_be_overwritten(self):
        """The counterpart."""
        self.release_at_submit()
        self.assertNotEqual("4000 []\n", self.freed_immediately(4000))


@unittest.skipUnless(TORCH and ON_GPU, "skipped: no GPU (OFFRAMP_TEST_DEVICE=cuda)")
@needs_numpy
class OnAGpu(Holding):
    def freed_immediately(self, parts, cycles, numbers):
        """
        The loop releases each batch at submit, long before it is computed: the number of correct samples, and the wrong
        ones.
        """
        import torch

        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress, torch.inference_mode():
            for batch in range(parts // 8):
                torch.cuda._sleep(cycles)
                outputs = torch.full((8, numbers), batch, dtype=torch.int32, device="cuda")
                egress.submit(outputs, keys_of(batch, 8))
                del outputs  # the next one would reuse the memory
        right, wrong = self.end(checker).split(maxsplit=1)
        return int(right), wrong.strip()

    def test_nothing_is_freed_or_read_too_early_on_any_stream(self):
        import torch

        for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
            with self.subTest(stream), torch.cuda.stream(stream):
                self.assertEqual((480, "[]"), self.freed_immediately(480, 2_000_000, 1 << 18))

    def test_many_small_outputs_are_not_freed_or_read_too_early(self):
        self.assertEqual((MANY_PARTS, "[]"), self.freed_immediately(MANY_PARTS, 50_000, 1 << 12))

    def test_memory_released_at_submit_would_be_overwritten(self):
        """The counterpart: without holding tensors, the test above detects overwritten ones."""
        self.release_at_submit()
        self.assertNotEqual((480, "[]"), self.freed_immediately(480, 2_000_000, 1 << 18))

    def test_small_outputs_released_at_submit_would_be_overwritten(self):
        """The counterpart for many small outputs."""
        self.release_at_submit()
        self.assertNotEqual((8_000, "[]"), self.freed_immediately(8_000, 50_000, 1 << 12))

    def memory_above_the_loop_alone(self, batches):
        """The largest number of outputs above those of a loop without Egress: (allocated, reserved by PyTorch)."""
        import torch

        shape = (64, 48 * 1024)  # 12 MiB: PyTorch reserves each separately

        def peaks():
            return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()

        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(100):
            torch.full(shape, 1.0, device="cuda")
        alone = peaks()
        reader = self.python(IDLE, self.run_dir)
        with offramp.Egress(
            self.run_dir, {"output": ("float32", shape)}, "cuda", slabs=16, samples_per_slab=64
        ) as egress:
            for number in range(batches):
                egress.submit(torch.full(shape, float(number), device="cuda"))
        self.end(reader)
        return [(peak - before) / (12 << 20) for peak, before in zip(peaks(), alone)]

    def test_memory_is_bounded_by_outputs_that_wait_or_are_copied(self):
        # Without the loop's current output, which a loop without Egress has too.
        allocated, reserved = self.memory_above_the_loop_alone(10_000)
        print(
            f"10,000 batches: above the loop alone at most {allocated:.1f} outputs allocated, {reserved:.1f} reserved",
            file=sys.stderr,
            flush=True,
        )
        for outputs in (allocated, reserved):
            self.assertLessEqual(outputs, WAITING + BEING_COPIED)

    def test_one_more_held_output_would_exceed_the_memory_bound(self):
        """The counterpart."""
        self.release_late()
        for outputs in self.memory_above_the_loop_alone(1_000):
            self.assertGreater(outputs, WAITING + BEING_COPIED)
