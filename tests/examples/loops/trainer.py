"""
Logits of the Trainer's evaluation, which leave the device batch by batch. It uses a small BERT with random weights:
load yours by name.
"""

import sys
import tempfile

import offramp.transformers
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
model = BertForSequenceClassification(BertConfig(vocab_size=100, num_labels=4, **sizes))
texts = [{"input_ids": torch.randint(0, 100, (12,)), "labels": number % 4} for number in range(20)]
arguments = TrainingArguments(tempfile.mkdtemp(), per_device_eval_batch_size=8, report_to=[])


def accuracy(evaluated):
    return {"accuracy": (evaluated.predictions == evaluated.label_ids).mean()}


with offramp.transformers.LogitsWriter(sys.argv[1], "npy", consumers=2) as writer:
    trainer = Trainer(model, arguments, compute_metrics=accuracy, preprocess_logits_for_metrics=writer)
    print(trainer.evaluate(texts))
