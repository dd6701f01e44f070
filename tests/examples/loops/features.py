"""
Takes the hidden states of a Vision Transformer out of a loop of Hugging Face: its pipeline batches the pictures, runs
the model and returns the classes, as without the tap.
"""

import sys

import numpy
import offramp
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor, pipeline

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
network = ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, **sizes)).eval()  # instead of a trained one
classify = pipeline("image-classification", model=network, image_processor=ViTImageProcessor(size=(32, 32)))

names = [f"grey-{grey}" for grey in range(0, 240, 20)]
pictures = [Image.fromarray(numpy.full((48, 48, 3), grey, "uint8")) for grey in range(0, 240, 20)]
with offramp.tap(network.vit, run_dir=sys.argv[1], keys=names, select="last_hidden_state"):
    classes = classify(pictures, batch_size=4)
assert len(classes) == len(pictures)
