"""
The photographed things. Each function draws one kind into a canvas of coordinates and returns (alpha, colour): alpha in
[0, 1] with soft edges of a pixel, colour [height, width, 3]. Light comes from the upper left or right; `light` is its
direction.
"""

import numpy
from PIL import Image, ImageDraw, ImageFilter

from demo.surfaces import cloudy, material_colour, pattern, soft_noise

MOST_CORNERS = 240


class Canvas:
    """
    Coordinates around a thing: u to the right, v down, both from -1 to 1 within its box; `pixel` is a pixel's size in
    them.
    """

    def __init__(self, height, width, angle=0.0, margin=1.15):
        self.height, self.width = height, width
        x, y = numpy.meshgrid(
            numpy.linspace(-margin, margin, width, dtype=numpy.float32),
            numpy.linspace(-margin, margin, height, dtype=numpy.float32),
        )
        aspect = height / width
        cos, sin = numpy.cos(angle), numpy.sin(angle)
        self.u = x * cos + y * aspect * sin
        self.v = (y * aspect * cos - x * sin) / aspect
        self.pixel = 2 * margin / min(height, width)
        self.angle, self.margin = angle, margin

    def edge(self, distance):
        """1 where the distance is below 0, 0 above, a ramp of one pixel between."""
        return numpy.clip(0.5 - distance / self.pixel, 0, 1)

    def polygon(self, corners):
        """The alpha of a closed polygon of (u, v) corners, drawn at four times the size."""
        cos, sin = numpy.cos(self.angle), numpy.sin(self.angle)
        aspect = self.height / self.width
        u, v = corners[:, 0], corners[:, 1] * aspect
        x, y = u * cos - v * sin, (u * sin + v * cos) / aspect
        across = (x / self.margin + 1) / 2 * self.width * 4
        down = (y / self.margin + 1) / 2 * self.height * 4
        image = Image.new("L", (self.width * 4, self.height * 4))
        ImageDraw.Draw(image).polygon(list(zip(across.tolist(), down.tolist())), fill=255)
        return numpy.asarray(image.resize((self.width, self.height), Image.BOX), numpy.float32) / 255


def shade(colour, normal, light, gloss, ambient=0.45):
    """Lambert shading with a highlight. `normal`: three planes."""
    facing = sum(n * l for n, l in zip(normal, light))
    half = numpy.array(light) + (0, 0, 1)
    half = half / numpy.linalg.norm(half)
    shine = numpy.clip(sum(n * h for n, h in zip(normal, half)), 0, 1) ** 24 * gloss
    bright = ambient + (1.15 - ambient) * numpy.clip(facing, 0, 1)
    return numpy.clip(colour * bright[..., None] + shine[..., None], 0, 1)


def two_colours(random, across, along):
    first, second = material_colour(random), material_colour(random)
    share = pattern(random, across, along)[..., None]
    colour = first * (1 - share) + second * share
    if random.uniform() < 0.4:
        grain = cloudy(random, *across.shape, cells=random.integers(3, 14))[..., None]
        colour = numpy.clip(colour * (1 + random.uniform(0.1, 0.35) * grain), 0, 1)
    return colour.astype(numpy.float32)


PROFILES = {  # height from top (-1) to bottom (1), and half the width there
    "bottle": (
        (-1, 0.2),
        (-0.84, 0.2),
        (-0.82, 0.24),
        (-0.74, 0.24),
        (-0.72, 0.18),
        (-0.5, 0.2),
        (-0.2, 0.62),
        (0, 0.72),
        (0.85, 0.72),
        (1, 0.64),
    ),
    "flask": ((-1, 0.3), (-0.7, 0.3), (-0.68, 0.6), (-0.6, 0.78), (0.8, 0.8), (1, 0.72)),
    "jar": ((-1, 0.78), (-0.72, 0.78), (-0.7, 0.7), (-0.62, 0.9), (0.8, 0.92), (1, 0.8)),
    "mug": ((-1, 0.74), (-0.6, 0.72), (0.8, 0.68), (1, 0.58)),
    "can": ((-1, 0.7), (-0.93, 0.78), (0.93, 0.78), (1, 0.7)),
    "vase": ((-1, 0.45), (-0.75, 0.3), (-0.3, 0.5), (0.2, 0.85), (0.6, 0.7), (0.9, 0.4), (1, 0.45)),
    "pot": ((-1, 0.9), (-0.72, 0.9), (-0.7, 0.78), (1, 0.55)),
    "bowl": ((-1, 1.0), (-0.5, 0.92), (0.2, 0.7), (0.75, 0.4), (0.8, 0.38), (1, 0.42)),
    "lamp": ((-1, 0.35), (-0.1, 0.8), (-0.08, 0.07), (0.8, 0.07), (0.84, 0.4), (1, 0.5)),
    "glass": ((-1, 0.62), (-0.4, 0.66), (0, 0.5), (0.15, 0.07), (0.8, 0.06), (0.88, 0.5), (1, 0.55)),
}


def turned(random, canvas, light):
    """A body of revolution, seen from slightly above: bottles, mugs, vases, bowls, lamps and random shapes."""
    kind = random.choice([*PROFILES, "chance"])
    if kind == "chance":
        heights = numpy.linspace(-1, 1, random.integers(4, 8))
        widths = random.uniform(0.3, 0.95, heights.size)
    else:
        points = numpy.array(PROFILES[kind])
        heights, widths = points[:, 0], points[:, 1] * random.uniform(0.85, 1.08, len(points))
    lift = random.uniform(0.04, 0.16) * (1.4 if kind in ("bowl", "mug") else 1)

    def half_width(at):
        return numpy.interp(at, heights, widths).astype(numpy.float32)

    v = (canvas.v - 0.4) / 0.6 if kind == "pot" else canvas.v  # a pot leaves room for its plant
    at = v
    for _ in range(3):  # the visible surface's height
        at = v - lift * numpy.sqrt(numpy.clip(1 - (canvas.u / half_width(at)) ** 2, 0, 1))
    half = half_width(at)
    nx = numpy.clip(canvas.u / half, -1, 1)
    slope = (half_width(at + 0.03) - half_width(at - 0.03)) / 0.06
    depth = numpy.sqrt(numpy.clip(1 - nx * nx, 0, 1))
    length = numpy.sqrt(1 + slope * slope)
    alpha = canvas.edge(numpy.abs(canvas.u) - half) * canvas.edge(-1 - at - 2 * canvas.pixel) * canvas.edge(at - 1)
    colour = two_colours(random, numpy.arcsin(nx) / 1.57, at)
    if kind in ("bottle", "flask", "jar") or random.uniform() < 0.15:
        lid = at < (-0.72 if kind != "chance" else random.uniform(-0.9, -0.5))
        colour = numpy.where(lid[..., None], material_colour(random), colour)
    colour = shade(colour, (nx / length, -slope / length, depth / length), light, random.uniform(0, 0.7))

    mouth_width = float(half_width(-1))
    mouth = canvas.edge(
        (numpy.sqrt((canvas.u / mouth_width) ** 2 + ((v + 1) / max(lift, 1e-3)) ** 2) - 1) * min(lift, mouth_width)
    )
    inside = material_colour(random) * (
        random.uniform(0.15, 0.7) if kind in ("mug", "bowl", "vase", "pot", "glass") else 0.9
    )
    colour = colour * (1 - mouth[..., None]) + inside * mouth[..., None]
    alpha = numpy.maximum(alpha, mouth)
    if kind == "mug":
        side = random.choice([-1, 1])
        around = numpy.sqrt(((canvas.u - side * 0.68) / 0.3) ** 2 + ((canvas.v - 0.02) / 0.48) ** 2)
        handle = canvas.edge((numpy.abs(around - 0.8) - random.uniform(0.16, 0.24)) * 0.36) * (1 - alpha)
        tone = shade(
            colour[canvas.height // 2, canvas.width // 2] * numpy.ones_like(colour),
            ((around - 0.8) * 2 * side, 0 * around, 0.8 + 0 * around),
            light,
            0.3,
        )
        colour = colour * (1 - handle[..., None]) + tone * handle[..., None]
        alpha = numpy.maximum(alpha, handle)
    if kind == "pot":
        alpha, colour = with_leaves(random, canvas, alpha, colour)
    return alpha, colour


def with_leaves(random, canvas, alpha, colour):
    """Draws a plant in front: leaves that begin in the pot's mouth."""
    for _ in range(random.integers(6, 16)):
        turn, reach = random.uniform(-1.2, 1.2), random.uniform(0.35, 0.5)
        x, y = numpy.sin(turn) * reach, -0.15 - numpy.cos(turn) * reach
        du, dv = canvas.u - x, canvas.v - y
        long, wide = du * numpy.sin(turn) - dv * numpy.cos(turn), du * numpy.cos(turn) + dv * numpy.sin(turn)
        leaf = canvas.edge(
            (numpy.sqrt((long / (reach + 0.05)) ** 2 + (wide / random.uniform(0.08, 0.2)) ** 2) - 1) * 0.12
        )
        green = numpy.array(
            (random.uniform(0.1, 0.4), random.uniform(0.35, 0.7), random.uniform(0.05, 0.35)), numpy.float32
        )
        tone = numpy.clip(green * (0.9 + 0.5 * wide[..., None]), 0, 1)
        colour = colour * (1 - leaf[..., None]) + tone * leaf[..., None]
        alpha = numpy.maximum(alpha, leaf)
    return alpha, colour


def ball(random, canvas, light):
    around = numpy.sqrt(canvas.u**2 + canvas.v**2)
    depth = numpy.sqrt(numpy.clip(1 - around**2, 0, 1))
    turn, tilt = random.uniform(0, 6.28), random.uniform(-1, 1)
    x, z = canvas.u * numpy.cos(turn) + depth * numpy.sin(turn), depth * numpy.cos(turn) - canvas.u * numpy.sin(turn)
    along = numpy.clip(canvas.v * numpy.cos(tilt) + z * numpy.sin(tilt), -1, 1)
    colour = two_colours(random, numpy.arctan2(x, z + 1e-3) / 1.57, along)
    return canvas.edge(around - 1), shade(colour, (canvas.u, canvas.v, depth), light, random.uniform(0, 0.8))


def ring(random, canvas, light):
    """A ring: bracelets, tyres, cushions. The background shows in its middle."""
    flat, thick = random.uniform(0.55, 1.0), random.uniform(0.16, 0.36)
    around = numpy.sqrt(canvas.u**2 + (canvas.v / flat) ** 2)
    across = numpy.clip((around - (1 - thick)) / thick, -1, 1)
    depth = numpy.sqrt(1 - across**2)
    outward = [canvas.u / (around + 1e-3), canvas.v / flat / (around + 1e-3)]
    colour = two_colours(random, across, numpy.arctan2(canvas.v, canvas.u) / 1.57)
    alpha = canvas.edge((numpy.abs(around - (1 - thick)) - thick) * flat)
    return alpha, shade(colour, (across * outward[0], across * outward[1], depth), light, random.uniform(0, 0.9))


def box(random, canvas, light):
    """The three visible faces of a carton or a book."""
    yaw, pitch = random.uniform(0.25, 1.3), random.uniform(0.15, 0.6)
    sizes = random.uniform(0.35, 1.0, 3)
    if random.uniform() < 0.3:
        sizes[random.integers(0, 3)] *= 0.3
    x = numpy.array((numpy.cos(yaw), numpy.sin(yaw) * numpy.sin(pitch))) * sizes[0]
    z = numpy.array((-numpy.sin(yaw), numpy.cos(yaw) * numpy.sin(pitch))) * sizes[1]
    y = numpy.array((0.0, numpy.cos(pitch))) * sizes[2]
    low, high = _extent((0 * x, x, z, x + z, y, x + y, z + y, x + z + y))
    scale, middle = 2 / (high - low), (high + low) / 2
    alpha, colour = numpy.zeros_like(canvas.u), numpy.zeros((*canvas.u.shape, 3), numpy.float32)
    for origin, first, second, bright in (
        (z, x, y, random.uniform(0.75, 1.0)),
        (x, z, y, random.uniform(0.45, 0.75)),
        (0 * x, x, z, 1.05),
    ):
        corners = numpy.array([origin, origin + first, origin + first + second, origin + second])
        face = canvas.polygon((corners - middle) * scale)
        matrix = numpy.linalg.inv(numpy.column_stack((first * scale, second * scale)))
        du, dv = canvas.u - (origin - middle)[0] * scale[0], canvas.v - (origin - middle)[1] * scale[1]
        across, along = matrix[0, 0] * du + matrix[0, 1] * dv, matrix[1, 0] * du + matrix[1, 1] * dv
        tone = two_colours(random, 2 * across - 1, 2 * along - 1) * bright * (1.05 - 0.12 * along[..., None])
        colour = numpy.where((face > alpha)[..., None], numpy.clip(tone, 0, 1), colour)
        alpha = numpy.maximum(alpha, face)
    return numpy.where(alpha > 0.97, 1, alpha), colour


def _extent(points):
    points = numpy.array(points)
    return points.min(0), points.max(0)


OUTLINES = {  # corners of soft outlines, clockwise
    "shoe": (
        (-0.95, -0.35),
        (-0.6, -0.8),
        (-0.35, -0.75),
        (-0.2, -0.4),
        (0.2, -0.15),
        (0.7, 0.05),
        (0.95, 0.3),
        (0.98, 0.62),
        (0.4, 0.7),
        (-0.9, 0.7),
        (-1, 0.3),
    ),
    "shirt": (
        (-0.35, -0.95),
        (0, -0.82),
        (0.35, -0.95),
        (0.98, -0.55),
        (0.8, -0.15),
        (0.52, -0.3),
        (0.55, 0.95),
        (-0.55, 0.95),
        (-0.52, -0.3),
        (-0.8, -0.15),
        (-0.98, -0.55),
    ),
    "bear": (
        (-0.75, -0.9),
        (-0.5, -0.98),
        (-0.3, -0.8),
        (0.3, -0.8),
        (0.5, -0.98),
        (0.75, -0.9),
        (0.6, -0.35),
        (0.95, 0.1),
        (0.6, 0.3),
        (0.7, 0.9),
        (0.15, 0.8),
        (-0.15, 0.8),
        (-0.7, 0.9),
        (-0.6, 0.3),
        (-0.95, 0.1),
        (-0.6, -0.35),
    ),
    "kettle": (
        (-0.3, -0.8),
        (0.3, -0.8),
        (0.6, -0.4),
        (0.98, -0.6),
        (1, -0.45),
        (0.7, 0.2),
        (0.6, 0.85),
        (-0.6, 0.85),
        (-0.75, 0.1),
        (-0.6, -0.4),
    ),
    "bag": ((-0.75, -0.3), (0.75, -0.3), (0.95, 0.9), (-0.95, 0.9)),
    "leaf": ((0, -1), (0.5, -0.4), (0.6, 0.2), (0.1, 0.8), (0, 1), (-0.1, 0.8), (-0.6, 0.2), (-0.5, -0.4)),
}


def soft_outline(corners, count=MOST_CORNERS):
    """A closed Catmull-Rom curve through the corners."""
    corners = numpy.asarray(corners, numpy.float32)
    at = numpy.linspace(0, len(corners), count, endpoint=False)
    index, t = at.astype(int), (at % 1)[:, None]
    p0, p1, p2, p3 = (corners[(index + step) % len(corners)] for step in (-1, 0, 1, 2))
    return 0.5 * (2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t**2 + (3 * p1 - p0 - 3 * p2 + p3) * t**3)


def soft_body(random, canvas, light):
    """Shoes, shirts, toys, bags and random outlines, rounded by their blurred outline."""
    kind = random.choice([*OUTLINES, "chance", "chance", "star"])
    if kind in OUTLINES:
        corners = numpy.array(OUTLINES[kind]) * random.choice([-1, 1], 1) ** numpy.array((1, 2))
        corners = corners + random.uniform(-0.05, 0.05, corners.shape)
    else:
        count = random.integers(5, 9) * (2 if kind == "star" else 1)
        angles = numpy.arange(count) * 2 * numpy.pi / count
        reach = (
            numpy.where(numpy.arange(count) % 2, 1, random.uniform(0.4, 0.6))
            if kind == "star"
            else random.uniform(0.55, 1.0, count)
        )
        corners = numpy.stack((numpy.sin(angles) * reach, -numpy.cos(angles) * reach), 1)
    alpha = canvas.polygon(soft_outline(corners))
    height = (
        numpy.asarray(
            Image.fromarray((alpha * 255).astype(numpy.uint8)).filter(
                ImageFilter.GaussianBlur(min(canvas.height, canvas.width) * random.uniform(0.05, 0.12))
            ),
            numpy.float32,
        )
        / 255
    )
    dy, dx = numpy.gradient(numpy.sqrt(height), canvas.pixel)
    length = numpy.sqrt(1 + (dx**2 + dy**2) * 0.25)
    colour = two_colours(random, canvas.u, canvas.v)
    if kind == "shoe":
        colour = numpy.where((canvas.v > random.uniform(0.4, 0.5))[..., None], material_colour(random), colour)
    if random.uniform() < 0.4:  # cloth and fur
        fold = soft_noise(random, canvas.height, canvas.width, random.integers(4, 30))
        colour = numpy.clip(colour * (1 + 0.18 * fold[..., None]), 0, 1)
    colour = shade(colour, (-dx * 0.5 / length, -dy * 0.5 / length, 1 / length), light, random.uniform(0, 0.4))
    if kind in ("bag", "kettle"):
        across, down = (0.5, 0.62) if kind == "bag" else (0.45, 0.25)
        around = numpy.sqrt((canvas.u / across) ** 2 + ((canvas.v + (0.3 if kind == "bag" else 0.75)) / down) ** 2)
        handle = (
            canvas.edge((numpy.abs(around - 0.88) - 0.11) * across)
            * (canvas.v < (-0.25 if kind == "bag" else -0.7))
            * (1 - alpha)
        )
        colour = colour * (1 - handle[..., None]) + material_colour(random) * 0.8 * handle[..., None]
        alpha = numpy.maximum(alpha, handle)
    return alpha, colour


KINDS = {
    "turned": (turned, 0.42),
    "box": (box, 0.2),
    "soft body": (soft_body, 0.2),
    "ball": (ball, 0.1),
    "ring": (ring, 0.08),
}


def draw_thing(random, height, width, light):
    """(alpha, colour) of a thing of any kind in a box of this size, upright or slightly turned."""
    kind = random.choice(list(KINDS), p=[share for _, share in KINDS.values()])
    lean = random.normal(0, 0.06) if kind in ("turned", "box") else random.normal(0, 0.25)
    return KINDS[kind][0](random, Canvas(height, width, float(lean), 1.15 if abs(lean) < 0.15 else 1.3), light)
