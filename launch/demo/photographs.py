"""
Renders photographs of products with true masks, like those of a shop's studio: many kinds of things on many
backgrounds, with shadows, exposure, noise and JPEG artefacts. (seed, index) gives the same photograph on all machines
that round in the same way.
"""

import io
from typing import NamedTuple

import numpy
from PIL import Image, ImageFilter

from demo.surfaces import cloudy, colour, enlarge, pattern, soft_noise, wood
from demo.things import draw_thing


class Photograph(NamedTuple):
    jpeg: bytes
    mask: numpy.ndarray  # uint8 [height, width]: 1 where a thing is, 0 elsewhere

    def pixels(self):
        return numpy.asarray(Image.open(io.BytesIO(self.jpeg)).convert("RGB"))


def take_photograph(seed, index, longest=480):
    """Photograph number `index` of the series `seed`, its longer side `longest` pixels."""
    random = numpy.random.Generator(numpy.random.PCG64([seed, index]))
    short = int(longest * random.choice([0.66, 0.75, 0.8, 1.0]))
    height, width = (longest, short) if random.uniform() < 0.4 else (short, longest)
    light = numpy.array((random.choice([-1, 1]) * random.uniform(0.2, 0.7), -random.uniform(0.3, 0.7), 0.7))
    light = light / numpy.linalg.norm(light)
    from_above = random.uniform() < 0.25
    picture = background(random, height, width, from_above)
    alpha = numpy.zeros((height, width), numpy.float32)
    for place in places(random, height, width):
        picture, alpha = put(random, picture, alpha, place, light, from_above)
    return Photograph(develop(random, picture), (alpha >= 0.5).astype(numpy.uint8))


def places(random, height, width):
    """Boxes (top, left, height, width) of one to three things."""
    count = random.choice([1, 2, 3], p=[0.72, 0.2, 0.08])
    for number in range(count):
        size = random.uniform(0.45, 0.9) if count == 1 else random.uniform(0.3, 0.55)
        tall = size * min(height, width) * random.uniform(0.85, 1.1)
        aspect = random.uniform(0.6, 1.5)
        tall, wide = min(tall / aspect**0.5, height * 0.95), min(tall * aspect**0.5, width * 0.95)
        middle = (number + 0.5) / count if count > 1 else random.uniform(0.4, 0.6)
        left = width * middle - wide / 2 + random.normal(0, 0.03) * width
        top = (height - tall) * random.uniform(0.3, 0.75)
        yield int(top), int(left), max(int(tall), 24), max(int(wide), 24)


def background(random, height, width, from_above):
    """[height, width, 3]: a studio's sweep, a table before a wall, a pattern, a blurred room, a surface from above."""
    kind = "surface" if from_above else random.choice(["sweep", "table", "pattern", "room"], p=[0.45, 0.3, 0.1, 0.15])
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32) / max(height, width)
    if kind == "sweep":
        value = (0.75, 1.0) if random.uniform() < 0.7 else (0.1, 0.7)
        first, second = colour(random, (0, 0.35), value), colour(random, (0, 0.35), value)
        bend = (
            1
            / (1 + numpy.exp((y - random.uniform(0.3, 0.7) * height / max(height, width)) * random.uniform(4, 30)))[
                ..., None
            ]
        )
        picture = first * bend + (0.5 * first + 0.5 * second) * (1 - bend)
    elif kind == "table":
        horizon = random.uniform(0.35, 0.75) * height / max(height, width)
        table = surface(random, height, width)
        below = numpy.clip((y - horizon) * max(height, width) / random.uniform(1, 6), 0, 1)[..., None]
        picture = surface(random, height, width, calm=True) * (1 - below) + table * below
    elif kind == "pattern":
        first, second = colour(random, (0, 0.6)), colour(random, (0, 0.6))
        share = 0.4 * pattern(random, 3 * x - 1.5, 3 * y - 1.5)[..., None]
        picture = blurred(first * (1 - share) + second * share, random.uniform(0, 3) * max(height, width) / 480)
    elif kind == "room":
        picture = colour(random, (0, 0.4)) + random.uniform(0.2, 0.5) * numpy.stack(
            [soft_noise(random, height, width, 5) for _ in range(3)], -1
        )
        for _ in range(random.integers(0, 12)):
            spot = (x - random.uniform()) ** 2 + (y - random.uniform()) ** 2 < random.uniform(0.02, 0.09) ** 2
            picture = picture + spot[..., None] * colour(random) * random.uniform(0.1, 0.4)
        picture = blurred(numpy.clip(picture, 0, 1), random.uniform(4, 10) * max(height, width) / 480)
    else:
        picture = surface(random, height, width)
    return numpy.clip(picture, 0, 1).astype(numpy.float32)


def surface(random, height, width, calm=False):
    """Paper, plaster, stone, cloth, wood."""
    kind = random.choice(["plain", "cloudy", "cloth", "wood"], p=[0.5, 0.4, 0.1, 0] if calm else [0.2, 0.3, 0.2, 0.3])
    base = colour(random, (0, 0.45), (0.2, 1.0))
    if kind == "plain":
        plane = 0.3 * soft_noise(random, height, width, 2)
    elif kind == "cloudy":
        plane = cloudy(random, height, width, random.integers(2, 8))
        if random.uniform() < 0.4:
            plane = -numpy.abs(plane) * 2  # veins
    elif kind == "cloth":
        plane = (
            enlarge(random.uniform(-1, 1, (height, max(2, width // 6))), height, width) * 0.4
            + soft_noise(random, height, width, 6) * 0.6
        )
    else:
        base = colour(random, (0.2, 0.6), (0.3, 0.85)) * numpy.array((1, 0.85, 0.65), numpy.float32)
        plane = wood(random, height, width)
        if random.uniform() < 0.5:
            plane = enlarge(plane.T.copy(), height, width)
    return numpy.clip(base * (1 + random.uniform(0.05, 0.3) * plane[..., None]), 0, 1)


def put(random, picture, alpha, place, light, from_above):
    """
    The picture with one more thing, and the alpha of all things. Redraws a thing that hardly differs from its
    background.
    """
    top, left, tall, wide = place
    for _ in range(4):
        thing, tone = draw_thing(random, tall, wide, light)
        rows = slice(max(top, 0), min(top + tall, picture.shape[0]))
        columns = slice(max(left, 0), min(left + wide, picture.shape[1]))
        inner = (slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left))
        thing, tone = thing[inner], tone[inner]
        behind = picture[rows, columns]
        solid = thing > 0.5
        if solid.any() and numpy.median(numpy.abs(tone[solid] - behind[solid]).sum(-1)) > 0.35:
            break
    whole = numpy.zeros_like(alpha)
    whole[rows, columns] = thing
    dark = shadow(random, whole, light, from_above) * (1 - whole)
    picture = picture * (1 - dark[..., None])
    picture[rows, columns] = picture[rows, columns] * (1 - thing[..., None]) + tone * thing[..., None]
    return picture, numpy.maximum(alpha, whole)


def shadow(random, thing, light, from_above):
    """How much the thing's shadow darkens each pixel: on the ground, or around the thing if seen from above."""
    height, width = thing.shape
    image = Image.fromarray((thing * 255).astype(numpy.uint8))
    longest = max(height, width)
    rows = numpy.flatnonzero(thing.max(1) > 0.5)
    strength = random.uniform(0.15, 0.6)
    if rows.size == 0:
        return thing * 0
    if from_above:
        shift = random.uniform(0.01, 0.05) * longest
        cast = image.transform((width, height), Image.AFFINE, (1, 0, light[0] * shift, 0, 1, light[1] * shift))
        return strength * plane(cast.filter(ImageFilter.GaussianBlur(random.uniform(0.004, 0.03) * longest)))
    foot = rows[-1]
    squeeze, lean = random.uniform(2.5, 6), light[0] * random.uniform(1, 3)
    # A pixel of the ground shows the thing at `squeeze` times its distance from the foot.
    cast = image.transform((width, height), Image.AFFINE, (1, lean, -lean * foot, 0, squeeze, foot * (1 - squeeze)))
    cast = plane(cast.filter(ImageFilter.GaussianBlur(random.uniform(0.008, 0.03) * longest))) * strength
    columns = numpy.flatnonzero(thing[max(foot - max(2, height // 30), 0) : foot + 1].max(0) > 0.5)
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32)
    middle, reach = (columns[0] + columns[-1]) / 2, max((columns[-1] - columns[0]) / 2, 3) * 1.1
    contact = numpy.exp(-2 * (((x - middle) / reach) ** 4 + ((y - foot) / (0.03 * longest)) ** 2)) * random.uniform(
        0.2, 0.7
    )
    return numpy.clip(cast + contact, 0, 0.85)


def develop(random, picture):
    """Applies the effects of camera and JPEG."""
    height, width, _ = picture.shape
    y, x = numpy.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    picture = picture * (1 - random.uniform(0, 0.25) * (x * x + y * y)[..., None] / 2)
    picture = picture * random.uniform(0.85, 1.12) * random.uniform(0.94, 1.06, 3)
    picture = numpy.clip(picture, 0, 1) ** random.uniform(0.85, 1.2)
    if random.uniform() < 0.6:
        picture = blurred(picture, random.uniform(0.2, 0.8))
    picture = picture + random.normal(0, random.uniform(0.003, 0.02), picture.shape)
    file = io.BytesIO()
    Image.fromarray((numpy.clip(picture, 0, 1) * 255).round().astype(numpy.uint8)).save(
        file, "JPEG", quality=int(random.integers(60, 93))
    )
    return file.getvalue()


def blurred(picture, radius):
    image = Image.fromarray((numpy.clip(picture, 0, 1) * 255).astype(numpy.uint8))
    return numpy.asarray(image.filter(ImageFilter.GaussianBlur(radius)), numpy.float32) / 255


def plane(image):
    return numpy.asarray(image, numpy.float32) / 255
