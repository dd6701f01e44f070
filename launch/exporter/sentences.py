"""
A sentence encoder from a folder in the style of sentence-transformers: transformer, pooling, normalisation, as one
network of tokens.
"""

import dataclasses

import torch

from exporter import sentence_folder
from exporter.sentence_folder import OWN_FUNCTION
from offramp_launch.exit_code import InputError, LaunchError, UsageError

MOST_TOKENS = 8192
# One vector per text, and one per token.
OUTPUTS = ("embedding", "tokens")
# These count positions from after the padding index.
COUNT_BEHIND_PADDING = {"roberta", "xlm-roberta", "camembert", "mpnet"}


class SentenceEncoder(torch.nn.Module):
    """
    Tokens, int32 [batch, 2, length] (ids; 1 for text), to float32 vectors: `embedding` [batch, width], and `tokens`
    [batch, length, width], as sentence-transformers' token_embeddings.
    """

    def __init__(self, transformer, pooling, normalised, width, outputs):
        super().__init__()
        self.transformer, self.pooling, self.normalised, self.width = transformer, pooling, normalised, width
        self.outputs = outputs

    def forward(self, tokens):
        ids, mask = tokens[:, 0].long(), tokens[:, 1].long()
        hidden = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
        made = {"embedding": self.embedding(hidden, mask)} if "embedding" in self.outputs else {}
        return {**made, "tokens": hidden.float()} if "tokens" in self.outputs else made

    def embedding(self, hidden, mask):
        if self.pooling == "cls":
            vectors = hidden[:, 0]
        else:
            share = mask.unsqueeze(-1).to(hidden.dtype)
            vectors = (hidden * share).sum(1) / share.sum(1).clamp(min=1e-9)
        vectors = vectors.float()
        if self.normalised:
            vectors = torch.nn.functional.normalize(vectors, dim=1)
        # Like sentence-transformers: truncated vectors are not normalised again.
        return vectors if self.width is None else vectors[:, : self.width].contiguous()


@dataclasses.dataclass(frozen=True)
class Sentences:
    network: SentenceEncoder
    tokens: int  # in a row
    vocabulary: int
    tokenizer: str  # the text of a tokenizer.json
    prompt: str  # before each text


def read(folder, max_tokens, precision=None, outputs=OUTPUTS[:1]):
    """`precision`: the requested one. `outputs`: of OUTPUTS. Errors: LaunchError."""
    settings = sentence_folder.read(folder)
    try:
        from transformers import AutoConfig, AutoModel, AutoTokenizer
    except ImportError as problem:
        raise LaunchError(
            f"the PyPI package `transformers` is not installed ({problem})",
            "pip install transformers, beside this PyTorch",
        ) from problem
    if settings.max_seq_length is not None:
        settings.processor_kwargs.setdefault("model_max_length", settings.max_seq_length)
    try:
        config = AutoConfig.from_pretrained(settings.folder, local_files_only=True, **settings.config_kwargs)
        check_kind(settings, config)
        tokenizer = AutoTokenizer.from_pretrained(settings.folder, local_files_only=True, **settings.processor_kwargs)
        transformer = AutoModel.from_pretrained(
            settings.folder, config=config, local_files_only=True, **settings.model_kwargs
        )
    except LaunchError:
        raise
    except Exception as problem:  # each reader has its own errors
        reason = next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
        raise InputError(
            f"{folder} is not a sentence encoder that transformers reads: {reason}",
            "Give the folder of a sentence-transformers model",
        ) from problem
    check_tokenizer(settings, tokenizer)
    transformer = in_float32(settings, transformer, precision)
    longest = most_tokens(transformer)
    tokens = max_tokens or min(tokens_of(settings, tokenizer, config), longest)
    if tokens > longest:
        raise UsageError(
            f"--max-tokens {tokens} is more than the {longest} positions of the model", f"Give {longest} or less"
        )
    network = (
        SentenceEncoder(transformer, settings.pooling, settings.normalised, settings.truncate_dim, outputs)
        .eval()
        .requires_grad_(False)
    )
    return Sentences(
        network, tokens, transformer.config.vocab_size, tokenizer_file(settings, tokenizer, tokens), settings.prompt
    )


def check_kind(settings, config):
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(
            f"{settings.folder / 'config.json'}: '{config.model_type}' is an encoder with a decoder, which export does not support",
            OWN_FUNCTION,
        )
    architecture = (getattr(config, "architectures", None) or [""])[0]
    if not settings.has_modules and architecture.endswith("ForCausalLM"):
        raise InputError(
            f"{settings.folder}: without a modules.json, {architecture} pools by the last token, which export does not support",
            OWN_FUNCTION,
        )


def check_tokenizer(settings, tokenizer):
    if not tokenizer.is_fast:
        raise InputError(
            f"{settings.folder}: its tokenizer ({type(tokenizer).__name__}) does not use the `tokenizers` library",
            "Save the folder with a newer transformers, which writes a tokenizer.json",
        )
    if not settings.has_modules and getattr(tokenizer, "chat_template", None):
        raise InputError(
            f"{settings.folder}: without a modules.json, sentence-transformers applies the tokenizer's chat_template, which export does not support",
            OWN_FUNCTION,
        )
    if any(tokenizer("a text").get("token_type_ids", ())):
        raise InputError(f"{settings.folder}: its tokenizer produces token_type_ids other than 0", OWN_FUNCTION)


def in_float32(settings, transformer, precision):
    """
    The transformer in float32. sentence-transformers would compute in the type of the weights. Errors: LaunchError.
    """
    if transformer.dtype == torch.float32 or precision is not None:
        return transformer.float()
    name = str(transformer.dtype).removeprefix("torch.")
    raise InputError(
        f"{settings.folder}: its weights have the dtype {name}, and so would sentence-transformers' vectors; export computes in another",
        f"Pass --precision fp32 to compute in float32: vectors then differ from sentence-transformers' by the rounding of {name}",
    )


def tokens_of(settings, tokenizer, config):
    """The number of tokens at which sentence-transformers cuts a text."""
    positions = getattr(config, "max_position_embeddings", -1)
    if "model_max_length" in settings.processor_kwargs or positions == -1:
        return tokenizer.model_max_length
    return min(tokenizer.model_max_length, positions)


def most_tokens(transformer):
    positions = getattr(transformer.config, "max_position_embeddings", MOST_TOKENS)
    if transformer.config.model_type in COUNT_BEHIND_PADDING:
        positions -= transformer.embeddings.padding_idx + 1
    return positions


def tokenizer_file(settings, tokenizer, tokens):
    """The tokenizer as loaded: the folder's tokenizer_config.json or vocab.txt may override its tokenizer.json."""
    from tokenizers.normalizers import Lowercase, Sequence

    backend = tokenizer.backend_tokenizer
    parts = (
        list(backend.normalizer)
        if isinstance(backend.normalizer, Sequence)
        else [backend.normalizer]
        if backend.normalizer
        else []
    )
    if settings.lower_case and not any(isinstance(part, Lowercase) for part in parts):
        backend.normalizer = Sequence([Lowercase(), *parts])
    backend.enable_truncation(tokens, direction=tokenizer.truncation_side)
    if tokenizer.pad_token_id is not None:
        backend.enable_padding(pad_id=tokenizer.pad_token_id, pad_token=tokenizer.pad_token)
    return backend.to_str()
