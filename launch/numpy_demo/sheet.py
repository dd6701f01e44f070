"""Draws the demo's results beside their pictures in one PNG, and prints how well the masks fit the true masks."""

import pathlib
import sys

import numpy
import pictures
import png

GAP, IN_A_LINE = 8, 2
SQUARE, LIGHT, DARK = 12, 255, 214  # the chequered ground behind transparent pixels


def main(output):
    masks, count = output / "mask-png", pictures.COUNT
    cut_outs = next((path.parent for path in output.glob("*/picture-00.png") if path.parent != masks), output)
    rows, both, either = [], numpy.zeros(len(pictures.NAMES)), numpy.zeros(len(pictures.NAMES))
    for number in range(count):
        picture, true = pictures.make(number)
        name = f"picture-{number:02}.png"
        mask, cut_out = png.decoded((masks / name).read_bytes())[..., 0], png.decoded((cut_outs / name).read_bytes())
        kinds = numpy.arange(len(pictures.NAMES))[:, None, None]
        both += ((mask == kinds) & (true == kinds)).sum((1, 2))
        either += ((mask == kinds) | (true == kinds)).sum((1, 2))
        rows.append(
            numpy.concatenate(
                [framed(tile) for tile in (picture, pictures.COLOURS[mask].astype(numpy.uint8), on_a_ground(cut_out))],
                1,
            )
        )
    blank = numpy.full_like(rows[0], 255)
    lines = [
        numpy.concatenate([*rows[at : at + IN_A_LINE], *[blank] * (IN_A_LINE - len(rows[at : at + IN_A_LINE]))], 1)
        for at in range(0, count, IN_A_LINE)
    ]
    sheet = output / "contact-sheet.png"
    partial = output / ".contact-sheet.png.part"
    partial.write_bytes(png.encoded(numpy.concatenate(lines)))
    partial.replace(sheet)
    fits = ", ".join(f"{name} {value:.3f}" for name, value in zip(pictures.NAMES, both / numpy.maximum(either, 1)))
    print(
        f"{count} pictures, a mask and a cut-out of each. Overlap with the true masks (IoU): {fits}\n  look at    {sheet}"
    )


def framed(tile):
    return numpy.pad(tile, ((GAP // 2, GAP // 2), (GAP // 2, GAP // 2), (0, 0)), constant_values=255)


def on_a_ground(cut_out):
    y, x = numpy.mgrid[: cut_out.shape[0], : cut_out.shape[1]] // SQUARE
    ground = numpy.where((x + y) % 2, DARK, LIGHT)[..., None]
    return numpy.where(cut_out[..., 3:] > 0, cut_out[..., :3], ground).astype(numpy.uint8)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
