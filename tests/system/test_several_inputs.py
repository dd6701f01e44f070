"""
Models with several inputs: arrays of different types, and a text's tokens. Results equal PyTorch's; unsuitable inputs
are refused by name.
"""

import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest

import numpy

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import export, networks_in
from tests.support.launched_run import LaunchedRun, find_packages_of_launch
from tests.support.real_run import LeavesNothing

ROWS = 11
LENGTH = 6
LINES = ("slab lease", "", "ticket what slab lease slab", "lease lease lease lease lease lease lease lease", "credit")

NETWORKS = """
import torch


class Arrays(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(5, 4)
        self.table = torch.nn.Embedding(50, 4)

    def forward(self, features, ids, scale):
        '''[batch, 3, 5] float32, [batch, 7] int64, [batch] float16'''
        y = self.layer(features) + self.table(ids).mean(1, keepdim=True)
        return {"sum": y * scale[:, None, None].float(), "ids": ids}


class Tokens(torch.nn.Module):
    '''The usual three, and the mean of a text's tokens.'''

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(7, 8)
        self.types = torch.nn.Embedding(2, 8)

    def forward(self, input_ids, attention_mask, token_type_ids):
        share = attention_mask.unsqueeze(-1).float()
        hidden = self.words(input_ids) + self.types(token_type_ids)
        return {"mean": (hidden * share).sum(1) / share.sum(1).clamp(min=1)}


def arrays():
    torch.manual_seed(3)
    return Arrays()


def tokens():
    torch.manual_seed(4)
    return Tokens()
"""

# A tokenizer of whole words in the format of the `tokenizers` library.
WORDS = """{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"[PAD]": 0, "[UNK]": 1, "slab": 2, "lease": 3, "ticket": 4, "credit": 5}, "unk_token": "[UNK]"}}"""
IDS = {"slab": 2, "lease": 3, "ticket": 4, "credit": 5}

ARRAYS = ("--input", "ids=int64:7", "--input", "features=float32:3x5", "--input", "scale=float16")
TOKENS = (
    "--input",
    f"input_ids=ids:{LENGTH}",
    "--input",
    f"attention_mask=mask:{LENGTH}",
    "--input",
    f"token_type_ids=types:{LENGTH}",
)


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class SeveralInputs(LeavesNothing):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory(prefix="offramp-inputs-")
        cls.addClassCleanup(kept.cleanup)
        cls.folder = pathlib.Path(kept.name)
        cls.networks = networks_in(cls.folder, NETWORKS)
        random = numpy.random.default_rng(5)
        cls.arrays = {
            "features": random.standard_normal((ROWS, 3, 5)).astype("f4"),
            "ids": random.integers(0, 50, (ROWS, 7)),
            "scale": random.standard_normal(ROWS).astype("f2"),
        }
        cls.input = cls.folder_of("arrays")
        printed = export(
            cls.folder, "networks.py:arrays", *ARRAYS, "--device", DEVICE, "--batch", "any", "--output", "arrays.pt2"
        )
        assert printed.returncode == 0, printed.stdout + printed.stderr
        assert "features.npy, ids.npy, scale.npy" in printed.stdout, printed.stdout

    @classmethod
    def folder_of(cls, name, **changed):
        """A folder with a file per array. `changed`: replaced arrays; None removes the file."""
        folder = cls.folder / name
        folder.mkdir()
        for array, numbers in {**cls.arrays, **changed}.items():
            if numbers is not None:
                numpy.save(folder / f"{array}.npy", numbers)
        return folder

    def run_of(self, model, *flags, start=()):
        """(exit code, all output, {file: bytes}) of a run."""
        with LaunchedRun(
            "--model", str(self.folder / model), "--device", DEVICE, "--consumers", "1", "--batch", "4", *flags
        ) as run:
            run.environment["OFFRAMP_TOKENIZER_PYTHON"] = sys.executable
            code = run.start(*start).wait()
            return code, run.logs(), run.files()

    def refused(self, code, *words, model="arrays.pt2", flags=(), source=None):
        found, printed, _ = self.run_of(model, "--input", str(source or self.input), "--processor", "none", *flags)
        self.assertEqual(found, code, printed)
        for word in words:
            self.assertIn(word, printed)

    def with_notes(self, name, notes):
        """A copy of the model of arrays under another name, with other notes."""
        (self.folder / name).write_bytes((self.folder / "arrays.pt2").read_bytes())
        (self.folder / name).with_suffix(".toml").write_text(notes)
        return name

    def check_arrays(self, files, names=("sum", "ids")):
        import torch

        with torch.inference_mode():
            wanted = self.networks.arrays()(**{name: torch.from_numpy(array) for name, array in self.arrays.items()})
        self.assertEqual(len(files), ROWS * len(names), sorted(files))
        for name, of in zip(names, ("sum", "ids")):
            for row in range(ROWS):
                found = numpy.load(io.BytesIO(files[f"{row}.{name}.npy"]))
                self.assertEqual(found.dtype, wanted[of].numpy().dtype)
                numpy.testing.assert_allclose(found, wanted[of][row].numpy(), rtol=1e-5, atol=1e-5)

    def test_arrays_of_several_types(self):
        code, printed, files = self.run_of("arrays.pt2", "--input", str(self.input), "--processor", "npy")
        self.assertEqual(code, 0, printed)
        self.assertIn("npy: 11 rows of features.npy, ids.npy, scale.npy", printed)
        self.check_arrays(files)

    def test_half_floats_are_taken_for_floats(self):
        halves = self.arrays["features"].astype("f2")
        source = self.folder_of("halves", features=halves)
        code, printed, half = self.run_of("arrays.pt2", "--input", str(source), "--processor", "npy")
        self.assertEqual(code, 0, printed)
        code, printed, whole = self.run_of(
            "arrays.pt2", "--input", str(self.folder_of("widened", features=halves.astype("f4"))), "--processor", "npy"
        )
        self.assertEqual(code, 0, printed)
        self.assertEqual(half, whole)

    def test_torchscript_of_the_same_network(self):
        import torch

        torch.jit.script(self.networks.arrays().eval()).save(str(self.folder / "old.pt"))
        notes = (self.folder / "arrays.toml").read_text()
        (self.folder / "old.toml").write_text(notes)
        code, printed, files = self.run_of("old.pt", "--input", str(self.input), "--processor", "npy")
        self.assertEqual(code, 0, printed)
        self.check_arrays(files)
        (self.folder / "old.toml").unlink()
        self.refused(78, "old.pt' takes 3 inputs", "old.toml has no tables [[input]]", 'name = "scale"', model="old.pt")

    def test_made_up_inputs(self):
        for where in ("device", "host"):
            code, printed, files = self.run_of(
                "arrays.pt2", "--processor", "npy", "--synthetic-on", where, "--batches", "2"
            )
            self.assertEqual(code, 0, printed)
            self.assertEqual(len(files), 2 * 8)
            self.assertFalse(numpy.load(io.BytesIO(files["5.ids.npy"])).any(), "of integers zeros")
            self.assertTrue(numpy.load(io.BytesIO(files["5.sum.npy"])).any())

    def test_another_file_is_another_input(self):
        source = self.folder_of("changing")
        with LaunchedRun(
            "--model",
            str(self.folder / "arrays.pt2"),
            "--device",
            DEVICE,
            "--batch",
            "4",
            "--input",
            str(source),
            "--processor",
            "npy",
        ) as run:
            self.assertEqual(run.start("--limit", "4").wait(), 0, run.logs())
            self.assertEqual(run.start("--limit", "4", "--resume").wait(), 0, run.logs())
            numpy.save(source / "scale.npy", self.arrays["scale"] + 1)
            self.assertEqual(run.start("--limit", "4", "--resume").wait(), 64, run.logs())
            self.assertIn("names of the items was", run.logs())

    def test_files_that_do_not_fit(self):
        self.refused(
            66,
            "has no ids.npy",
            "from a folder with features.npy, ids.npy, scale.npy",
            source=self.folder_of("missing", ids=None),
        )
        self.refused(65, "it has 10 rows", "has 11", source=self.folder_of("fewer", scale=self.arrays["scale"][:10]))
        self.refused(
            65,
            "its elements are <i4",
            "the input 'ids'",
            "takes int64",
            source=self.folder_of("narrow", ids=self.arrays["ids"].astype("i4")),
        )
        self.refused(64, "gives pictures", flags=("--source", "images"))

    def test_notes_that_do_not_fit(self):
        whole = (self.folder / "arrays.toml").read_text()
        self.refused(
            78,
            "takes 3 inputs, but",
            "few.toml has 2",
            'name = "scale"\nshape = "SHAPE"',
            'name = "features"\nshape = "3x5"\ndtype = "float32"',
            model=self.with_notes("few.pt2", whole[: whole.rindex("[[input]]")]),
        )
        self.refused(
            78,
            "none.toml has no tables [[input]]",
            'name = "features"',
            model=self.with_notes("none.pt2", 'input-shape = "3x5"\n'),
        )
        self.refused(
            78,
            "the input number 3 of the model",
            "is 'scale'",
            "calls it 'factor'",
            model=self.with_notes("other.pt2", whole.replace("scale", "factor")),
        )
        self.refused(
            64,
            "input_handles[1]: unmatched dtype",
            "shape and dtype of the [[input]] 'ids'",
            source=self.folder_of("ints", ids=self.arrays["ids"].astype("i4")),
            model=self.with_notes("ints.pt2", whole.replace("int64", "int32")),
        )
        self.refused(
            64,
            "unmatched dim value at 2",
            "of the [[input]] 'features'",
            source=self.folder_of("wide", features=numpy.zeros((ROWS, 3, 6), "f4")),
            model=self.with_notes("wide.pt2", whole.replace("3x5", "3x6")),
        )

    def as_a_query_has_them(self, model):
        """The vectors of the lines as the command `query` computes them."""
        find_packages_of_launch(self)
        from searcher import encoding

        return numpy.stack(encoding.encode(self.folder / model, None, LINES, "mean"))

    @unittest.skipUnless(importlib.util.find_spec("tokenizers"), "skipped: no tokenizers in this Python")
    def test_a_texts_tokens(self):
        import torch

        (self.folder / "words.json").write_text(WORDS)
        printed = export(
            self.folder,
            "networks.py:tokens",
            *TOKENS,
            "--device",
            DEVICE,
            *"--tokenizer words.json --output tokens.pt2".split(),
        )
        self.assertEqual(printed.returncode, 0, printed.stdout + printed.stderr)
        self.assertTrue((self.folder / "tokens.tokenizer.json").exists())
        ids = torch.zeros(len(LINES), LENGTH, dtype=torch.int64)
        for row, line in enumerate(LINES):
            for place, word in enumerate(line.split()[:LENGTH]):
                ids[row, place] = IDS.get(word, 1)
        with torch.inference_mode():
            wanted = self.networks.tokens()(ids, (ids > 0).long(), torch.zeros_like(ids))["mean"].numpy()
        lines = self.folder / "lines.txt"
        lines.write_text("\n".join(LINES) + "\n")
        notes = (self.folder / "tokens.toml").read_text()
        torch.jit.script(self.networks.tokens().eval()).save(str(self.folder / "tokens.pt"))
        for model in ("tokens.pt2", "tokens.pt"):
            code, printed, files = self.run_of(model, "--input", str(lines), "--processor", "npy")
            self.assertEqual(code, 0, printed)
            self.assertEqual(len(files), len(LINES))
            for row in range(len(LINES)):
                numpy.testing.assert_allclose(
                    numpy.load(io.BytesIO(files[f"{row}.mean.npy"])), wanted[row], rtol=1e-5, atol=1e-6
                )
        numpy.testing.assert_allclose(self.as_a_query_has_them("tokens.pt2"), wanted, rtol=1e-5, atol=1e-6)
        code, printed, files = self.run_of(
            "tokens.pt2", "--processor", "npy", "--synthetic-on", "device", "--batches", "1"
        )
        self.assertEqual(code, 0, printed)
        (self.folder / "tokens.toml").unlink()
        self.refused(
            78, "takes 3 inputs", 'name = "token_type_ids"\ntokens = "types"\nshape = LENGTH', model="tokens.pt2"
        )
        (self.folder / "tokens.toml").write_text(notes)


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class ExportOfSeveralInputs(unittest.TestCase):
    def test_incompatible_flags(self):
        """Calls the checks of the flags in this process; nothing is compiled."""
        find_packages_of_launch(self)
        from exporter import arguments, networks
        from offramp_launch.exit_code import LaunchError

        with tempfile.TemporaryDirectory(prefix="offramp-export-") as kept:
            networks_in(kept, NETWORKS)
            of = f"{kept}/networks.py:arrays"
            refusals = (
                (65, of, (), ("its forward() takes features, ids, scale", "--input features=float32:SHAPE")),
                (64, of, ARRAYS[:4], ("its parameter 'scale' is not described",)),
                (
                    64,
                    of,
                    (*ARRAYS, "--input", "more=int64"),
                    ("forward() has no parameter 'more'", "features, ids, scale"),
                ),
                (64, of, (*ARRAYS, "--input", "ids=int64:7"), ("names one parameter twice",)),
                (
                    64,
                    of,
                    ("--input", "ids=ids:7", "--input", "scale=float32"),
                    ("all tokens of one length, or all arrays",),
                ),
                (64, of, ("--input", "ids=int47:7"), ("'ids=int47:7' is not NAME=TYPE:SHAPE",)),
                (64, of, ("--input", "ids=int64:7x"), ("is not a shape",)),
                (64, of, ("--input", "ids=ids"), ("is not NAME=ids:LENGTH",)),
                (64, of, ("--input", "ids=ids:7:float32"), ("with int64, int32",)),
                (64, of, (*ARRAYS, "--image-size", "32"), ("--image-size cannot be combined with --input",)),
                (64, of, ("--tokenizer", "words.json"), ("--tokenizer is for a network that takes a text's tokens",)),
                (
                    66,
                    of.replace("arrays", "tokens"),
                    (*TOKENS, "--tokenizer", "words.json"),
                    ("--tokenizer words.json cannot be read: No such file",),
                ),
                (64, "torchvision:resnet18", ARRAYS, ("--input cannot be combined with torchvision:",)),
            )
            for code, model, flags, words in refusals:
                with self.assertRaises(LaunchError, msg=flags) as refused:
                    networks.make(arguments.parse([model, *flags]))
                self.assertEqual(int(refused.exception.code), code, str(refused.exception))
                for word in words:
                    self.assertIn(word, str(refused.exception))
