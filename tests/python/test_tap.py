"""offramp.tap() and Egress.tap(): outputs of a module in a loop that is not the program's own."""

import importlib.util
import unittest
import warnings

import offramp
from test_egress import Egresses
from world import needs_numpy

TORCH = importlib.util.find_spec("torch") is not None


def loop_of_another_package(model, batches):
    import torch

    with torch.inference_mode():
        return [model(batch) for batch in batches]


@unittest.skipUnless(TORCH, "skipped: no PyTorch")
@needs_numpy
class Taps(Egresses):
    def setUp(self):
        super().setUp()
        import torch

        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 4)
        # the rest of the model writes to the layer's output
        self.model = torch.nn.Sequential(self.layer, torch.nn.ReLU(inplace=True), torch.nn.Linear(4, 2)).eval()
        self.batches = [torch.randn(2, 3), torch.randn(1, 3), torch.randn(3, 3)]
        self.expected = torch.cat([self.layer(batch) for batch in self.batches]).tolist()
        self.assertTrue(any(value < 0 for row in self.expected for value in row), "ReLU changes some")

    def seen_with(self, run, **options):
        """The values by key that a consumer sees, in order, while run() runs under the tap."""
        self.run_dir = self.folder / f"run {len(list(self.folder.iterdir()))}"
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            with egress.tap(self.layer, **options):
                run()
        return {key: values["output"] for key, (_, _, values) in self.seen_by(reader).items()}

    def run_loop(self):
        loop_of_another_package(self.model, self.batches)

    def test_keys_are_counted_iterated_or_asked_for(self):
        names = [f"sample {number}" for number in range(6)]
        sizes = iter((names[:2], names[2:3], names[3:]))
        for keys, expected in (
            (None, "012345"),
            (names, names),
            (iter(range(10, 20)), [str(number) for number in range(10, 16)]),
            (lambda: next(sizes), names),
        ):
            with self.subTest(keys):
                self.assertEqual(dict(zip(expected, self.expected)), self.seen_with(self.run_loop, keys=keys))

    def test_without_a_copy_the_rest_of_the_model_is_reported(self):
        """The counterpart: the copy is needed."""
        import torch

        egress = offramp.Egress(self.run_dir, slabs=2, samples_per_slab=1)
        self.addCleanup(egress.close)
        with self.assertRaises(offramp.TensorChanged), egress.tap(self.layer, copy=False), torch.no_grad():
            for batch in self.batches:
                self.model(batch)

    def test_a_part_is_selected_and_calls_are_left_out(self):
        def select(outputs):
            return None if len(outputs) == 1 else outputs[:, :1]

        expected = [row[:1] for row in (*self.expected[:2], *self.expected[3:])]
        self.assertEqual(
            dict(zip("abcde", expected)), self.seen_with(self.run_loop, select=select, keys="a b c d e".split())
        )

    def test_the_hook_ends_with_the_context(self):
        def fails():
            self.run_loop()
            raise ZeroDivisionError

        for run in (self.run_loop, fails):
            try:
                self.seen_with(run)
            except ZeroDivisionError:
                pass
            self.assertFalse(self.layer._forward_hooks)

    def test_an_egress_of_its_own_has_the_results_at_the_end(self):
        import numpy

        output = self.folder / "out"
        with offramp.tap(self.layer, "npy", output=output, keys=range(6), consumers=1) as egress:
            self.run_loop()
        self.assertEqual(6, egress.stats().samples_completed)
        self.assertEqual(self.expected, [numpy.load(output / f"{key}.output.npy").tolist() for key in range(6)])

    def test_keys_that_are_left_are_reported(self):
        with self.assertWarnsRegex(RuntimeWarning, "2 of the keys were not used"):
            self.seen_with(self.run_loop, keys=list("abcdefgh"))

    def test_unusable_arguments_are_refused(self):
        egress = offramp.Egress(self.run_dir)
        self.addCleanup(egress.close)
        for module, options, text in (
            (len, {}, "Give a torch.nn.Module, such as model.layer4"),
            (self.layer, {"keys": 5}, "keys is 5. Give a list"),
            (self.layer, {"keys": "abc"}, "keys is a single str"),
            (self.layer, {"keys": {"a"}}, "unordered"),
            (self.layer, {"select": 1.5}, "select is 1.5"),
            (self.layer, {"copy": "no"}, "copy is 'no'. Give True or False"),
            (self.layer, {"select": "logits"}, "select is 'logits', and the outputs are a Tensor"),
            (self.layer, {"keys": ["a", "b", "c", "d"]}, "the keys ended after 4, .* 2 samples more"),
        ):
            with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                with egress.tap(module, **options):
                    self.run_loop()
            self.assertFalse(self.layer._forward_hooks)

    def test_a_module_that_is_never_called_is_reported(self):
        egress = offramp.Egress(self.run_dir)
        self.addCleanup(egress.close)
        with self.assertWarnsRegex(RuntimeWarning, "the Linear was not called while it was tapped") as caught:
            with egress.tap(self.layer):
                pass
        self.assertEqual(__file__, caught.filename)
        with warnings.catch_warnings(), self.assertRaises(ZeroDivisionError):
            warnings.simplefilter("error")
            with egress.tap(self.layer):
                raise ZeroDivisionError

    def test_a_compiled_model_that_bypasses_the_tap_is_reported(self):
        import torch

        self.addCleanup(torch._dynamo.reset)
        compiled = torch.compile(self.model, backend="eager")
        loop_of_another_package(compiled, self.batches)
        egress = offramp.Egress(self.run_dir)
        self.addCleanup(egress.close)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with egress.tap(self.layer):
                loop_of_another_package(compiled, self.batches)
        found = [each for each in caught if each.category is RuntimeWarning]
        self.assertRegex(str(found[0].message), "torch.compile compiled a model that contains this Linear")
        self.assertRegex(str(found[1].message), "the Linear was not called while it was tapped")
        self.assertEqual([__file__] * 2, [each.filename for each in found])
        self.assertEqual(0, egress.stats().batches_submitted)

    def test_a_model_that_is_compiled_under_the_tap_is_seen(self):
        import torch

        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)

        def run():
            loop_of_another_package(torch.compile(self.model, backend="eager"), self.batches)

        self.assertEqual(dict(zip("abcdef", self.expected)), self.seen_with(run, keys="a b c d e f".split()))

    def test_a_compiled_module_itself_is_tapped(self):
        import torch

        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        plain, self.layer = self.layer, torch.compile(self.layer, backend="eager")
        loop_of_another_package(self.layer, self.batches)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            seen = self.seen_with(lambda: loop_of_another_package(self.layer, self.batches))
        self.assertEqual(
            [plain(batch).tolist() for batch in self.batches],
            [list(seen.values())[:2], [seen["2"]], list(seen.values())[3:]],
        )
