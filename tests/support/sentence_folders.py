"""Folders in the style of sentence-transformers, with random weights."""

import json

WORDS = (
    "hello",
    "HELLO",
    "Hello",
    "fox",
    "FOX",
    "query",
    "passage",
    ":",
    "the",
    "end",
    *(f"w{number}" for number in range(30)),
)
SPECIAL = {
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "mask_token": "[MASK]",
}


def made_tokenizer(**more):
    """A case-sensitive tokenizer of words in the wrapper of transformers."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate((*SPECIAL.values(), *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL, **more)


def made_transformer(folder, kind="bert", positions=34, **more):
    """A transformer of one layer and its tokenizer."""
    import torch
    import transformers

    torch.manual_seed(5)
    config = transformers.AutoConfig.for_model(
        kind,
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=positions,
        initializer_range=0.5,
        **more,
    )
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    made_tokenizer().save_pretrained(folder)
    return folder


def made_encoder(folder, transformer="", normalised=True, **more):
    """An encoder: a transformer in its subfolder `transformer`, mean pooling and, with `normalised`, a norm."""
    made_transformer(folder / transformer, **more)
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalised else [])]
    paths = [transformer, *(f"{number}_{kind}" for number, kind in enumerate(kinds) if number)]
    write(
        folder,
        "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (kind, path) in enumerate(zip(kinds, paths))
        ],
    )
    write(
        folder,
        "config_sentence_transformers.json",
        {"__version__": {"sentence_transformers": "3.0.0"}, "prompts": {}, "default_prompt_name": None},
    )
    write(folder / transformer, "sentence_bert_config.json", {"max_seq_length": 24, "do_lower_case": False})
    write(
        folder / "1_Pooling",
        "config.json",
        {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
    )
    return folder


def write(folder, name, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content))


def update(folder, name, changes):
    """Sets the keys of `changes` in a JSON file, which may be missing."""
    path = folder / name
    write(path.parent, path.name, {**(json.loads(path.read_text()) if path.exists() else {}), **changes})
