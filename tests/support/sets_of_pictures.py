"""Small pictures in folders with names outside ASCII; some cannot be decoded."""

import numpy
from PIL import Image


def make_pictures(folder, count, bad):
    """Writes `set I/bild-äN.png`, always the same. `bad`: the names of broken ones."""
    random = numpy.random.default_rng(7)
    for index in range(count):
        place = folder / f"set {index % 3}" / f"bild-ä{index:02}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (5, 5, 3), dtype=numpy.uint8)).resize(
            (60 + index, 90), Image.BICUBIC
        ).save(place)
    for name in bad:
        (folder / name).write_bytes(b"\x89PNG\r\n\x1a\n is not a picture")
