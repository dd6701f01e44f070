"""Small sentence encoders: their token limits, and a failed export keeps the earlier file."""

import contextlib
import importlib
import importlib.util
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import numpy

from tests.support.exported_model import export
from tests.support.launched_resume import World
from tests.support.launched_run import ROOT, find_packages_of_launch
from tests.support.sentence_folders import made_encoder, made_transformer, update

POSITIONS = 34
NETWORKS = """
import torch

class Words(torch.nn.Module):
    def __init__(self, each):
        super().__init__()
        self.words, self.each = torch.nn.Embedding(50, 8), each

    def forward(self, ids, mask):
        hidden = self.words(ids) * mask.unsqueeze(-1)
        return hidden if self.each else hidden.sum(1)

class Beside(Words):
    def forward(self, ids, mask):
        return super().forward(ids, mask), mask.float()

class Sixteen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.place = torch.nn.Embedding(50, 8), torch.nn.Parameter(torch.ones(16, 8))

    def forward(self, ids, mask):
        return ((self.words(ids) + self.place) * mask.unsqueeze(-1)).sum(1)

def pooled():
    return Words(False)

class Unmasked(Words):
    def forward(self, ids, mask):
        return self.words(ids).mean(1) + mask[:, :1]

def unmasked():
    return Unmasked(False)

def each_token():
    return Words(True)

def mask_beside():
    return Beside(True)

def of_sixteen():
    return Sixteen()
"""


@unittest.skipUnless(
    all(importlib.util.find_spec(name) for name in ("torch", "transformers")),
    "needs the packages torch and transformers",
)
class SentenceExport(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="offramp-sentences-")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def test_as_many_tokens_as_there_are_positions_for(self):
        import torch

        find_packages_of_launch(self)
        from exporter import sentences
        from offramp_launch.exit_code import LaunchError

        for kind, most in (
            ("bert", POSITIONS),
            ("roberta", POSITIONS - 2),
            ("xlm-roberta", POSITIONS - 2),
            ("camembert", POSITIONS - 2),
            ("mpnet", POSITIONS - 2),
        ):
            with self.subTest(kind=kind):
                folder = made_transformer(self.folder / kind, kind, POSITIONS)
                made = sentences.read(folder, None)
                network = made.network
                self.assertEqual(made.tokens, most)
                rows = torch.full((1, 2, most + 1), 7, dtype=torch.int32)
                self.assertEqual(network(rows[:, :, :most])["embedding"].shape, (1, 32))
                with self.assertRaises((IndexError, RuntimeError)):
                    network(rows)
                with self.assertRaisesRegex(LaunchError, f"--max-tokens {most + 1} is more than the {most} "):
                    sentences.read(folder, most + 1)

    def test_a_length_is_open_where_the_network_allows_it(self):
        (self.folder / "networks.py").write_text(NETWORKS)
        ids = ("--device", "cpu", "--input", "ids=ids:16", "--input", "mask=mask:16")
        for function, flags, is_open, note in (
            ("pooled", (), True, "rows of any length"),
            ("pooled", ("--length", "fixed"), False, ""),
            ("each_token", (), False, "texts are padded to 16 tokens each"),
            ("each_token", ("--length", "any"), True, "rows of any length"),
            ("unmasked", (), False, "the outputs depend on the padding of texts"),
            ("of_sixteen", (), False, "texts are padded to 16 tokens each"),
        ):
            with self.subTest(function=function, flags=flags):
                done = export(self.folder, f"networks.py:{function}", *ids, *flags, "--output", "net.pt2")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(note, done.stdout)
                self.assertEqual("any-length = true" in (self.folder / "net.toml").read_text(), is_open)
        refused = export(self.folder, "networks.py:mask_beside", *ids, "--length", "any", "--output", "net.pt2")
        self.assertEqual(refused.returncode, 65, refused.stdout + refused.stderr)
        self.assertIn("the shapes of the outputs depend on the text's length", refused.stderr)
        for model, words in (("networks.py:pooled", "is for sentence:FOLDER"), (f"sentence:{self.folder}", "'pooled'")):
            refused = export(self.folder, model, "--output-tensor", "pooled", "--output", "net.pt2")
            self.assertEqual(refused.returncode, 64, refused.stdout + refused.stderr)
            self.assertIn(words, refused.stderr)

    @unittest.skipUnless(importlib.util.find_spec("sentence_transformers"), "needs the package sentence-transformers")
    def test_a_run_and_a_query_give_the_librarys_vectors(self):
        sentence_transformers = importlib.import_module("sentence_transformers")
        folder = made_encoder(self.folder / "encoder")
        update(
            folder,
            "config_sentence_transformers.json",
            {"prompts": {"q": "query : "}, "default_prompt_name": "q", "truncate_dim": 20},
        )
        update(folder, "sentence_bert_config.json", {"do_lower_case": True, "max_seq_length": None})
        update(folder, "tokenizer_config.json", {"model_max_length": 12})
        done = export(self.folder, f"sentence:{folder}", "--device", "cpu", "--output", "net.pt2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("each text is prefixed with the folder's default prompt 'query : '", done.stdout)
        lines = ["the fox", "HELLO FOX", "", " ".join(f"w{number}" for number in range(30)), "the end : w1 Hello"]
        (self.folder / "lines.txt").write_text("\n".join(lines) + "\n")
        wanted = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(lines, batch_size=1)
        with World(
            *"--device cpu --profile embeddings --model".split(),
            str(self.folder / "net.pt2"),
            "--input",
            str(self.folder / "lines.txt"),
            *"--consumers 1 --batch 4".split(),
        ) as world:
            world.environment["OFFRAMP_TOKENIZER_PYTHON"] = world.environment["OFFRAMP_PYTHON"] = sys.executable
            self.assertEqual(world.start().wait(), 0, world.logs())
            with contextlib.closing(sqlite3.connect(world.output / "embeddings.sqlite")) as database:
                found = [
                    numpy.frombuffer(vector, "<f4")
                    for (vector,) in database.execute("SELECT vector FROM embeddings ORDER BY item")
                ]
            numpy.testing.assert_allclose(numpy.stack(found), wanted, rtol=0, atol=1e-5)
            query = [str(ROOT / "launch/offramp"), "query", "--database", str(world.output), "--top", "1", "--model"]
            asked = subprocess.run(
                [*query, str(self.folder / "net.pt2"), "the end : w1 Hello"],
                capture_output=True,
                text=True,
                check=False,
                env=world.environment,
            )
            self.assertEqual((asked.returncode, asked.stdout.split()), (0, ["1", "1.0000", "4"]), asked.stderr)
            script = subprocess.run(
                [*query, "net.pt", "the end"], capture_output=True, text=True, check=False, env=world.environment
            )
            self.assertEqual(script.returncode, 64, script.stderr)
            self.assertIn("net.pt is TorchScript, but query runs only compiled models (.pt2)", script.stderr)

    @unittest.skipUnless(importlib.util.find_spec("sentence_transformers"), "needs the package sentence-transformers")
    def test_a_run_gives_the_librarys_vectors_of_tokens(self):
        sentence_transformers = importlib.import_module("sentence_transformers")
        folder = made_encoder(self.folder / "encoder")
        done = export(
            self.folder, f"sentence:{folder}", "--device", "cpu", "--output-tensor", "tokens", "--output", "net.pt2"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("--output-tensor tokens --processor npy", done.stdout)
        lines = ["the fox", "HELLO FOX", "", " ".join(f"w{number}" for number in range(30)), "the end : w1 Hello"]
        (self.folder / "lines.txt").write_text("\n".join(lines) + "\n")
        library = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        with World(
            "--device",
            "cpu",
            "--model",
            str(self.folder / "net.pt2"),
            "--input",
            str(self.folder / "lines.txt"),
            *"--output-tensor tokens --processor npy --consumers 1 --batch 4".split(),
        ) as world:
            world.environment["OFFRAMP_TOKENIZER_PYTHON"] = world.environment["OFFRAMP_PYTHON"] = sys.executable
            self.assertEqual(world.start().wait(), 0, world.logs())
            for number, line in enumerate(lines):
                (wanted,) = library.encode([line], output_value="token_embeddings", batch_size=1)
                found = numpy.load(world.output / f"{number}.tokens.npy")
                numpy.testing.assert_allclose(found, wanted.numpy(), rtol=0, atol=1e-5, err_msg=line)

    def test_an_export_that_fails_late_keeps_the_earlier_file(self):
        (self.folder / "networks.py").write_text(NETWORKS)
        # It exists but cannot be read, even by root.
        (self.folder / "unreadable.json").symlink_to("/proc/self/mem")
        for name in ("net.toml", "net.tokenizer.json", "net.pt2"):
            (self.folder / name).write_text("the former")
        done = export(
            self.folder,
            *"networks.py:pooled --device cpu --input ids=ids:16 --input mask=mask:16".split(),
            *"--tokenizer unreadable.json --output net.pt2".split(),
        )
        self.assertEqual(done.returncode, 73, done.stdout + done.stderr)
        self.assertIn("net.pt2 cannot be made", done.stderr)
        self.assertEqual(
            {path.name: path.read_text() for path in self.folder.glob("net.*")},
            {name: "the former" for name in ("net.toml", "net.tokenizer.json", "net.pt2")},
        )
        self.assertEqual([path.name for path in self.folder.glob(".*")], [])
