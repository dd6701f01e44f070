"""offramp.map(): a loop over a loader as one call, with real consumers."""

import importlib.util
import json
import unittest
import warnings

import offramp
from test_egress import Egresses
from world import needs_numpy

TORCH = importlib.util.find_spec("torch") is not None
PROGRAM = """
    import sys
    if sys.argv[2] == "without tqdm":
        sys.modules["tqdm"] = None
    import numpy, offramp
    batches = [([f"{batch}"], numpy.zeros((1, 3), "float32")) for batch in range(5)]
    offramp.map(batches, lambda values: values, "npy", output=sys.argv[1], consumers=1, progress=eval(sys.argv[3]))
"""


@unittest.skipUnless(TORCH, "skipped: no PyTorch")
@needs_numpy
class Maps(Egresses):
    def setUp(self):
        super().setUp()
        import torch

        torch.manual_seed(0)
        self.output = self.folder / "out"
        self.model = torch.nn.Linear(3, 2).eval()
        self.batches = [([f"{batch}-{row}" for row in range(2)], torch.rand(2, 3)) for batch in range(3)]

    def map(self, batches, model, **options):
        return offramp.map(batches, model, "npy", output=self.output, consumers=1, **options)

    def results(self):
        import numpy

        return {
            str(path.relative_to(self.output)).partition(".")[0]: numpy.load(path).tolist()
            for path in self.output.rglob("*.npy")
        }

    def expected(self):
        # of whole batches: one row alone may take another kernel, which rounds differently
        return {key: row for keys, inputs in self.batches for key, row in zip(keys, self.model(inputs).tolist())}

    def test_results_are_in_place_and_counted(self):
        stats = self.map(self.batches, self.model)
        self.assertEqual((3, 6, 6), (stats.batches_submitted, stats.samples_submitted, stats.samples_completed))
        self.assertEqual(self.expected(), self.results())

    def test_groups_are_passed_on(self):
        groups = {"arrays": offramp.Group("npy"), "sums": offramp.Group("checksum")}
        offramp.map(self.batches, self.model, output=self.output, groups=groups)
        self.assertEqual({f"arrays/{key}": row for key, row in self.expected().items()}, self.results())
        self.assertEqual(6, len((self.output / "sums" / "checksums.tsv").read_text().splitlines()))

    def test_it_is_resumed(self):
        self.assertEqual(2, self.map(self.batches[:2], self.model, resume=True).batches_submitted)
        self.assertEqual(1, self.map(self.batches, self.model, resume=True).batches_submitted)
        self.assertEqual(self.expected(), self.results())

    def test_a_loader_collates_numbers_as_keys(self):
        import torch

        values = torch.cat([inputs for _, inputs in self.batches])
        loader = torch.utils.data.DataLoader([(7 + row, value) for row, value in enumerate(values)], batch_size=4)
        self.map(loader, self.model)
        self.assertEqual({str(7 + row): self.model(value).tolist() for row, value in enumerate(values)}, self.results())

    def test_inputs_are_passed_by_their_form(self):
        import numpy
        import torch

        def seen(*inputs, **named):
            self.assertTrue(torch.is_inference_mode_enabled())
            self.assertEqual({"meta"}, {each.device.type for each in (*inputs, *named.values())})
            calls.append((len(inputs), sorted(named)))
            return {"skipped": torch.zeros(2, 9), "chosen": (torch.zeros(2, 1), torch.ones(2, 2))}

        one, keys = torch.zeros(2, 3), ["a", "b"]
        for number, (batch, given) in enumerate(
            (
                ((keys, one, one), {}),
                ([keys, {"ids": one, "mask": one}], {}),
                (
                    {"name": keys, "ids": one},
                    {"keys": lambda batch: iter(batch["name"]), "inputs": lambda batch: batch["ids"]},
                ),
                (one, {"keys": len}),
                (one, {"keys": lambda batch: numpy.int64(len(batch))}),
            )
        ):
            calls, self.output = [], self.folder / f"out {number}"
            self.map([batch], seen, device="meta", select=lambda outputs: outputs["chosen"][1], **given)
            self.assertEqual([(2, [])] if number == 0 else [(0, ["ids", "mask"])] if number == 1 else [(1, [])], calls)
            self.assertEqual({key: [1, 1] for key in (keys if number < 3 else "01")}, self.results())

    def test_metadata_is_a_function_of_the_batch(self):
        post = self.folder / "post.py"
        post.write_text("def save(slab):\n    for sample, _ in slab:\n        yield sample, sample.metadata\n")
        offramp.map(
            self.batches, self.model, f"{post}:save", output=self.output, consumers=1,
            metadata=lambda batch: [{"at": key} for key in batch[0]],
        )  # fmt: skip
        records = map(json.loads, (self.output / "records.jsonl").read_text().splitlines())
        self.assertEqual({key: key for keys, _ in self.batches for key in keys}, {r["key"]: r["at"] for r in records})

    def test_a_part_is_selected_by_name_or_index(self):
        import torch

        outputs = {"out": (torch.zeros(2, 1), torch.ones(2, 1))}
        for select, given in (("out", {"out": outputs["out"][1]}), (1, outputs["out"])):
            self.output = self.folder / f"out {select}"
            self.map(self.batches[:1], lambda inputs, given=given: given, select=select)
            self.assertEqual({"0-0": [1], "0-1": [1]}, self.results())
        for select, text in (("logits", "a dict with 'out'"), (5, "a dict with 'out'"), (2.5, "select is 2.5")):
            with self.assertRaisesRegex(offramp.BadArgument, text):
                self.output = self.folder / "refused"
                self.map(self.batches[:1], lambda inputs: outputs, select=select)

    def test_the_models_device_is_used(self):
        import torch

        moved = []

        class Network(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scale", torch.ones(1, device="meta"))

            def predict(self, inputs):
                moved.append(inputs.device.type)
                return torch.zeros(2, 1)

        network = Network().eval()
        self.map(self.batches[:1], network.predict)
        self.output = self.folder / "of a function"
        self.map(self.batches[:1], lambda inputs: moved.append(inputs.device.type) or torch.zeros(2, 1))
        self.assertEqual(["meta", "cpu"], moved)

    def test_a_model_in_training_mode_is_reported(self):
        with self.assertWarnsRegex(RuntimeWarning, "Call model.eval"):
            self.map(self.batches[:1], self.model.train())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.output = self.folder / "again"
            self.map(self.batches[:1], self.model.eval())

    def test_an_exception_of_the_model_leaves_it(self):
        calls = []

        def fails_later(inputs):
            calls.append(inputs)
            return inputs * (1 / (3 - len(calls)))

        with self.assertRaises(ZeroDivisionError):
            self.map(self.batches, fails_later)
        self.assertEqual(3, len(calls))

    def test_wrong_arguments_are_refused(self):
        for arguments, text in (
            ({"model": 5}, "Give a module or a function"),
            ({"keys": "key"}, "keys is 'key'. Give a function"),
            ({"inputs": 1}, "inputs is 1. Give a function"),
            ({"metadata": [{}]}, "metadata is .{}.. Give a function"),
            ({"progress": "yes"}, "progress is 'yes'. Give True or False"),
            ({"batches": [{"image": 1}]}, "not a tuple .keys, inputs.. Pass keys= and inputs="),
            ({"batches": [(["a"],)]}, "not a tuple .keys, inputs.. Pass keys= and inputs="),
            ({"batches": [([1.5], self.batches[0][1])]}, "Give texts, paths or whole numbers"),
            ({"batches": [(self.batches[0][1], [0, 1])]}, r"its keys, and is an array of shape \(2, 3\)"),
        ):
            with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                self.map(**{"batches": self.batches, "model": self.model, **arguments})

    @unittest.skipUnless(importlib.util.find_spec("tqdm"), "skipped: no tqdm")
    def test_a_progress_bar_is_shown_on_request(self):
        for progress, has_bar in (("True", True), ("None", False), ("False", False)):
            with self.subTest(progress):
                program = self.python(PROGRAM, self.folder / progress, "", progress)
                errors = program.communicate(timeout=60)[1].decode()
                self.assertEqual((0, has_bar), (program.returncode, "5/5" in errors), errors)

    def test_a_progress_bar_needs_tqdm(self):
        self.end(self.python(PROGRAM, self.folder / "without", "without tqdm", "None"))
        output = self.end(self.python(PROGRAM, self.folder / "refused", "without tqdm", "True"), 1)
        self.assertIn("progress=True needs the package tqdm. Install it", output)


@needs_numpy
class WithoutTorch(Egresses):
    def test_torch_is_not_imported(self):
        program = PROGRAM + "    assert 'torch' not in sys.modules and 'tqdm' not in sys.modules\n"
        self.end(self.python(program, self.folder / "out", "", "None"))
