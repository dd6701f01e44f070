"""
Consumers call NAME() for each slab, which is a batch of a model's outputs, or a part of one.

    ./launch/offramp run --input FOLDER --model MODEL.pt2 --processor NAME.py:NAME --output RESULTS
"""


def NAME(slab, factor="1"):  # --processor-option factor=2
    for sample, values in slab:  # a read-only view of one sample's outputs; with several tensors, a mapping of views
        yield sample, float(factor) * values  # KEY.npy; `yield sample, ".png", data` makes KEY.png of bytes
        yield sample, {"mean": float(factor) * float(values.mean())}  # a line of records.jsonl
