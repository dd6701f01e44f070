"""The command: creates the network, compiles it, compares the result with the network, and writes the model's files."""

import logging
import os
import pathlib
import sys
import tempfile
import time
import warnings

from exporter import checking, compiling, metadata, networks, own_code
from exporter.arguments import parse
from offramp_launch.exit_code import ExitCode, InputError, LaunchError, WriteError

# A model's files, in the order in which they are renamed: the model itself comes last.
SUFFIXES = (".toml", ".tokenizer.json", ".pt2")


def main(argv):
    try:
        return export(parse(argv))
    except LaunchError as problem:
        print(f"offramp: {problem}", file=sys.stderr)
        return int(problem.code)
    except KeyboardInterrupt:
        print("offramp: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except Exception as problem:  # the network's code may raise any exception, at any step
        line = own_code.own_line(problem, installed=False)
        if line is None:
            raise
        print(f"offramp: the network failed: {own_code.first_lines(problem)}\n    {line}", file=sys.stderr)
        return int(ExitCode.BAD_INPUT)


def export(wish):
    quieten()
    network = networks.make(wish)
    plan = compiling.plan(wish, network)
    say(f"{wish.model} for {plan.device_name()}: input {plan.describe_input()}, {wish.precision}")
    if network.prompt:
        say(f"each text is prefixed with the folder's default prompt {network.prompt!r}")
    module = compiling.prepared(network.module, plan)
    file = pathlib.Path(wish.output or f"{network.name}.pt2")
    check_places(file)
    if file.exists() and os.path.exists(wish.model) and os.path.samefile(file, wish.model):
        raise WriteError(f"--output {file} is the program to be compiled, which would be replaced", "Give another file")
    if file.exists():
        say(f"{file} exists and will be replaced once the new model is complete; pass --output to write another file")
    try:
        make_files(file, wish, plan, network, module)
    except OSError as problem:
        raise WriteError(
            f"{file} cannot be made: {problem}", "Give --output a writable folder with room for the model"
        ) from problem
    if network.random_weights:
        say("its weights are random, so its outputs are meaningless. Load a state dict with --weights FILE")
    written = [file.with_suffix(".toml").name] + (
        [file.with_suffix(".tokenizer.json").name] if network.has_tokenizer else []
    )
    say(
        f"{file} ({file.stat().st_size / 1e6:.0f} MB){', ' if len(written) > 1 else ' and '}{' and '.join(written)}; run it: "
        f"./launch/offramp run {how_to_run(file, network)}"
    )
    return int(ExitCode.OK)


def how_to_run(file, network):
    model = f"--model {file}"
    if network.gives_tokens:
        return f"{model} --input FILE.txt --output-tensor tokens --processor npy --output RESULTS"
    if network.tokens or any(one.tokens for one in network.inputs):
        return f"--profile embeddings {model}{'' if network.has_tokenizer else ' --tokenizer FILE.json'} --input FILE.txt --output RESULTS"
    if network.inputs:
        return f"{model} --input FOLDER --output RESULTS --processor npy   # FOLDER has {', '.join(one.name + '.npy' for one in network.inputs)}"
    return f"{model} --input FOLDER --output RESULTS"


def check_places(file):
    """Checks the output before the compiler runs for minutes."""
    if not file.parent.is_dir():
        raise WriteError(f"--output {file}: the folder {file.parent} does not exist", "Create it, or give another")
    for suffix in SUFFIXES:
        if file.with_suffix(suffix).is_dir():
            raise WriteError(f"{file.with_suffix(suffix)} cannot be made: it is a folder", "Give --output another name")


def make_files(file, wish, plan, network, module):
    began = time.monotonic()
    # In the same folder, so that each file appears complete or not at all. The package contains the model's name too.
    with tempfile.TemporaryDirectory(prefix=".offramp-export-", dir=file.parent) as folder:
        unfinished = pathlib.Path(folder, file.name)
        obstacle = compiling.compile_to(unfinished, module, plan)
        say(f"compiled in {time.monotonic() - began:.0f} s")
        difference = checking.compare(unfinished, module, plan)
        if plan.length != "fixed" and not difference.any_length:
            obstacle = obstacle or "the compiler made its length fixed"
            if plan.length == "any":
                raise InputError(f"--length any: {obstacle}; nothing was written", "Give --length fixed")
            say(
                f"texts are padded to {plan.longest} tokens each, because this model accepts only this length: {obstacle}"
            )
        say(f"largest difference from eager PyTorch: {difference.describe()}")
        if not difference.largest <= plan.tolerance:
            raise InputError(
                f"the compiled model differs from the network by {difference.largest:.2g} of its largest value, more than "
                f"{plan.tolerance:.2g}; nothing was written",
                "Give --precision fp32, or a larger --tolerance",
            )
        metadata.write(
            unfinished.with_suffix(".toml"), wish, plan, network, difference.output_names, difference.any_length
        )
        network.write_tokenizer(unfinished.with_suffix(".tokenizer.json"))
        for suffix in SUFFIXES:
            made = unfinished.with_suffix(suffix)
            if made.exists():
                made.replace(file.with_suffix(suffix))


def quieten():
    """Hides PyTorch's internal warnings."""
    warnings.simplefilter("ignore", FutureWarning)
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)


def say(text):
    print(f"[export] {text}", flush=True)
