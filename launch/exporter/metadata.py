"""Writes the TOML file beside a model, which a run reads: launch/guide/runner.md lists its keys."""

import datetime
import json

import torch


def write(path, wish, plan, network, outputs, any_length):
    made = f"{wish.model}" + (f" with {wish.weights}" if wish.weights else "")
    lines = [
        f"# Made by ./launch/offramp export from {printable(made)}, {datetime.date.today()},",
        f"# with PyTorch {torch.__version__} for {plan.device_name()}, {plan.precision}.",
    ]
    if plan.batch:
        lines.append(f"batch = {plan.batch}")
    if plan.pictures:
        _, height, width = plan.sample
        lines += [
            f"image-size = {height}" if height == width else f'image-size = "{height}x{width}"',
            *([f"resize-size = {plan.resize_size}"] if plan.resize_size else []),
            f'interpolation = "{plan.interpolation}"',
            f"mean = {quoted_list(plan.mean)}",
            f"std = {quoted_list(plan.std)}",
            f'colour-order = "{wish.colour_order}"',
            f'memory-format = "{plan.memory_format}"',
        ]
    elif not plan.inputs:
        lines.append(f'input-shape = "{"x".join(map(str, plan.sample))}"')
        if plan.vocabulary:
            lines.append('input-dtype = "int32"')
    lines.append(f'precision = "{plan.precision}"')
    lines.append(f"outputs = {json.dumps(','.join(name.replace(',', '_') for name in outputs), ensure_ascii=False)}")
    if wish.scores:
        lines.append(f'scores = "{wish.scores}"')
    if any_length:
        lines.append("any-length = true")
    if network.prompt:
        lines.append(f"prompt = {json.dumps(network.prompt, ensure_ascii=False)}")
    if network.random_weights:
        lines.append("random-weights = true")
    for one in plan.inputs:  # after all keys of the whole model
        lines += [
            "",
            "[[input]]",
            f'name = "{one.name}"',
            *([f'tokens = "{one.tokens}"'] if one.tokens else []),
            *([f'shape = "{"x".join(map(str, one.shape))}"'] if one.shape else []),
            f'dtype = "{one.dtype}"',
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def quoted_list(numbers):
    return json.dumps(", ".join(f"{number:g}" for number in numbers))


def printable(text):
    return "".join(c if c.isprintable() else "?" for c in text)
