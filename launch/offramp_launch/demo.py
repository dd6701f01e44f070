"""The shipped model, for users who name none, and the demo run: the shipped pictures, compared with true masks."""

import os
import pathlib

from offramp_launch import shared_folder
from offramp_launch.arguments import names_in, setting_given
from offramp_launch.contact_sheet import Row, write_html, write_png

MODEL = "cutout"
PROCESSORS = "mask-png,cut-out,overlay"
PROCESSORS_FOR_OWN = "mask-png,cut-out"
# Flags that choose a run's input.
INPUT_FLAGS = ("--input", "--source", "--batches", "--profile", "--config")
MODEL_FLAGS = ("--model", "--weights")
# Flags that choose a model, or accept any.
SETTLED_BY = (*MODEL_FLAGS, "--profile", "--random-weights")
SOURCES_OF_PICTURES = ("images", "jsonl", "webdataset")
# Models whose input is not images.
WITHOUT_IMAGES = ("copy", "encoder")


def wants_demo(argv, config, environment=os.environ):
    """Whether no input is given and the model takes images."""
    return not is_given(argv, INPUT_FLAGS, environment) and config.get("model") not in WITHOUT_IMAGES


def demo_flags(places, argv, environment=os.environ):
    """The flags that make a run the demo; keeps a given model or processor."""
    flags = ["--input", str(places.demo_images)]
    if not is_given(argv, MODEL_FLAGS, environment):
        flags += ["--model", MODEL]
        if not is_given(argv, ("--processor", "--group"), environment):
            flags += ["--processor", PROCESSORS]
    return flags


def shipped_model_flags(argv, config, environment=os.environ):
    """Flags of the shipped model and its processors for the user's pictures without a chosen model; else empty."""
    if (
        not is_given(argv, ("--input",), environment)
        or is_given(argv, SETTLED_BY, environment)
        or config.get("source") not in SOURCES_OF_PICTURES
    ):
        return []
    chooses = is_given(argv, ("--processor", "--group", "--transform"), environment)
    return ["--model", MODEL] + ([] if chooses else ["--processor", PROCESSORS_FOR_OWN])


def is_given(argv, flags, environment):
    """By flag, variable or settings file."""
    return not names_in(argv).isdisjoint(flags) or any(setting_given(flag[2:], argv, environment) for flag in flags)


def show(places, output, config):
    """The demo's result as lines for a reader; if every image has a cut-out, with a contact sheet and a score."""
    output = pathlib.Path(output)
    own = (
        "\nYour own images:\n    ./launch/offramp run --input FOLDER --output RESULTS\n"
        "    ./launch/offramp run --input FOLDER --weights deeplabv3.safetensors --output MASKS      (weights: launch/guide/runner.md)"
    )
    rows = rows_of(places, output)
    if config.get("model") != MODEL or not rows:
        return f"\nResults for the {len(images(places))} demo images are in {output}\n{own}"
    try:
        fit = masks_fit(rows)
        write_png(output, "contact-sheet.png", rows)
        write_html(output, "contact-sheet.html", rows, f"{len(rows)} rendered pictures cut out: {fit.describe()}")
    except (ImportError, OSError, ValueError) as problem:
        is_missing = isinstance(problem, ImportError)
        why = "a contact sheet needs NumPy and Pillow" if is_missing else "no contact sheet could be made of them"
        return f"\n{len(rows)} cut-outs are in {output}/cut-out; {why} ({problem})\n{own}"
    return (
        f"\n{len(rows)} rendered pictures cut out: {fit.describe()}, against their true masks\n"
        f"  cut-outs   {output}/cut-out, masks in {output}/mask-png, overlays in {output}/overlay\n"
        f"  look at    {output}/contact-sheet.html, or contact-sheet.png beside it\n{own}"
    )


def images(places):
    return sorted(places.demo_images.glob("*.jpg"))


def rows_of(places, output):
    """One row per image; empty where an image has no mask or no cut-out."""
    rows = [
        Row(image, places.demo_masks / name, output, f"mask-png/{name}", f"cut-out/{name}")
        for image in images(places)
        for name in [f"{image.stem}.png"]
    ]
    return rows if all(shared_folder.holds(output, name) for row in rows for name in (row.mask, row.cut_out)) else []


def masks_fit(rows):
    """Counts a pixel with an opacity of at least half as foreground. Errors: ImportError without NumPy or Pillow."""
    import numpy
    from PIL import Image

    from offramp_launch.mask_fit import mean_iou

    return mean_iou(
        (numpy.asarray(row.result(row.cut_out).getchannel("A")) >= 128, numpy.asarray(Image.open(row.true_mask)) != 0)
        for row in rows
    )
