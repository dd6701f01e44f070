"""
Submitting other arrays than plain NumPy ones: DLPack, the CUDA array interface, the buffer protocol, any order of
dimensions, slices.
"""

import array
import ctypes
import importlib.util
import json
import signal
import sys
import unittest
import unittest.mock
import weakref

import offramp
from offramp import _arrays, _exchange, _order
from test_egress import Egresses
from world import needs_numpy

# Prints strides and values of each slab's output as JSON.
STRIDES = """
    import json, sys, offramp
    for slab in offramp.Consumer(sys.argv[1]):
        print(json.dumps([slab.tensors[0].strides, [(sample.key, values.tolist()) for sample, values in slab]]), flush=True)
"""


class Exported:
    """An array that exports another array through DLPack only."""

    def __init__(self, exports):
        self.exports = exports
        self.requests = []

    def __dlpack__(self, **options):
        self.requests.append(options)
        return self.exports.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.exports.__dlpack_device__()


class ExportedUnversioned(Exported):
    def __dlpack__(self, *, stream=None):
        return self.exports.__dlpack__()


class ExportedFrom(Exported):
    """An array with the given capsule and device."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


class Interfaced:
    """An array on a GPU with only the CUDA array interface."""

    def __init__(self, **fields):
        self.__cuda_array_interface__ = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (0x7000, False),
            "version": 3,
            **fields,
        }

    def __dlpack_device__(self):
        return 2, 1


class Alarm(ValueError):
    """Raised by a signal handler."""


class Alarmed:
    """An array that gets a signal when this attribute is used for the first time."""

    def __init__(self, array, names, alarmed):
        self.array, self.names, self.alarmed = array, names, alarmed

    def __getattr__(self, name):
        if name not in self.names:
            raise AttributeError(name)
        if name == self.alarmed:
            self.alarmed = None
            signal.raise_signal(signal.SIGUSR1)
        return getattr(self.array, name)


class Made:
    """A hand-made capsule whose deleter records its calls."""

    Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def __init__(self, dtype=(2, 32, 1), major=1, kind=_exchange._Versioned, name=b"dltensor_versioned"):
        self.deleted = []
        self.numbers = (ctypes.c_float * 6)(*range(6))
        self.shape = (ctypes.c_int64 * 2)(2, 3)
        self.managed = kind()
        self.managed.tensor.data, self.managed.tensor.dims, self.managed.tensor.shape = (
            ctypes.addressof(self.numbers),
            2,
            self.shape,
        )
        self.managed.tensor.dtype = offramp._abi.DTypeCode(*dtype)
        if kind is _exchange._Versioned:
            self.managed.major = major
        self.deleter = self.Deleter(lambda address: self.deleted.append(address))
        self.managed.deleter = ctypes.cast(self.deleter, ctypes.c_void_p).value
        self.name = name

    def capsule(self):
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            ("PyCapsule_New", ctypes.pythonapi)
        )
        return new(ctypes.addressof(self.managed), self.name, None)


@needs_numpy
class OtherArrays(Egresses):
    def test_exceptions_of_signal_handlers_leave(self):
        """They look like those of packages, with which an object refuses. The same batch is then accepted."""
        import numpy

        def alarm(*_):
            raise Alarm

        numbers = numpy.arange(6, dtype="float32").reshape(2, 3)
        before = signal.signal(signal.SIGUSR1, alarm)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        dlpack, interface = ("__dlpack__", "__dlpack_device__"), ("__array_interface__",)
        egress = offramp.Egress(self.run_dir)
        for number, (names, alarmed) in enumerate(
            [(names, each) for names in (dlpack, interface) for each in ("__cuda_array_interface__", *names)]
        ):
            given = Alarmed(numbers, (*names, "__cuda_array_interface__"), alarmed)
            with self.subTest(alarmed):
                with self.assertRaises(Alarm):
                    egress.submit(given, [f"{number}/0", f"{number}/1"])
                egress.submit(given, [f"{number}/0", f"{number}/1"])
        self.assertEqual(5, egress.stats().batches_submitted)
        with self.assertRaises(Alarm):
            offramp.packed(numbers, Alarmed(numpy.array([1, 1]), ("tolist",), "tolist"))
        egress.close()

    def test_arrays_of_every_interface_arrive(self):
        import numpy

        numbers = numpy.arange(12, dtype="float32").reshape(4, 3)
        fixed = numbers.copy()
        fixed.flags.writeable = False
        versioned = numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0"  # earlier versions export no read-only arrays
        made = {
            "versioned": Exported(numbers),
            "unversioned": ExportedUnversioned(numbers),
            "read_only": fixed,
            "exported_read_only": Exported(fixed if versioned else numbers),
            "memoryview": memoryview(numbers),
            "interface": unittest.mock.Mock(
                spec=["__array_interface__"], __array_interface__=numbers.__array_interface__
            ),
            "bytes": bytearray(b"abcd"),
            "array": array.array("i", [5, 6, 7, 8]),
            "ctypes": (ctypes.c_double * 4)(1, 2, 3, 4),
        }
        expected_values = {
            **{name: numbers for name in list(made)[:6]},
            "bytes": numpy.uint8([97, 98, 99, 100]),
            "array": numpy.int32([5, 6, 7, 8]),
            "ctypes": numpy.float64([1, 2, 3, 4]),
        }
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            egress.submit(made)
            egress.submit(made, copy=True)
        seen = self.seen_by(reader)
        for key in range(8):
            self.assertEqual(
                {name: array[key % 4].tolist() for name, array in expected_values.items()}, seen[str(key)][2]
            )
        asked = {"max_version": (1, 1)}
        # A refusal is asked for twice: another exception would come from a signal handler.
        requests = [asked] if versioned else [asked, asked, {}]
        self.assertEqual(requests * 2, made["versioned"].requests)

    @unittest.skipUnless(importlib.util.find_spec("jax"), "skipped: no JAX")
    def test_arrays_of_jax_arrive(self):
        import jax.numpy

        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            egress.submit(
                {
                    "numbers": jax.numpy.arange(6.0).reshape(2, 3) * 2,
                    "small": jax.numpy.arange(2, dtype="bfloat16").astype("int8"),
                }
            )
        self.assertEqual({"numbers": [6, 8, 10], "small": 1}, self.seen_by(reader)["1"][2])
        deleted = jax.numpy.arange(6.0)
        deleted.delete()
        with self.assertRaisesRegex(offramp.BadArgument, "cannot be exported through DLPack"):
            _arrays.outputs_of("x", deleted, False)

    def test_exported_array_is_held_until_copied_and_released_once(self):
        import numpy

        made = [Made() for _ in range(4)]
        reader = self.reader()
        with offramp.Egress(self.run_dir, slabs=2, samples_per_slab=2) as egress:
            for each in made:
                egress.submit(ExportedFrom(each.capsule()), copy=False)
            self.assertEqual([], made[3].deleted, "it waits for a slab")
        self.assertEqual([[ctypes.addressof(each.managed)] for each in made], [each.deleted for each in made])
        self.assertEqual(
            {str(key): [0, 1, 2] if key % 2 == 0 else [3, 4, 5] for key in range(8)},
            {key: values["output"] for key, (_, _, values) in self.seen_by(reader).items()},
        )
        exported = numpy.zeros((2, 3), "float32")
        watched = weakref.ref(exported)
        outputs = _arrays.outputs_of("x", Exported(exported), False)
        del exported
        self.assertIsNotNone(watched())
        del outputs
        self.assertIsNone(watched())

    def test_refused_capsule_is_released(self):
        import numpy

        for made, kind, text in (
            (
                Made(dtype=(5, 64, 1)),
                offramp.BadArgument,
                "type code 5 with 64 bits, which are not supported. Convert them",
            ),
            (Made(dtype=(2, 32, 4)), offramp.BadArgument, "elements of 4 lanes"),
            (Made(major=2), offramp.BadArgument, "DLPack 2.0, which is newer"),
        ):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                _arrays.outputs_of("x", ExportedFrom(made.capsule()), False)
            self.assertEqual(1, len(made.deleted))
        unversioned = Made(kind=_exchange._Managed, name=b"dltensor")
        capsule = unversioned.capsule()
        _arrays.outputs_of("x", ExportedFrom(capsule), False)
        self.assertEqual(1, len(unversioned.deleted))
        fixed = numpy.zeros((2, 3), "float32")
        fixed.flags.writeable = False
        for given, kind, text in (
            (ExportedFrom(capsule), offramp.BadArgument, "exported no tensor through DLPack"),
            (ExportedFrom(None), offramp.BadArgument, "but None"),
            (
                ExportedFrom(None, (4, 0)),
                offramp.BadArgument,
                "a device of DLPack's type 4. Submit an array on the CPU",
            ),
            (
                ExportedUnversioned(fixed),
                offramp.BadArgument,
                "cannot be exported through DLPack: .*Submit a copy of it",
            ),
        ):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                _arrays.outputs_of("x", given, False)

    def test_submit_waits_for_computation_on_private_streams(self):
        import numpy

        class Computing:
            """Like JAX: version 2 of the interface, which names no stream."""

            def __init__(self, problem=None):
                self.problem, self.waits = problem, 0

            def block_until_ready(self):
                self.waits += 1
                if self.problem is not None:
                    raise self.problem

        class OnAGpu(Computing, Interfaced):
            def __init__(self, problem=None):
                Computing.__init__(self, problem)
                Interfaced.__init__(self, version=2)

        class OnTheCpu(Computing, Exported):
            def __init__(self, problem=None):
                Computing.__init__(self, problem)
                Exported.__init__(self, numpy.zeros((2, 3), "float32"))

        for kind in (OnAGpu, OnTheCpu):
            with self.subTest(kind.__name__):
                _arrays.outputs_of("x", given := kind(), False)
                self.assertEqual(1, given.waits)
                with self.assertRaisesRegex(offramp.BadArgument, "'x' cannot be .*: it failed. Submit"):
                    _arrays.outputs_of("x", kind(RuntimeError("it failed")), False)

    def test_cuda_array_interface_is_read(self):
        outputs = _arrays.outputs_of("x", given := Interfaced(stream=0x99), False)
        self.assertEqual(
            (given, 0x7000, "float32", (2, 3), "cuda:1", ()), (*outputs[:2], outputs.dtype.name, *outputs[3:6])
        )
        for stream, handle in ((None, None), (1, None), (2, 2), (0x99, 0x99)):
            outputs = [_arrays.outputs_of("x", Interfaced(stream=stream), False)]
            self.assertEqual((handle, 5), (_arrays.stream_of(None, outputs), _arrays.stream_of(5, outputs)))
        self.assertIsNone(_arrays.stream_of(None, [_arrays.outputs_of("x", Interfaced(version=2), False)]))
        self.assertEqual((2, 1), _arrays.outputs_of("x", Interfaced(shape=(2, 3, 4), strides=(48, 4, 12)), False).order)
        self.assertEqual(
            (),
            _arrays.outputs_of("x", Interfaced(shape=(1, 3, 1), strides=(50, 4, -7)), False).order,
            "strides of one element do not count",
        )
        with self.assertRaisesRegex(offramp.BadArgument, "several streams: 0x2, 0x99"):
            _arrays.stream_of(None, [_arrays.outputs_of("x", Interfaced(stream=stream), False) for stream in (2, 0x99)])
        for fields, kind, text in (
            ({"stream": 0}, offramp.BadArgument, "an invalid stream in its interface: 0"),
            ({"stream": "legacy"}, offramp.BadArgument, "Pass the stream: submit"),
            ({"mask": 3}, offramp.BadArgument, "has a mask"),
            ({"typestr": "<c8"}, offramp.BadArgument, "type '<c8'"),
            ({"typestr": ">f4"}, offramp.BadArgument, ">f4"),
            ({"data": None}, offramp.BadArgument, "invalid __cuda_array_interface__"),
            ({"shape": ()}, offramp.BadArgument, "no dimensions"),
            ({"shape": (0, 3)}, offramp.BadArgument, "is empty"),
        ):
            with self.subTest(fields), self.assertRaisesRegex(kind, text):
                _arrays.outputs_of("x", Interfaced(**fields), False)
        with (
            unittest.mock.patch.dict(sys.modules),
            self.assertRaisesRegex(
                offramp.BadArgument, r"cupy.ascontiguousarray\(array\)\), or import torch or cupy before"
            ),
        ):
            sys.modules.pop("torch", None)
            _arrays.outputs_of("x", Interfaced(strides=(24, 8)), False)


class Orders(unittest.TestCase):
    @needs_numpy
    def test_a_stride_of_one_element_does_not_count(self):
        import numpy

        # three numbers, five bytes apart
        records = numpy.zeros((1, 3), [("value", "<f4", (1,)), ("flag", "|u1")])["value"]
        for given in (
            numpy.zeros((2, 3), "<f4")[::-1][:1],
            numpy.lib.stride_tricks.as_strided(numpy.zeros(6, "<f4"), (1, 6, 1), (13, 4, -3)),
            numpy.lib.stride_tricks.as_strided(numpy.zeros(6, "<f4"), (1, 2, 1, 3), (1, 4, 5, 8)),
        ):
            outputs = _arrays.outputs_of("x", given, False)
            self.assertIs(outputs.owner, given, "nothing is copied")
        self.assertIsNot(_arrays.outputs_of("x", records, False).owner, records)

    def test_order_describes_the_memory_layout(self):
        for shape, strides, order in (
            ((2, 3, 4, 5), (60, 20, 5, 1), ()),
            ((2, 3, 4, 5), (60, 1, 15, 3), (2, 3, 1)),
            ((2, 3), (3, 1), ()),
            ((7,), (1,), ()),
            ((2, 3, 4), (12, 1, 3), (2, 1)),
            ((1, 3, 4), (999, 1, 3), (2, 1)),
            ((2, 1, 4), (4, 77, 1), ()),
            ((2, 3), (1, 2), None),
            ((2, 3), (6, 2), None),
            ((2, 3), (0, 1), None),
            ((2, 3), (3, -1), None),
            ((2, 3, 4), (24, 4, 1), None),
            ((2, 3, 4), (4, 0, 1), None),
        ):
            with self.subTest(shape=shape, strides=strides):
                self.assertEqual(order, _order.order_of(shape, strides))
                if order is not None:
                    self.assertEqual(order, _order.order_of(shape, _order.strides_of(shape, order)))


@needs_numpy
class MemoryOrders(Egresses):
    def test_all_batches_use_the_order_of_the_first(self):
        import numpy

        numbers = numpy.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5)
        last = numbers.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)  # channels-last in memory
        others = [
            last,
            numbers,
            numpy.asfortranarray(numbers),
            numbers[::-1].copy()[::-1],
            numpy.repeat(numbers, 2, axis=3)[..., ::2],
            Exported(numbers),
            Exported(last),
            last[1:],
            numpy.broadcast_to(numbers[:1], numbers.shape),
        ]
        for first, strides in (
            (last, [60, 1, 15, 3]),
            (numbers, [60, 20, 5, 1]),
            (numpy.asfortranarray(numbers), [60, 20, 5, 1]),
        ):
            with self.subTest(strides):
                reader = self.python(STRIDES, self.run_dir)
                with offramp.Egress(self.run_dir, samples_per_slab=2) as egress:
                    for batch in [first, *others]:
                        egress.submit(batch)
                seen = [json.loads(line) for line in self.end(reader).splitlines()]
                self.assertEqual({tuple(strides)}, {tuple(each[0]) for each in seen})
                values = {int(key): value for _, samples in seen for key, value in samples}
                expected = [
                    sample
                    for each in [first, *others]
                    for sample in (each.exports if isinstance(each, Exported) else each).tolist()
                ]
                self.assertEqual(expected, [values[item] for item in range(len(expected))])

    def test_a_run_with_declared_tensors_is_row_major(self):
        import numpy

        columns = numpy.arange(24, dtype="int16").reshape(2, 3, 4).transpose(0, 2, 1)
        reader = self.python(STRIDES, self.run_dir)
        with offramp.Egress(self.run_dir, {"output": ("int16", (2, 4, 3))}, "cpu") as egress:
            egress.submit(columns)
            with self.assertRaisesRegex(offramp.BadArgument, r"the shape \(2, 3, 4\)"):
                egress.submit(columns.transpose(0, 2, 1))
        strides, samples = json.loads(self.end(reader))
        self.assertEqual(([12, 3, 1], columns.tolist()), (strides, [values for _, values in samples]))

    def test_converted_array_may_be_written_to(self):
        import numpy

        buffer = numpy.zeros((100, 2), "int32")
        reader = self.reader()
        with offramp.Egress(self.run_dir, {"output": ("int32", (2, 100))}, "cpu") as egress:
            for batch in range(20):
                buffer[:] = batch
                egress.submit(buffer.T)
        self.assertEqual(
            {str(item): [item // 2] * 100 for item in range(40)},
            {key: values["output"] for key, (_, _, values) in self.seen_by(reader).items()},
        )

    def test_built_in_processors_give_equal_results_for_every_order(self):
        import numpy

        scores = numpy.random.default_rng(1).random((4, 21, 6, 7), "float32")
        made = {}
        for order, batch in (
            ("row-major", scores),
            ("channels-last", scores.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)),
            ("columns", scores.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)),
        ):
            folder = self.folder / order
            with offramp.Egress(output=folder, processor="npy,mask-png,safetensors", consumers=1) as egress:
                egress.submit({"logits": batch}, ["a", "b", "c", "d"])
                self.assertEqual(order != "row-major", egress._layout[0].order != ())
            made[order] = {
                str(path.relative_to(folder)): path.read_bytes()
                for path in folder.rglob("*")
                if path.is_file() and ".offramp" not in path.name
            }
        self.assertEqual(12, len(made["row-major"]))
        self.assertEqual(made["row-major"], made["channels-last"])
        self.assertEqual(made["row-major"], made["columns"])
