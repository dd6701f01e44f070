"""
One vector for each token of a text, cut to the text's length: those of the network for this text alone, in every order
of computing, after kills, from the disk, and of several producers.
"""

import importlib.util
import json
import random
import unittest

import numpy

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import export, networks_in
from tests.support.launched_gpus import GpusWorld
from tests.support.text_runs import TextRuns

TEXTS, LENGTH, WIDTH = 203, 24, 5
WORDS = ("slab", "lease", "ticket", "credit")
NETWORKS = f"""
import torch


class Tokens(torch.nn.Module):
    '''A vector for each token, by word and place, and the mean of a text's.'''

    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(7, {WIDTH}), torch.nn.Parameter(torch.randn({LENGTH}, {WIDTH}))

    def forward(self, ids, mask):
        hidden = self.words(ids) + self.places[: ids.shape[1]]
        share = mask.unsqueeze(-1).float()
        return {{"mean": (hidden * share).sum(1) / share.sum(1).clamp(min=1), "hidden": hidden}}


def tokens():
    torch.manual_seed(4)
    return Tokens()
"""
TOKENIZER = json.dumps(
    {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate(("[PAD]", "[UNK]", *WORDS))},
            "unk_token": "[UNK]",
        },
    }
)
INPUTS = ("--input", f"ids=ids:{LENGTH}", "--input", f"mask=mask:{LENGTH}", "--length", "any")
HIDDEN = ("--output-tensor", "hidden")
BY_LENGTH = ("--batch", "16", "--by-length", "4")


@unittest.skipUnless(
    all(importlib.util.find_spec(name) for name in ("torch", "tokenizers")), "skipped: needs torch and tokenizers"
)
class TextTokens(TextRuns, unittest.TestCase):
    processors = ("--processor", "npy")

    @classmethod
    def setUpClass(cls):
        import torch

        cls.begin("text-tokens", NETWORKS, TOKENIZER, INPUTS)
        chance = random.Random(5)
        texts = [" ".join(chance.choices(WORDS, k=chance.randrange(LENGTH + 6))) for _ in range(TEXTS)]
        texts[3], texts[4], texts[TEXTS - 1] = "", " ".join(WORDS * LENGTH), "slab"
        cls.jsonl = cls.write(
            "texts.jsonl", "".join(json.dumps({"id": f"t{n}", "text": text}) + "\n" for n, text in enumerate(texts))
        )
        network = networks_in(cls.folder, NETWORKS).tokens().eval()
        cls.wanted = {}
        for number, text in enumerate(texts):
            ids = torch.tensor([[2 + WORDS.index(word) for word in text.split()][:LENGTH]], dtype=torch.long)
            with torch.no_grad():
                cls.wanted[f"t{number}"] = network(ids, torch.ones_like(ids))["hidden"][0].numpy()

    def vectors(self, output, ending=".hidden.npy"):
        return {path.name.removesuffix(ending): numpy.load(path) for path in output.glob(f"*{ending}")}

    def assertAreTheTexts(self, found):
        self.assertEqual(found.keys(), self.wanted.keys())
        for key, vectors in self.wanted.items():
            self.assertEqual(found[key].shape, vectors.shape, key)
            numpy.testing.assert_array_equal(found[key], vectors, key)

    def bytes_of(self, output):
        return {path.name: path.read_bytes() for path in output.glob("t*.*")}

    def test_each_texts_own_vectors_after_kills_and_in_shards(self):
        for flags in (("--by-length", "off"), BY_LENGTH):
            with self.subTest(flags=flags):
                whole = self.ended("jsonl-text", self.jsonl, *HIDDEN, *flags)
                self.assertAreTheTexts(self.vectors(whole.output))
                samples = whole.summary()["samples"]
                self.assertEqual(samples["released"], TEXTS)
                self.assertTrue(whole.summary()["conserved"])
                again = self.resumed("jsonl-text", self.jsonl, *HIDDEN, *flags, "--samples-per-slab", "8")
                self.assertEqual(self.bytes_of(again.output), self.bytes_of(whole.output))
                self.assertEqual(again.summary()["exit"], 0)

    def test_all_outputs_of_a_text_together(self):
        both = self.ended("jsonl-text", self.jsonl, "--output-tensor", "mean,hidden")
        self.assertAreTheTexts(self.vectors(both.output))
        means = self.vectors(both.output, ".mean.npy")
        for key, vectors in self.wanted.items():
            mean = vectors.mean(0) if len(vectors) else numpy.zeros(WIDTH, "f4")
            numpy.testing.assert_allclose(means[key], mean, rtol=1e-5, atol=1e-6, err_msg=key)

    def test_in_half_and_in_safetensors(self):
        import safetensors.numpy

        half = self.ended(
            "jsonl-text",
            self.jsonl,
            *HIDDEN,
            *BY_LENGTH,
            "--transform",
            "cast",
            processors=("--processor", "safetensors"),
        )
        found = {path.stem: safetensors.numpy.load_file(path)["hidden"] for path in half.output.glob("*.safetensors")}
        self.assertEqual(found.keys(), self.wanted.keys())
        for key, vectors in self.wanted.items():
            numpy.testing.assert_array_equal(found[key], vectors.astype("f2"), key)

    def test_several_producers_and_a_job_give_those_of_one(self):
        world = self.world("jsonl-text", self.jsonl, *HIDDEN, *BY_LENGTH, kind=GpusWorld)
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assertAreTheTexts(self.vectors(world.output))
        self.assertTrue(world.summary()["conserved"])
        job = self.in_shards(3, "jsonl-text", self.jsonl, *HIDDEN, *BY_LENGTH)
        self.assertAreTheTexts({key: one for each in job.output.glob("**/") for key, one in self.vectors(each).items()})

    def test_what_does_not_go_together_is_refused_when_the_run_starts(self):
        for flags, words in (
            (("--output-tensor", "tokens"), ("has no output 'tokens'", "Its outputs: mean, hidden")),
            ((), ("'hidden'", "has a row for each token", "Give --output-tensor hidden")),
            ((*HIDDEN, "--processor", "mask-png"), ("cannot read any output", "its samples differ in shape")),
            ((*HIDDEN, "--processor", "image"), ("cannot read any output", "its samples differ in shape")),
            ((*HIDDEN, "--processor", "embeddings-sqlite"), ("cannot read any output", "hidden float32 [8, ?, 5]")),
            ((*HIDDEN, "--transform", "class-map"), ("--transform class-map does not fit",)),
            ((*HIDDEN, "--batches-per-slab", "2"), ("differ in shape", "which --batches-per-slab does not support")),
        ):
            with self.subTest(flags=flags):
                world = self.world("jsonl-text", self.jsonl, *flags)
                self.assertIn(world.start().wait(), (64, 65), world.logs())
                for word in words:
                    self.assertIn(word, world.logs())
        code, printed = self.world("jsonl-text", self.jsonl).call(
            "run", "--device", "cpu", "--model", "copy", "--batches", "2", *HIDDEN
        )
        self.assertEqual(code, 64, printed)
        self.assertIn("--output-tensor hidden does not go with --model 'copy'", printed)

    def test_a_fixed_length_is_cut_too(self):
        fixed = ("--input", f"ids=ids:{LENGTH}", "--input", f"mask=mask:{LENGTH}", "--length", "fixed")
        words = ("--tokenizer", "words.json", "--device", DEVICE, "--output", "fixed.pt2")
        done = export(self.folder, "networks.py:tokens", *fixed, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        model = ("--model", str(self.folder / "fixed.pt2"))
        cut = self.ended("jsonl-text", self.jsonl, *model, *HIDDEN)
        self.assertAreTheTexts(self.vectors(cut.output))
        padded = self.vectors(self.ended("jsonl-text", self.jsonl, *model).output, ".hidden.npy")
        for key, vectors in self.wanted.items():
            self.assertEqual(padded[key].shape, (LENGTH, WIDTH), "without the option, all have one shape")
            numpy.testing.assert_array_equal(padded[key][: len(vectors)], vectors, key)
