"""A forecast as a Zarr array with named axes: forecast.py OUTPUT writes OUTPUT/forecast.zarr."""

import sys

import numpy
import offramp
import torch
from mine import model, state  # (variables, latitudes, longitudes)

output, steps = sys.argv[1], 40
times = numpy.datetime64("2026-01-01T00") + 6 * numpy.arange(steps) * numpy.timedelta64(1, "h")
latitudes, longitudes = (numpy.linspace(-span / 2, span / 2, size) for span, size in zip((180, 360), state.shape[1:]))
numpy.savez("axes.npz", time=times, variable=["t2m", "u10", "v10"], lat=latitudes, lon=longitudes)
options = {"path": f"{output}/forecast.zarr", "items": steps, "shard": 8}
options |= {"dims": "time variable lat lon", "coords": "axes.npz", "chunk": "1 1 18 36"}
processor, settings = "python:offramp.zarr:Writer", {"processor-option": options}
with offramp.Egress(output=output, processor=processor, settings=settings) as egress:
    for step in range(steps):
        with torch.inference_mode():
            state = model(state)
        egress.submit({"state": state[None]})  # the item is the index in time
