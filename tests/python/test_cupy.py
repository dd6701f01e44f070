"""
Arrays of CuPy and Numba through the Egress, on a GPU: held until copied, ordered after their stream, in any order of
dimensions.
"""

import importlib.util
import os
import unittest

import offramp
from test_egress import Egresses
from test_torch import CHECKER, keys_of
from world import needs_numpy

CUPY, NUMBA = (importlib.util.find_spec(name) is not None for name in ("cupy", "numba"))
ON_GPU = os.environ.get("OFFRAMP_TEST_DEVICE") == "cuda"

# Late enough that a copy which does not wait reads the earlier data.
FILL_LATE = r"""
    extern "C" __global__ void fill_late(int* numbers, int value, long long count, long long cycles) {
        const long long begin = clock64();
        while (clock64() - begin < cycles) {}
        for (long long at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) numbers[at] = value;
    }
"""


@unittest.skipUnless(CUPY and ON_GPU, "skipped: no CuPy, or no GPU (OFFRAMP_TEST_DEVICE=cuda)")
@needs_numpy
class OnAGpu(Egresses):
    def filled(self, value, shape, cycles=2_000_000):
        import cupy

        made = cupy.empty(shape, dtype=cupy.int32)
        cupy.RawKernel(FILL_LATE, "fill_late")(
            (64,), (256,), (made, cupy.int32(value), cupy.int64(made.size), cupy.int64(cycles))
        )
        return made

    def test_arrays_are_read_after_their_stream_and_held_until_then(self):
        import cupy

        stream = cupy.cuda.Stream(non_blocking=True)
        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress:
            for batch in range(60):
                with stream:
                    made = self.filled(1 + batch, (8, 64, 4096))
                    outputs = (made, made[..., ::2].repeat(2, axis=2), made.reshape(8, 4096, 64).transpose(0, 2, 1))[
                        batch % 3
                    ]
                    if batch % 2:
                        egress.submit(outputs, keys_of(1 + batch, 8))
                if batch % 2 == 0:
                    egress.submit(outputs, keys_of(1 + batch, 8), stream=stream if batch % 4 else stream.ptr)
                del made, outputs  # to CuPy's pool, which reuses it for the next batch
        self.assertEqual("480 []\n", self.end(checker))

    def test_ordered_after_another_stream_they_are_read_too_early(self):
        """The counterpart."""
        import cupy

        stream, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
        self.filled(0, (8, 1 << 18))  # compiled
        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress:
            for batch in range(20):
                with stream:
                    # 0.1 s: the copying thread starts within 5 ms
                    outputs = self.filled(1 + batch, (8, 1 << 18), cycles=200_000_000)
                egress.submit(outputs, keys_of(1 + batch, 8), stream=other)
        self.assertNotEqual("160 []\n", self.end(checker))

    def test_a_copy_may_be_written_to(self):
        import cupy

        checker = self.python(CHECKER, self.run_dir)
        with cupy.cuda.Stream(non_blocking=True), offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4) as egress:
            outputs = cupy.zeros((4, 1 << 16), dtype=cupy.int32)
            for batch in range(20):
                outputs.fill(batch)
                egress.submit(outputs, keys_of(batch, 4), copy=True)
        self.assertEqual("80 []\n", self.end(checker))


@unittest.skipUnless(NUMBA and ON_GPU, "skipped: no Numba, or no GPU (OFFRAMP_TEST_DEVICE=cuda)")
@needs_numpy
class OfNumba(Egresses):
    def test_arrays_are_read_after_their_stream_and_held_until_then(self):
        import numpy
        from numba import cuda

        stream = cuda.stream()
        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress:
            for batch in range(60):
                made = cuda.to_device(numpy.full((8, 1 << 16), 1 + batch, numpy.int32), stream=stream)
                egress.submit(made, keys_of(1 + batch, 8))
                del made
        self.assertEqual("480 []\n", self.end(checker))
