"""Runs NAME() in a consumer on a slab of model outputs, without a run: python3 -m unittest test_NAME"""

import io
import json
import pathlib
import tempfile
import unittest

import numpy
from offramp.testing import process, save_slab

PROCESSOR = f"{pathlib.Path(__file__).with_name('NAME.py').resolve()}:NAME"
OUTPUTS = numpy.arange(24, dtype="float32").reshape(2, 3, 4)  # two samples: make it like those of your model


class Processor(unittest.TestCase):
    def test_results_of_a_slab(self):
        with tempfile.TemporaryDirectory() as folder:
            slab = save_slab(f"{folder}/slab.safetensors", {"outputs": OUTPUTS}, ["first", "second"])
            files = process(slab, PROCESSOR, f"{folder}/results", options={"factor": 2})
        for key, outputs in zip(("first", "second"), OUTPUTS):
            numpy.testing.assert_array_equal(2 * outputs, numpy.load(io.BytesIO(files[f"{key}.npy"])))
        records = [json.loads(line) for line in files["records.jsonl"].splitlines()]
        self.assertEqual([("first", 11.0), ("second", 35.0)], [(record["key"], record["mean"]) for record in records])


if __name__ == "__main__":
    unittest.main()
