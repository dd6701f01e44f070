"""A run without arguments: the shipped model cuts out photographs, compared with their true masks."""

import json
import signal
import sys

import numpy
from PIL import Image

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.launched_run import ROOT, LaunchedRun
from tests.support.real_run import LeavesNothing

IMAGES = ROOT / "launch" / "demo" / "images"
TRUE_MASKS = ROOT / "launch" / "demo" / "masks"
NAMES = sorted(path.stem for path in IMAGES.glob("*.jpg"))
WANTED_IOU = 0.90
# Repeated here, independently of the demo's code.
SAID = ("--device", DEVICE, "--input", str(IMAGES), "--processor", "mask-png,cut-out,overlay")


def pixels(path):
    with Image.open(path) as image:
        return image.mode, numpy.array(image)


class Demo(LeavesNothing):
    def run_to_its_end(self, run, *flags):
        # The Python of the setup, whose packages draw the contact sheet.
        (run.folder / "build" / "venv").symlink_to(sys.prefix)
        self.assertEqual(run.start(*flags).wait(), 0, run.logs())
        return (run.folder / "launcher.log").read_text()

    def results_of(self, *flags):
        """A run's files with their bytes, without those that the launcher adds."""
        with LaunchedRun(*flags) as run:
            self.run_to_its_end(run)
            return {name: data for name, data in run.files().items() if not name.startswith("contact-sheet")}

    def check_cut_outs(self, output):
        """Checks sizes, colours and the removed background. Returns the mean IoU against the true masks."""
        both, either = numpy.zeros(2), numpy.zeros(2)
        for name in NAMES:
            mode, cut_out = pixels(output / "cut-out" / f"{name}.png")
            _, original = pixels(IMAGES / f"{name}.jpg")
            self.assertEqual((mode, cut_out.shape[:2]), ("RGBA", original.shape[:2]), name)
            alpha = cut_out[..., 3]
            self.assertTrue(((alpha > 20) & (alpha < 235)).any(), f"{name} has soft edges")
            self.assertFalse(cut_out[alpha == 0].any(), name)
            shown = alpha > 0
            # Two JPEG decoders may round differently.
            self.assertLessEqual(abs(cut_out[shown][:, :3].astype(int) - original[shown]).max(), 3, name)
            _, true = pixels(TRUE_MASKS / f"{name}.png")
            for number in (0, 1):
                found, there = (alpha >= 128) == bool(number), true == number
                both[number] += (found & there).sum()
                either[number] += (found | there).sum()
        return float((both / either).mean())

    def test_a_plain_run_cuts_photographs_out_and_shows_them(self):
        with LaunchedRun("--device", DEVICE) as run:
            printed = self.run_to_its_end(run)
            last = [json.loads(line)["progress"] for line in printed.splitlines() if line.startswith('{"progress"')][-1]
            self.assertEqual(("ended", len(NAMES)), (last["state"], last["done"]))
            self.assertNotEqual(
                "starting",
                run.status()["limiting_stage"],
                "a run that ends before its first status has a limiting stage",
            )
            for name in NAMES:
                mode, mask = pixels(run.output / "mask-png" / f"{name}.png")
                self.assertEqual((mode, mask.shape), ("P", pixels(IMAGES / f"{name}.jpg")[1].shape[:2]))
                self.assertEqual(set(numpy.unique(mask)), {0, 1}, name)
                self.assertEqual(
                    pixels(run.output / "overlay" / f"{name}.jpg")[1].shape, pixels(IMAGES / f"{name}.jpg")[1].shape
                )
            iou = self.check_cut_outs(run.output)
            self.assertGreaterEqual(iou, WANTED_IOU)
            self.assertIn(f"mean IoU {iou:.3f}", printed)
            self.assertNotIn("RANDOM WEIGHTS", printed)
            mode, sheet = pixels(run.output / "contact-sheet.png")
            self.assertGreater(len(numpy.unique(sheet)), 100)
            page = (run.output / "contact-sheet.html").read_text()
            self.assertEqual(page.count("<figure>"), len(NAMES))
            for source in page.split('src="')[1:]:
                self.assertTrue((run.output / source.partition('"')[0]).exists(), source)

    def test_a_model_by_name_or_file_and_a_killed_consumer_give_the_same(self):
        wanted = self.results_of(*SAID, "--model", "cutout")
        self.assertEqual(len(wanted), 3 * len(NAMES))
        self.assertEqual(self.results_of(*SAID, "--model", str(ROOT / "launch/demo/cutout.safetensors")), wanted)
        with (
            LaunchedRun(*SAID, "--model", "cutout", "--batch", "1", "--slabs", "2", "--consumers", "2") as run,
            run.gate() as gate,
        ):
            run.start()
            gate.let(4)
            gate.kill([gate.entered()[0] for _ in range(5)][-1])
            gate.open()
            self.assertEqual(run.wait(), 0, run.logs())
            self.assertIn(-signal.SIGKILL, [consumer["exit"] for consumer in run.summary()["consumers"]])
            self.assertEqual(run.files().keys(), wanted.keys())

    def test_every_form_of_the_output_gives_the_same_cut_outs(self):
        for flags in (
            ("--transform", "low-res"),
            ("--transform", "class-map", "--confidence"),
            ("--transform", "cast"),
        ):
            with self.subTest(flags=flags), LaunchedRun(*SAID, "--model", "cutout", *flags) as run:
                self.run_to_its_end(run)
                self.assertGreaterEqual(self.check_cut_outs(run.output), WANTED_IOU)

    def test_cut_outs_of_no_images_are_refused(self):
        with LaunchedRun(
            "--device", DEVICE, "--model", "cutout", "--source", "synthetic", "--batches", "1", "--processor", "cut-out"
        ) as run:
            self.assertEqual(run.start().wait(), 64, run.logs())
            self.assertIn("cut-out needs the images", run.logs())
