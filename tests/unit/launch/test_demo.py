"""The demo: the fit of its cut-outs, the contact sheet and the shipped files."""

import unittest

from stage import InFolder

from offramp_launch import contact_sheet, demo
from offramp_launch.places import Places

try:
    import numpy
    from PIL import Image

    from offramp_launch.mask_fit import mean_iou
except ImportError:
    numpy = None


@unittest.skipIf(numpy is None, "this Python has no NumPy or no Pillow")
class DemoTest(InFolder):
    def test_iou_is_computed_per_class_over_all_pixels(self):
        true = numpy.array([[0, 0, 1, 1]])
        found = numpy.array([[0, 1, 1, 1]])
        fit = mean_iou([(found, true), (true, true)])
        self.assertAlmostEqual(fit.by_class[0], 3 / 4)
        self.assertAlmostEqual(fit.by_class[1], 4 / 5)
        self.assertAlmostEqual(fit.mean, (3 / 4 + 4 / 5) / 2)
        self.assertAlmostEqual(fit.worst, (1 / 2 + 2 / 3) / 2)
        self.assertEqual(mean_iou([(true, true)]).mean, 1)
        self.assertIn("mean IoU 0.775 (background 0.750, thing 0.800", fit.describe())

    def test_every_shipped_image_has_a_mask_with_an_object(self):
        images = demo.images(Places())
        self.assertEqual(len(images), 12)
        for image in images:
            mask = Image.open(Places().demo_masks / f"{image.stem}.png")
            self.assertEqual(Image.open(image).size, mask.size)
            self.assertTrue(0.01 < (numpy.asarray(mask) == 1).mean() < 0.9, image)
            self.assertLessEqual(numpy.asarray(mask).max(), 1)

    def made_results(self):
        """Results with the true masks."""
        for name in ("mask-png", "cut-out"):
            (self.folder / name).mkdir()
        for image in demo.images(Places()):
            mask = Image.open(Places().demo_masks / f"{image.stem}.png")
            mask.resize((64, 64)).save(self.folder / "mask-png" / f"{image.stem}.png")
            cut_out = Image.open(image).convert("RGBA")
            cut_out.putalpha(Image.fromarray(numpy.asarray(mask).astype(numpy.uint8) * 255))
            cut_out.save(self.folder / "cut-out" / f"{image.stem}.png")

    def test_the_sheet_shows_every_image_and_its_cut_out(self):
        self.made_results()
        report = demo.show(Places(), self.folder, {"model": "cutout"})
        self.assertIn("mean IoU 1.000", report)
        sheet = Image.open(self.folder / "contact-sheet.png").convert("RGB")
        self.assertLess((self.folder / "contact-sheet.png").stat().st_size, 400_000)
        tile, gap = contact_sheet.TILE, contact_sheet.GAP
        self.assertEqual(sheet.size, (2 * 3 * (tile + gap) + gap, 6 * (tile + gap) + gap))
        # The ground is visible around the first cut-out, not inside it.
        image, _, cut_out = contact_sheet.tiles(demo.rows_of(Places(), self.folder)[0])
        mask = numpy.asarray(Image.open(Places().demo_masks / "bag.png").convert("L").resize(cut_out.size)) > 0
        shown, original = numpy.asarray(cut_out, int), numpy.asarray(image, int)
        middle = (mask.shape[0] // 2, mask.shape[1] // 2)
        self.assertTrue(mask[middle])
        self.assertLess(abs(shown[middle] - original[middle]).max(), 8)
        self.assertIn(tuple(shown[1, -2]), ((255,) * 3, (214,) * 3))
        page = (self.folder / "contact-sheet.html").read_text()
        for image in demo.images(Places()):
            self.assertIn(f'src="cut-out/{image.stem}.png"', page)
            self.assertIn(f"{image.name}", page)

    def test_the_sheet_replaces_links_without_following_them(self):
        self.made_results()
        (self.folder / "precious").write_text("root's")
        for name, lead in (("contact-sheet.html", "precious"), ("contact-sheet.png", "absent")):
            (self.folder / name).symlink_to(self.folder / lead)
        self.assertIn("mean IoU 1.000", demo.show(Places(), self.folder, {"model": "cutout"}))
        self.assertEqual((self.folder / "precious").read_text(), "root's")
        self.assertFalse((self.folder / "absent").exists())
        self.assertIn("<figure>", (self.folder / "contact-sheet.html").read_text())
        self.assertGreater(Image.open(self.folder / "contact-sheet.png").width, 1000)
        for name in ("contact-sheet.html", "contact-sheet.png"):
            self.assertFalse((self.folder / name).is_symlink())

    def test_without_cut_outs_there_is_no_sheet(self):
        self.made_results()
        (self.folder / "cut-out" / "bag.png").unlink()
        self.assertNotIn("IoU", demo.show(Places(), self.folder, {"model": "cutout"}))
        self.assertFalse((self.folder / "contact-sheet.png").exists())
