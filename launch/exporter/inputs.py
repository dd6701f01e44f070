"""Inputs given by --input: several, or neither pictures nor float32. Parsing does not need PyTorch."""

import argparse
import dataclasses
import inspect
import re

from model_package import TOKEN_DTYPES
from offramp_launch.exit_code import InputError, UsageError

DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
MOST_SIDE, MOST_DIMENSIONS, MOST_INPUTS = 65536, 7, 16


@dataclasses.dataclass(frozen=True)
class Input:
    name: str  # a parameter of forward()
    tokens: str  # a kind of token input; empty: an array
    shape: tuple  # of one sample
    dtype: str

    def describe(self, batch):
        return f"{self.name} {self.dtype} [{', '.join(map(str, (batch, *self.shape)))}]"

    def example(self, batch, generator, limit, lengths):
        """A random batch: floats, whole numbers below `limit`, or a mask of the texts' lengths."""
        import torch

        shape, dtype = (batch, *self.shape), getattr(torch, self.dtype)
        if self.tokens == "types":
            return torch.zeros(shape, dtype=dtype)
        if self.tokens == "mask":
            return (torch.arange(self.shape[0]) < lengths).to(dtype)
        if dtype.is_floating_point:
            return torch.randn(shape, generator=generator).to(dtype)
        return torch.randint(2 if self.dtype == "bool" else min(limit, 128), shape, generator=generator).to(dtype)


def examples(inputs, batch, generator, limit):
    """A tensor for each input, by name."""
    import torch

    longest = max((one.shape[0] for one in inputs if one.tokens), default=1)
    lengths = torch.randint(1, longest + 1, (batch, 1), generator=generator)
    return {one.name: one.example(batch, generator, limit, lengths) for one in inputs}


def network_input(text):
    name, equals, description = text.partition("=")
    kind, *rest = description.split(":")
    if (
        not equals
        or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name)
        or kind not in (*TOKEN_DTYPES, *DTYPES)
        or len(rest) > (2 if kind in TOKEN_DTYPES else 1)
    ):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not NAME=TYPE:SHAPE; TYPE is {', '.join(TOKEN_DTYPES)} of a text, or {', '.join(DTYPES)}"
        )
    shape = sides(text, rest[0]) if rest else ()
    if kind not in TOKEN_DTYPES:
        return Input(name, "", shape, kind)
    dtype = rest[1] if len(rest) == 2 else TOKEN_DTYPES[kind][0]
    if len(shape) != 1 or dtype not in TOKEN_DTYPES[kind]:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not NAME={kind}:LENGTH, or NAME={kind}:LENGTH:DTYPE with {', '.join(TOKEN_DTYPES[kind])}"
        )
    return Input(name, kind, shape, dtype)


def sides(text, shape):
    found = shape.split("x")
    if len(found) > MOST_DIMENSIONS or not all(
        side.isascii() and side.isdigit() and 1 <= int(side) <= MOST_SIDE for side in found
    ):
        raise argparse.ArgumentTypeError(
            f"'{text}': '{shape}' is not a shape, such as 3x16, of 1 to {MOST_DIMENSIONS} sides of 1 to {MOST_SIDE}"
        )
    return tuple(map(int, found))


def of_network(inputs, module):
    """The inputs in the order of forward()'s parameters, which are passed by name. Errors: LaunchError."""
    try:
        parameters = dict(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):  # not written in Python
        parameters = {}
    named = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    needed = [name for name in named if parameters[name].default is inspect.Parameter.empty]
    given = [one.name for one in inputs]
    if not inputs:
        several = needed or named  # if forward() requires none, it needs some of the optional ones
        if len(several) > 1:
            raise InputError(
                f"the network cannot be exported with one input of pictures: its forward() takes {', '.join(several)}",
                f"Describe each of them: {' '.join(flag_for(name) for name in several)}",
            )
        return ()
    check_together(inputs, given)
    unknown, missing = [name for name in given if name not in named], [name for name in needed if name not in given]
    if unknown or missing:
        raise UsageError(
            "; ".join(
                (
                    *(f"the network's forward() has no parameter '{name}'" for name in unknown),
                    *(f"its parameter '{name}' is not described" for name in missing),
                )
            ),
            f"It takes {', '.join(named) or 'none by name'}: --input NAME=TYPE:SHAPE for each",
        )
    return tuple(sorted(inputs, key=lambda one: named.index(one.name)))


def check_together(inputs, names):
    if len(set(names)) != len(names):
        raise UsageError("--input names one parameter twice", "Give each parameter once")
    if len(names) > MOST_INPUTS:
        raise UsageError(f"--input is given {len(names)} times", f"A model has at most {MOST_INPUTS} inputs")
    if len({bool(one.tokens) for one in inputs}) > 1 or len({one.shape for one in inputs if one.tokens}) > 1:
        raise UsageError(
            "--input: a network's inputs are all tokens of one length, or all arrays",
            "Give NAME=ids:128 NAME=mask:128, or for example NAME=float32:3x16",
        )


def flag_for(name):
    usual = {"input_ids": "ids:LENGTH", "attention_mask": "mask:LENGTH", "token_type_ids": "types:LENGTH"}
    return f"--input {name}={usual.get(name, 'float32:SHAPE')}"
