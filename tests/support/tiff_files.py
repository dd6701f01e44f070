"""Tiled TIFF files, which Pillow does not write."""

import itertools
import struct
import zlib

SHORT, LONG = 3, 4


def tiff_in_tiles(pixels, tile):
    """The bytes of a file of uint8 pixels [height, width, 3] in Deflate-compressed tiles of side `tile`."""
    height, width, _ = pixels.shape
    tiles = []
    for top in range(0, height, tile):
        for left in range(0, width, tile):
            part = pixels[top : top + tile, left : left + tile]
            whole = bytearray()
            for row in range(tile):
                line = part[row].tobytes() if row < len(part) else b""
                whole += line + bytes(3 * tile - len(line))
            tiles.append(zlib.compress(bytes(whole), 1))
    bits_at = 8
    offsets_at = bits_at + 8
    lengths_at = offsets_at + 4 * len(tiles)
    tiles_at = lengths_at + 4 * len(tiles)
    places = [tiles_at, *(tiles_at + end for end in itertools.accumulate(map(len, tiles)))]
    tags = [
        (256, LONG, 1, width),
        (257, LONG, 1, height),
        (258, SHORT, 3, bits_at),
        (259, SHORT, 1, 8),
        (262, SHORT, 1, 2),
        (277, SHORT, 1, 3),
        (322, LONG, 1, tile),
        (323, LONG, 1, tile),
        (324, LONG, len(tiles), offsets_at if len(tiles) > 1 else places[0]),
        (325, LONG, len(tiles), lengths_at if len(tiles) > 1 else len(tiles[0])),
    ]
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4)
    front = b"II*\0" + struct.pack("<IHHHH", places.pop(), 8, 8, 8, 0)
    return (
        front
        + struct.pack(f"<{len(tiles)}I", *places)
        + struct.pack(f"<{len(tiles)}I", *map(len, tiles))
        + b"".join(tiles)
        + directory
    )
