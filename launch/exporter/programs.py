"""A program that torch.export.save wrote: the network in it, and the input that it was exported for."""

import contextlib
import io
import logging
import pathlib
import warnings

import torch

from offramp_launch.exit_code import InputError

ENDING = ".pt2"


def read(path):
    """The program. Errors: InputError."""
    logging.getLogger("torch.export").setLevel(logging.CRITICAL)  # it logs a traceback
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            return torch.export.load(path)
    except Exception as problem:  # PyTorch raises any, with its reasons in the log
        raise InputError(
            f"{path} is not a program that torch.export.save of this PyTorch wrote ({torch.__version__})",
            f"If export compiled it, it is a model already: ./launch/offramp run --model {path}",
        ) from problem


def describe_input(wish, program):
    """
    Sets the batch and the shape that the program was exported for, where the flags do not. A program with several
    inputs needs --input.
    """
    taken = program.graph_signature.user_inputs
    values = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in taken]
    if wish.inputs or len(values) != 1 or not isinstance(values[0], torch.Tensor) or values[0].ndim < 2:
        return
    batch, *sample = values[0].shape
    if wish.batch is None and isinstance(batch, int):
        wish.batch = batch
    if not all(isinstance(side, int) for side in sample) or wish.image_size or wish.input_shape:
        return
    if len(sample) == 3 and sample[0] == 3:
        wish.image_size = tuple(sample[1:])
    else:
        wish.input_shape = tuple(sample)


def name_of(path):
    """The compiled model gets another name than the program."""
    return f"{pathlib.Path(path).stem}-compiled"
