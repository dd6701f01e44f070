"""Encodes texts as vectors, with the model of a run."""

import importlib.util
import pathlib
import tomllib

import numpy

from model_package import TOKEN_DTYPES
from offramp_launch.exit_code import ExitCode, InputError, LaunchError, NotFoundError, UsageError

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = ROOT / "producer/runner/sources/text/tokenizer_server.py"
OPEN_BATCH = 2  # for a model of any batch size: the compiler may have excluded 1
RUN_MODEL = (
    "Give the .pt2 that the run had as its --model, with its .toml and .tokenizer.json (or --tokenizer) beside it"
)


def encode(model, tokenizer, texts, output):
    """A float32 vector for each text. Errors: LaunchError."""
    if model.suffix == ".pt":
        raise UsageError(
            f"{model} is TorchScript, but query runs only compiled models (.pt2)",
            "Export the same network (./launch/offramp export), compute the vectors with the .pt2, and give the .pt2 to query",
        )
    metadata_file, tokenizer = model.with_suffix(".toml"), tokenizer or model.with_suffix(".tokenizer.json")
    for file in (model, metadata_file, tokenizer):
        if not file.is_file():
            raise NotFoundError(f"{file} does not exist", RUN_MODEL)
    length, batch, names, inputs, prompt = read_metadata(metadata_file, output)
    if output not in names:
        raise InputError(
            f"the vectors are of the output '{output}', and {model} has the outputs {', '.join(names)}", RUN_MODEL
        )
    rows = tokens(tokenizer, texts, length, prompt)
    return [
        vectors[names.index(output)]
        for vectors in run(model, [numpy.repeat(row[None], batch, 0) for row in rows], inputs)
    ]


def read_metadata(file, output):
    """
    (tokens in a row, rows in a batch, output names, [(token kind, dtype)] of a model with several inputs, prompt before
    each text)
    """
    try:
        metadata = tomllib.loads(file.read_text(encoding="utf-8"))
        inputs = [(one.get("tokens"), one.get("dtype", "int64")) for one in metadata.get("input", [])]
        if not all(dtype in TOKEN_DTYPES.get(tokens, ()) for tokens, dtype in inputs) or (
            not inputs and metadata.get("input-dtype") != "int32"
        ):
            raise InputError(f"{file} is not the metadata of a sentence encoder", RUN_MODEL)
        length = int(metadata["input"][0]["shape"] if inputs else metadata["input-shape"].partition("x")[2])
        return (
            length,
            int(metadata.get("batch", OPEN_BATCH)),
            metadata.get("outputs", output).split(","),
            inputs,
            str(metadata.get("prompt", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise LaunchError(
            f"{file} is invalid: {problem!r}", "launch/guide/runner.md lists its keys", ExitCode.CONFIG
        ) from problem


def tokens(file, texts, length, prompt):
    """The rows of tokens, by the producer's code: int32 [texts, 2, length]."""
    spec = importlib.util.spec_from_file_location("tokenizer_server", SERVER)
    assert spec and spec.loader  # SERVER ends with .py
    server = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(server)
    try:
        tokenizer = server.RowTokenizer(str(file), length, prompt)
    except ImportError as problem:
        raise LaunchError(
            f"the PyPI package `tokenizers` is not installed ({problem})",
            "pip install tokenizers, in the Python that --python names",
        ) from problem
    except Exception as problem:  # the library throws bare Exceptions
        raise InputError(
            f"tokenizer {file}: {problem}", "Give a tokenizer.json of the `tokenizers` library"
        ) from problem
    return numpy.frombuffer(tokenizer.rows(texts), "<i4").reshape(-1, 2, length)


def run(model, batches, inputs):
    """For each batch, whose rows are all equal, the first row of every output."""
    import torch
    from torch.utils import _pytree as pytree

    from model_package.loading import load

    try:
        compiled = load(model)
        device = "cuda" if compiled.get_metadata().get("AOTI_DEVICE_KEY") == "cuda" else "cpu"
        call_spec = pytree.treespec_loads(compiled.loader.get_call_spec()[0])
        made = []
        for batch in batches:
            arguments, named = pytree.tree_unflatten(
                [tensor.to(device) for tensor in tensors_of(torch.from_numpy(batch), inputs)], call_spec
            )
            with torch.no_grad():
                made.append(compiled(*arguments, **named))
    except (RuntimeError, ValueError) as problem:
        raise LaunchError(
            f"{model} does not run here: {str(problem).splitlines()[0]}", RUN_MODEL, ExitCode.DEVICE_UNSUPPORTED
        ) from problem
    return [[tensor[0].float().cpu().numpy() for tensor in pytree.tree_leaves(outputs)] for outputs in made]


def tensors_of(batch, inputs):
    """
    The inputs as the producer passes them to the model: the tokens themselves, or each input that the metadata names.
    """
    import torch

    if not inputs:
        return [batch]
    parts = {"ids": batch[:, 0], "mask": batch[:, 1], "types": torch.zeros_like(batch[:, 0])}
    return [parts[tokens].to(getattr(torch, dtype)).contiguous() for tokens, dtype in inputs]
