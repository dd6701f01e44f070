"""
Outputs of many forms through whole runs: class ids of an argmax, outputs that no processor writes, layouts that are
probably mistaken, vectors that are not finite.
"""

import importlib.util
import io
import pathlib
import sqlite3
import tempfile
import unittest

import numpy
from PIL import Image

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import networks_in
from tests.support.launched_run import LaunchedRun
from tests.support.real_run import LeavesNothing

SIDE = 64
NOTES = f'image-size = {SIDE}\nmean = "0, 0, 0"\nstd = "1, 1, 1"\n'
PARQUET = importlib.util.find_spec("pyarrow") is not None

HEAD = """
import torch
from typing import Dict, List, Tuple


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> {gives}:
        return {body}
"""


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class OutputForms(LeavesNothing):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory(prefix="offramp-output-forms-")
        cls.addClassCleanup(kept.cleanup)
        cls.folder = pathlib.Path(kept.name)
        cls.images = cls.folder / "images"
        cls.images.mkdir()
        random = numpy.random.default_rng(8)
        cls.pictures = {}
        for index in range(4):
            cls.pictures[str(index)] = random.integers(0, 256, (SIDE, SIDE, 3), dtype=numpy.uint8)
            Image.fromarray(cls.pictures[str(index)]).save(cls.images / f"{index}.png")

    def run_of(self, body, *flags, gives="torch.Tensor"):
        """(exit code, all output, {file: bytes}) of a run of a network whose forward(x) returns `body`."""
        import torch

        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        torch.jit.script(networks_in(folder, HEAD.format(body=body, gives=gives)).Net().eval()).save(
            str(folder / "net.pt")
        )
        (folder / "net.toml").write_text(NOTES)
        with LaunchedRun(
            "--model",
            str(folder / "net.pt"),
            "--input",
            str(self.images),
            "--device",
            DEVICE,
            *"--consumers 1 --batch 2".split(),
            *flags,
        ) as run:
            return run.start().wait(), run.logs(), run.files()

    def masks_of(self, body, *flags):
        code, printed, files = self.run_of(body, *flags)
        self.assertEqual((code, set(files)), (0, {f"{key}.png" for key in self.pictures}), printed)
        return {name.removesuffix(".png"): Image.open(io.BytesIO(content)) for name, content in files.items()}

    def test_class_ids_of_an_argmax_become_masks(self):
        for ids in ("x.argmax(1)", "x.argmax(1, keepdim=True)", "x.argmax(1).int()", "x.argmax(1, keepdim=True).int()"):
            for key, mask in self.masks_of(ids).items():
                numpy.testing.assert_array_equal(numpy.asarray(mask), self.pictures[key].argmax(-1), ids)
        for ids in ("x[:, 0] > 0.5", "x[:, :1] > 0.5"):
            for key, mask in self.masks_of(ids).items():
                numpy.testing.assert_array_equal(numpy.asarray(mask), self.pictures[key][..., 0] > 127, ids)

    def test_ids_that_no_mask_holds_end_the_run_with_their_number(self):
        code, printed, files = self.run_of("(x[:, 0] * 0).long() + 300")
        self.assertEqual((code, files), (64, {}), printed)
        self.assertIn("the class id 300", printed)

    def test_masks_without_a_palette_have_the_ids_in_any_reader(self):
        for key, mask in self.masks_of("x.argmax(1)", "--mask-palette", "none").items():
            self.assertEqual(mask.mode, "L")
            numpy.testing.assert_array_equal(numpy.asarray(mask), self.pictures[key].argmax(-1))

    def test_outputs_that_are_not_written_are_named(self):
        code, printed, files = self.run_of(
            '{"masks": x * 5.0, "boxes": x[:, 0, :7, :4], "score": x.mean((2, 3))}', gives="Dict[str, torch.Tensor]"
        )
        self.assertEqual((code, len(files)), (0, len(self.pictures)), printed)
        self.assertRegex(
            printed,
            r"not written, since --processor auto does not read them: .*boxes float32 \[2, 7, 4\].*score float32 \[2, 3\]",
        )

    def test_a_channels_last_output_is_warned_of(self):
        code, printed, _ = self.run_of("x.permute(0, 2, 3, 1).contiguous()")
        self.assertEqual(code, 0, printed)
        self.assertIn("If it is channels-last", printed)

    def vectors_of(self, processor, *flags):
        """
        {key: vector or None} of a network whose vectors contain infinity for the first picture and NaN for the second.
        """
        first, second = (float(self.pictures[key][0, 0, 0]) / 255 for key in ("0", "1"))
        self.assertEqual(
            len({picture[0, 0, 0] for picture in self.pictures.values()}),
            len(self.pictures),
            "the first pixel does not distinguish the pictures",
        )
        at = "(x[:, :1, 0, 0] - {}).abs() < 0.001"
        body = f"x.mean((2, 3)).masked_fill({at.format(first)}, float('inf')).masked_fill({at.format(second)}, float('nan'))"
        code, printed, files = self.run_of(body, "--processor", processor, *flags)
        self.assertEqual(code, 0, printed)
        self.assertIn("infinite or NaN: their rows store NULL", printed)
        path = self.folder / "results"
        path.write_bytes(
            next(iter(content for name, content in files.items() if not pathlib.Path(name).name.startswith(".")))
        )
        if processor == "embeddings-parquet":
            import pyarrow.parquet

            table = pyarrow.parquet.read_table(path).to_pydict()
            return dict(zip(table["key"], table["vector"]))
        rows = sqlite3.connect(path).execute("SELECT key, vector FROM embeddings").fetchall()
        return {key: None if vector is None else list(numpy.frombuffer(vector, "<f4")) for key, vector in rows}

    def test_vectors_that_are_not_finite_are_null_in_every_table(self):
        for processor in ("embeddings-sqlite",) + (("embeddings-parquet",) if PARQUET else ()):
            for flags in ((), ("--normalize",)):
                found = self.vectors_of(processor, *flags)
                self.assertEqual(
                    {key: vector is None for key, vector in found.items()},
                    {"0": True, "1": True, "2": False, "3": False},
                    processor,
                )
                wanted = self.pictures["2"].mean((0, 1)) / 255
                numpy.testing.assert_allclose(
                    found["2"], wanted / numpy.linalg.norm(wanted) if flags else wanted, rtol=1e-4
                )
