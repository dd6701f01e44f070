"""Makes a small set of photographs of nothing: shapes on gradients with noise, for a first run without any input."""

import colorsys
import json

from offramp_launch.exit_code import ExitCode, LaunchError

COUNT = 24
SEED = 20
DONE = ".complete"


def ensure_samples(folder):
    """Makes the images once. Returns the folder."""
    if not (folder / DONE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        for index in range(COUNT):
            make_image(index).save(folder / f"sample-{index:02}.jpg", quality=90)
        (folder / DONE).write_text(json.dumps({"count": COUNT, "seed": SEED}))
    return folder


def make_image(index):
    try:
        import numpy
        from PIL import Image, ImageDraw, ImageFilter
    except ImportError as problem:
        raise LaunchError(f"sample images need NumPy and Pillow, and this Python lacks one ({problem})",
                          "./launch/offramp setup installs them; or give your own images with --input", ExitCode.NO_INPUT) from problem

    random = numpy.random.Generator(numpy.random.PCG64([SEED, index]))
    width, height = int(640 + random.integers(-160, 161)), int(480 + random.integers(-120, 121))
    image = Image.fromarray(_gradient(numpy, random, width, height))
    draw = ImageDraw.Draw(image)
    for _ in range(random.integers(3, 8)):
        _draw_shape(random, draw, width, height)
    pixels = numpy.asarray(image.filter(ImageFilter.GaussianBlur(1))).astype(numpy.float32)
    noisy = pixels + random.normal(0, 6, pixels.shape)
    return Image.fromarray(noisy.clip(0, 255).astype(numpy.uint8))


def _gradient(numpy, random, width, height):
    """From one colour to another, along a random direction."""
    x, y = numpy.meshgrid(numpy.linspace(0, 1, width), numpy.linspace(0, 1, height))
    angle = random.uniform(0, 2 * numpy.pi)
    along = numpy.cos(angle) * x + numpy.sin(angle) * y
    along = ((along - along.min()) / (along.max() - along.min()))[..., None]
    first, second = (numpy.array(_colour(random, 0.4)) for _ in range(2))
    return (first * (1 - along) + second * along).astype(numpy.uint8)


def _draw_shape(random, draw, width, height):
    colour = _colour(random, 0.9)
    x, y = random.integers(0, width), random.integers(0, height)
    across, tall = random.integers(40, width // 3), random.integers(40, height // 3)
    box = [int(x - across // 2), int(y - tall // 2), int(x + across // 2), int(y + tall // 2)]
    shape = random.integers(0, 3)
    if shape == 0:
        draw.ellipse(box, fill=colour)
    elif shape == 1:
        draw.rectangle(box, fill=colour)
    else:
        draw.polygon([(int(x), box[1]), (box[0], box[3]), (box[2], box[3])], fill=colour)


def _colour(random, saturation):
    red, green, blue = colorsys.hsv_to_rgb(random.uniform(), saturation, random.uniform(0.5, 1))
    return int(255 * red), int(255 * green), int(255 * blue)
