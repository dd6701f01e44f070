"""Samples of different shapes: accepted and refused batches, what consumers see, results, and a run that resumes."""

import contextlib
import io
import json
import sqlite3
import struct
import unittest
import weakref

import offramp
from offramp import _arrays, _samples
from loops import results
from test_arrays import Exported, ExportedUnversioned, Interfaced
from test_egress import Egresses
from test_torch import CHECKER, ON_GPU, TORCH, keys_of
from world import needs_numpy, wait_for

# Prints the shape and the values of each sample's tensors as JSON.
READER = """
    import json, sys, offramp
    for slab in offramp.Consumer(sys.argv[1]):
        for sample in slab.samples:
            arrays = {info.name: slab[info.name][sample.row] for info in slab.tensors}
            print(json.dumps([sample.key, {name: [array.shape, array.tolist()] for name, array in arrays.items()}]), flush=True)
"""
# Yields an array, a file and a record of each sample.
POST = """
def save(slab):
    for sample, hidden in slab:
        yield sample, hidden
        yield sample, ".bin", hidden.tobytes()
        yield sample, {"tokens": len(hidden)}
"""


def tokens(length, width=3, first=0):
    import numpy

    return numpy.arange(first, first + length * width, dtype="float32").reshape(length, width)


def described(array):
    return [list(array.shape), array.tolist()]


def tensors_of(data):
    """{name: (type, shape, bytes)} of a safetensors file."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    return {
        name: (each["dtype"], each["shape"], data[8 + size :][slice(*each["data_offsets"])])
        for name, each in header.items()
        if name != "__metadata__"
    }


class Shapes(Egresses):
    def reader(self):
        return self.python(READER, self.run_dir)

    def seen_by(self, reader):
        return dict(map(json.loads, self.end(reader).splitlines()))


@needs_numpy
class Batches(Shapes):
    def test_lists_of_every_interface_arrive(self):
        """The first batch is one: no dimension of its samples is fixed. Strided samples are made dense."""
        import numpy

        wide = tokens(4, 10)
        made = {
            "dense": wide,
            "strided": wide[:, ::3],
            "turned": wide.T,
            "empty": wide[:0],
            "narrow": wide[:, :0],
            "exported": Exported(wide[:2]),
            "exported strided": ExportedUnversioned(wide[1:, 2:4]),
            "exported empty": Exported(wide[2:2]),
            "memoryview": memoryview(wide[:1].copy()),
        }
        if TORCH:
            import torch

            made |= {
                "torch": torch.from_numpy(wide).clone(),
                "torch turned": torch.from_numpy(wide).t(),
                "torch empty": torch.zeros(2, 0),
                "gradient": torch.ones(1, 2, requires_grad=True) * 2,
            }
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            for copy in (False, True):
                egress.submit(list(made.values()), [f"{key} {copy}" for key in made], copy=copy)
            egress.submit([wide, wide[:1]], ["last", "shorter"])
        seen = self.seen_by(reader)
        expected = {key: getattr(each, "exports", each) for key, each in made.items()}
        for key, each in expected.items():
            array = numpy.asarray(each.detach() if hasattr(each, "detach") else each)
            for copy in (False, True):
                with self.subTest(key, copy=copy):
                    self.assertEqual({"output": described(array)}, seen[f"{key} {copy}"])
        self.assertEqual([{"output": described(wide[:1])}, 2 * len(made) + 2], [seen["shorter"], len(seen)])

    def test_packed_samples_arrive(self):
        import numpy

        values = tokens(7)
        made = [
            ([2, 0, 5], values),
            ((1, 6, 0), Exported(values)),
            (numpy.uint8([3, 3, 1]), values),
            (numpy.int64([7, 0, 0]), numpy.asfortranarray(values)),
            ([numpy.int32(0), 0, 0], values[:0]),
        ]
        if TORCH:
            import torch

            made.append((torch.tensor([4, 1, 2]), torch.from_numpy(values).clone()))
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            for number, (lengths, given) in enumerate(made):
                for copy in (False, True):
                    keys = [f"{number}/{row} {copy}" for row in range(3)]
                    egress.submit({"hidden": offramp.packed(given, lengths)}, keys, copy=copy)
            egress.submit({"hidden": [values[:4], values[:1]]}, ["of a list", "short"])
            egress.submit({"hidden": numpy.stack([values, values + 1])}, ["dense", "dense 1"])
        seen = self.seen_by(reader)
        for number, (lengths, _) in enumerate(made):
            begin = 0
            for row, length in enumerate(map(int, lengths)):
                for copy in (False, True):
                    self.assertEqual(
                        {"hidden": described(values[begin : begin + length])}, seen[f"{number}/{row} {copy}"]
                    )
                begin += length
        self.assertEqual(
            [{"hidden": described(each)} for each in (values[:4], values[:1], values, values + 1)],
            [seen[key] for key in ("of a list", "short", "dense", "dense 1")],
        )

    def test_any_declared_dimension_may_vary_beside_fixed_tensors(self):
        import numpy

        declared = {
            "grid": ("int16", (2, None, 3, None)),
            "length": ("int64", (2,)),
            "image": ("uint8", (2, 2, 2)),
            "last": ("bool", (2, 4, None)),
        }
        batches = [
            {
                "image": numpy.full((2, 2, 2), number, "uint8"),
                "grid": [numpy.full((number, 3, 2), 7, "int16"), numpy.full((1, 3, number), 8, "int16")],
                "length": numpy.int64([number, -number]),
                "last": [numpy.ones((4, 5), bool), numpy.zeros((4, number), bool)],
            }
            for number in (0, 1, 5)
        ]
        batches.append({**batches[2], "grid": numpy.full((2, 4, 3, 6), 9, "int16")})
        batches.append({**batches[2], "grid": offramp.packed(numpy.full((3, 3, 6), 9, "int16"), [3, 0])})
        reader = self.reader()
        with offramp.Egress(self.run_dir, declared, "cpu", slab_bytes="1MiB") as egress:
            for batch in batches:
                egress.submit(batch)
            egress.submit({name: [] for name in declared})
            self.assertEqual(len(batches), egress.stats().batches_submitted)
        seen = self.seen_by(reader)
        self.assertEqual(2 * len(batches), len(seen))
        for number, batch in enumerate(batches[:4]):
            for row in range(2):
                self.assertEqual({name: described(batch[name][row]) for name in declared}, seen[str(2 * number + row)])
        self.assertEqual([[3, 3, 6], [0, 3, 6]], [seen[key]["grid"][0] for key in ("8", "9")])

    def test_lists_of_single_numbers_are_one_tensor(self):
        import numpy

        lists = [[numpy.array(1.5, "f4"), numpy.float32(2)], [Exported(numpy.array(3, "f4")), numpy.array(4, "f4")]]
        if TORCH:
            import torch

            lists.append([torch.tensor(5.0), torch.tensor(6.0, requires_grad=True)])
        first = numpy.float32([[0], [7]])
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            for copy in (False, True):
                for number, scores in enumerate(lists):
                    keys = [f"{number} {row} {copy}" for row in range(2)]
                    egress.submit({"h": [first, first[:1]], "score": scores}, keys, copy=copy)
        seen = self.seen_by(reader)
        for number, scores in enumerate(lists):
            for row, score in enumerate(scores):
                expected = described(numpy.float32(getattr(score, "exports", score).item()))
                for copy in (False, True):
                    self.assertEqual(expected, seen[f"{number} {row} {copy}"]["score"])

    def test_a_batch_without_samples_is_ignored(self):
        import numpy

        empty = numpy.zeros((0, 3), "float32")
        with offramp.Egress(self.run_dir) as egress:
            egress.submit({"a": [], "b": offramp.packed(empty, []), "c": empty}, [])
            self.assertEqual(0, egress.stats().batches_submitted)
        self.assertFalse(self.run_dir.exists())

    def test_unsupported_samples_are_refused_with_a_remedy(self):
        import numpy

        good = tokens(4)
        packed = offramp.packed
        egress = offramp.Egress(self.run_dir, {"h": ("float32", (4, None, 3))}, "cpu", slab_bytes=1 << 16)
        kinds = offramp.BadArgument
        for outputs, text in (
            ([good, good.astype("int8")], r"'h\[1\]' has elements of type int8, 'h\[0\]' has float32"),
            ([good, good[0]], r"'h\[1\]' has the shape \(3,\), 'h\[0\]' has \(4, 3\). Give all samples 2 dimensions"),
            ([good, Interfaced()], r"'h\[1\]' is on the device 'cuda:1', 'h\[0\]' on 'cpu'"),
            (
                [good, numpy.float32(3)],
                r"'h\[1\]' has the shape \(\), 'h\[0\]' has \(4, 3\). Give all samples 2 dimensions",
            ),
            ([numpy.float32(3)], r"'h' has the shape \(1,\); the run was opened for \(4, None, 3\)"),
            ([good, 3], r"'h\[1\]' is of type builtins.int. Submit a NumPy array"),
            ([good, None], r"'h\[1\]' is of type builtins.NoneType"),
            ([[1.0, 2.0]], r"'h\[0\]' is of type builtins.list"),
            ([good[0], good[0]], r"the samples of 'h' have 1 dimensions; the run was opened for 2, \(None, 3\)"),
            (
                [good, good[:, :2]],
                r"'h\[1\]' has the shape \(4, 2\); the run was opened for samples of \(None, 3\). If samples differ in shape, open "
                r"the run with tensors=\{'h': \('float32', \(4, None, None\)\)\}",
            ),
            (good[None, :, :2], r"the shape \(1, 4, 2\); the run was opened for \(4, None, 3\).*\(4, None, None\)"),
            (good[None, :, :0], r"the shape \(1, 4, 0\); the run was opened for \(4, None, 3\)"),
            (good, "Reshape it to 3 dimensions"),
            ([good.astype("int8")], "elements of type int8; the run has float32"),
            (
                packed(good, [1, 2]),
                r"the lengths of 'h' add up to 3, and its values have the shape \(4, 3\). If the rest is unused, pass values\[:3\]",
            ),
            (
                packed(good, [4, 1]),
                r"add up to 5, and its values have the shape \(4, 3\). Give lengths that add up to 4",
            ),
            (packed(good, [0, 1, 4]), r"add up to 5, .*If these are offsets, pass numpy.diff\(offsets\)$"),
            (
                packed(good, [0, 1]),
                r"add up to 1, .*they lack the end: 2 samples have 3 offsets, the last one 4. Pass numpy.diff\(offsets, append=4\)$",
            ),
            (packed(good, [0, 2, 3]), r"add up to 5, .*3 samples have 4 offsets, .*append=4\)$"),
            (packed(good, [1, 4]), r"add up to 5, .*If these are offsets, pass numpy.diff\(offsets, prepend=0\)$"),
            (
                packed(good[:, None].repeat(5, 1), [5, 2, 0, 3]),
                r"add up to 10, and its values have the shape \(4, 5, 3\). If the samples are padded, submit a list",
            ),
            (packed(good[:, :2], [4]), r"'h\[0\]' has the shape \(4, 2\); .*\(4, None, None\)"),
            (packed(good[0], [3]), "the samples of 'h' have 1 dimensions"),
            (packed(numpy.float32(3), [1]), "no dimensions"),
            (
                [good, tokens(6000)],
                r"sample 1 has 72000 bytes, and a slab has room for 65536. Open the run with slab_bytes",
            ),
        ):
            with self.subTest(text), self.assertRaisesRegex(kinds, text):
                egress.submit({"h": outputs})
        for keys, outputs, text in (
            (["a"], [], "'h' is an empty list. Give one array per sample"),
            (["a"], packed(good[:0], []), "'h' has no samples"),
            (["a"], good[None][:0], "is empty"),
            (["a"], [good, good], "1 keys for 2 samples"),
        ):
            with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                egress.submit({"h": outputs}, keys)
        self.assertEqual((0, {}), (egress.stats().batches_submitted, egress._run._releases._held))
        reader = self.reader()
        egress.submit({"h": [good]}, ["a"])
        egress.drain()
        egress.close()
        self.assertEqual({"a": {"h": described(good)}}, self.seen_by(reader))

    def test_unsupported_lengths_are_refused(self):
        import numpy

        class Odd:
            """Neither a list nor a number: both methods fail."""

            def tolist(self):
                raise ValueError("odd")

            def __index__(self):
                raise RuntimeError("odd")

        on_a_gpu = Interfaced(typestr="<i8", shape=(2,))
        wrong = [
            (on_a_gpu, r"the lengths are on the device 'cuda'.*pass lengths.tolist\(\)"),
            ([1, on_a_gpu], r"the length of sample 1 is on the device 'cuda'.*pass lengths\[1\].item\(\)"),
            ([2, -1], "the length of sample 1 is -1. Give 0 or more"),
            (numpy.int32([2, -1]), "the length of sample 1 is -1. Give 0 or more"),
            ([1, 1 << 63], "the length of sample 1 is 9223372036854775808. Give less than"),
            ([numpy.uint64(1 << 63)], "the length of sample 0 is 9223372036854775808"),
            ([1, 2.0], "the length of sample 1 is 2.0 of type float. Give a whole number"),
            ([float("nan")], "the length of sample 0 is nan"),
            ([1, None], "the length of sample 1 is None"),
            ([1, "2"], "the length of sample 1 is '2' of type str"),
            ([1, True], "the length of sample 1 is True of type bool"),
            (numpy.array([True]), "the length of sample 0 is True"),
            ([Odd()], r"the length of sample 0 is <.* of type .*Odd\."),
            (numpy.float32([1, 2]), "the length of sample 0 is 1.0"),
            (numpy.array([[1, 2]]), r"the length of sample 0 is \[1, 2\] of type list"),
            ([numpy.array([1, 2])], r"the length of sample 0 is array\(\[1, 2\]\) of type ndarray"),
            (numpy.int64(3), "the lengths are of type int64. Give a list of whole numbers, one per sample"),
            (Odd(), r"the lengths are of type .*Odd\."),
            ("12", "the lengths are of type str"),
            ({1: 2}, "the lengths are of type dict"),
            ((each for each in (1, 2)), "the lengths are of type generator"),
            (None, "the lengths are None. Give a list"),
        ]
        if TORCH:
            import torch

            wrong += [
                (torch.tensor([3], device="meta"), "the lengths are on the device 'meta'"),
                ([torch.tensor(3, device="meta")], "the length of sample 0 is on the device 'meta'"),
                (torch.tensor(3), "the lengths are of type Tensor"),
                (torch.tensor([3]).to_sparse(), "the lengths are of type Tensor"),
                (torch.tensor([[1, 2]]), r"the length of sample 0 is \[1, 2\]"),
                ([torch.tensor([1, 2])], r"the length of sample 0 is tensor\(\[1, 2\]\)"),
                ([torch.tensor(3.0)], "the length of sample 0 is tensor"),
                ([torch.tensor(True)], "the length of sample 0 is tensor"),
            ]
        for lengths, text in wrong:
            with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                offramp.packed(tokens(3), lengths)
        for values in ([tokens(1)], (tokens(1),)):
            with self.assertRaisesRegex(offramp.BadArgument, r"Submit a list of samples without packed\(\)"):
                offramp.packed(values, [1])

    def test_a_tuple_of_samples_is_refused_with_the_remedy(self):
        samples = tuple(map(tokens, (2, 5, 1)))
        remedy = r"If the tuple 'h' has one tensor per sample, submit it as a list: list\(...\)"
        several = "'h.1' has 5 samples, 'h.0' has 2.*" + remedy
        declared = {"h": ("float32", (3, None, 3))}
        for given, options, text in (
            (samples, {}, several),
            (
                samples,
                {"tensors": declared},
                "lacks the tensor 'h' and has the tensors 'h.0', 'h.1', 'h.2', which.*" + remedy,
            ),
            (samples[2:], {"tensors": declared}, "lacks the tensor 'h' and has the tensor 'h.0', which.*" + remedy),
            (samples[:1] * 3, {}, "3 keys for 2 samples.*" + remedy),
            ((samples[0][:0], *samples[1:]), {}, r"'h.0' of shape \(0, 3\) is empty.*" + remedy),
            ((samples[0].astype("complex64"), *samples[1:]), {}, "'h.0': elements of type 'complex64'.*" + remedy),
            (samples[:1] * 17, {}, "the batch has 17 tensors. Submit at most 16.*" + remedy),
            ({"states": samples}, {}, "the tuple 'h.states' has one tensor per sample"),
            (tuple(sample[0, 0] for sample in samples), {}, r"submit it as one tensor: torch.stack\(...\)"),
        ):
            keys = ["a", "b", "c"] if len(given) == 3 else ["a", "b"]
            with self.subTest(text), offramp.Egress(self.run_dir, **options) as egress:
                with self.assertRaisesRegex(offramp.BadArgument, text):
                    egress.submit({"h": given}, keys)
        with offramp.Egress(self.run_dir) as egress:
            with self.assertRaisesRegex(offramp.BadArgument, "If the tuple has one tensor per sample"):
                egress.submit(samples)
            for values in ((1.0, 2.0), samples[0], [1.0]):
                with self.assertRaises(offramp.BadArgument) as refused:
                    egress.submit({"h": values}, ["a", "b", "c"])
                self.assertNotIn("tuple", str(refused.exception))
            egress.submit({"h": samples[:1] * 2}, ["a", "b"])
            with self.assertRaises(offramp.BadArgument) as refused:  # the run has these tensors: the tuple is meant
                egress.submit({"h": (samples[0], samples[1])}, ["a", "b"])
            self.assertNotIn("tuple", str(refused.exception))
            egress.close()
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            egress.submit({"h": list(samples)}, ["a", "b", "c"])
        self.assertEqual([2, 5, 1], [len(each["h"][1]) for each in self.seen_by(reader).values()])

    def test_a_list_of_mappings_or_tuples_is_refused_with_a_working_remedy(self):
        outputs = [{"boxes": tokens(number, 4), "masks": tokens(number, 9)} for number in (3, 0)]
        for given in (outputs, [tuple(each.values()) for each in outputs], [outputs[0]["boxes"], outputs[1]]):
            with self.subTest(type(given[0])), offramp.Egress(self.run_dir) as egress:
                text = r"'output\[\d\]' is of type \w+. Submit a list for each of its tensors: \{"
                with self.assertRaisesRegex(offramp.BadArgument, text) as refused:
                    egress.submit(given)
                self.assertTrue(refused.exception.__suppress_context__, "one traceback")
                if isinstance(given[0], (dict, tuple)):
                    lists = eval(str(refused.exception).partition("tensors: ")[2], {"outputs": given})
                    egress.submit(lists)
                    self.assertEqual([(2, None, None)] * 2, [layout.shape for layout in egress._layout])
                egress.close()
        with self.assertRaisesRegex(
            offramp.BadArgument, r"'boxes': \[each\['boxes'\] for each in outputs\], .*, ...\}"
        ):
            offramp.Egress(self.run_dir).submit({"found": [{**outputs[0], "labels": 1}]})
        with self.assertRaisesRegex(
            offramp.BadArgument, r"'h' is of type builtins.generator.*submit a list: list\(...\)"
        ):
            offramp.Egress(self.run_dir).submit({"h": (each["boxes"] for each in outputs)})

    def test_another_shape_is_refused_with_a_working_remedy(self):
        """The proposed declaration has all tensors, and takes the refused batch and lists of samples."""
        import numpy

        first = {"h": numpy.zeros((2, 4, 3)), "m": numpy.zeros((2, 8, 8), "uint8"), "n": numpy.zeros(2, "int32")}
        for second, shapes in (
            ({"h": numpy.zeros((2, 7, 3))}, [(2, None, 3), (2, 8, 8), (2,)]),
            (
                {"h": numpy.zeros((2, 7, 3)), "m": numpy.zeros((2, 9, 7), "uint8")},
                [(2, None, 3), (2, None, None), (2,)],
            ),
            ({"m": numpy.zeros((2, 8, 7), "uint8")}, [(2, 4, 3), (2, 8, None), (2,)]),
        ):
            with self.subTest(shapes), offramp.Egress(self.run_dir) as egress:
                egress.submit(first)
                with self.assertRaisesRegex(
                    offramp.BadArgument, "If samples differ in shape, submit lists of samples, and open the run with"
                ) as refused:
                    egress.submit({**first, **second})
                egress.close()
            declared = eval(str(refused.exception).partition("tensors=")[2])
            self.assertEqual(dict(zip(first, shapes)), {name: shape for name, (_, shape) in declared.items()})
            reader = self.reader()
            with offramp.Egress(self.run_dir, declared, slab_bytes="1MiB") as egress:
                egress.submit(first)
                egress.submit({**first, **second})
                egress.submit({name: list(each) if None in declared[name][1] else each for name, each in first.items()})
            self.assertEqual(6, len(self.seen_by(reader)))

    def test_a_declared_shape_is_validated(self):
        for shape, text in (
            ((64, 0, 3), r"'h' has the shape \(64, 0, 3\). Give 1 or more, or None where samples differ"),
            ((0, None), r"\(0, None\). Give 1 or more"),
            ((64, -1), "Give 1 or more"),
            ((64, 1 << 63), "Give 1 or more"),
            ((), "'h' has no dimensions. Dimension 0 counts the samples"),
            ((64, 2.5), "is described by"),
            ((64, "3"), "is described by"),
            ((64, float("inf")), "is described by"),
            ((None, 3), r"Give the usual number: \('float32', \(64, 3\)\)"),
        ):
            with self.subTest(shape), self.assertRaisesRegex(offramp.BadArgument, text):
                offramp.Egress(self.run_dir, {"h": ("float32", shape)})

    def test_a_list_in_a_run_of_one_shape_is_refused_with_a_working_remedy(self):
        import numpy

        lists = [tokens(4), tokens(2)]
        for given, shape in (
            (lists, (2, None, 3)),
            ([tokens(4), tokens(4, 2)], (2, 4, None)),
            ([tokens(4), tokens(4)], (2, None, None)),
            (offramp.packed(tokens(6), [4, 2]), (2, None, 3)),
            ([tokens(4)[0], tokens(2)[0]], (2, None)),
        ):
            with self.subTest(shape), offramp.Egress(self.run_dir, {"h": ("float32", (2, 4, 3))}, "cpu") as egress:
                with self.assertRaisesRegex(
                    offramp.BadArgument, r"samples of their own shapes; the run was opened for one shape, \(2, 4, 3\)"
                ) as refused:
                    egress.submit({"h": given})
                declared = eval(str(refused.exception).partition("tensors=")[2])
                self.assertEqual({"h": ("float32", shape)}, declared)
            with offramp.Egress(self.run_dir, declared, "cpu") as egress:
                egress.submit({"h": given})
                egress.close()
        with self.assertRaisesRegex(offramp.BadArgument, r"'h' of shape \(6, 0\) is empty"):
            offramp.Egress(self.run_dir).submit({"h": offramp.packed(numpy.zeros((6, 0)), [6])})

    def test_samples_are_held_until_copied(self):
        watched = []
        egress = offramp.Egress(self.run_dir, slabs=2, samples_per_slab=2)
        for batch in range(4):  # two are copied, and the others wait for slabs
            arrays = [tokens(2 + batch), tokens(1)]
            watched.append([weakref.ref(array) for array in arrays])
            egress.submit(arrays, copy=False)
            del arrays
        wait_for(lambda: watched[1][1]() is None, "that copied batches are released without any further call")
        self.assertEqual([0, 0, 2, 2], [sum(watch() is not None for watch in each) for each in watched])
        reader = self.reader()
        egress.drain()
        egress.close()
        self.assertEqual([None] * 8, [watch() for each in watched for watch in each])
        self.assertEqual(8, len(self.seen_by(reader)))

    def test_a_copy_is_one_array(self):
        """With copy=True the owner is the packed copy, which is one transfer."""
        made = [[tokens(2), tokens(0), tokens(4)[:, ::2]]]
        if TORCH:
            import torch

            made.append([torch.zeros(2, 3), torch.zeros(0, 3), torch.zeros(4, 2).t()])
        for given in made:
            outputs = _samples.samples_of("h", given, True)
            self.assertIsNone(outputs.samples.addresses)
            self.assertEqual((4 * (6 + 0 + 8), None), (outputs.owner.nbytes, outputs.memory))

    def test_streams_of_all_samples_count(self):
        outputs = _samples.samples_of("x", [Interfaced(stream=0x99), Interfaced(stream=0x99)], False)
        self.assertEqual((0x99, 5), (_arrays.stream_of(None, [outputs]), _arrays.stream_of(5, [outputs])))
        outputs = _samples.samples_of("x", [Interfaced(stream=stream) for stream in (2, 0x99)], False)
        with self.assertRaisesRegex(offramp.BadArgument, "several streams: 0x2, 0x99"):
            _arrays.stream_of(None, [outputs])

    def test_the_first_batch_chooses_the_size_of_slabs(self):
        import numpy

        def chosen(*sizes, **options):
            with offramp.Egress(self.run_dir, slabs=1, **options) as egress:
                egress.submit({"a": [numpy.zeros(size, "uint8") for size in sizes], "b": numpy.zeros((len(sizes), 9))})
                egress.close()
                return egress._run._given.slab_bytes

        mebi = 1 << 20
        self.assertEqual(16 * mebi, chosen(1, 0))
        self.assertEqual(21 * mebi, chosen(*[mebi] * 20, 1))
        self.assertEqual(24 * mebi, chosen(12 * mebi))
        self.assertEqual(1 << 16, chosen(1, slab_bytes="64 KiB"))
        self.assertEqual(
            256 * mebi, _samples.slab_bytes_for([_samples.samples_of("a", [numpy.zeros(mebi)] * 40, False)])
        )
        with offramp.Egress(self.run_dir, {"a": ("uint8", (2, None))}) as egress:  # the library's default
            egress.submit({"a": [numpy.zeros(2, "uint8")]})
            egress.close()
            self.assertEqual(0, egress._run._given.slab_bytes)


@unittest.skipUnless(TORCH, "skipped: no PyTorch")
@needs_numpy
class OfTorch(Shapes):
    def test_bfloat16_is_read_as_tensors(self):
        import torch

        reader = self.python(
            """
            import sys, offramp
            for slab in offramp.Consumer(sys.argv[1]):
                tensors = slab.torch("output")
                assert tensors is slab.torch("output")
                for sample in slab.samples:
                    print(sample.key, tensors[sample.row].dtype, tensors[sample.row].tolist())
        """,
            self.run_dir,
        )
        with offramp.Egress(self.run_dir) as egress:
            egress.submit([torch.ones(2, 1, dtype=torch.bfloat16), torch.zeros(0, 4, dtype=torch.bfloat16)], ["a", "b"])
            nested = torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(3, 2)], dtype=torch.bfloat16)
            egress.submit(list(nested.unbind()), ["c", "d"])
        self.assertEqual(
            ["a torch.bfloat16 [[1.0], [1.0]]", "b torch.bfloat16 []", "c torch.bfloat16 [[1.0, 1.0]]"],
            self.end(reader).splitlines()[:3],
        )

    def test_a_copy_keeps_its_type_under_autocast(self):
        import torch

        for dtype, other in ((torch.bfloat16, torch.float16), (torch.float16, torch.bfloat16)):
            with torch.autocast("cpu", dtype=other):
                outputs = _samples.samples_of("h", [torch.ones(2, 3, dtype=dtype), torch.ones(1, 3, dtype=dtype)], True)
            self.assertEqual((dtype, 9), (outputs.owner.dtype, outputs.owner.numel()))

    def test_a_sample_changed_before_its_copy_is_reported(self):
        import torch

        with offramp.Egress(self.run_dir, slabs=2, samples_per_slab=2) as egress:
            lists = [[torch.zeros(0), torch.zeros(3)] for _ in range(4)]
            for batch, tensors in enumerate(lists):  # the last two wait for slabs
                egress.submit(tensors, [f"{batch}/{row}" for row in range(2)])
            lists[3][0].add_(1)
            self.assertFalse(egress._run._releases.latest_is_changed(), "an empty sample has nothing to change")
            lists[3][1].add_(1)
            with self.assertRaisesRegex(offramp.TensorChanged, "of batch 3, whose first key is '3/0', was written to"):
                egress.submit(lists[0])
            reader = self.reader()
        self.assertEqual(8, len(self.seen_by(reader)))

    def test_many_tensors_of_one_kind_are_validated_like_the_first(self):
        """All but the first take a shorter way, which must find the same faults."""
        import torch

        good = torch.zeros(4, 6)
        freed = torch.zeros(4, 6)
        freed.untyped_storage().resize_(0)
        for other, text in (
            (freed, r"the memory of 'h\[1\]' was freed"),
            (good.double(), "float64"),
            (good.to_sparse(), "sparse"),
            (torch.tensor(1.0), r"'h\[1\]' has the shape \(\)"),
            (torch.nested.nested_tensor([torch.zeros(6)] * 4), "nested"),
            (good.to("meta"), "meta"),
        ):
            with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                _samples.samples_of("h", [good, other], False)
        negative = torch.complex(good, good + 1).conj().imag
        outputs = _samples.samples_of("h", [good, negative, good.t(), good], False)
        self.assertEqual([True, False, False, True], [owner is good for owner in outputs.owner])

    def test_a_copy_on_the_cpu_does_not_keep_its_sources(self):
        import numpy
        import torch

        for stream in (None, 5):
            arrays = [numpy.zeros(6, "float32") for _ in range(3)]
            watched = [weakref.ref(array) for array in arrays]
            joined = _samples.samples_of("h", [torch.from_numpy(array) for array in arrays[:2]], True, stream=stream)
            copied = _samples.samples_of("h", torch.from_numpy(arrays[2]), True, stream=stream)
            del arrays
            self.assertEqual([False] * 3, [each() is not None for each in watched], stream)
            del joined, copied


@unittest.skipUnless(TORCH and ON_GPU, "skipped: no GPU (OFFRAMP_TEST_DEVICE=cuda)")
@needs_numpy
class OnAGpu(Shapes):
    def test_single_numbers_are_joined_on_the_given_stream(self):
        """PyTorch's current stream is another one, on which they would be read too early."""
        import torch

        checker = self.python(
            """
            import sys, offramp
            seen, wrong = 0, []
            for slab in offramp.Consumer(sys.argv[1]):
                for sample, value in slab:
                    seen += 1
                    if value != int(sample.key.split("/")[0]):
                        wrong.append(sample.key)
            print(seen, wrong)
            """,
            self.run_dir,
        )
        stream = torch.cuda.Stream()
        with offramp.Egress(self.run_dir, slabs=4) as egress:
            for batch in range(30):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(2_000_000)
                    values = torch.full((4,), float(batch), device="cuda")
                egress.submit(list(values), [f"{batch}/{row}" for row in range(4)], stream=stream)
                del values
        self.assertEqual("120 []\n", self.end(checker))

    def test_samples_that_are_computed_later_arrive(self):
        """In each form, and on each kind of stream; the loop releases them at submit."""
        import torch

        forms = (
            lambda wide: [wide, wide[:2], wide[:0]],
            lambda wide: [wide[:, ::2], wide.t(), wide[:1]],
            lambda wide: offramp.packed(wide, [3, 0, 2]),
            lambda wide: wide.reshape(3, 2, 5),
        )
        checker = self.python(CHECKER, self.run_dir)
        number = 0
        with offramp.Egress(self.run_dir, samples_per_slab=3) as egress:
            for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
                for form in forms:
                    for copy in (False, True):
                        with torch.cuda.stream(stream):
                            torch.cuda._sleep(2_000_000)
                            wide = torch.full((5, 6), float(number), device="cuda")
                            egress.submit(form(wide), keys_of(number, 3), copy=copy)
                            del wide
                        number += 1
            with self.assertRaisesRegex(offramp.BadArgument, "the lengths are on the device 'cuda:0'"):
                offramp.packed(torch.zeros(5, 6, device="cuda"), torch.tensor([5], device="cuda"))
        self.assertEqual("48 []\n", self.end(checker))


@needs_numpy
class Readers(Shapes):
    def test_views_are_read_only_and_described(self):
        seen, slabs = [], []

        def look(slab):
            self.assertEqual([((2, None, 3), ()), ((2,), (1,))], [info[2:] for info in slab.tensors])
            self.assertIsInstance(slab["h"], tuple)
            self.assertIs(slab["h"], slab["h"])
            for array in slab["h"]:
                with self.assertRaises(ValueError):
                    array.flags.writeable = True
            seen.extend((sample.key, values["h"].tolist(), int(values["n"])) for sample, values in slab)
            slabs.append(slab)
            consumer.stop()

        consumer = offramp.Consumer(self.run_dir)
        with offramp.Egress(self.run_dir, {"h": ("float32", (2, None, 3)), "n": ("int64", (2,))}, "cpu") as egress:
            egress.submit({"h": [tokens(2), tokens(0)], "n": tokens(2, 1).astype("int64")[:, 0]}, ["a", "b"])
            consumer.run(look)
        self.assertEqual([("a", tokens(2).tolist(), 0), ("b", [], 1)], seen)
        with self.assertRaisesRegex(offramp.TurnOver, "turn is over"):
            slabs[0]["h"]

    def test_a_kept_sample_is_reported(self):
        uses = ['slab["output"][1]', "[array for _, array in slab][1]"] + ['slab.torch("output")[1]'] * TORCH
        for number, use in enumerate(uses):
            with self.subTest(use), offramp.Egress(f"{self.run_dir}{number}") as egress:
                egress.submit([tokens(1), tokens(2)])
                keeper = self.python(
                    f"""
                    import sys, offramp
                    kept = []
                    def keep(slab):
                        kept.append({use})
                    try:
                        offramp.Consumer(sys.argv[1]).run(keep)
                    except offramp.ViewKept as problem:
                        print(problem, kept[0].tolist())
                """,
                    f"{self.run_dir}{number}",
                )
                self.assertRegex(self.end(keeper), r"tensor 'output'.*\[\[0.0, 1.0, 2.0\], \[3.0, 4.0, 5.0\]\]")
                egress.close()


@needs_numpy
class Results(Shapes):
    def setUp(self):
        super().setUp()
        self.post = self.folder / "post.py"
        self.post.write_text(POST)
        self.output = self.folder / "out"

    def run_with(self, processor, **options):
        """A run of two batches; the samples by key."""
        arrays = {f"k{number}": tokens(number, first=number) for number in (3, 0, 5, 1)}
        with offramp.Egress(output=self.output, processor=processor, consumers=1, **options) as egress:
            egress.submit({"hidden": [arrays["k3"], arrays["k0"]]}, ["k3", "k0"])
            egress.submit({"hidden": [arrays["k5"], arrays["k1"]]}, ["k5", "k1"])
        return arrays

    def test_built_in_processors_and_a_function(self):
        import numpy

        arrays = self.run_with(f"npy,safetensors,none,records,{self.post}:save")
        files = results(self.output)
        for key, array in arrays.items():
            for name in (f"npy/{key}.hidden.npy", f"post.py-save/{key}.npy"):
                self.assertEqual(described(array), described(numpy.load(io.BytesIO(files[name]))))
            self.assertEqual(
                {"hidden": ("F32", list(array.shape), array.tobytes())},
                tensors_of(files[f"safetensors/{key}.safetensors"]),
            )
            self.assertEqual(array.tobytes(), files[f"post.py-save/{key}.bin"])
        records = [json.loads(line) for line in files["post.py-save/records.jsonl"].splitlines()]
        self.assertEqual(
            {key: len(array) for key, array in arrays.items()}, {each["key"]: each["tokens"] for each in records}
        )
        with contextlib.closing(sqlite3.connect(self.output / "records" / "records.sqlite")) as database:
            rows = database.execute(
                "SELECT key, status, classes, json_extract(files, '$.npy[0]') FROM records"
            ).fetchall()
        self.assertEqual({(key, "done", None, f"npy/{key}.hidden.npy") for key in arrays}, set(rows))

    def test_a_processor_that_needs_one_shape_says_so(self):
        with self.assertRaisesRegex(
            offramp.ConsumersFailed,
            r"mask-png.*output hidden float32 \[\d, \?, \?\]: its samples differ in shape",
        ):
            self.run_with("mask-png")

    def test_a_run_resumes(self):
        batches = [
            ([f"{batch}/{row}" for row in range(2)], [tokens(batch + row, first=row) for row in range(2)])
            for batch in range(5)
        ]
        options = {"output": self.output, "processor": f"{self.post}:save", "consumers": 1, "resume": True}

        def submitted(batches, form=lambda arrays: arrays, **more):
            number = 0
            with offramp.Egress(**options, **more) as egress:
                for keys, arrays in egress.pending(batches):
                    egress.submit({"hidden": form(arrays)}, keys)
                    number += 1
            return number

        def packed(arrays):
            import numpy

            return offramp.packed(numpy.concatenate(arrays), [len(array) for array in arrays])

        declared = {"tensors": {"hidden": ("float32", (2, None, 3))}, "device": "cpu"}
        self.assertEqual(2, submitted(batches[:2], packed))
        header = json.loads((self.output / ".offramp-egress").read_text().partition("\n")[0])
        self.assertEqual([["hidden", "float32", [2, None, 3]]], header["tensors"])
        with self.assertRaisesRegex(
            offramp.BadArgument, r"hidden was 'float32\(None, 3\)' and is 'float32\(None, None\)'"
        ):
            submitted(batches, tensors={"hidden": ("float32", (2, None, None))}, device="cpu")
        self.assertEqual(0, submitted(batches[:2], **declared))
        self.assertEqual(1, submitted(batches[:3], **declared))
        self.assertEqual(1, submitted(batches[:4], packed))
        self.assertEqual(1, submitted(batches), "a list, in which only the first dimension differs")
        before = results(self.output)
        self.assertEqual(0, submitted(batches), "drain() opens the earlier run's tensors")
        self.assertEqual(before, results(self.output))
        for keys, arrays in batches:
            for key, array in zip(keys, arrays):
                self.assertEqual(array.tobytes(), before[f"{key}.bin"])

    def test_a_resumed_run_keeps_the_size_of_its_slabs(self):
        import numpy

        options = {"output": self.output, "processor": "checksum", "consumers": 1, "resume": True}
        mebi = 1 << 20
        sizes = [30 * mebi, 1]

        def run(last):
            batches = [([str(size)], [numpy.zeros(size, "uint8")]) for size in sizes[:last]]
            with offramp.Egress(**options) as egress:
                for keys, arrays in egress.pending(batches):
                    egress.submit(arrays, keys)
                return egress

        for last in (1, 2):
            self.assertEqual(60 * mebi, run(last)._run._given.slab_bytes)
        self.assertEqual(1, run(2)._run._given.slabs, "a finished run needs no memory")
