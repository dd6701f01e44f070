"""The flags of `offramp export`."""

import argparse
import ast

from offramp_launch.exit_code import ExitCode, LaunchError


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise LaunchError(f"export: {message}", "See ./launch/offramp export --help", ExitCode.USAGE)


def parse(argv):
    parser = Parser(prog="./launch/offramp export", allow_abbrev=False,
                    description="Compiles a network for the device that is here (AOTInductor) and writes MODEL.pt2 and, beside it, "
                                "MODEL.toml with what a run must know of its input.")
    parser.add_argument("model", metavar="MODEL",
                        help="torchvision:NAME (torchvision:deeplabv3_resnet50); sentence:FOLDER, a sentence-transformers model; or FILE.py:FUNCTION "
                             "or MODULE:FUNCTION, which returns a torch.nn.Module of one input")
    parser.add_argument("--output", metavar="FILE.pt2", type=package_name, help="default: the network's name, here")
    parser.add_argument("--weights", metavar="FILE", help="state dict, .safetensors or .pth; default: random weights, or the function's own")
    parser.add_argument("--seed", type=int, default=0, help="of random weights (0)")
    parser.add_argument("--argument", metavar="NAME=VALUE", action="append", default=[], type=named_value,
                        help="passed to the function, as num_classes=2; may be repeated")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="what it is compiled for (auto: the GPU, if there is one)")
    parser.add_argument("--batch", type=batch, default=None, metavar="N|any", help="samples in a batch (that of a run: 64, on a CPU 4)")
    parser.add_argument("--image-size", type=size, default=None, metavar="N|HxW", help="of the pictures (torchvision's own for its networks, else 224)")
    parser.add_argument("--input-shape", type=shape, default=None, metavar="128x256", help="one sample's shape, of a network that takes no pictures")
    parser.add_argument("--max-tokens", type=lambda text: whole(text, 8192), default=None, metavar="N",
                        help="of a text, for sentence:FOLDER; longer ones are cut (the model's own)")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="what it computes in; input and outputs stay float32")
    parser.add_argument("--memory-format", choices=("auto", "contiguous", "channels-last"), default="auto", help="auto: channels-last on a GPU")
    parser.add_argument("--mean", type=colours, default=None, metavar="R,G,B", help="subtracted from pixels in [0, 1] (torchvision's)")
    parser.add_argument("--std", type=colours, default=None, metavar="R,G,B", help="what they are divided by then (torchvision's)")
    parser.add_argument("--colour-order", choices=("rgb", "bgr"), default="rgb", help="that the network wants; mean and std are in the same order")
    parser.add_argument("--tolerance", type=float, default=None,
                        help="largest difference from eager PyTorch, as a share of the largest value (1e-3; tf32 1e-2; bf16 5e-2)")
    return parser.parse_args(argv)


def package_name(text):
    if not text.endswith(".pt2"):
        raise argparse.ArgumentTypeError(f"'{text}' does not end in .pt2, by which a run knows what it is")
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
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to {most}")
    return int(text)


def size(text):
    height, _, width = text.partition("x")
    return whole(height, 8192), whole(width or height, 8192)


def shape(text):
    return tuple(whole(part, 65536) for part in text.split("x"))


def colours(text):
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 3:
        raise argparse.ArgumentTypeError(f"'{text}' is not three numbers with commas")
    return numbers
