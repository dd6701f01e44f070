"""Whole runs over many kinds of pictures, compared with the installed Pillow: decoded pixels and cut-outs."""

import importlib.util
import io
import pathlib
import struct
import tempfile
import unittest

import numpy
from PIL import Image, ImageCms, ImageOps

from tests.support.device import DEVICE, setUpModule  # noqa: F401
from tests.support.exported_model import networks_in
from tests.support.launched_run import LaunchedRun
from tests.support.real_run import LeavesNothing

NETWORKS = """
import torch


class Everything(torch.nn.Module):
    '''All is foreground: a cut-out then shows the original as it was decoded.'''

    def forward(self, x):
        return x[:, :1] * 0.0 + 1.0
"""
NOTES = 'image-size = 64\nmean = "0, 0, 0"\nstd = "1, 1, 1"\n'


def noise(seed, *shape):
    return numpy.random.default_rng(seed).integers(0, 256, shape, dtype=numpy.uint8)


def bmp(bits, header, top_down=False, compression=0, masks=(), rows=None, width=29, height=13):
    """A BMP of random pixels."""
    seed = bits * header + compression
    rows = noise(seed, (width * bits + 31) // 32 * 4 * height).tobytes() if rows is None else rows
    palette = noise(seed, (1 << bits) * (3 if header == 12 else 4)).tobytes() if bits <= 8 else b""
    if header == 12:
        front = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        front = struct.pack(
            "<IiiHHIIiiII",
            header,
            width,
            -height if top_down else height,
            1,
            bits,
            compression,
            len(rows),
            2835,
            2835,
            0,
            0,
        )
        if header > 40:
            front += (struct.pack("<4I", *masks) if masks else b"").ljust(header - 40, b"\0")
        elif masks:
            front += struct.pack("<3I", *masks[:3])
    begin = 14 + len(front) + len(palette)
    return b"BM" + struct.pack("<III", begin + len(rows), 0, begin) + front + palette + rows


def runs(bits, width=29, height=13):
    """Rows of a run-length BMP: a run, literal pixels, a delta, and a run beyond the end of its row."""
    row = (
        bytes([9, 0x37])
        + (b"\0\5" + (b"\x12\x34\x50\0" if bits == 4 else b"\1\2\3\4\5\0"))
        + b"\0\2\4\0"
        + bytes([width, 0x59])
    )
    return b"\0\0".join([row] * height) + b"\0\1"


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class AgainstPillow(LeavesNothing):
    @classmethod
    def setUpClass(cls):
        import torch

        kept = tempfile.TemporaryDirectory(prefix="offramp-pillow-")
        cls.addClassCleanup(kept.cleanup)
        cls.folder = pathlib.Path(kept.name)
        torch.jit.script(networks_in(cls.folder, NETWORKS).Everything().eval()).save(str(cls.folder / "everything.pt"))
        (cls.folder / "everything.toml").write_text(NOTES)

    def setUp(self):
        super().setUp()
        self.pictures = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="offramp-pillow-")))

    def enterContext(self, context):  # Python 3.10 has none
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def run_of(self, processor, *flags):
        """(files, output) of a run over self.pictures."""
        with LaunchedRun(
            "--model",
            str(self.folder / "everything.pt"),
            "--input",
            str(self.pictures),
            "--device",
            DEVICE,
            "--processor",
            processor,
            *"--batch 4 --consumers 1".split(),
            *flags,
        ) as run:
            code, printed, files = run.start().wait(), run.logs(), run.files()
        self.assertEqual(code, 0, printed)
        return files, printed

    def cut_outs(self):
        """{key: picture} of a run over self.pictures."""
        files, _ = self.run_of("cut-out")
        self.assertEqual(len(files), len(list(self.pictures.iterdir())))
        return {name.removesuffix(".png"): Image.open(io.BytesIO(content)) for name, content in files.items()}

    def test_inks_of_tiff_become_pillows_colours(self):
        inks = numpy.stack(
            numpy.meshgrid(range(0, 256, 17), range(0, 256, 51), range(0, 256, 85), range(0, 256, 5), indexing="ij"), -1
        )
        picture = Image.fromarray(inks.reshape(-1, 96, 4).astype(numpy.uint8), "CMYK")
        for name in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            picture.save(self.pictures / f"{name}.tif", compression=name)
        picture.save(self.pictures / "jpeg.tif", compression="jpeg", quality=95)
        for key, found in self.cut_outs().items():
            wanted = numpy.asarray(Image.open(self.pictures / f"{key}.tif").convert("RGB"))
            numpy.testing.assert_array_equal(numpy.asarray(found)[..., :3], wanted, key)

    def test_inks_of_jpeg_become_pillows_colours(self):
        for seed, progressive in enumerate((False, True)):
            to = io.BytesIO()
            Image.fromarray(noise(seed, 40, 61, 4), "CMYK").save(
                to, "JPEG", quality=90, subsampling=2 * seed, progressive=progressive
            )
            cmyk = to.getvalue()
            adobe = cmyk.index(b"Adobe")  # its last byte marks the first three planes as YCC or not
            (self.pictures / f"cmyk-{seed}.jpg").write_bytes(cmyk)
            (self.pictures / f"ycck-{seed}.jpg").write_bytes(cmyk[: adobe + 11] + b"\2" + cmyk[adobe + 12 :])
            (self.pictures / f"no-adobe-{seed}.jpg").write_bytes(cmyk[: adobe - 4] + cmyk[adobe + 12 :])
        self.check_pixels(self.cut_outs())

    def check_pixels(self, cut_outs):
        """Compares cut-outs with self.pictures as converted by Pillow; transparent pixels have no colour."""
        for path in self.pictures.iterdir():
            found = numpy.asarray(cut_outs[path.stem])
            with Image.open(path) as original:
                seen, wanted = (
                    numpy.asarray(original.convert("RGBA"))[..., 3:] > 0,
                    numpy.asarray(original.convert("RGB")),
                )
            numpy.testing.assert_array_equal(found[..., 3:] > 0, seen, path.name)
            numpy.testing.assert_array_equal(found[..., :3], numpy.where(seen, wanted, 0), path.name)

    def test_bmp_has_pillows_pixels(self):
        picture = Image.fromarray(noise(1, 31, 45, 3))
        saved = {
            "24": picture,
            "8": picture.quantize(200),
            "4": picture.quantize(16),
            "gray": picture.convert("L"),
            "1": picture.convert("1"),
            "32": Image.fromarray(noise(2, 31, 45, 4), "RGBA"),
        }
        for name, image in saved.items():
            image.save(self.pictures / f"saved-{name}.bmp")
        masks = {
            16: ((0xF800, 0x7E0, 0x1F, 0), (0x7C00, 0x3E0, 0x1F, 0)),
            24: ((0xFF0000, 0xFF00, 0xFF, 0),),
            32: (
                (0xFF0000, 0xFF00, 0xFF, 0),
                (0xFF000000, 0xFF0000, 0xFF00, 0),
                (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
                (0, 0, 0, 0),
            ),
        }
        for bits in (1, 4, 8, 16, 24, 32):
            for header in (12, 40, 64, 124):
                for top_down in (False, True)[: 1 if header == 12 else 2]:
                    (self.pictures / f"bits-{bits}-{header}-{top_down}.bmp").write_bytes(bmp(bits, header, top_down))
            for number, mask in enumerate(masks.get(bits, ())):
                for header in (40, 56, 108)[bits == 32 :]:
                    (self.pictures / f"masks-{bits}-{number}-{header}.bmp").write_bytes(
                        bmp(bits, header, compression=3, masks=mask)
                    )
        for bits in (4, 8):
            (self.pictures / f"runs-{bits}.bmp").write_bytes(
                bmp(bits, 40, compression=1 if bits == 8 else 2, rows=runs(bits))
            )
        self.check_pixels(self.cut_outs())

    def test_the_first_picture_of_gif_and_webp_has_pillows_pixels(self):
        for seed, (height, width) in enumerate(((31, 45), (1, 1), (9, 200), (64, 64))):
            frames = [Image.fromarray(noise(3 * seed + number, height, width, 3)) for number in range(3)]
            still = {
                "palette": frames[0].quantize(256),
                "four": frames[0].quantize(4),
                "gray": frames[0].convert("L"),
                "one": frames[0].convert("1"),
                "transparent": Image.fromarray(noise(seed, height, width, 4), "RGBA"),
            }
            for name, image in still.items():
                image.save(self.pictures / f"{name}-{seed}.gif", interlace=seed % 2)
            frames[0].save(self.pictures / f"many-{seed}.gif", save_all=True, append_images=frames[1:], disposal=2)
            for lossless in (False, True):
                frames[0].save(
                    self.pictures / f"many-{seed}-{lossless}.webp",
                    save_all=True,
                    append_images=frames[1:],
                    lossless=lossless,
                )
            seen_through = [Image.fromarray(noise(seed + number, height, width, 4), "RGBA") for number in range(2)]
            seen_through[0].save(
                self.pictures / f"seen-through-{seed}.webp",
                save_all=True,
                append_images=seen_through[1:],
                lossless=True,
                exact=True,
            )
        gif = (self.pictures / "palette-0.gif").read_bytes()
        at = gif.index(b",", 13 + 768)
        for name, place, control in (("canvas", (3, 40), b""), ("around", (9, 2), b"!\xf9\x04\1\0\0\7\0")):
            front = gif[:6] + struct.pack("<HH", 60, 50) + gif[10:at] + control
            (self.pictures / f"{name}.gif").write_bytes(front + b"," + struct.pack("<HH", *place) + gif[at + 5 :])
        self.check_pixels(self.cut_outs())

    def test_notes_of_orientation_in_png_turn_the_picture_as_pillow_turns_it(self):
        for value in range(1, 9):
            exif = Image.Exif()
            exif[274] = value
            Image.fromarray(noise(value, 40, 56, 3)).save(self.pictures / f"turned-{value}.png", exif=exif)
        for key, found in self.cut_outs().items():
            wanted = numpy.asarray(ImageOps.exif_transpose(Image.open(self.pictures / f"{key}.png")))
            numpy.testing.assert_array_equal(numpy.asarray(found)[..., :3], wanted, key)
        masks, _ = self.run_of("mask-png")
        for name, content in masks.items():
            self.assertEqual(
                Image.open(io.BytesIO(content)).size,
                ImageOps.exif_transpose(Image.open(self.pictures / name)).size,
                name,
            )

    def test_png_of_16_bits_is_read_as_tiff_of_16_bits(self):
        numbers = numpy.random.default_rng(3).integers(0, 65536, (33, 47), dtype=numpy.uint16)
        for form in ("png", "tif"):
            Image.fromarray(numbers).save(self.pictures / f"{form}.{form}")
        for key, found in self.cut_outs().items():
            wanted = numpy.repeat(numpy.rint(numbers / 257.0)[..., None], 3, 2)
            numpy.testing.assert_array_equal(numpy.asarray(found)[..., :3], wanted, key)

    def test_transparency_and_colour_profiles_are_kept(self):
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        rgba = Image.fromarray(noise(5, 30, 44, 4), "RGBA")
        for extension in ("png", "webp", "tif"):
            exactly = {"lossless": True, "exact": True} if extension == "webp" else {}
            rgba.save(self.pictures / f"seen-through-{extension}.{extension}", icc_profile=profile, **exactly)
        rgba.convert("RGB").save(self.pictures / "photo.jpg", icc_profile=profile)
        found = self.cut_outs()
        for key, cut in found.items():
            self.assertEqual(cut.info.get("icc_profile"), profile, key)
            alpha = numpy.asarray(cut)[..., 3]
            numpy.testing.assert_array_equal(alpha, 255 if key == "photo" else numpy.asarray(rgba)[..., 3], key)
            if key != "photo":
                numpy.testing.assert_array_equal(
                    numpy.asarray(cut)[..., :3], numpy.where(alpha[..., None] > 0, numpy.asarray(rgba)[..., :3], 0), key
                )
        for name, content in self.run_of("overlay")[0].items():
            self.assertEqual(Image.open(io.BytesIO(content)).info.get("icc_profile"), profile, name)

    def test_pictures_that_use_few_of_16_bits_are_warned_of(self):
        numbers = (numpy.arange(48 * 80).reshape(48, 80) % 4096).astype(numpy.uint16)
        for form in ("png", "tif"):
            for path in self.pictures.iterdir():
                path.unlink()
            Image.fromarray(numbers).save(self.pictures / f"cells.{form}")
            printed = self.run_of("cut-out")[1]
            self.assertIn("uses only 12 of them", printed, form)
