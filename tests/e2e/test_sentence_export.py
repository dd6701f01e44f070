"""Sentence encoders of a few kilobytes: how many tokens each takes, and that an export which fails leaves what was there."""

import importlib.util
import pathlib
import tempfile
import unittest

from tests.support.exported_model import export
from tests.support.launched_run import find_packages_of_launch

POSITIONS = 34


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
