"""
The shipped model, where a user names none; and the run that a user starts without saying on what: the shipped pictures, rendered, cut out,
measured against their true masks, and shown.
"""

import os
import pathlib

from offramp_launch import shared_folder
from offramp_launch.contact_sheet import Row, write_html, write_png

MODEL = "cutout"
PROCESSORS = "mask-png,cut-out,overlay"
PROCESSORS_FOR_OWN = "mask-png,cut-out"
# What says where the items of a run come from.
INPUT_FLAGS = ("--input", "--source", "--batches", "--profile", "--config")
MODEL_FLAGS = ("--model", "--weights")
# What else says by what model, or that any will do.
SETTLED_BY = (*MODEL_FLAGS, "--profile", "--config", "--random-weights")
SOURCES_OF_PICTURES = ("images", "jsonl", "webdataset")
# Models that look at no images.
WITHOUT_IMAGES = ("copy", "encoder")


def wants_demo(argv, config, environment=os.environ):
    """Nobody said where items come from, and the model is one that looks at images."""
    return not said(argv, INPUT_FLAGS, environment) and config.get("model") not in WITHOUT_IMAGES


def demo_flags(places, argv, environment=os.environ):
    """The flags that make a run that of the demo; a model or processor that was asked for stays."""
    flags = ["--input", str(places.demo_images)]
    if not said(argv, MODEL_FLAGS, environment):
        flags += ["--model", MODEL]
        if not said(argv, ("--processor",), environment):
            flags += ["--processor", PROCESSORS]
    return flags


def shipped_model_flags(argv, config, environment=os.environ):
    """For pictures of the user's own, where nothing says by what model: the one that is shipped, cutting out; else none."""
    if not said(argv, ("--input",), environment) or said(argv, SETTLED_BY, environment) or config.get("source") not in SOURCES_OF_PICTURES:
        return []
    chooses = said(argv, ("--processor", "--transform"), environment)
    return ["--model", MODEL] + ([] if chooses else ["--processor", PROCESSORS_FOR_OWN])


def said(argv, flags, environment):
    words = {argument.partition("=")[0] for argument in argv}
    words.update(flag for flag in flags if environment.get("OFFRAMP_" + flag[2:].replace("-", "_").upper()))
    return bool(words.intersection(flags))


def show(places, output, config):
    """What came of it, in lines for a reader; where there are cut-outs of all images, with a contact sheet and how good they are."""
    output = pathlib.Path(output)
    own = ("\nYour own images:\n    ./launch/offramp run --input FOLDER --output RESULTS\n"
           "    ./launch/offramp run --input FOLDER --weights deeplabv3.safetensors --output MASKS      (weights: launch/guide/runner.md)")
    rows = rows_of(places, output)
    if config.get("model") != MODEL or not rows:
        return f"\nResults for the {len(images(places))} demo images are in {output}\n{own}"
    try:
        fit = how_well(rows)
        write_png(output, "contact-sheet.png", rows)
        write_html(output, "contact-sheet.html", rows, f"{len(rows)} rendered pictures cut out: {fit.told()}")
    except ImportError as problem:
        return f"\n{len(rows)} cut-outs are in {output}/cut-out; a contact sheet needs NumPy and Pillow ({problem})\n{own}"
    except (OSError, ValueError) as problem:
        return f"\n{len(rows)} cut-outs are in {output}/cut-out; no contact sheet could be made of them ({problem})\n{own}"
    return (f"\n{len(rows)} rendered pictures cut out: {fit.told()}, against their true masks\n"
            f"  cut-outs   {output}/cut-out, masks in {output}/mask-png, overlays in {output}/overlay\n"
            f"  look at    {output}/contact-sheet.html, or contact-sheet.png beside it\n{own}")


def images(places):
    return sorted(places.demo_images.glob("*.jpg"))


def rows_of(places, output):
    """One row an image; none where an image has no mask or no cut-out."""
    rows = [Row(image, places.demo_masks / f"{image.stem}.png", output, f"mask-png/{image.stem}.png", f"cut-out/{image.stem}.png")
            for image in images(places)]
    return rows if all(shared_folder.holds(output, name) for row in rows for name in (row.mask, row.cut_out)) else []


def how_well(rows):
    """A pixel that is cut out at half or more counts as the thing's. Errors: ImportError without NumPy or Pillow."""
    import numpy
    from PIL import Image

    from offramp_launch.mask_fit import mean_iou
    return mean_iou((numpy.asarray(row.result(row.cut_out).getchannel("A")) >= 128, numpy.asarray(Image.open(row.true_mask)) != 0)
                    for row in rows)
