"""A page and a picture of the results: image, mask and cut-out side by side."""

import html
import io
import os
import pathlib
import string
from typing import NamedTuple

from offramp_launch import shared_folder

TILE = 200  # largest side of a tile, in pixels
GAP = 6
IN_A_LINE = 2  # images per line
SQUARE = 8  # side of a square of the chequered background behind transparency
LIGHT, DARK = 255, 214
COLOURS = 256
LARGEST = 64 << 20  # bytes of a picture's file
MOST_PIXELS = 1 << 25


class Row(NamedTuple):
    image: pathlib.Path
    true_mask: pathlib.Path
    output: pathlib.Path
    mask: str  # in the output folder, like cut_out
    cut_out: str

    def result(self, name):
        """A picture of the output folder, where others may write. Errors: OSError, ValueError for an invalid one."""
        from PIL import Image

        picture = Image.open(io.BytesIO(shared_folder.read(self.output, name, LARGEST)))
        if picture.width * picture.height > MOST_PIXELS:
            raise ValueError(f"'{name}' has {picture.width} x {picture.height} pixels")
        return picture


def write_png(folder, name, rows):
    """Errors: ImportError without NumPy or Pillow; OSError and ValueError for invalid pictures."""
    from PIL import Image

    lines = -(-len(rows) // IN_A_LINE)
    sheet = Image.new("RGB", (IN_A_LINE * (3 * TILE + 3 * GAP) + GAP, lines * (TILE + GAP) + GAP), (255, 255, 255))
    for number, row in enumerate(rows):
        left = GAP + number % IN_A_LINE * (3 * TILE + 3 * GAP)
        top = GAP + number // IN_A_LINE * (TILE + GAP)
        for place, picture in enumerate(tiles(row)):
            sheet.paste(
                picture,
                (left + place * (TILE + GAP // 2) + (TILE - picture.width) // 2, top + (TILE - picture.height) // 2),
            )
    # A palette halves the file's size.
    palette = sheet.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
    file = io.BytesIO()
    sheet.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(file, "PNG", optimize=True)
    shared_folder.write(folder, name, file.getvalue())


def tiles(row):
    """Small image, mask and cut-out; the mask is resized to the image's shape, since a model sees a square."""
    from PIL import Image

    image = Image.open(row.image).convert("RGB")
    size = fitting(image.size)
    cut_out = row.result(row.cut_out).resize(size, Image.Resampling.LANCZOS)
    ground = chequered(size)
    ground.paste(cut_out, (0, 0), cut_out)
    return (
        image.resize(size, Image.Resampling.LANCZOS),
        row.result(row.mask).convert("RGB").resize(size, Image.Resampling.BILINEAR),
        ground,
    )


def fitting(size):
    scale = TILE / max(size)
    return tuple(max(1, round(side * scale)) for side in size)


def chequered(size):
    import numpy
    from PIL import Image

    y, x = numpy.mgrid[0 : size[1], 0 : size[0]] // SQUARE
    return Image.fromarray(numpy.where((x + y) % 2, DARK, LIGHT).astype(numpy.uint8)).convert("RGB")


def write_html(folder, name, rows, title):
    """Writes a page that links to the files in full size."""
    figures = "\n".join(
        "<figure>"
        + "".join(
            f'<a href="{address(file, folder)}"><img class="{kind}" src="{address(file, folder)}" alt="{kind}"></a>'
            for kind, file in (
                ("image", row.image),
                ("mask", row.output / row.mask),
                ("cut-out", row.output / row.cut_out),
            )
        )
        + f"<figcaption>{html.escape(row.image.name)}</figcaption></figure>"
        for row in rows
    )
    page = string.Template(pathlib.Path(__file__).with_suffix(".html").read_text())
    shared_folder.write(folder, name, page.substitute(title=html.escape(title), figures=figures).encode())


def address(file, folder):
    from urllib.parse import quote

    return html.escape(quote(os.path.relpath(file, folder)))
