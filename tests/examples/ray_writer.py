"""
Ray Data with consumers: python ray_writer.py PICTURES RESULTS. Actors run the model, and their consumers write a mask
per picture to RESULTS. Only names flow on through Ray. Every node has Offramp, PICTURES and RESULTS.
"""

import os
import sys

import offramp.ray
import ray.data
import torch

PICTURES, RESULTS = map(os.path.abspath, sys.argv[1:3])


class Brightness:
    def __call__(self, batch):
        pictures = torch.as_tensor(batch["image"].copy()).float() / 255
        grey = pictures.mean(dim=-1)
        return {"logits": torch.stack([1 - grey, grey], dim=1)}


writer = offramp.ray.Writer.arguments(
    RESULTS,
    "mask-png,records",
    model=Brightness,
    keys=lambda batch: [os.path.relpath(path, PICTURES) for path in batch["path"]],
)
pictures = ray.data.read_images(PICTURES, size=(64, 64), mode="RGB", include_paths=True)
written = pictures.map_batches(offramp.ray.Writer, fn_constructor_kwargs=writer, batch_size=8, concurrency=(1, 4))
print(f"{written.count()} masks are in {RESULTS}")
offramp.ray.merge(RESULTS, "mask-png,records")
