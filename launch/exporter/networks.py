"""The network that is to be exported: torchvision's or the user's, with weights from a file or random ones."""

import contextlib
import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import pathlib
import shutil

import torch

from exporter import inputs, own_code
from exporter.arguments import INTERPOLATIONS
from offramp_launch.exit_code import ExitCode, LaunchError

TORCHVISION, SENTENCE = "torchvision", "sentence"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclasses.dataclass(frozen=True)
class Defaults:
    """What a network wants of its pictures unless the user says otherwise."""

    image_size: int = 224
    mean: tuple = MEAN
    std: tuple = STD
    resize_size: int = 0        # of the shorter side, before image_size is cut from the middle; 0: all of a picture is squeezed
    interpolation: str = "bilinear"


@dataclasses.dataclass(frozen=True)
class Network:
    name: str
    module: torch.nn.Module
    random_weights: bool
    defaults: Defaults
    tokens: int = 0             # in a row, of a network that takes those
    vocabulary: int = 0
    tokenizer: pathlib.Path = None
    made_tokenizer: str = ""    # the text of one that was not a file
    prompt: str = ""             # in front of each text
    inputs: tuple = ()          # exporter.inputs.Input, in the order in which it takes them; empty: the one that the rest says

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
        raise LaunchError(f"--input does not go with {origin}:", "What such a network takes is known", ExitCode.USAGE)
    if origin == SENTENCE:
        return sentence_encoder(name, wish)
    torch.manual_seed(wish.seed)
    arguments = dict(wish.argument)
    if origin == TORCHVISION:
        module, defaults = from_torchvision(name, arguments)
    else:
        module, defaults = from_function(origin, name, arguments), Defaults()
    if wish.weights:
        load(module, wish.weights)
    taken = () if origin == TORCHVISION else inputs.of_network(wish.inputs, module)
    with contextlib.suppress(NotImplementedError):      # of a program of torch.export's, which has one mode
        module.eval()
    return Network(name, module.requires_grad_(False), origin == TORCHVISION and not wish.weights, defaults, vocabulary=least_table(module) if taken else 0,
                   tokenizer=tokenizer(wish), inputs=taken)


def least_table(module):
    """Below which whole numbers are ids for whatever the network looks up: the rows of its smallest table."""
    return min((part.num_embeddings for part in module.modules() if isinstance(part, torch.nn.Embedding)), default=2)


def tokenizer(wish):
    if not wish.tokenizer:
        return None
    try:
        with open(wish.tokenizer, "rb"):
            return pathlib.Path(wish.tokenizer)
    except OSError as problem:
        raise LaunchError(f"--tokenizer {wish.tokenizer} cannot be read: {problem.strerror}", "Give the tokenizer.json that the model was trained with",
                          ExitCode.NO_INPUT) from problem


def sentence_encoder(folder, wish):
    if wish.weights or wish.argument or wish.input_shape:
        raise LaunchError("--weights, --argument and --input-shape do not go with sentence:FOLDER", "The folder holds all of it", ExitCode.USAGE)
    from exporter import sentences
    made = sentences.read(folder, wish.max_tokens, wish.asked_precision)
    return Network(pathlib.Path(folder).resolve().name, made.network, False, Defaults(), made.tokens, made.vocabulary, made_tokenizer=made.tokenizer,
                   prompt=made.prompt)


def from_torchvision(name, arguments):
    try:
        from torchvision import models
    except ImportError as problem:
        raise LaunchError(f"torchvision is not there ({problem})", "pip install the torchvision that goes with this PyTorch "
                          "(launch/requirements-export.txt), or export a function of your own", ExitCode.SYSTEM) from problem
    known = models.list_models()
    if name not in known:
        near = [other for other in known if name in other] or difflib.get_close_matches(name, known, 1)
        raise LaunchError(f"torchvision has no model '{name}'", f"Did you mean {near[0]}?" if near else "torchvision.models.list_models() has them all",
                          ExitCode.USAGE)
    builder = models.get_model_builder(name)
    # Otherwise some of them download a part of their weights.
    without = {parameter: None for parameter in ("weights", "weights_backbone") if parameter in inspect.signature(builder).parameters}
    return call(builder, f"torchvision:{name}", {**without, **arguments}), torchvision_defaults(models.get_model_weights(name))


def torchvision_defaults(weights):
    """As the transforms of the weights say that torchvision has for it; nothing is downloaded."""
    transforms = getattr(getattr(weights, "DEFAULT", None), "transforms", None)
    preset = transforms() if transforms else None
    colours = tuple(getattr(preset, "mean", MEAN)), tuple(getattr(preset, "std", STD))
    cut, resized = (one_side(getattr(preset, name, None)) for name in ("crop_size", "resize_size"))
    way = getattr(getattr(preset, "interpolation", None), "value", Defaults.interpolation)
    if way not in INTERPOLATIONS:
        way = Defaults.interpolation
    if cut and resized:
        return Defaults(cut, *colours, resized, way)
    return Defaults(cut or resized or Defaults.image_size, *colours, interpolation=way)


def one_side(sides):
    """The side of a square, or of what is said by its shorter side; 0 where there is none."""
    return sides[0] if sides and len(set(sides)) == 1 else 0


def from_function(origin, name, arguments):
    with own_code.told(f"'{origin}' cannot be imported", "A module is looked for here and in PYTHONPATH; FILE.py is a path",
                       lambda problem: ExitCode.NO_INPUT if isinstance(problem, own_code.NOT_THERE) else ExitCode.BAD_INPUT):
        if origin.endswith(".py"):
            spec = importlib.util.spec_from_file_location(pathlib.Path(origin).stem, origin)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(origin)
    function = getattr(module, name, None)
    if not callable(function):
        raise LaunchError(f"'{origin}' has no function '{name}'", "It must return a torch.nn.Module", ExitCode.USAGE)
    network = call(function, f"{origin}:{name}", arguments)
    if not isinstance(network, torch.nn.Module):
        raise LaunchError(f"{origin}:{name} returned {type(network).__name__}", "It must return a torch.nn.Module", ExitCode.BAD_INPUT)
    return network


def call(function, what, arguments):
    with own_code.told(f"{what} could not be made", "--argument NAME=VALUE passes arguments on",
                       lambda problem: ExitCode.USAGE if isinstance(problem, (TypeError, ValueError)) else ExitCode.BAD_INPUT):
        return function(**arguments)


def load(module, file):
    found = state_dict(file)
    wanted = module.state_dict()
    # Heads that are there for training alone.
    found = {name: value for name, value in found.items() if name in wanted or not name.startswith("aux_classifier.")}
    missing, unexpected = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    other = sorted(name for name in wanted.keys() & found.keys() if wanted[name].shape != found[name].shape)
    problems = [f"{len(names)} {what} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
                for names, what in ((missing, "missing"), (unexpected, "unexpected"), (other, "of another shape")) if names]
    if problems:
        raise LaunchError(f"--weights {file} do not fit the network: {'; '.join(problems)}",
                          "--argument passes on what the network was made with, as num_classes=2", ExitCode.BAD_INPUT)
    module.load_state_dict(found)


def state_dict(file):
    if not pathlib.Path(file).is_file():
        raise LaunchError(f"--weights {file} does not exist", "Give a state dict: .safetensors or .pth", ExitCode.NO_INPUT)
    try:
        if file.endswith(".safetensors"):
            from safetensors.torch import load_file
            found = load_file(file)
        else:
            found = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as problem:  # each reader has errors of its own
        raise LaunchError(f"--weights {file} cannot be read: {str(problem).splitlines()[0]}", "Give a state dict: .safetensors, or torch.save's .pth",
                          ExitCode.BAD_INPUT) from problem
    for wrapping in ("state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(wrapping), dict):
            found = found[wrapping]
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise LaunchError(f"--weights {file} is not a state dict", "torch.save(network.state_dict(), FILE) writes one", ExitCode.BAD_INPUT)
    return {name.removeprefix("module."): value for name, value in found.items()}
