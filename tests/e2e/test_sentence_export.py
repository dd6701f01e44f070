"""Sentence encoders of a few kilobytes: how many tokens each takes, and that an export which fails leaves what was there."""

import importlib.util
import pathlib
import tempfile
import unittest

from tests.support.exported_model import export
from tests.support.launched_run import find_packages_of_launch

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

def of_sixteen():
    return Sixteen()
"""


def made_encoder(folder, kind):
    """A folder in the style of sentence-transformers, with random weights."""
    import transformers
    config = transformers.AutoConfig.for_model(kind, vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                                               max_position_embeddings=POSITIONS)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in ("torch", "transformers")), "needs the packages torch and transformers")
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
        for kind, most in (("bert", POSITIONS), ("roberta", POSITIONS - 2), ("xlm-roberta", POSITIONS - 2), ("camembert", POSITIONS - 2),
                           ("mpnet", POSITIONS - 2)):
            with self.subTest(kind=kind):
                folder = made_encoder(self.folder / kind, kind)
                network, tokens, _, _ = sentences.read(folder, None)
                self.assertEqual(tokens, most)
                rows = torch.full((1, 2, most + 1), 7, dtype=torch.int32)
                self.assertEqual(network(rows[:, :, :most])["embedding"].shape, (1, 32))
                with self.assertRaises((IndexError, RuntimeError)):
                    network(rows)
                with self.assertRaisesRegex(LaunchError, f"--max-tokens {most + 1} is more than the {most} "):
                    sentences.read(folder, most + 1)

    def test_a_length_is_open_where_the_network_allows_it(self):
        (self.folder / "networks.py").write_text(NETWORKS)
        ids = ("--device", "cpu", "--input", "ids=ids:16", "--input", "mask=mask:16")
        for function, flags, is_open, told in (("pooled", (), True, "rows of any length"), ("pooled", ("--length", "fixed"), False, ""),
                                               ("each_token", (), False, "texts are filled up to 16 tokens each"),
                                               ("unmasked", (), False, "the outputs depend on how far texts are filled up"),
                                               ("of_sixteen", (), False, "texts are filled up to 16 tokens each")):
            with self.subTest(function=function, flags=flags):
                done = export(self.folder, f"networks.py:{function}", *ids, *flags, "--output", "net.pt2")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(told, done.stdout)
                self.assertEqual("any-length = true" in (self.folder / "net.toml").read_text(), is_open)
        refused = export(self.folder, "networks.py:each_token", *ids, "--length", "any", "--output", "net.pt2")
        self.assertEqual(refused.returncode, 65, refused.stdout + refused.stderr)
        self.assertIn("other shapes where texts are shorter", refused.stderr)

    def test_an_export_that_fails_late_leaves_what_was_there(self):
        folder = made_encoder(self.folder / "encoder", "bert")
        # It is there, and to read it fails: for root, too.
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer.json").symlink_to("/proc/self/mem")
        for name in ("net.toml", "net.tokenizer.json", "net.pt2"):
            (self.folder / name).write_text("the former")
        done = export(self.folder, f"sentence:{folder}", "--device", "cpu", "--output", "net.pt2")
        self.assertEqual(done.returncode, 73, done.stdout + done.stderr)
        self.assertIn("net.pt2 cannot be made", done.stderr)
        self.assertEqual({path.name: path.read_text() for path in self.folder.glob("net.*")},
                         {name: "the former" for name in ("net.toml", "net.tokenizer.json", "net.pt2")})
        self.assertEqual([path.name for path in self.folder.glob(".*")], [])


if __name__ == "__main__":
    unittest.main()
