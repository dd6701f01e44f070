"""
PyTorch tensors on the CPU and, if present, a GPU: delivered values, refused tensors, and no memory freed before its
copy.
"""

import ast
import functools
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import sysconfig
import threading
import time
import unittest
import unittest.mock

import offramp
from offramp import _arrays
from offramp._run import LOOK_SECONDS, Releases
from test_arrays import STRIDES, Exported, ExportedUnversioned
from test_egress import Egresses
from world import DTYPES, needs_numpy, wait_for

TORCH = importlib.util.find_spec("torch") is not None
ON_GPU = os.environ.get("OFFRAMP_TEST_DEVICE", "cpu") != "cpu"
# Each sample's values must equal the number at the start of its key. Prints the number of right samples and the keys of
# wrong ones.
CHECKER = """
    import sys, offramp
    right, wrong = 0, []
    for slab in offramp.Consumer(sys.argv[1], wait_for_run=100):
        for sample, values in slab:
            if (values == int(sample.key.split("/")[0])).all():
                right += 1
            else:
                wrong.append(sample.key)
    print(right, wrong)
"""
# The compiler of torch.compile's kernels.
COMPILES = (
    importlib.util.find_spec("triton") is not None
    and shutil.which(os.environ.get("CC", "gcc")) is not None
    and pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()
)
# Batches of replays: before a consumer starts, and while it runs.
HELD_BACK, BESIDE = 40, 400


def keys_of(batch, rows):
    return [f"{batch}/{row}" for row in range(rows)]


@unittest.skipUnless(TORCH, "skipped: no PyTorch")
@needs_numpy
class OnTheCpu(Egresses):
    def test_every_type_arrives_unchanged(self):
        import torch

        made = {name: torch.arange(12).reshape(3, 4).to(getattr(torch, name)) for name in DTYPES}
        reader = self.reader()
        with offramp.Egress(
            self.run_dir, {name: (tensor.dtype, tensor.shape) for name, tensor in made.items()}, "cpu"
        ) as egress:
            with torch.inference_mode():
                egress.submit(made, ["a", "b", "c"])
        seen = self.seen_by(reader)
        for row, key in enumerate("abc"):
            self.assertEqual(
                (row, {name: name for name in made}, {name: tensor[row].tolist() for name, tensor in made.items()}),
                seen[key],
            )

    def test_slabs_are_read_as_tensors(self):
        import torch

        names = ("int8", "int64", "uint8", "uint16", "float16", "float32", "float64", "bool", "bfloat16")
        made = {name: torch.arange(24).reshape(2, 3, 4).to(getattr(torch, name)) for name in names}
        made["turned"] = made["float32"].transpose(1, 2)
        reader = self.python(
            """
            import sys, warnings
            warnings.simplefilter("error")
            import json, offramp
            for slab in offramp.Consumer(sys.argv[1]):
                assert "numpy" not in sys.modules and "torch" not in sys.modules
                for info in slab.tensors:
                    tensor = slab.torch(info.name)
                    assert tensor is slab.torch(info.name)
                    print(json.dumps([info.name, str(tensor.dtype), tensor.stride(), tensor.double().tolist()]))
                try:
                    slab.torch("nothing")
                except KeyError as problem:
                    print(problem)
        """,
            self.run_dir,
        )
        with offramp.Egress(self.run_dir, samples_per_slab=2) as egress:
            egress.submit(made)
        *lines, problem = self.end(reader).splitlines()
        self.assertEqual(
            [[name, str(tensor.dtype), [*tensor.stride()], tensor.double().tolist()] for name, tensor in made.items()],
            [json.loads(line) for line in lines],
        )
        self.assertIn("the slab has no tensor 'nothing'", problem)

    def test_a_kept_tensor_is_reported_and_read_only(self):
        import torch

        with offramp.Egress(self.run_dir) as egress:
            egress.submit(torch.arange(6.0).reshape(2, 3))
            keeper = self.python(
                """
                import sys, offramp
                kept = []
                def keep(slab):
                    kept.append(slab.torch("output")[1])
                try:
                    offramp.Consumer(sys.argv[1]).run(keep)
                except offramp.ViewKept as problem:
                    print(problem, kept[0].tolist())
            """,
                self.run_dir,
            )
            self.assertRegex(self.end(keeper), r"'?output'?.*\[3.0, 4.0, 5.0\]")
            writer = self.python(
                """
                import sys, offramp
                for slab in offramp.Consumer(sys.argv[1]):
                    slab.torch("output").add_(1)
            """,
                self.run_dir,
            )
            self.end(writer, -signal.SIGSEGV)
            reader = self.reader()
        self.assertEqual([3, 4, 5], self.seen_by(reader)["1"][2]["output"])

    def test_a_copy_may_be_written_to_and_is_dense(self):
        import torch

        columns = torch.zeros(100, 4, dtype=torch.int32)
        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir) as egress:
            for batch in range(20):
                columns.fill_(batch)
                egress.submit(columns.t(), keys_of(batch, 4), copy=True)
            columns.fill_(-1)
        self.assertEqual("80 []\n", self.end(checker))

    def test_gradients_signs_and_any_order_are_accepted(self):
        import torch

        numbers = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
        last = numbers.to(memory_format=torch.channels_last)
        pending = torch.complex(numbers, -numbers).conj().imag
        self.assertTrue(pending.is_neg())
        batches = [
            last,
            numbers,
            numbers.clone().requires_grad_() * 1,
            torch.nn.Parameter(last),
            pending,
            numbers.repeat_interleave(2, 3)[..., ::2],
            numbers[:1].expand(2, 3, 4, 5),
            torch.ones(1, 3, 4, 5).expand(2, 3, 4, 5),
            numbers.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
            last[1:],
        ]
        for first, strides in ((last, [60, 1, 15, 3]), (pending, [60, 20, 5, 1])):
            reader = self.python(STRIDES, self.run_dir)
            with offramp.Egress(self.run_dir, samples_per_slab=2) as egress:
                for batch in [first, *batches]:
                    egress.submit(batch)
            seen = [json.loads(line) for line in self.end(reader).splitlines()]
            self.assertEqual({tuple(strides)}, {tuple(each[0]) for each in seen})
            values = {int(key): value for _, samples in seen for key, value in samples}
            expected = [sample for batch in [first, *batches] for sample in batch.tolist()]
            self.assertEqual(expected, [values[item] for item in range(len(expected))])

    def test_wrapped_tensors_arrive_through_dlpack(self):
        import torch

        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            for kind in (Exported, ExportedUnversioned):
                egress.submit(
                    {
                        "numbers": kind(torch.arange(6).reshape(2, 3)),
                        "turned": kind(torch.arange(12).reshape(2, 2, 3).transpose(1, 2)),
                    }
                )
            with self.assertRaisesRegex(offramp.BadArgument, "cannot be exported through DLPack: .*require gradient"):
                egress.submit(
                    {"numbers": Exported(torch.ones(2, 3, requires_grad=True)), "turned": torch.zeros(2, 3, 2)}
                )
        seen = self.seen_by(reader)
        for key in range(4):
            row = key % 2
            self.assertEqual(
                {
                    "numbers": [3 * row, 3 * row + 1, 3 * row + 2],
                    "turned": torch.arange(12).reshape(2, 2, 3).transpose(1, 2)[row].tolist(),
                },
                seen[str(key)][2],
            )

    def test_a_distributed_tensor_is_refused(self):
        import torch.distributed.tensor

        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        spread = torch.distributed.tensor.distribute_tensor(torch.zeros(4, 6), mesh)
        with (
            offramp.Egress(self.run_dir) as egress,
            self.assertRaisesRegex(offramp.BadArgument, r"Submit tensor.to_local\(\), or tensor.full_tensor\(\)"),
        ):
            egress.submit(spread)

    def test_a_tensor_changed_before_its_copy_is_reported(self):
        import torch

        def write(tensor):
            tensor.add_(1)

        for change, how in (
            (write, "written to"),
            (lambda tensor: tensor.untyped_storage().resize_(0), "freed or resized"),
            (lambda tensor: tensor.resize_(400, 10), "freed or resized"),
            (lambda tensor: write(tensor.view(-1)), "written to"),
        ):
            with self.subTest(how), offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4) as egress:
                tensors = [torch.zeros(4, 10) for _ in range(4)]
                for batch, tensor in enumerate(tensors):  # the last two wait for slabs
                    egress.submit({"output": tensor}, keys_of(batch, 4))
                wait_for(lambda: egress._run._releases._released == 2, "that two are copied")
                write(tensors[0])
                egress.submit(torch.zeros(4, 10), keys_of(4, 4))
                change(tensors[2])
                wait_for(lambda: egress._run._releases.changed, "that the change is detected")
                with self.assertRaisesRegex(
                    offramp.TensorChanged,
                    f"a tensor of batch 2, whose first key is '2/0', was {how} before it was copied",
                ):
                    egress.submit(torch.zeros(4, 10))
                egress.submit(torch.zeros(4, 10), keys_of(5, 4))
                last = torch.zeros(4, 10)
                egress.submit(last, keys_of(6, 4))
                write(last)
                with self.assertRaisesRegex(offramp.TensorChanged, "batch 6"):
                    egress.submit(last)
                write(tensors[3])
                reader = self.reader()
                with self.assertRaisesRegex(offramp.TensorChanged, "batch 3"):
                    egress.drain()
                egress.drain()
                self.assertEqual(28, len(self.seen_by(reader)))

    # like a loop of short steps, in which the thread never checks
    @unittest.mock.patch("offramp._run.QUIET_SECONDS", 1000)
    def test_submit_reports_changes_before_the_copy(self):
        import torch

        with offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4) as egress:
            tensors = [torch.full((4, 10), batch) for batch in range(5)]
            for batch, tensor in enumerate(tensors[:4]):  # the last two wait for slabs
                egress.submit(tensor, keys_of(batch, 4))
            tensors[3].add_(10)
            with self.assertRaisesRegex(offramp.TensorChanged, "batch 3"):  # the previous batch is checked immediately
                egress.submit(tensors[4], keys_of(4, 4))
            tensors[2].add_(10)
            time.sleep(LOOK_SECONDS)
            with self.assertRaisesRegex(offramp.TensorChanged, "batch 2"):
                egress.submit(tensors[4], keys_of(4, 4))
            egress.submit(tensors[4], keys_of(4, 4))
            tensors[4].add_(10)
            reader = self.python(CHECKER, self.run_dir)
            wait_for(lambda: egress.stats().samples_completed == 20, "that all batches are copied and read")
            egress.submit(tensors[0], keys_of(0, 4))  # not detected: the copy came before the check
        self.assertEqual(f"12 {[key for batch in (2, 3, 4) for key in keys_of(batch, 4)]}\n", self.end(reader))

    def test_a_skipped_batch_is_not_done(self):
        import torch

        with offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4, resume=True) as egress:
            tensors = [torch.zeros(4, 10) for _ in range(4)]
            for batch, tensor in enumerate(tensors):  # the last two wait for slabs
                egress.submit(tensor, keys_of(batch, 4))
            tensors[2].add_(1)
            wait_for(lambda: egress._run._releases.changed, "that the change is detected")
            reader = self.reader()
            with self.assertRaisesRegex(offramp.TensorChanged, "batch 2"):
                egress.drain()
        self.assertEqual(16, len(self.seen_by(reader)))
        noted = (self.run_dir / ".offramp-egress").read_text().splitlines()[1:]
        self.assertEqual(
            [0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15],
            sorted(item for line in noted for begin, end, _ in json.loads(line)["done"] for item in range(begin, end)),
        )

    def test_one_of_two_threads_reports_a_change(self):
        """The second thread checks or releases the batch before the first one reports it."""
        import torch

        for how in ("checks", "releases"):
            with (
                self.subTest(how),
                offramp.Egress(self.folder / how, slabs=2, samples_per_slab=4, resume=True) as egress,
            ):
                tensors = [torch.zeros(4, 10) for _ in range(4)]
                for batch, tensor in enumerate(tensors):  # the last two wait for slabs
                    egress.submit(tensor, keys_of(batch, 4))
                releases, reported, ends = egress._run._releases, [], []
                other_threads_step = {
                    "checks": lambda: releases.find_changed(egress._run._call),
                    "releases": lambda: releases.drop(3),
                }[how]
                report = releases._report_changed

                def report_after_the_other_thread(first):
                    reported.append(first)
                    if len(reported) == 1:
                        other = threading.Thread(target=other_threads_step)
                        other.start()
                        other.join()
                    report(first)
                    ends.append(first)

                releases._report_changed = report_after_the_other_thread
                tensors[2].add_(1)
                wait_for(lambda: releases.changed and len(ends) == len(reported), "that the change is detected")
                self.assertEqual([8], reported)
                if how == "checks":
                    self.assertIs(tensors[2], releases._held[2][0])
                self.assertTrue(releases._thread.is_alive())
                with self.assertRaisesRegex(offramp.TensorChanged, "batch 2"):
                    egress.submit(torch.zeros(4, 10))
                reader = self.python(CHECKER, self.folder / how)
                egress.drain()
                self.end(reader)

    def test_writes_after_the_copy_are_not_reported(self):
        import torch

        drop = Releases.drop  # keeps copied batches in the check, as if it were late
        self.addCleanup(setattr, Releases, "drop", drop)
        Releases.drop = lambda releases, released: None
        batch = torch.zeros(4, 10)
        reader = self.reader()
        with offramp.Egress(self.run_dir, samples_per_slab=4) as egress:
            for number in range(20):  # a consumer has finished each batch
                batch.fill_(number)
                egress.submit(batch, keys_of(number, 4))
                wait_for(lambda: egress.stats().samples_completed == 4 * (number + 1), "that the batch is read")
        self.assertEqual(
            {key: [float(key.split("/")[0])] * 10 for number in range(20) for key in keys_of(number, 4)},
            {key: values["output"] for key, (_, _, values) in self.seen_by(reader).items()},
        )

    def test_writes_to_slices_and_inference_tensors_are_not_reported(self):
        import torch

        buffer = torch.zeros(6, 4, 10)
        with torch.inference_mode():
            inferred = torch.zeros(4, 10)
        with offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4) as egress:
            for number in range(4):  # the last two wait for slabs
                egress.submit({"output": buffer[number]})
            egress.submit(inferred)
            buffer[5] = 1
            with torch.inference_mode():
                inferred.add_(1)
            egress.submit(buffer[4])
            reader = self.reader()
        seen = self.seen_by(reader)
        self.assertEqual([0.0] * 24, [seen[str(item)][2]["output"][0] for item in range(24)])

    def values_seen(self, parts, write, unchanged=0):
        """
        What consumers see of batches that reuse their memory, while copies wait for slabs: the values of each tensor.
        The first `unchanged` batches have other arrays, and promise not to change them.
        """
        import numpy

        egress = offramp.Egress(self.run_dir, slabs=2, samples_per_slab=2)
        for number in range(unchanged):
            egress.submit({name: numpy.full((2, 3), number, "float32") for name in parts}, copy=False)
        for number in range(unchanged, 6):  # two are copied, and the others wait
            write(number)
            egress.submit(parts)
        write(-1)
        reader = self.reader()
        with egress:
            egress.drain()
        seen = self.seen_by(reader)
        return {name: [seen[str(item)][2][name] for item in range(12)] for name in parts}

    def test_reused_memory_of_the_cpu_is_copied_in_submit(self):
        import numpy
        import torch

        expected = [[float(item // 2)] * 3 for item in range(12)]
        buffer, fortran = numpy.zeros((4, 3), "float32"), numpy.zeros((3, 2), "float32").T
        shared, viewed, base = torch.from_numpy(buffer), torch.zeros(2, 3), torch.zeros(4, 3)
        view = viewed.numpy()
        with torch.inference_mode():
            inferred = torch.zeros(2, 3)

        def write(number):
            buffer[:], fortran[:], view[:] = number, number, number
            base.fill_(number)
            with torch.inference_mode():
                inferred.fill_(number)

        parts = {
            "array": buffer[:2],
            "columns": fortran,
            "shared": shared[2:],
            "viewed": viewed,
            "inferred": inferred,
            "slice": base[1:3],
        }
        self.assertEqual({name: expected for name in parts}, self.values_seen(parts, write))
        self.run_dir = self.folder / "promised before"
        parts = {"array": buffer[:2]}
        self.assertEqual({name: expected for name in parts}, self.values_seen(parts, write, unchanged=2))
        self.run_dir = self.folder / "other interfaces"
        parts = {
            "dlpack": Exported(buffer[:2]),
            "buffer": memoryview(buffer[:2]),
            "arrays": [buffer[0], buffer[3]],
            "tensors": [viewed[0], inferred[1]],
            "packed": offramp.packed(inferred, [1, 1]),
        }
        packed = {"packed": [[each] for each in expected]}
        self.assertEqual({**{name: expected for name in parts}, **packed}, self.values_seen(parts, write))

    def test_memory_whose_writes_are_counted_is_not_copied(self):
        import numpy
        import torch

        whole, array = torch.zeros(2, 3), numpy.zeros((2, 3))
        for given, copy, is_same in (
            (whole, None, True),
            (whole, True, False),
            (array, None, False),
            (array, False, True),
            (torch.zeros(4, 3)[:2], False, True),
            (torch.zeros(2, 3).share_memory_(), None, False),
        ):
            with self.subTest(type(given), copy=copy):
                self.assertEqual(is_same, _arrays.outputs_of("x", given, copy).owner is given)
        converted = _arrays.outputs_of("x", array[:, ::2], None)
        self.assertEqual((True, 2 * 2 * 8), (converted.is_own, converted.owner.nbytes), "it is copied once")

    def test_writes_under_no_grad_are_reported(self):
        import torch

        with torch.no_grad():
            tensors = [torch.zeros(4, 10) for _ in range(3)]
        egress = offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4)
        self.addCleanup(egress.close)
        for tensor in tensors:  # the last one waits for a slab
            egress.submit(tensor)
        with torch.no_grad():
            tensors[2].add_(1)
        with self.assertRaisesRegex(offramp.TensorChanged, "batch 2 was written to"):
            egress.submit(tensors[1])

    def test_unsupported_outputs_are_refused_with_a_remedy(self):
        import torch

        good, freed = torch.zeros(4, 6), torch.zeros(4, 6)
        freed.untyped_storage().resize_(0)
        with offramp.Egress(self.run_dir, {"output": ("float32", (4, 6))}, "cpu") as egress:
            for tensor, kind, text in (
                (good.to_sparse(), offramp.BadArgument, "Submit tensor.to_dense()"),
                (torch.nested.nested_tensor([good, good[:2]]), offramp.BadArgument, "Submit list(tensor.unbind())"),
                (
                    torch.nested.nested_tensor([good, good[:2]], layout=torch.jagged),
                    offramp.BadArgument,
                    "is a nested tensor",
                ),
                (freed, offramp.BadArgument, "the memory of 'output' was freed or made smaller: it has 0 bytes"),
                (
                    torch.quantize_per_tensor(good, 0.1, 0, torch.quint8),
                    offramp.BadArgument,
                    "Submit tensor.dequantize()",
                ),
                (good.to(torch.complex64), offramp.BadArgument, "complex64"),
                (good.to("meta"), offramp.BadArgument, "the device 'meta'. Submit tensor.cpu()"),
                (torch.tensor(3.0), offramp.BadArgument, "no dimensions"),
                (good.double(), offramp.BadArgument, "elements of type float64"),
            ):
                with self.subTest(text), self.assertRaisesRegex(kind, text.replace("(", r"\(").replace(")", r"\)")):
                    egress.submit(tensor)
            self.assertEqual(0, egress.stats().batches_submitted)
            egress.close()

    def test_the_batch_cache_applies_only_to_equal_batches(self):
        import numpy
        import torch

        batches = [torch.arange(24.0).reshape(4, 6) + 100 * batch for batch in range(3)]
        reader = self.reader()
        with offramp.Egress(self.run_dir, {"output": ("float32", (4, 6))}, "cpu") as egress:
            egress.submit(batches[0])
            egress.submit(batches[1])  # like the last
            freed = torch.zeros(4, 6)
            freed.untyped_storage().resize_(0)
            for other, kind in (
                (freed, offramp.BadArgument),
                (batches[0].double(), offramp.BadArgument),
                (batches[0].to_sparse(), offramp.BadArgument),
                (torch.nested.nested_tensor([torch.zeros(6)] * 4), offramp.BadArgument),
                (torch.zeros(4, 7), offramp.BadArgument),
                (batches[0].to("meta"), offramp.BadArgument),
                (numpy.zeros((4, 6)), offramp.BadArgument),
            ):
                with self.subTest(other), self.assertRaises(kind):
                    egress.submit(other)
            egress.submit(batches[2])
            egress.submit(batches[2].t().contiguous().t())
            egress.submit(batches[2].numpy())
            egress.submit(batches[1].numpy())  # like the last
            egress.submit(numpy.asfortranarray(batches[0].numpy()))
            egress.submit(numpy.ma.array(batches[0].numpy(), mask=False).filled(0))
            with self.assertRaisesRegex(offramp.BadArgument, "masked"):
                egress.submit(numpy.ma.array(batches[0].numpy(), mask=False))
            egress.submit(torch.complex(batches[1], -batches[1]).conj().imag)
            egress.submit(batches[2].clone().requires_grad_() * 1)
        seen = self.seen_by(reader)
        expected = [sample for batch in (0, 1, 2, 2, 2, 1, 0, 0, 1, 2) for sample in batches[batch].tolist()]
        self.assertEqual(expected, [seen[str(item)][2]["output"] for item in range(len(expected))])


class Interfaced:
    """A tensor on a GPU with only the CUDA array interface and a stream, like CuPy's arrays."""

    def __init__(self, tensor, stream):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": stream}


class Waiting(Exported):
    """A tensor whose computation is awaited, like JAX's arrays."""

    def block_until_ready(self):
        import torch

        while not torch.cuda.current_stream().query():  # polls: PyTorch's waits raise if synchronising is an error
            time.sleep(0.001)


def graph_of_numbers():
    """A function that returns a batch filled with its argument, by a CUDA graph that reuses its output memory."""
    import torch

    numbers = torch.zeros(8, 256, device="cuda")
    numbers * 2 - numbers  # before the capture, because the first launch loads kernels
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = numbers * 2 - numbers

    def replay(number):
        numbers.fill_(number)
        graph.replay()
        return outputs

    return replay


@functools.lru_cache
def compiled_network():
    """The same with a compiled network, whose graphs are recorded."""
    import torch
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1  # no compiler processes
    network = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()).cuda().eval()
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(256))
        network[0].bias.zero_()
    fast = torch.compile(network, mode="reduce-overhead")

    def call(number):
        with torch.inference_mode():
            return fast(torch.full((8, 256), float(number), device="cuda"))

    for _ in range(5):  # runs, records, replays
        call(0)
    return call


@unittest.skipUnless(TORCH and ON_GPU, "skipped: no GPU (OFFRAMP_TEST_DEVICE=cuda)")
@needs_numpy
class OnAGpu(Egresses):
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
                    egress.submit(outputs, keys_of(batch, 8), copy=True)
                    other = torch.full_like(outputs, 1000 + batch)
                egress.submit(other, keys_of(1000 + batch, 8), stream=stream if batch % 2 else stream.cuda_stream)
                del other
        self.assertEqual("320 []\n", self.end(checker))

    def test_page_locked_memory_is_copied_after_the_device_has_written_it(self):
        import torch

        made = torch.full((8, 1 << 8), 7, dtype=torch.int32, device="cuda")
        host = torch.zeros(made.shape, dtype=made.dtype, pin_memory=True)
        torch.cuda.synchronize()
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            for batch in range(3):  # from the second on, the batch cache copies
                host.zero_()
                torch.cuda._sleep(200_000_000)
                host.copy_(made, non_blocking=True)
                egress.submit(host[1:], keys_of(batch, 7))  # a slice has no counter of writes
        seen = self.seen_by(reader)
        self.assertEqual({7}, {number for _, _, values in seen.values() for number in values["output"]})

    def test_foreign_arrays_in_any_order_are_read_after_their_stream(self):
        import torch

        stream = torch.cuda.Stream()
        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress:
            for batch in range(60):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(2_000_000)
                    made = torch.full((8, 256, 2048), batch, dtype=torch.int32, device="cuda")
                    outputs = (
                        made[..., :1024].contiguous(),
                        made[..., ::2],
                        made[..., :1024].transpose(1, 2).contiguous().transpose(1, 2),
                    )[batch % 3]
                    if batch % 4 == 0:
                        egress.submit(outputs, keys_of(batch, 8))
                if batch % 4 == 1:
                    egress.submit(outputs, keys_of(batch, 8), stream=stream)
                elif batch % 4 == 2:
                    egress.submit(Exported(outputs), keys_of(batch, 8), stream=stream.cuda_stream)
                elif batch % 4 == 3:
                    egress.submit(Interfaced(outputs, stream.cuda_stream), keys_of(batch, 8))
                del made, outputs
        self.assertEqual("480 []\n", self.end(checker))

    def test_without_their_stream_arrays_are_read_too_early(self):
        """The counterpart."""
        import torch

        stream = torch.cuda.Stream()
        checker = self.python(CHECKER, self.run_dir)
        with offramp.Egress(self.run_dir, slabs=4, samples_per_slab=8) as egress:
            for batch in range(20):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(20_000_000)
                    outputs = torch.full((8, 1 << 18), 1 + batch, dtype=torch.int32, device="cuda")
                egress.submit(Exported(outputs), keys_of(1 + batch, 8))
        self.assertNotEqual("160 []\n", self.end(checker))

    def test_a_write_after_submit_is_reported(self):
        import torch

        # opened before the sleep
        with offramp.Egress(
            self.run_dir, {"output": ("float32", (4, 10))}, "cuda", slabs=2, samples_per_slab=4
        ) as egress:
            outputs, others = torch.zeros(4, 10, device="cuda"), torch.ones(4, 10, device="cuda")
            outputs.add_(1)  # a kernel's first launch waits for all running work
            torch.cuda._sleep(2_000_000_000)
            egress.submit(outputs, keys_of(0, 4))
            outputs.add_(1)
            with self.assertRaisesRegex(offramp.TensorChanged, "batch 0, whose first key is '0/0', was written to"):
                egress.submit(others, keys_of(1, 4))
            reader = self.reader()
        self.assertEqual(4, len(self.seen_by(reader)))

    def test_tensors_on_another_device_or_in_a_capture_are_refused(self):
        import torch

        with offramp.Egress(self.run_dir, {"output": ("float32", (4, 6))}, "cuda") as egress:
            with self.assertRaisesRegex(
                offramp.BadArgument, "the batch is on the device 'cpu'; the run is for 'cuda:0'"
            ):
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

    def of_replays(self, replay, **options):
        """
        The number of correct samples of replayed batches, and the keys of wrong ones. Before a consumer starts, two
        batches get slabs. The others wait until the last one is computed.
        """
        import torch

        with offramp.Egress(
            self.run_dir, {"output": ("float32", (8, 256))}, "cuda", slabs=2, samples_per_slab=8
        ) as egress:
            for batch in range(HELD_BACK):
                egress.submit(replay(batch), keys_of(batch, 8), **options)
            torch.cuda.synchronize()
            checker = self.python(CHECKER, self.run_dir)
            for batch in range(HELD_BACK, HELD_BACK + BESIDE):
                egress.submit(replay(batch), keys_of(batch, 8), **options)
        right, wrong = self.end(checker).split(maxsplit=1)
        return int(right), ast.literal_eval(wrong)

    def require_all_overwritten(self, wrong):
        """Requires that all waiting batches were overwritten, by the last of them or later."""
        self.assertEqual(
            [], [key for batch in range(2, HELD_BACK - 1) for key in keys_of(batch, 8) if key not in wrong]
        )

    def test_copies_of_a_graphs_outputs_are_right(self):
        self.assertEqual((8 * (HELD_BACK + BESIDE), []), self.of_replays(graph_of_numbers(), copy=True))

    def test_without_copies_replays_overwrite_a_graphs_outputs(self):
        """The counterpart: a replay is not detected, because PyTorch does not count it as a write."""
        self.require_all_overwritten(self.of_replays(graph_of_numbers())[1])

    @unittest.skipUnless(COMPILES, "skipped: torch.compile needs triton, a C compiler, and Python's headers")
    def test_copies_of_a_compiled_networks_outputs_are_right(self):
        self.assertEqual((8 * (HELD_BACK + BESIDE), []), self.of_replays(compiled_network(), copy=True))

    @unittest.skipUnless(COMPILES, "skipped: torch.compile needs triton, a C compiler, and Python's headers")
    def test_without_copies_calls_overwrite_a_compiled_networks_outputs(self):
        """The counterpart."""
        self.require_all_overwritten(self.of_replays(compiled_network())[1])

    def test_a_graph_is_captured_while_an_egress_works(self):
        """
        All work until consumers finish the batches happens during the capture. Guards the line with
        exchange_capture_mode() in CudaDevice::use_on_this_thread() (producer/device/cuda_device.cpp), and those of
        ContextGuard: without them, CUDA calls of Offramp's threads invalidate the capture. The counterpart is
        `CallersProcess.AThreadThatTakesNoCareSpoilsACapture`, in C++.
        """
        import torch

        numbers = torch.zeros(8, 1 << 15, device="cuda")
        (numbers * 2).add_(1)  # the first launch loads kernels
        batches = [torch.full((8, 1 << 15), float(batch), device="cuda") for batch in range(20)]
        for turn, slabs in enumerate((8, 512) * 3):  # batches wait for slabs; most slabs do not exist yet
            run_dir = self.folder / f"run-{turn}"
            with offramp.Egress(run_dir, slabs=slabs, samples_per_slab=8) as egress:
                for batch, outputs in enumerate(batches):
                    egress.submit(outputs, keys_of(batch, 8))
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    made = numbers * 2
                    checker = self.python(CHECKER, run_dir)
                    wait_for(
                        lambda: egress.stats().samples_completed == 8 * len(batches),
                        "that all batches are copied and read",
                    )
                    made.add_(1)
                for number in range(10 * turn, 10 * turn + 10):
                    numbers.fill_(number)
                    graph.replay()
                    self.assertEqual([2 * number + 1], made.unique().tolist())
            self.assertEqual(f"{8 * len(batches)} []\n", self.end(checker))

    def is_busy_after(self, call):
        """Whether the stream is still busy after the call, and no PyTorch call waited for it."""
        import torch

        torch.cuda._sleep(2_000_000_000)
        torch.cuda.set_sync_debug_mode("error")
        try:
            call()
            return not torch.cuda.current_stream().query()
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_submit_does_not_wait_for_the_device(self):
        import torch

        with offramp.Egress(
            self.run_dir, {"output": ("float32", (8, 1024))}, "cuda", slabs=4, samples_per_slab=8
        ) as egress:
            batches = [torch.full((8, 1024), float(batch), device="cuda") for batch in range(20)]
            copies = [batch.clone() for batch in batches]  # allocates their memory, and loads the kernel
            del copies
            torch.cuda._sleep(1000)

            def submit_all():
                for batch, outputs in enumerate(batches):
                    egress.submit(outputs, keys_of(batch, 8), copy=batch % 2 == 1)

            self.assertTrue(self.is_busy_after(submit_all))
            checker = self.python(CHECKER, self.run_dir)
        self.assertEqual("160 []\n", self.end(checker))

    def test_waiting_for_the_device_would_be_detected(self):
        """The counterpart."""
        import torch

        with offramp.Egress(
            self.run_dir, {"output": ("float32", (8, 1024))}, "cuda", slabs=4, samples_per_slab=8
        ) as egress:
            outputs = torch.zeros(8, 1024, device="cuda")
            torch.cuda._sleep(1000)
            self.assertFalse(self.is_busy_after(lambda: egress.submit(Waiting(outputs), keys_of(0, 8))))
            with self.assertRaisesRegex(RuntimeError, "synchronizing"):
                self.is_busy_after(outputs.cpu)
            checker = self.python(CHECKER, self.run_dir)
        self.assertEqual("8 []\n", self.end(checker))
