"""Compiles SOURCE and runs it in a consumer on a slab of model outputs, without a run: python3 -m unittest test_NAME"""

import json
import pathlib
import tempfile
import unittest

import numpy
from offramp.testing import build, process, save_slab

SOURCE = pathlib.Path(__file__).with_name("SOURCE").resolve()
OUTPUTS = numpy.arange(24, dtype="float32").reshape(2, 3, 4)  # two samples: make it like those of your model


class Processor(unittest.TestCase):
    def test_results_of_a_slab(self):
        with tempfile.TemporaryDirectory() as folder:
            slab = save_slab(f"{folder}/slab.safetensors", {"outputs": OUTPUTS}, ["first", "second"])
            files = process(slab, build(SOURCE, folder), f"{folder}/results", options={"factor": 2})
        self.assertEqual({"mean": 11.0}, json.loads(files["first.json"]))
        records = [json.loads(line) for line in files["records.jsonl"].splitlines()]
        self.assertEqual([("first", 11.0), ("second", 35.0)], [(record["key"], record["mean"]) for record in records])


if __name__ == "__main__":
    unittest.main()
