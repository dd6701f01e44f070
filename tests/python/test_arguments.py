"""Each public function refuses a wrong argument with BadArgument, which is an offramp.Error and names a remedy."""

import inspect
import os
import pathlib
from unittest import mock

import offramp
from world import World, needs_numpy

PROGRAMS = str(pathlib.Path(os.environ["OFFRAMP_LIBRARY"]).resolve().parents[1] / "bin")
NUL, SURROGATE, HUGE = "a\0b", "\ud800", 10**400
NAMES = [5, b"x", NUL, SURROGATE]
PATHS = [*NAMES, None, "s3://bucket/x"]
COUNTS = ["4", 1.5, -1, 1 << 64, True, None, [1]]
SECONDS = ["1", None, HUGE, True]
PER_SAMPLE = [5, "ab", b"ab", {"a", "b"}, ["a"], ["a", "b", "c"]]


class Odd:
    """No array, no text, no number."""


def required(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


@needs_numpy
class Arguments(World):
    def setUp(self):
        super().setUp()
        import numpy

        self.enterContext(mock.patch.dict(os.environ, {"OFFRAMP_BIN_DIR": PROGRAMS}))
        self.good = numpy.zeros((2, 3), "float32")
        self.made = 0

    def new(self):
        self.made += 1
        return str(self.folder / f"new-{self.made}")

    def require_refused(self, function, wrong, call):
        """`wrong`: the wrong values of every parameter. `call(name, value)` calls the function with one of them."""
        self.assertEqual(required(function), list(wrong), "each parameter has a row")
        for name, values in wrong.items():
            for value in values:
                self.refuses(f"{name}={value!r:.80}", lambda: call(name, value))

    def refuses(self, what, call):
        with self.subTest(what):
            try:
                call()
            except offramp.BadArgument as problem:
                self.assertNotIn("SECRET", str(problem))
                self.assertRegex(str(problem), r"\. [A-Z]", "it has a remedy")
                self.assertNotIn("\n", str(problem))
            else:
                self.fail(f"{what} is accepted")

    def test_bad_argument_is_of_all_kinds(self):
        """Loops that catch the kinds of Python's own functions keep working."""
        for kind in (offramp.Error, ValueError, TypeError):
            self.assertTrue(issubclass(offramp.BadArgument, kind))
        with self.assertRaises(TypeError) as refused:
            offramp.packed(self.good, lengths=[2], more=1)
        self.assertNotIsInstance(refused.exception, offramp.Error, "a wrong number of arguments is Python's")

    def test_egress(self):
        import numpy

        float32 = ("float32", (4, 3))
        own = {
            "output": [*NAMES, None, "https://host/x", pathlib.Path("s3://bucket/x"), "", Odd()]
            + [
                "s3://K:SECRET@b/x",
                "s3://b/x#y",
                "s3://b/x?y",
                "s3://b/%41",
                "s3://b/x\ty",
                "s3://b/x/../y",
                "s3://a\0b",
            ],
            "processor": [5, "", NUL, SURROGATE, Odd(), "absent.py:save", "so:absent.so"],
            "consumers": ["8", 2.5, -1, 65, [1], numpy.arange(2)],
            "settings": [5, ["x"], numpy.arange(2), {5: 1}, {"": 1}, {SURROGATE: 1}]
            + [{"png-level": each} for each in (None, [1], b"1", NUL, SURROGATE, Odd())]
            + [{"processor-option": each} for each in ([1], {"a": [1]}, {"a": None}, {5: 1}, {"a": SURROGATE})],
        }
        wrong = {
            "run_dir": [5, b"x", NUL, SURROGATE, "", "s3://bucket/x"],
            "tensors": [5, [], "x", {5: float32}, {NUL: float32}, {SURROGATE: float32}, {}]
            + [
                {"x": each}
                for each in (5, None, "float32", ("float32",), float32[::-1], ("complex64", (4,)), (None, (4,)))
            ]
            + [{"x": ("int8", each)} for each in (5, "ab", (), (4, 2.5), (4, -1), (None, 4), (4, "3"), (1 << 64,))],
            "device": [5, "tpu", "cuda:x", Odd()],
            **own,
            "resume": [1, "yes", None],
            "identity": [Odd(), {"a": Odd()}, {1, 2}, b"x"],
            "repeated_keys": [True, "no", None, numpy.arange(2)],
            "name": [*NAMES, None],
            "run_id": [*NAMES, None],
            "slabs": COUNTS,
            "samples_per_slab": COUNTS,
            "slab_bytes": [*(each for each in COUNTS if each != "4"), "256 megabytes", "1e3"],
            "max_key_bytes": COUNTS,
            "metadata_bytes": COUNTS,
            "max_consumers": COUNTS,
            "when_full": [5, "spill", None, numpy.arange(2)],
            "max_failures": COUNTS,
            "max_delay": SECONDS,
            "visibility_timeout": SECONDS,
            "kill_stalled": [1, "yes", None],
            "groups": [
                *(5, "masks", None, [5], ["Masks"], ["a", "a"], ["a,optional"], [f"g{i}" for i in range(9)]),
                *({"a": "npy"}, {"a": None}, {5: offramp.Group("npy")}, {"A": offramp.Group("npy")}),
            ],
        }

        def call(name, value):
            among = {"output": self.new(), "processor": "npy", "consumers": 1} if name in own else {}
            given = {"run_dir": self.new(), "tensors": {"x": float32}, "device": "cpu", "slabs": 2, **among}
            offramp.Egress(**{**given, name: value}).close()

        self.require_refused(offramp.Egress.__init__, wrong, call)

    def test_the_methods_of_an_egress(self):
        import numpy

        good = self.good
        with offramp.Egress(self.new(), {"x": ("float32", (4, 3))}, "cpu", slabs=2, metadata_bytes=64) as egress:
            wrong = {
                "outputs": [5, None, {}, "ab", b"ab", Odd(), [1], [None], (), {5: good}, {"y": good}]
                + [
                    {"x": each}
                    for each in (5, "ab", Odd(), [good[0], 5], [{"x": good}], good.astype("complex64"), good[0])
                ]
                + [
                    {"x": each}
                    for each in (good.astype("int8"), good.tolist(), numpy.ma.masked_array(good), good[:, :2])
                ],
                "keys": [*PER_SAMPLE, [1.5, 2], [True, False], ["a", None], ["a", b"b"], ["a", NUL], ["a", SURROGATE]]
                + [["a", "a"], [1, "1"], numpy.arange(4).reshape(2, 2), numpy.zeros(2), numpy.ones(2, bool)],
                "items": [*PER_SAMPLE, [0, 1.5], [0, -1], [0, None], [1, 1 << 64], [1]],
                "stream": ["x", -1, True, 1.5, Odd()],
                "copy": [1, "yes"],
                "metadata": [*PER_SAMPLE, {"a": 1}, [{}, 5], [{}]]
                + [[{}, {"a": each}] for each in (Odd(), {1}, b"x", float("nan"), SURROGATE, "x" * 65)],
            }
            self.require_refused(
                offramp.Egress.submit, wrong, lambda name, value: egress.submit(**{"outputs": {"x": good}, name: value})
            )
            wrong = {
                "batches": [5, None, Odd()],
                "keys": [5, "key", *((lambda batch, each=each: each) for each in (Odd(), None, 1.5, "ab", -1, [1.5]))],
            }
            self.require_refused(
                offramp.Egress.pending,
                wrong,
                lambda name, value: list(egress.pending(**{"batches": [(["a"], good)], name: value})),
            )
            for batch in (5, "ab", {"key": "a"}, ("ab", good), ({"a"}, good), ([1.5], good)):
                self.refuses(f"a batch {batch!r:.80}", lambda: list(egress.pending([batch])))
            wrong = {"timeout": ["1", True, -1, float("nan"), HUGE, [1]]}
            self.require_refused(offramp.Egress.drain, wrong, lambda name, value: egress.drain(value))
            wrong = {"consumers": [*COUNTS, 0, 65], "group": NAMES}
            self.require_refused(
                offramp.Egress.scale, wrong, lambda name, value: egress.scale(**{"consumers": 1, name: value})
            )
            self.assertEqual(0, egress.stats().batches_submitted)

    def test_a_group(self):
        wrong = {
            "processor": [*NAMES, None, "", "a,b"],
            "consumers": [*COUNTS, 0, 65],
            "optional": [1, "yes", None],
            "when_full": [1, "drop", "spill", "", None],
        }
        self.require_refused(
            offramp.Group, wrong, lambda name, value: offramp.Group(**{"processor": "npy", name: value})
        )

    def test_packed(self):
        with offramp.Egress(self.new(), {"x": ("float32", (4, None, 3))}, "cpu", slabs=2) as egress:
            wrong = {
                "values": [5, None, "ab", Odd(), [self.good], (self.good,), self.good[0]],
                "lengths": [5, None, "2", {2}, {2: 1}, [1.5], ["2"], [None], [-1, 3], [1 << 64], [True, True], [1]],
            }
            self.require_refused(
                offramp.packed,
                wrong,
                lambda name, value: egress.submit(
                    {"x": offramp.packed(**{"values": self.good, "lengths": [2], name: value})}
                ),
            )

    def test_consumers_and_slabs(self):
        wrong = {
            "run_dir": [*PATHS, ""],
            "window": COUNTS,
            "wait_for_run": [*SECONDS, 0, -1, float("nan")],
            "group": [5, None, b"a", "Masks", "a/b", "a" * 17],
        }
        self.require_refused(
            offramp.Consumer.__init__,
            wrong,
            lambda name, value: offramp.Consumer(**{"run_dir": self.new(), name: value}),
        )

        def generator(slab):
            yield slab

        run_dir = self.new()
        wrong = {"function": [5, None, "save", generator]}
        self.require_refused(
            offramp.Consumer.run, wrong, lambda name, value: offramp.Consumer(run_dir, wait_for_run=0.01).run(value)
        )
        egress = offramp.Egress(run_dir, slabs=2)
        egress.submit({"x": self.good})
        wrong = {"name": ["y", 5, None, ["x"], Odd()]}
        for slab in offramp.Consumer(run_dir):
            for read in (offramp.Slab.__getitem__, offramp.Slab.torch):
                self.require_refused(read, wrong, lambda name, value: read(slab, value))
            with self.assertRaises(KeyError) as refused:
                slab["y"]
            self.assertEqual("the slab has no tensor 'y'. It has x", str(refused.exception))
            break
        egress.close()

    def test_testing(self):
        from offramp.testing import build, process, save_slab

        good, slab = self.good, save_slab(self.new(), {"x": self.good})
        wrong = {
            "path": PATHS,
            "tensors": [5, None, [good], {}, {5: good}, {"x": 5}, {"x": good, "y": good[:1]}],
            "keys": [*PER_SAMPLE, [1.5, 2], ["a", SURROGATE]],
            "name": [*NAMES, None],
            "metadata": [*PER_SAMPLE, [{}, 5]],
        }
        self.require_refused(
            save_slab, wrong, lambda name, value: save_slab(**{"path": self.new(), "tensors": {"x": good}, name: value})
        )
        wrong = {
            "slab": PATHS,
            "processor": [*NAMES, None],
            "output": PATHS,
            "options": [5, ["a"], {5: 1}, {"a": [1]}, {"a": SURROGATE}],
            "python": PATHS,
        }
        given = {"slab": slab, "processor": "npy", "output": self.new()}
        self.require_refused(process, wrong, lambda name, value: process(**{**given, name: value}))
        wrong = {"source": PATHS, "folder": PATHS}
        given = {"source": "absent.c", "folder": self.new()}
        self.require_refused(build, wrong, lambda name, value: build(**{**given, name: value}))
        for call in (lambda: save_slab(self.folder, {"x": good}), lambda: process(slab, "npy", slab)):
            with self.assertRaisesRegex(offramp.CannotWrite, "Give another"):
                call()
