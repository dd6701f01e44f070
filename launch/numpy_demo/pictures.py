"""
Pictures for the demo, each generated from its number: three shapes and colours on a plain ground, with light and grain.
"""

import numpy

COUNT, SIDE = 12, 192
NAMES = ("ground", "disc", "box", "triangle")
COLOURS = numpy.array([(214, 208, 198), (196, 60, 52), (52, 92, 176), (70, 142, 72)], numpy.float32)


def make(number):
    """(picture uint8 [SIDE, SIDE, 3], index into NAMES of each pixel, uint8 [SIDE, SIDE])."""
    random = numpy.random.default_rng(number)
    classes = numpy.zeros((SIDE, SIDE), numpy.uint8)
    for kind in random.permutation(3) + 1:
        classes[_shape(kind, random)] = kind
    light = 1 + 0.12 * numpy.linspace(-1, 1, SIDE, dtype=numpy.float32) * random.choice((-1, 1))
    picture = COLOURS[classes] * light[:, None, None] + random.normal(0, 14, (SIDE, SIDE, 3))
    return numpy.clip(picture, 0, 255).astype(numpy.uint8), classes


def _shape(kind, random):
    """The pixels that a thing of this kind covers, at a random place."""
    y, x = numpy.mgrid[:SIDE, :SIDE].astype(numpy.float32)
    size = random.uniform(0.13, 0.23) * SIDE
    y, x = y - random.uniform(0.25, 0.75) * SIDE, x - random.uniform(0.25, 0.75) * SIDE
    if kind == 1:
        return x * x + y * y < size * size
    turn = random.uniform(0, numpy.pi)
    x, y = x * numpy.cos(turn) - y * numpy.sin(turn), x * numpy.sin(turn) + y * numpy.cos(turn)
    if kind == 2:
        return (abs(x) < size) & (abs(y) < 0.7 * size)
    return (y < 0.6 * size) & (y > 1.7 * abs(x) - 1.1 * size)
