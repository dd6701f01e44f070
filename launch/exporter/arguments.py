"""The flags of `offramp export`."""

import argparse
import ast
import pathlib

from exporter.inputs import network_input
from offramp_launch.exit_code import NotFoundError, UsageError

SMALLEST_SIZE, LARGEST_SIZE = 32, 8192  # of a run's --image-size and --resize-size
INTERPOLATIONS = ("bilinear", "bicubic")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"export: {message}", "See ./launch/offramp export --help")


def check_name(model):
    """Checks the model's name before PyTorch is imported or installed. Errors: LaunchError."""
    origin, colon, name = model.rpartition(":")
    if model.endswith(".pt2"):
        if not pathlib.Path(model).is_file():
            raise NotFoundError(f"{model}: the file does not exist", "Give a file that torch.export.save wrote")
        return
    if not (colon and origin and name):
        what, fix = diagnose_file(model)
        raise UsageError(f"'{model}' {what}", fix)
    if origin == "sentence" and not pathlib.Path(name).is_dir():
        raise NotFoundError(
            f"{model}: the folder '{name}' does not exist", "Give the folder of a sentence-transformers model"
        )
    if origin.endswith(".py") and not pathlib.Path(origin).is_file():
        raise NotFoundError(
            f"{model}: the file '{origin}' does not exist", "FILE.py is a path; a module is named without .py"
        )


def diagnose_file(model):
    """(why the name is not a network, the fix)."""
    ending = pathlib.Path(model).suffix
    if ending == ".onnx":
        return "is ONNX, and export compiles PyTorch networks", (
            "Run it with onnxruntime in a loop of eight lines that submits its outputs to offramp.Egress "
            "(launch/guide/recipes.md, recipe 8), or export the network that it was made from (FILE.py:FUNCTION)"
        )
    if ending in (".pt", ".pth"):
        fix = (
            f"If it is TorchScript: ./launch/offramp run --model {model}. If torch.save wrote a whole network: write net.py with "
            f"`import torch` and `def make(): return torch.load({model!r}, weights_only=False)`, then: "
            "./launch/offramp export net.py:make --output compiled.pt2. If it is weights alone (a state dict), export their "
            f"network: FILE.py:FUNCTION --weights {model}"
        )
        return "is a file, not a function that returns a network", fix
    if ending in (".safetensors", ".ckpt", ".bin"):
        return (
            "holds weights without a network",
            f"Name the network too: export torchvision:NAME --weights {model}, or FILE.py:FUNCTION --weights {model}",
        )
    return (
        "does not name a network",
        "Give torchvision:NAME, sentence:FOLDER, FILE.pt2, FILE.py:FUNCTION or MODULE:FUNCTION",
    )


def check_together(parser, wish):
    of_one_input = [
        *flags_of_pictures(wish),
        *(["--input-shape"] if wish.input_shape else []),
        *(["--max-tokens"] if wish.max_tokens else []),
    ]
    if wish.inputs and of_one_input:
        parser.error(f"{of_one_input[0]} cannot be combined with --input, which describes all inputs")
    if wish.output_tensor and not wish.model.startswith("sentence:"):
        parser.error("--output-tensor is for sentence:FOLDER. Your own function chooses what its network returns")
    if wish.tokenizer and not any(one.tokens for one in wish.inputs):
        parser.error("--tokenizer is for a network that takes a text's tokens (--input NAME=ids:128)")


def flags_of_pictures(wish):
    """The given flags that describe pictures."""
    given = {
        "--image-size": wish.image_size,
        "--resize-size": wish.resize_size is not None,
        "--interpolation": wish.interpolation,
        "--mean": wish.mean,
        "--std": wish.std,
        "--colour-order": wish.colour_order != "rgb",
        "--memory-format": wish.memory_format == "channels-last",
    }
    return [flag for flag, is_there in given.items() if is_there]


def package_name(text):
    if not text.endswith(".pt2"):
        raise argparse.ArgumentTypeError(f"'{text}' does not end in .pt2, the ending of compiled models")
    return text


def named_value(text):
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def batch(text):
    if text == "any":
        return 0
    return whole(text, 65536)


def whole(text, most):
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to {most}")
    return int(text)


def size(text):
    height, _, width = text.partition("x")
    return whole(height, LARGEST_SIZE), whole(width or height, LARGEST_SIZE)


def resize_size(text):
    if text == "none":
        return 0
    number = whole(text, LARGEST_SIZE)
    if number < SMALLEST_SIZE:
        raise argparse.ArgumentTypeError(
            f"'{text}' is neither a number from {SMALLEST_SIZE} to {LARGEST_SIZE} nor 'none'"
        )
    return number


def shape(text):
    return tuple(whole(part, 65536) for part in text.split("x"))


def colours(text):
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 3:
        raise argparse.ArgumentTypeError(f"'{text}' is not three numbers separated by commas")
    return numbers


def flag(name, **settings):
    """`settings`: as for argparse."""
    return name, settings


FLAGS: tuple[tuple[str, dict], ...] = (
    flag(
        "model",
        metavar="MODEL",
        help="network: torchvision:NAME, sentence:FOLDER (sentence-transformers), FILE.pt2 of torch.export.save, or FILE.py:FUNCTION or "
        "MODULE:FUNCTION that returns a torch.nn.Module",
    ),
    flag(
        "--output",
        metavar="FILE.pt2",
        type=package_name,
        help="model file to write [the network's name, in this folder]",
    ),
    flag("--weights", metavar="FILE", help="state dict, .safetensors or .pth [random weights, or the function's own]"),
    flag("--seed", type=int, default=0, help="seed of random weights [0]"),
    flag(
        "--argument",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=named_value,
        help="argument of the function, such as num_classes=2; repeatable",
    ),
    flag(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="device to compile for [auto: the GPU if there is one]",
    ),
    flag("--batch", type=batch, metavar="N|any", help="samples per batch [64; on the CPU 4]"),
    flag(
        "--image-size",
        type=size,
        metavar="N|HxW",
        help="size of the input pictures [torchvision's for its networks, else 224]",
    ),
    flag(
        "--resize-size",
        type=resize_size,
        metavar="N|none",
        help="length of a picture's shorter side before the centre crop to --image-size; none: squeeze the whole picture "
        "[torchvision's for its networks]",
    ),
    flag("--interpolation", choices=INTERPOLATIONS, help="how pictures are resized [torchvision's for its networks]"),
    flag(
        "--input-shape", type=shape, metavar="128x256", help="shape of one sample, for a network that takes no pictures"
    ),
    flag(
        "--input",
        dest="inputs",
        type=network_input,
        action="append",
        default=[],
        metavar="NAME=TYPE:SHAPE",
        help="one input of a network with several; repeatable. NAME: the parameter of forward(). TYPE: float32, int64 or another "
        "number. SHAPE: of one sample, omitted for a single number (features=float32:3x16). Tokens: NAME=ids:128, "
        "NAME=mask:128, NAME=types:128, int64 unless :int32 follows",
    ),
    flag("--tokenizer", metavar="FILE", help="tokenizer.json of a network that takes tokens; copied beside the model"),
    flag(
        "--max-tokens",
        type=lambda text: whole(text, 8192),
        metavar="N",
        help="tokens per text for sentence:FOLDER; longer texts are cut [the model's own]",
    ),
    flag(
        "--output-tensor",
        metavar="A,B",
        help="outputs of sentence:FOLDER. embedding: one vector per text. tokens: one per token [embedding]",
    ),
    flag(
        "--length",
        choices=("auto", "any", "fixed"),
        default="auto",
        help="length of token rows. any: from 4 to the longest, so short texts need less padding. fixed: always the longest. "
        "auto: any on a CPU if the network allows it and gives one vector per text, else fixed",
    ),
    flag(
        "--precision",
        dest="asked_precision",
        choices=("fp32", "tf32", "bf16"),
        help="precision of the computation; input and outputs stay float32 [fp32]",
    ),
    flag(
        "--memory-format",
        choices=("auto", "contiguous", "channels-last"),
        default="auto",
        help="memory layout of pictures [auto: channels-last on a GPU]",
    ),
    flag("--mean", type=colours, metavar="R,G,B", help="mean to subtract from pixels in [0, 1] [torchvision's]"),
    flag("--std", type=colours, metavar="R,G,B", help="standard deviation to divide by [torchvision's]"),
    flag(
        "--colour-order",
        choices=("rgb", "bgr"),
        default="rgb",
        help="channel order of the network, --mean and --std [rgb]",
    ),
    flag(
        "--scores",
        choices=("probability", "logit"),
        help="foreground value of a network of one channel, for the metadata [probability]",
    ),
    flag(
        "--tolerance",
        type=float,
        help="largest allowed difference from eager PyTorch, relative to the largest value [1e-3; tf32 1e-2; bf16 5e-2]",
    ),
)


def parse(argv):
    parser = Parser(
        prog="./launch/offramp export",
        allow_abbrev=False,
        description="Compiles a network with AOTInductor. Writes MODEL.pt2 and MODEL.toml, the description of its input.",
    )
    for name, settings in FLAGS:
        parser.add_argument(name, **settings)
    wish = parser.parse_args(argv)
    wish.precision = wish.asked_precision or "fp32"
    check_name(wish.model)
    check_together(parser, wish)
    return wish
