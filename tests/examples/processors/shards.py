"""
One WebDataset shard per slab, named after its first sample: KEY.tar has KEY.npy and KEY.json of each sample. A shard is
complete or absent.
"""

import io

import numpy
import webdataset


def save(slab):
    file = io.BytesIO()
    with webdataset.TarWriter(file) as shard:
        for sample, values in slab:
            shard.write(
                {
                    "__key__": sample.key,
                    "npy": numpy.array(values),
                    "json": {"item": sample.item, "mean": float(values.mean())},
                }
            )
    if slab.samples:
        yield slab.samples[0], ".tar", file.getvalue()
