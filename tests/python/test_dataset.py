"""offramp.Dataset with PyTorch's DataLoader: one process, several workers, and a trainer that dies."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import unittest

import offramp
from world import World, wait_for

SAMPLES, SLAB = 24, 4
# Submits once `consumers` are there, and waits until all samples are accepted.
PRODUCER = """
import sys, time, numpy, offramp
run, consumers = sys.argv[1], int(sys.argv[2])
layout = {"values": ("float32", (4, 3)), "ids": ("int64", (4,))}
with offramp.Egress(run, layout, "cpu", slabs=3, samples_per_slab=4, metadata_bytes=64) as egress:
    print("open", flush=True)
    while egress.stats().consumers < consumers:
        time.sleep(0.001)
    for number in range(0, 24, 4):
        items = numpy.arange(number, number + 4)
        values = items[:, None].repeat(3, 1).astype("float32")
        egress.submit({"values": values, "ids": items}, [f"k{item}" for item in items],
                      metadata=[{"label": int(item) % 2} for item in items])
"""
# Prints each key. Kills itself when it has the sample after `dies` others.
TRAINER = """
import os, signal, sys, offramp
for number, sample in enumerate(offramp.Dataset(sys.argv[1])):
    print(sample["key"], flush=True)
    if number == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch")
class Datasets(World):
    def produce(self, consumers=1):
        producer = self.python(PRODUCER, self.run_dir, consumers)
        self.assertEqual("open", self.read_line(producer))
        return producer

    def loader(self, **options):
        import torch

        whole_slabs = options.pop("whole_slabs", False)
        return torch.utils.data.DataLoader(offramp.Dataset(self.run_dir, whole_slabs=whole_slabs), **options)

    def require_samples(self, batches):
        """Each sample once, with its own tensors and metadata."""
        keys = [key for batch in batches for key in batch["key"]]
        self.assertEqual(sorted(f"k{number}" for number in range(SAMPLES)), sorted(keys))
        for batch in batches:
            for row, key in enumerate(batch["key"]):
                number = int(key[1:])
                self.assertEqual(number, batch["ids"][row])
                self.assertEqual([number] * 3, batch["values"][row].tolist())

    def test_a_loader_collates_samples_of_several_slabs(self):
        producer = self.produce()
        batches = list(self.loader(batch_size=6))
        self.end(producer)
        self.require_samples(batches)
        self.assertEqual([6] * 4, [len(batch["key"]) for batch in batches])
        self.assertEqual([f"k{number}" for number in range(6)], batches[0]["key"])
        self.assertEqual([0, 1, 0, 1, 0, 1], batches[0]["metadata"]["label"].tolist())

    def test_a_whole_slab_is_a_batch(self):
        producer = self.produce()
        batches = list(self.loader(batch_size=None, whole_slabs=True))
        self.end(producer)
        self.require_samples(batches)
        self.assertEqual([(SLAB, 3)] * 6, [tuple(batch["values"].shape) for batch in batches])
        self.assertEqual([{"label": 0}, {"label": 1}] * 2, batches[0]["metadata"])

    def test_each_worker_is_a_consumer(self):
        producer = self.produce(consumers=2)
        batches = list(self.loader(batch_size=2, num_workers=2, in_order=False))
        self.end(producer)
        self.require_samples(batches)

    def test_samples_of_different_shapes(self):
        import torch

        producer = self.python(
            """
            import sys, numpy, offramp
            with offramp.Egress(sys.argv[1]) as egress:
                egress.submit({"hidden": [numpy.full((n, 2), n, "float32") for n in (3, 1)]}, ["a", "b"])
            """,
            self.run_dir,
        )
        [batch] = self.loader(batch_size=None, whole_slabs=True)
        self.end(producer)
        self.assertEqual(["a", "b"], batch["key"])
        self.assertTrue(torch.equal(torch.full((3, 2), 3.0), batch["hidden"][0]))
        self.assertEqual((1, 2), tuple(batch["hidden"][1].shape))

    def test_the_slab_of_a_trainer_that_dies_is_delivered_again(self):
        producer = self.produce()
        died = self.python(TRAINER, self.run_dir, 5)  # in the second slab
        first, _ = died.communicate()
        self.assertEqual(-signal.SIGKILL, died.returncode)
        self.assertEqual([f"k{number}" for number in range(6)], first.decode().split())
        second = self.end(self.python(TRAINER, self.run_dir, -1)).split()
        self.end(producer)
        self.assertEqual({f"k{number}" for number in range(SLAB, SAMPLES)}, set(second))
        self.assertEqual(SAMPLES - SLAB, len(second), "the second slab and all later ones, once")

    def test_a_sample_is_accepted_when_the_next_is_asked_for(self):
        import numpy

        with offramp.Egress(self.run_dir, samples_per_slab=1, slabs=4) as egress:
            egress.submit(numpy.zeros((2, 3), "float32"), ["a", "b"])
            samples = iter(offramp.Dataset(self.run_dir))
            self.assertEqual("a", next(samples)["key"])
            self.assertEqual(0, egress.stats().samples_completed)
            self.assertEqual("b", next(samples)["key"])
            wait_for(lambda: egress.stats().samples_completed == 1, "that the first sample is accepted")
            samples.close()  # returns the second
            rest = []
            reader = threading.Thread(target=lambda: rest.extend(offramp.Dataset(self.run_dir)))
            reader.start()
        reader.join()
        self.assertEqual(["b"], [sample["key"] for sample in rest])

    def test_a_run_that_does_not_exist_is_reported_by_worker_0(self):
        import torch

        for workers in (0, 2):
            loader = torch.utils.data.DataLoader(offramp.Dataset(self.run_dir, wait_for_run=0.1), num_workers=workers)
            with self.subTest(workers), self.assertRaisesRegex(offramp.NoSuchRun, "no file 'endpoint'"):
                list(loader)

    def test_the_package_does_not_import_pytorch(self):
        program = "import sys, offramp; assert 'torch' not in sys.modules; sys.modules['torch'] = None; offramp.Dataset"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ)
        self.assertIn("LibraryNotFound: offramp.Dataset needs PyTorch: ", done.stderr)
