"""A small text network with its metadata and tokenizer, for tests. Needs PyTorch and tokenizers."""

import pathlib

from tests.support.exported_model import networks_in

NEEDED = ("torch", "tokenizers")
WORDS = ("a", "slab", "is", "full", "and", "waits", "for", "its", "consumer")
TOKENS = 8

NETWORK = """
import torch


class Counts(torch.nn.Module):
    '''How often a text has each of the first words.'''

    def forward(self, x):
        ids = x[:, 0] * x[:, 1]
        return torch.stack([(ids == word).sum(1) for word in range(1, 6)], 1).float()
"""


def make_counting_network(folder, lines):
    """Writes counts.pt with its metadata and tokenizer, and lines.txt with `lines` lines of text."""
    import tokenizers
    import torch

    folder = pathlib.Path(folder)
    torch.jit.script(networks_in(folder, NETWORK).Counts().eval()).save(str(folder / "counts.pt"))
    (folder / "counts.toml").write_text(f'input-shape = "2x{TOKENS}"\ninput-dtype = "int32"\n')
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"?": 0, **{word: number for number, word in enumerate(WORDS, 1)}}, unk_token="?")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "counts.tokenizer.json"))
    (folder / "lines.txt").write_text("".join(f"{' '.join(WORDS[: 1 + line % TOKENS])}\n" for line in range(lines)))
