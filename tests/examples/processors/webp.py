"""Pictures to KEY.webp with Pillow. Outputs are uint8 of shape (samples, 3, height, width)."""

import io

from PIL import Image


def save(slab, quality="80"):
    for sample, pixels in slab:
        file = io.BytesIO()
        Image.fromarray(pixels.transpose(1, 2, 0)).save(file, "WEBP", quality=int(quality))
        yield sample, ".webp", file.getvalue()
