"""Creates the network to export, from torchvision or the user's code, with weights from a file or random ones."""

import contextlib
import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import pathlib
import shutil

import torch

from exporter import inputs, own_code, programs
from exporter.arguments import INTERPOLATIONS
from offramp_launch.exit_code import ExitCode, InputError, LaunchError, NotFoundError, UsageError

TORCHVISION, SENTENCE = "torchvision", "sentence"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclasses.dataclass(frozen=True)
class Defaults:
    """A network's default preprocessing of pictures."""

    image_size: int = 224
    mean: tuple = MEAN
    std: tuple = STD
    resize_size: int = (
        0  # of the shorter side, before image_size is cut from the middle; 0: the whole picture is squeezed
    )
    interpolation: str = "bilinear"


@dataclasses.dataclass(frozen=True)
class Network:
    name: str
    module: torch.nn.Module
    random_weights: bool
    defaults: Defaults
    tokens: int = 0  # in a row; 0 without tokens
    vocabulary: int = 0
    tokenizer: pathlib.Path = None
    made_tokenizer: str = ""  # a tokenizer as text, not a file
    prompt: str = ""  # in front of each text
    # exporter.inputs.Input, in the order of forward(); empty: one input, described by the other fields
    inputs: tuple = ()
    gives_tokens: bool = False  # its output `tokens` has one vector per token

    @property
    def has_tokenizer(self):
        return bool(self.tokenizer or self.made_tokenizer)

    def write_tokenizer(self, path):
        """Errors: OSError."""
        if self.tokenizer:
            shutil.copyfile(self.tokenizer, path)
        elif self.made_tokenizer:
            path.write_text(self.made_tokenizer, encoding="utf-8")


def make(wish):
    origin, _, name = wish.model.rpartition(":")
    if wish.inputs and origin in (TORCHVISION, SENTENCE):
        raise UsageError(
            f"--input cannot be combined with {origin}:", "Omit it: the inputs of these networks are known"
        )
    if origin == SENTENCE:
        return sentence_encoder(name, wish)
    torch.manual_seed(wish.seed)
    arguments = dict(wish.argument)
    if is_program := wish.model.endswith(programs.ENDING):
        if arguments:
            raise UsageError(f"--argument is for functions, and {wish.model} is a program", "Omit it")
        program = programs.read(wish.model)
        programs.describe_input(wish, program)
        name, module, defaults = programs.name_of(wish.model), program.module(), Defaults()
    elif origin == TORCHVISION:
        module, defaults = from_torchvision(name, arguments)
    else:
        module, defaults = from_function(origin, name, arguments), Defaults()
    if wish.weights:
        load(module, wish.weights)
    network_inputs = () if origin == TORCHVISION and not is_program else inputs.of_network(wish.inputs, module)
    with contextlib.suppress(NotImplementedError):  # a program of torch.export has only one mode
        module.eval()
    return Network(
        name,
        module.requires_grad_(False),
        origin == TORCHVISION and not wish.weights,
        defaults,
        vocabulary=smallest_table(module) if network_inputs else 0,
        tokenizer=tokenizer(wish),
        inputs=network_inputs,
    )


def smallest_table(module):
    """The rows of the network's smallest embedding table: whole numbers below it are valid ids in every table."""
    return min((part.num_embeddings for part in module.modules() if isinstance(part, torch.nn.Embedding)), default=2)


def tokenizer(wish):
    if not wish.tokenizer:
        return None
    try:
        with open(wish.tokenizer, "rb"):
            return pathlib.Path(wish.tokenizer)
    except OSError as problem:
        raise NotFoundError(
            f"--tokenizer {wish.tokenizer} cannot be read: {problem.strerror}",
            "Give the tokenizer.json that the model was trained with",
        ) from problem


def sentence_encoder(folder, wish):
    if wish.weights or wish.argument or wish.input_shape:
        raise UsageError(
            "--weights, --argument and --input-shape cannot be combined with sentence:FOLDER",
            "Omit them: the folder contains the weights and settings",
        )
    from exporter import sentences

    outputs = wish.output_tensor.split(",") if wish.output_tensor else sentences.OUTPUTS[:1]
    if unknown := [name for name in outputs if name not in sentences.OUTPUTS]:
        raise UsageError(
            f"--output-tensor {wish.output_tensor}: sentence:FOLDER has no output '{unknown[0]}'",
            f"Give {' or '.join(sentences.OUTPUTS)}, or both with a comma between",
        )
    made = sentences.read(folder, wish.max_tokens, wish.asked_precision, outputs)
    return Network(
        pathlib.Path(folder).resolve().name,
        made.network,
        False,
        Defaults(),
        made.tokens,
        made.vocabulary,
        made_tokenizer=made.tokenizer,
        prompt=made.prompt,
        gives_tokens="tokens" in outputs,
    )


def from_torchvision(name, arguments):
    try:
        from torchvision import models
    except ImportError as problem:
        raise LaunchError(
            f"torchvision is not installed ({problem})",
            "pip install the torchvision that goes with this PyTorch "
            "(launch/requirements-export.txt), or export your own function",
        ) from problem
    known = models.list_models()
    if name not in known:
        near = [other for other in known if name in other] or difflib.get_close_matches(name, known, 1)
        raise UsageError(
            f"torchvision has no model '{name}'",
            f"Did you mean {near[0]}?" if near else "torchvision.models.list_models() lists all of them",
        )
    builder = models.get_model_builder(name)
    # Without these arguments, some networks download weights.
    without = {
        parameter: None
        for parameter in ("weights", "weights_backbone")
        if parameter in inspect.signature(builder).parameters
    }
    return call(builder, f"torchvision:{name}", {**without, **arguments}), torchvision_defaults(
        models.get_model_weights(name)
    )


def torchvision_defaults(weights):
    """The preprocessing in the transforms of torchvision's weights; downloads nothing."""
    transforms = getattr(getattr(weights, "DEFAULT", None), "transforms", None)
    preset = transforms() if transforms else None
    colours = tuple(getattr(preset, "mean", MEAN)), tuple(getattr(preset, "std", STD))
    cut, resized = (one_side(getattr(preset, name, None)) for name in ("crop_size", "resize_size"))
    interpolation = getattr(getattr(preset, "interpolation", None), "value", Defaults.interpolation)
    if interpolation not in INTERPOLATIONS:
        interpolation = Defaults.interpolation
    if cut and resized:
        return Defaults(cut, *colours, resized, interpolation)
    return Defaults(cut or resized or Defaults.image_size, *colours, interpolation=interpolation)


def one_side(sides):
    """The side of a square, or the single given side; 0 for anything else."""
    return sides[0] if sides and len(set(sides)) == 1 else 0


def from_function(origin, name, arguments):
    with own_code.reported(
        f"'{origin}' cannot be imported",
        "Modules are searched in this folder and in PYTHONPATH; FILE.py is a path",
        lambda problem: ExitCode.NO_INPUT if isinstance(problem, own_code.NOT_THERE) else ExitCode.BAD_INPUT,
    ):
        if origin.endswith(".py"):
            spec = importlib.util.spec_from_file_location(pathlib.Path(origin).stem, origin)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(origin)
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"'{origin}' has no function '{name}'", "It must return a torch.nn.Module")
    network = call(function, f"{origin}:{name}", arguments)
    if not isinstance(network, torch.nn.Module):
        raise InputError(f"{origin}:{name} returned {type(network).__name__}", "It must return a torch.nn.Module")
    return network


def call(function, what, arguments):
    with own_code.reported(
        f"{what} failed",
        "Pass its arguments with --argument NAME=VALUE",
        lambda problem: ExitCode.USAGE if isinstance(problem, (TypeError, ValueError)) else ExitCode.BAD_INPUT,
    ):
        return function(**arguments)


def load(module, file):
    found = state_dict(file)
    wanted = module.state_dict()
    # Ignores heads that only training uses.
    found = {name: value for name, value in found.items() if name in wanted or not name.startswith("aux_classifier.")}
    missing, unexpected = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    other = sorted(name for name in wanted.keys() & found.keys() if wanted[name].shape != found[name].shape)
    problems = [
        f"{len(names)} {what} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for names, what in ((missing, "missing"), (unexpected, "unexpected"), (other, "of the wrong shape"))
        if names
    ]
    if problems:
        raise InputError(
            f"--weights {file} do not fit the network: {'; '.join(problems)}",
            "Pass the network's arguments with --argument, such as num_classes=2",
        )
    module.load_state_dict(found)


def state_dict(file):
    if not pathlib.Path(file).is_file():
        raise NotFoundError(f"--weights {file} does not exist", "Give a state dict: .safetensors or .pth")
    try:
        if file.endswith(".safetensors"):
            from safetensors.torch import load_file

            found = load_file(file)
        else:
            found = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as problem:  # each reader has its own errors
        raise InputError(
            f"--weights {file} cannot be read: {str(problem).splitlines()[0]}",
            "Give a state dict: .safetensors, or torch.save's .pth",
        ) from problem
    for wrapping in ("state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(wrapping), dict):
            found = found[wrapping]
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise InputError(f"--weights {file} is not a state dict", "torch.save(network.state_dict(), FILE) writes one")
    return {name.removeprefix("module."): value for name, value in found.items()}
