"""The same pictures through every input format: results are the same bytes, and bad items are only counted."""

import contextlib
import io
import json
import pathlib
import sqlite3
import tarfile
import tempfile
import unittest

import numpy
from PIL import Image, ImageOps

from tests.support.launched_run import ROOT, LaunchedRun

PICTURES = sorted((ROOT / "launch/demo/images").glob("*.jpg"))[:4]
RUN = ("--device", "cpu", "--model", "cutout", "--consumers", "2", "--batch", "2")
ALL_MAY_BE_BAD = ("--max-errors", "100%")
SIDE = 256  # the model's input size


def add(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


class Sources(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def enterContext(self, context):  # of a Python before 3.11
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def results(self, *flags):
        """The output's files by name, and the run's summary."""
        run = self.enterContext(LaunchedRun(*RUN, *flags))
        self.assertEqual(run.start().wait(), 0, run.logs())
        return {
            str(path.relative_to(run.output)): path.read_bytes() for path in run.output.rglob("*.png")
        }, run.summary()

    def test_files_manifests_and_shards_give_the_same_masks_and_cut_outs(self):
        for picture in PICTURES:
            (self.folder / picture.name).write_bytes(picture.read_bytes())
        wanted, _ = self.results("--processor", "mask-png,cut-out", "--input", str(self.folder))
        self.assertEqual(len(wanted), 2 * len(PICTURES))

        manifest = self.folder / "list.jsonl"
        manifest.write_text(
            "".join(
                json.dumps({"id": f"Möbel/{path.stem} 1", "uri": path.name, "label": path.stem}) + "\n"
                for path in PICTURES
            )
        )
        found, _ = self.results("--processor", "mask-png,cut-out", "--input", str(manifest))
        self.assertEqual(
            {name.replace("Möbel/", "").replace(" 1.png", ".png"): content for name, content in found.items()}, wanted
        )

        for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            folder = "f" * 90 + "/" + ("g" * 90 if form != tarfile.USTAR_FORMAT else "g")
            with tarfile.open(self.folder / f"shard-{form}.tar", "w", format=form) as tar:
                for path in PICTURES:
                    add(tar, f"{folder}/{path.stem}.jpg", path.read_bytes())
                    add(tar, f"{folder}/{path.stem}.json", b"{}")
        found, _ = self.results(
            "--processor", "mask-png,cut-out", "--source", "webdataset", "--input", str(self.folder)
        )
        self.assertEqual(len(found), 3 * len(wanted))
        for name, content in found.items():
            self.assertEqual(content, wanted[f"{name.split('/')[0]}/{name.rsplit('/', 1)[1]}"], name)

    def test_arrays_give_the_masks_of_the_pictures_that_they_hold(self):
        pixels = numpy.stack([numpy.asarray(Image.open(path).convert("RGB").resize((SIDE, SIDE))) for path in PICTURES])
        pictures = self.folder / "pictures"
        pictures.mkdir()
        for number, picture in enumerate(pixels):
            Image.fromarray(picture).save(pictures / f"{number}.webp", lossless=True)
        wanted, _ = self.results("--processor", "mask-png", "--input", str(pictures))
        self.assertEqual(len(wanted), len(PICTURES))
        normal = (pixels / numpy.float32(255) - numpy.float32([0.485, 0.456, 0.406])) / numpy.float32(
            [0.229, 0.224, 0.225]
        )
        for name, array in (
            ("pixels", pixels),
            ("planes", pixels.transpose(0, 3, 1, 2)),
            ("input", normal.transpose(0, 3, 1, 2).astype("<f4")),
        ):
            numpy.save(self.folder / f"{name}.npy", numpy.ascontiguousarray(array))
            found, _ = self.results("--processor", "mask-png", "--input", str(self.folder / f"{name}.npy"))
            self.assertEqual(sorted(found), sorted(wanted), name)
            for number, content in found.items():
                differing = numpy.mean(
                    numpy.asarray(Image.open(io.BytesIO(content)))
                    != numpy.asarray(Image.open(io.BytesIO(wanted[number])))
                )
                self.assertLessEqual(differing, 0 if name != "input" else 1e-4, name)

    def test_a_photograph_is_cut_out_upright(self):
        for value in range(1, 9):
            exif = Image.Exif()
            exif[274] = value
            Image.open(PICTURES[0]).resize((300, 200)).save(self.folder / f"{value}.jpg", exif=exif)
        found, _ = self.results("--processor", "cut-out", "--input", str(self.folder))
        for value in range(1, 9):
            upright = numpy.asarray(ImageOps.exif_transpose(Image.open(self.folder / f"{value}.jpg")))
            cut = numpy.asarray(Image.open(io.BytesIO(found[f"{value}.png"])))
            self.assertEqual(cut.shape[:2], upright.shape[:2], value)
            seen = cut[..., 3] > 0
            self.assertTrue(seen.any(), value)
            numpy.testing.assert_array_equal(cut[seen][:, :3], upright[seen], str(value))

    def test_records_have_the_manifests_columns_and_keep_another_database(self):
        for picture in PICTURES:
            (self.folder / picture.name).write_bytes(picture.read_bytes())
        manifest = self.folder / "list.jsonl"
        names = [(path.stem, path.name) for path in PICTURES] + [("gone", "gone.jpg")]
        manifest.write_text(
            "".join(
                json.dumps({"id": name, "uri": uri, "label": f"ein „{name}“", "price": number}) + "\n"
                for number, (name, uri) in enumerate(names)
            )
            + "no JSON\n"
        )
        run = self.enterContext(
            LaunchedRun(*RUN, *ALL_MAY_BE_BAD, "--processor", "mask-png,records", "--input", str(manifest))
        )
        self.assertEqual(run.start().wait(), 0, run.logs())
        with contextlib.closing(sqlite3.connect(run.output / "records/records.sqlite")) as records:
            rows = records.execute("SELECT key, status, columns FROM records ORDER BY item").fetchall()
        self.assertEqual(
            [(key, status, json.loads(columns)) for key, status, columns in rows],
            [
                (name, "skipped" if name == "gone" else "done", {"label": f"ein „{name}“", "price": number})
                for number, (name, _) in enumerate(names)
            ]
            + [(rows[-1][0], "skipped", {})],
        )

        database = run.output / "records/records.sqlite"
        database.unlink()
        with contextlib.closing(sqlite3.connect(database)) as other:
            other.execute("CREATE TABLE precious (a)")
        before = database.read_bytes()
        self.assertEqual(run.start("--resume").wait(), 64, run.logs())
        self.assertIn(str(database), run.logs())
        self.assertEqual(database.read_bytes(), before)

    def test_bad_items_are_counted_with_their_place(self):
        (self.folder / "a.jpg").write_bytes(PICTURES[0].read_bytes())
        manifest = self.folder / "list.jsonl"
        manifest.write_text(
            '{"id": "../../a", "uri": "a.jpg"}\nno JSON\n{"id": "b", "uri": "gone.jpg"}\n{"id": "../../a", "uri": "a.jpg"}\n'
        )
        found, summary = self.results("--processor", "mask-png", "--input", str(manifest), *ALL_MAY_BE_BAD)
        self.assertEqual(sorted(found), ["a.png"])
        self.assertEqual(summary["samples"]["skipped"], 3)
        reported = [f"{item['origin']} {item['reason']}" for item in summary["skipped"]]
        for line, reason in ((2, "not JSON"), (3, "No such file"), (4, "is also the id of line 1")):
            self.assertTrue(any(f"list.jsonl:{line}" in text and reason in text for text in reported), reported)

        with tarfile.open(self.folder / "whole.tar", "w") as tar:
            for path in PICTURES:
                add(tar, path.name, path.read_bytes())
        whole = (self.folder / "whole.tar").read_bytes()
        (self.folder / "cut.tar").write_bytes(whole[: len(whole) // 2])
        found, summary = self.results(
            "--processor", "mask-png", "--input", str(self.folder / "cut.tar"), *ALL_MAY_BE_BAD
        )
        self.assertLess(0, len(found))
        self.assertLess(len(found), len(PICTURES))
        self.assertTrue(any("truncated" in item["reason"] for item in summary["skipped"]), summary["skipped"])

    def test_one_damaged_note_in_a_shard_costs_one_item(self):
        with tarfile.open(self.folder / "notes.tar", "w") as tar:
            for number, path in enumerate(PICTURES):
                add(tar, f"{number}.jpg", path.read_bytes())
                add(tar, f"{number}.json", b'{"label": "ca' if number == 1 else b'{"label": "cat"}')
        run = self.enterContext(
            LaunchedRun(
                *RUN, *ALL_MAY_BE_BAD, "--processor", "mask-png,records", "--input", str(self.folder / "notes.tar")
            )
        )
        self.assertEqual(run.start().wait(), 0, run.logs())
        (skipped,) = run.summary()["skipped"]
        self.assertIn("its .json: not JSON", skipped["reason"])
        with contextlib.closing(sqlite3.connect(run.output / "records/records.sqlite")) as records:
            rows = records.execute("SELECT key, status FROM records ORDER BY item").fetchall()
        self.assertEqual(
            rows, [(f"notes/{number}", "skipped" if number == 1 else "done") for number in range(len(PICTURES))]
        )
