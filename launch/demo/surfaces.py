"""Surfaces: noise, patterns, colours. All are float32 NumPy arrays in [0, 1], random from a given generator."""

import colorsys

import numpy
from PIL import Image


def enlarge(small, height, width, how=Image.BICUBIC):
    """A small plane, resized to [height, width]."""
    return numpy.asarray(Image.fromarray(small.astype(numpy.float32), mode="F").resize((width, height), how))


def soft_noise(random, height, width, cells):
    """Smooth noise around 0, within about -1..1, with `cells` bumps along the longer side."""
    longest = max(height, width)
    rows, columns = (max(2, round(cells * side / longest)) for side in (height, width))
    return enlarge(random.uniform(-1, 1, (rows, columns)), height, width)


def cloudy(random, height, width, cells=4, octaves=4):
    """Noise of several scales added up, as in stone and paper."""
    total = numpy.zeros((height, width), numpy.float32)
    for octave in range(octaves):
        total += soft_noise(random, height, width, cells * 2**octave) / 1.8**octave
    return total / 2


def colour(random, saturation=(0.0, 1.0), value=(0.15, 1.0)):
    return numpy.array(
        colorsys.hsv_to_rgb(random.uniform(), random.uniform(*saturation), random.uniform(*value)), numpy.float32
    )


def material_colour(random):
    """A thing's colour: mostly saturated, often white, black, gray, wood or metal."""
    kind = random.uniform()
    if kind < 0.5:
        return colour(random, (0.35, 0.9), (0.25, 1.0))
    if kind < 0.68:
        return colour(random, (0.0, 0.12), (0.8, 1.0))
    if kind < 0.8:
        return colour(random, (0.0, 0.25), (0.05, 0.25))
    if kind < 0.9:
        return colour(random, (0.0, 0.15), (0.35, 0.7))
    return numpy.array(
        colorsys.hsv_to_rgb(random.uniform(0.05, 0.12), random.uniform(0.4, 0.8), random.uniform(0.3, 0.8)),
        numpy.float32,
    )


def stripes(along, period, share=0.5):
    return ((along / period) % 1 < share).astype(numpy.float32)


def wood(random, height, width):
    """Grain along the image's width, in boards; a plane around 0."""
    grain = enlarge(random.uniform(-1, 1, (max(2, height // 3), 5)), height, width)
    y = numpy.linspace(0, 1, height, dtype=numpy.float32)[:, None]
    rings = numpy.sin(2 * numpy.pi * (random.uniform(6, 18) * y + 0.6 * soft_noise(random, height, width, 3)))
    boards = random.integers(1, 6)
    gap = (numpy.abs((y * boards) % 1) < 0.02 * boards).astype(numpy.float32) if boards > 1 else 0
    return 0.5 * grain + 0.4 * rings - 1.5 * gap


def pattern(random, across, along):
    """
    A plane in [0, 1] that mixes two colours at a surface's coordinates (planes of equal shape, about -1..1): plain,
    stripes, checks, dots, a band or a label with lines of writing.
    """
    kind = random.integers(0, 8)
    period = random.uniform(0.15, 0.6)
    if kind == 0:
        return stripes(along + random.uniform(0, 1), period, random.uniform(0.3, 0.7))
    if kind == 1:
        return stripes(across + random.uniform(0, 1), period, random.uniform(0.3, 0.7))
    if kind == 2:
        return numpy.abs(stripes(along, 2 * period) - stripes(across, 2 * period))
    if kind == 3:
        x, y = (across / period) % 1 - 0.5, (along / period) % 1 - 0.5
        return ((x * x + y * y) < random.uniform(0.04, 0.12)).astype(numpy.float32)
    if kind == 4:
        low = random.uniform(-0.7, 0.4)
        return ((along > low) & (along < low + random.uniform(0.15, 0.7))).astype(numpy.float32)
    if kind == 5:
        low, high, side = random.uniform(-0.6, -0.1), random.uniform(0.2, 0.7), random.uniform(0.3, 0.8)
        label = (along > low) & (along < high) & (numpy.abs(across) < side)
        length = side * random.uniform(0.5, 0.9)
        writing = (stripes(along - low, (high - low) / random.integers(3, 8), 0.4) > 0) & (numpy.abs(across) < length)
        return (label & ~writing).astype(numpy.float32)
    return numpy.zeros_like(across)
