"""
A Hugging Face pipeline whose vectors go to consumers. It uses a small BERT with random weights: load yours by name.
"""

import sys

import offramp
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, pipeline

WORDS = "the a red green blue cat dog house sees is under over".split()
tokenizer = Tokenizer(
    models.WordLevel({word: number for number, word in enumerate(["[PAD]", "[UNK]", *WORDS])}, unk_token="[UNK]")
)
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
torch.manual_seed(0)
extract = pipeline(
    "feature-extraction",
    device="cpu",
    model=BertModel(
        BertConfig(vocab_size=14, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    ).eval(),
    tokenizer=PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"),
)

with offramp.Egress(sys.argv[1], name="tiny-bert") as egress:
    for number in range(6):
        texts = [f"the {WORDS[2 + row % 3]} {WORDS[5 + number % 3]} sees a house" for row in range(8)]
        with torch.inference_mode():
            tokens = extract(texts, batch_size=8, return_tensors=True)  # for each text (1, tokens, 32)
            vectors = torch.stack([each[0].mean(0) for each in tokens])
        egress.submit({"vectors": vectors}, [f"text-{8 * number + row}" for row in range(8)])
