"""A sentence encoder from a folder in the style of sentence-transformers: transformer, pooling, normalisation, as one network of tokens."""

import json
import pathlib

import torch

from offramp_launch.exit_code import ExitCode, LaunchError

POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
MOST_TOKENS = 8192
# They count positions from behind the padding's.
COUNT_BEHIND_PADDING = {"roberta", "xlm-roberta", "camembert", "mpnet"}


class SentenceEncoder(torch.nn.Module):
    """Tokens, int32 [batch, 2, length] (ids; 1 where they are text), to vectors, float32 [batch, width]."""

    def __init__(self, transformer, pooling, normalised):
        super().__init__()
        self.transformer, self.pooling, self.normalised = transformer, pooling, normalised

    def forward(self, tokens):
        ids, mask = tokens[:, 0].long(), tokens[:, 1].long()
        hidden = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
        if self.pooling == "cls":
            vectors = hidden[:, 0]
        else:
            share = mask.unsqueeze(-1).to(hidden.dtype)
            vectors = (hidden * share).sum(1) / share.sum(1).clamp(min=1e-9)
        vectors = vectors.float()
        return {"embedding": torch.nn.functional.normalize(vectors, dim=1) if self.normalised else vectors}


def read(folder, max_tokens):
    """(network, tokens in a row, size of the vocabulary, the tokenizer's file). Errors: LaunchError."""
    folder = pathlib.Path(folder)
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise LaunchError(f"{folder} is not a sentence encoder: it has no tokenizer.json", "Give the folder of a sentence-transformers model",
                          ExitCode.NO_INPUT)
    try:
        from transformers import AutoModel
    except ImportError as problem:
        raise LaunchError(f"the PyPI package `transformers` is not there ({problem})", "pip install transformers, beside this PyTorch",
                          ExitCode.SYSTEM) from problem
    pooling, normalised = parts_of(folder)
    try:
        transformer = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    except (OSError, ValueError) as problem:
        raise LaunchError(f"{folder} cannot be read: {str(problem).splitlines()[0]}", "Give the folder of a sentence-transformers model",
                          ExitCode.BAD_INPUT) from problem
    longest = most_tokens(transformer)
    tokens = max_tokens or content(folder / "sentence_bert_config.json").get("max_seq_length") or longest
    if tokens > longest:
        raise LaunchError(f"--max-tokens {tokens} is more than the {longest} that the model knows positions for", f"Give {longest} or less", ExitCode.USAGE)
    return SentenceEncoder(transformer, pooling, normalised).eval().requires_grad_(False), tokens, transformer.config.vocab_size, tokenizer


def most_tokens(transformer):
    positions = getattr(transformer.config, "max_position_embeddings", MOST_TOKENS)
    if transformer.config.model_type in COUNT_BEHIND_PADDING:
        positions -= transformer.embeddings.padding_idx + 1
    return positions


def parts_of(folder):
    """What comes behind the transformer: (pooling, whether vectors are normalised)."""
    pooling, normalised = "mean", False
    modules = content(folder / "modules.json")
    for part in modules if isinstance(modules, list) else ():
        kind = part.get("type", "").rpartition(".")[2]
        if kind == "Pooling":
            pooling = pooling_of(folder / part.get("path", ""))
        elif kind == "Normalize":
            normalised = True
        elif kind != "Transformer":
            raise LaunchError(f"{folder} has a part of type {kind}", "Known are Transformer, Pooling and Normalize; export a function of your own "
                              "(FILE.py:FUNCTION) for others", ExitCode.BAD_INPUT)
    return pooling, normalised


def pooling_of(folder):
    said = content(folder / "config.json")
    chosen = [name for name, on in said.items() if name.startswith("pooling_mode_") and on is True]
    if isinstance(said.get("pooling_mode"), str):
        chosen = [{"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}.get(said["pooling_mode"], said["pooling_mode"])]
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        raise LaunchError(f"{folder} pools by {', '.join(chosen) or 'nothing'}", "Known are the mean of the tokens and the first token", ExitCode.BAD_INPUT)
    return POOLINGS[chosen[0]]


def content(file):
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as problem:
        raise LaunchError(f"{file} is not JSON: {problem}", "Is the folder complete?", ExitCode.BAD_INPUT) from problem
