"""offramp.lightning with the real package: predictions on one process and on two ranks."""

import importlib.util
import os
import subprocess
import sys
import unittest
from unittest import mock

import offramp
from loops import results
from test_zarr import needs_zarr, opened
from world import WATCHDOG_SECONDS, World

SAMPLES = 10
MODULE = """
import sys, torch, {package}, offramp.lightning

class Module({package}.LightningModule):
    fails_at = None
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Linear(1, 1)
        torch.nn.init.ones_(self.network.weight)
        torch.nn.init.zeros_(self.network.bias)
    def predict_step(self, batch, index, dataloader_idx=0):
        if index == self.fails_at:
            raise ValueError("no prediction")
        return {{"doubled": 2 * self.network(batch)}}

def loader(begin=0):
    data = torch.arange(begin, begin + 10, dtype=torch.float32)[:, None]
    return torch.utils.data.DataLoader(data, batch_size=3)

def trainer(writer, **more):
    return {package}.Trainer(callbacks=[writer], accelerator="cpu", logger=False, enable_progress_bar=False,
                             enable_model_summary=False, enable_checkpointing=False, **more)
"""
ON_TWO_RANKS = """
writer = offramp.lightning.PredictionWriter(sys.argv[1], "checksum,npy", consumers=1)
trainer(writer, devices=2, strategy="ddp").predict(Module(), loader(), return_predictions=False)
"""
PACKAGE = next((name for name in ("lightning", "pytorch_lightning") if importlib.util.find_spec(name)), None)


@unittest.skipUnless(PACKAGE and importlib.util.find_spec("torch"), "skipped: no Lightning")
class Lightning(World):
    @classmethod
    def setUpClass(cls):
        cls.mine = {}
        exec(cls.text(), cls.mine)

    @staticmethod
    def text():
        return MODULE.format(package="lightning.pytorch" if PACKAGE == "lightning" else PACKAGE)

    def writer(self, **options):
        return offramp.lightning.PredictionWriter(self.folder / "out", "npy", consumers=1, **options)

    def predict(self, writer, loaders=None, module=None, **more):
        self.mine["trainer"](writer).predict(
            module or self.mine["Module"](), loaders or self.mine["loader"](), **{"return_predictions": False, **more}
        )

    def require(self, expected):
        import numpy

        made = {name: numpy.load(self.folder / "out" / name).item() for name in results(self.folder / "out")}
        self.assertEqual({f"{key}.doubled.npy": value for key, value in expected.items()}, made)

    def test_each_prediction_is_named_by_its_index(self):
        writer = self.writer()
        self.predict(writer)
        self.require({str(number): 2.0 * number for number in range(SAMPLES)})

    def test_keys_of_a_function_and_of_several_loaders(self):
        loaders = [self.mine["loader"](), self.mine["loader"](100)]
        self.predict(self.writer(keys=lambda batch, indices: [f"n{int(value)}" for value in batch]), loaders)
        names = {
            f"{begin // 100}/n{begin + number}": 2.0 * (begin + number) for begin in (0, 100) for number in range(10)
        }
        self.require(names)

    @needs_zarr
    def test_metadata_of_a_function_place_samples_in_zarr(self):
        path = self.folder / "all.zarr"
        writer = offramp.lightning.PredictionWriter(
            self.folder / "out", "python:offramp.zarr:Writer", consumers=1,
            metadata=lambda batch, indices: [{"at": 9 - index} for index in indices],
            settings={"processor-option": {"path": path, "index": "at"}},
        )  # fmt: skip
        self.predict(writer)
        self.assertEqual([18, 16, 14, 12, 10, 8, 6, 4, 2, 0], opened(path)["doubled"][:, 0].tolist())

    def test_predictions_that_lightning_would_keep_are_refused(self):
        for more in ({"return_predictions": True}, {"return_predictions": None}):
            with self.assertRaisesRegex(offramp.BadArgument, "predict.*return_predictions=False"):
                self.predict(self.writer(), **more)

    def test_a_loader_without_indices_needs_keys(self):
        import torch

        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(torch.ones(4, 1))

        with self.assertRaisesRegex(offramp.BadArgument, "knows no indices .* Pass keys="):
            self.predict(self.writer(), [self.mine["loader"](), torch.utils.data.DataLoader(Stream(), batch_size=2)])

    def test_an_exception_abandons_the_run_and_resume_does_the_rest(self):
        module = self.mine["Module"]()
        module.fails_at = 2
        writer = self.writer(resume=True)
        with mock.patch("offramp._egress.report_abandoned") as report:
            with self.assertRaisesRegex(ValueError, "no prediction"):
                self.predict(writer, module=module)
        report.assert_called_once()
        self.assertIsNone(writer._egress)
        self.predict(self.writer(resume=True))
        self.require({str(number): 2.0 * number for number in range(SAMPLES)})

    @unittest.skipUnless(
        PACKAGE == "lightning" and importlib.util.find_spec("pytorch_lightning"), "skipped: not both packages"
    )
    def test_the_trainer_of_the_other_package_is_refused(self):
        import pytorch_lightning

        with self.assertRaisesRegex(offramp.BadArgument, "another package than offramp.lightning, .*lightning.pytorch"):
            self.writer().on_predict_start(pytorch_lightning.Trainer(accelerator="cpu", logger=False), None)

    def test_two_ranks_share_an_output(self):
        program = self.folder / "predict.py"
        program.write_text(self.text() + ON_TWO_RANKS)
        done = subprocess.run(
            [sys.executable, str(program), str(self.folder / "out")],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        found = {name: text for name, text in results(self.folder / "out").items() if not name.startswith(".")}
        self.assertEqual(
            {f"npy/{number}.doubled.npy" for number in range(SAMPLES)}, set(found) - {"checksum/checksums.tsv"}
        )
        keys = [line.split(b"\t")[2] for line in found["checksum/checksums.tsv"].splitlines()]
        self.assertEqual(sorted(b"%d" % number for number in range(SAMPLES)), sorted(keys))
