"""PNG files with the standard library's zlib: writes 8-bit arrays, and reads those and the masks of `mask-png`."""

import struct
import zlib

import numpy

SIGNATURE = b"\x89PNG\r\n\x1a\n"
KINDS = {1: 0, 3: 2, 4: 6}  # channels: PNG's colour type; 3 is a palette's
CHANNELS = {0: 1, 2: 3, 3: 1, 6: 4}


def encoded(pixels):
    """A PNG of uint8 [height, width], or [height, width, 3 or 4]."""
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    height, width, channels = pixels.shape
    lines = numpy.zeros((height, 1 + width * channels), numpy.uint8)  # filter 0 in front of each
    lines[:, 1:] = pixels.reshape(height, -1)
    return SIGNATURE + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, KINDS[channels], 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)),
            _chunk(b"IEND", b""),
        )
    )


def decoded(data):
    """
    The pixels, uint8 [height, width, channels]; palette indices for palette images. Errors: ValueError unless it is an
    8-bit PNG without interlacing and filters.
    """
    chunks = dict(_chunks(data))
    try:
        width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
        if depth != 8 or kind not in CHANNELS or interlaced:
            raise ValueError(f"a PNG of {depth} bits, kind {kind}; only 8 bits are supported")
        channels = CHANNELS[kind]
        lines = numpy.frombuffer(zlib.decompress(chunks[b"IDAT"]), numpy.uint8).reshape(height, 1 + width * channels)
    except (KeyError, struct.error, zlib.error) as problem:
        raise ValueError(f"an incomplete PNG: {problem!r}") from None
    if lines[:, 0].any():
        raise ValueError("a PNG with filtered rows")
    return lines[:, 1:].reshape(height, width, channels)


def _chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _chunks(data):
    if data[:8] != SIGNATURE:
        raise ValueError("not a PNG")
    at, found = 8, {}
    while at + 8 <= len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        found[name] = found.get(name, b"") + data[at + 8 : at + 8 + length]
        at += 12 + length
    return found
