"""Some words as the vector that the model of a run makes of them."""

import os
import tomllib

import numpy

from offramp_launch.exit_code import ExitCode, LaunchError

OPEN_BATCH = 2      # of a model of any batch, which the compiler may have narrowed down to more than one
RUN_MODEL = "Give the .pt2 that the run had as its --model, with .toml and .tokenizer.json beside it"


def encode(model, words, output):
    """Float32 numbers. Errors: LaunchError."""
    for file in (model, model.with_suffix(".toml"), model.with_suffix(".tokenizer.json")):
        if not file.is_file():
            raise LaunchError(f"{file} does not exist", RUN_MODEL, ExitCode.NO_INPUT)
    notes = tomllib.loads(model.with_suffix(".toml").read_text(encoding="utf-8"))
    if notes.get("input-dtype") != "int32":
        raise LaunchError(f"{model} is no sentence encoder", RUN_MODEL, ExitCode.BAD_INPUT)
    length = int(notes["input-shape"].partition("x")[2])
    batch = notes.get("batch", OPEN_BATCH)
    names = notes["outputs"].split(",")
    if output not in names:
        raise LaunchError(f"{model} has no output '{output}' ({', '.join(names)})", RUN_MODEL, ExitCode.BAD_INPUT)
    return run(model, tokens(model.with_suffix(".tokenizer.json"), words, length, batch))[names.index(output)]


def tokens(tokenizer, words, length, batch):
    """As the producer's rows: [batch, 2, length]; all of them the same."""
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(tokenizer))
    encoder.enable_truncation(length)
    encoder.no_padding()
    encoded = encoder.encode(words)
    rows = numpy.zeros((batch, 2, length), numpy.int32)
    rows[:, 0, :len(encoded.ids)], rows[:, 1, :len(encoded.ids)] = encoded.ids, 1
    return rows


def run(model, rows):
    import torch

    os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"
    try:
        compiled = torch._inductor.aoti_load_package(str(model))
        given = torch.from_numpy(rows)
        with torch.no_grad():
            made = compiled(given.cuda() if made_for_cuda(compiled) else given)
    except RuntimeError as problem:
        raise LaunchError(f"{model} does not run here: {str(problem).splitlines()[0]}", RUN_MODEL, ExitCode.DEVICE_UNSUPPORTED) from problem
    return [tensor[0].float().cpu().numpy() for tensor in torch.utils._pytree.tree_leaves(made)]


def made_for_cuda(compiled):
    return compiled.get_metadata().get("AOTI_DEVICE_KEY") == "cuda"
