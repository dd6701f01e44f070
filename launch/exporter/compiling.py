"""Compiles a network to a package of machine code for one device."""

import collections
import contextlib
import dataclasses
import inspect
import io
import logging
import os
import platform
import re
import zipfile

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from exporter import inputs
from exporter.arguments import LARGEST_SIZE, SMALLEST_SIZE, flags_of_pictures
from exporter.own_code import first_lines, own_line
from offramp_launch.exit_code import ExitCode, InputError, LaunchError, UsageError

TOLERANCES = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 5e-2}
BATCH = {"cuda": 64, "cpu": 4}  # default of a run
MOST_BATCH = 65536
SHORTEST = 4  # tokens of a row of any length: LengthGroups::kShortest in producer/runner/models/length_groups.hpp


@dataclasses.dataclass(frozen=True)
class Plan:
    device: str
    batch: int  # 0: any
    sample: tuple  # one sample's shape
    pictures: bool
    precision: str
    memory_format: str
    mean: tuple
    std: tuple
    tolerance: float
    resize_size: int = 0  # of a picture's shorter side, before the middle is cut out; 0: the whole picture is squeezed
    interpolation: str = "bilinear"
    vocabulary: int = 0  # of a network that takes tokens or other whole numbers
    inputs: tuple = ()  # exporter.inputs.Input, if --input describes them
    length: str = "fixed"  # of rows of tokens: "any", "auto"
    gives_tokens: bool = False  # outputs [batch, length, ...] may be as long as the rows

    @property
    def example_batch(self):
        # Not 1, which PyTorch would treat as a constant.
        return self.batch or max(2, BATCH[self.device])

    @property
    def longest(self):
        """Tokens in a row; 0 without tokens."""
        if self.inputs:
            return self.inputs[0].shape[0] if self.inputs[0].tokens else 0
        return self.sample[1] if self.vocabulary else 0

    def arguments(self, batch, seed, length=None):
        """The network's (arguments, keyword arguments), with rows of `length` tokens, or of the longest."""
        given, named = self.longest_arguments(batch, seed)
        if length is None:
            return given, named
        return tuple(one[..., :length].contiguous() for one in given), {
            name: one[..., :length].contiguous() for name, one in named.items()
        }

    def longest_arguments(self, batch, seed):
        generator = torch.Generator().manual_seed(seed)
        if self.inputs:
            return (), {
                name: tensor.to(self.device)
                for name, tensor in inputs.examples(self.inputs, batch, generator, self.vocabulary).items()
            }
        if self.vocabulary:
            return (self.tokens(batch, generator).to(self.device),), {}
        numbers = torch.randn(batch, *self.sample, generator=generator).to(self.device)
        return (numbers.contiguous(memory_format=self.torch_format) if self.pictures else numbers,), {}

    def tokens(self, batch, generator):
        """Rows of random ids, for texts of random lengths."""
        length = self.sample[1]
        ids = torch.randint(self.vocabulary, (batch, length), generator=generator)
        mask = torch.arange(length) < torch.randint(1, length + 1, (batch, 1), generator=generator)
        return torch.stack((ids * mask, mask), 1).int()

    @property
    def torch_format(self):
        return torch.channels_last if self.memory_format == "channels-last" else torch.contiguous_format

    def device_name(self):
        return torch.cuda.get_device_name() if self.device == "cuda" else f"this CPU ({platform.machine()})"

    def describe_input(self):
        if self.inputs:
            return ", ".join(one.describe(self.batch or "any") for one in self.inputs)
        middle = f", the middle of pictures whose shorter side is {self.resize_size}" if self.resize_size else ""
        return f"[{self.batch or 'any'}, {', '.join(map(str, self.sample))}] {self.memory_format}{middle}"


def plan(wish, network):
    defaults = network.defaults
    device = wish.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise LaunchError(
            "--device cuda: PyTorch finds no GPU",
            "Export on a machine with a GPU, or give --device cpu",
            ExitCode.DEVICE_UNSUPPORTED,
        )
    if device == "cpu" and wish.precision == "tf32":
        raise UsageError("--precision tf32 needs a GPU", "Give fp32 or bf16")
    tokens = network.tokens or any(one.tokens for one in network.inputs)
    pictures = wish.input_shape is None and not tokens and not network.inputs
    if not pictures and (given := flags_of_pictures(wish)):
        raise UsageError(
            f"{given[0]} is for networks that take pictures, but {wish.model} takes {'numbers' if wish.input_shape else 'tokens'}",
            "Omit it",
        )
    if wish.length == "any" and not tokens:
        raise UsageError(
            f"--length any is for networks that take a text's tokens, but {wish.model} takes none", "Omit it"
        )
    sample = (2, network.tokens) if network.tokens else wish.input_shape
    height, width = wish.image_size or (defaults.image_size, defaults.image_size)
    memory_format = wish.memory_format
    if memory_format == "auto":
        memory_format = "channels-last" if device == "cuda" and pictures else "contiguous"
    batch = wish.batch if wish.batch is not None else 0 if tokens else BATCH[device]
    return Plan(
        device,
        batch,
        (3, height, width) if pictures else sample or (),
        pictures,
        wish.precision,
        memory_format,
        wish.mean or defaults.mean,
        wish.std or defaults.std,
        TOLERANCES[wish.precision] if wish.tolerance is None else wish.tolerance,
        resize_size(wish, defaults, (height, width)) if pictures else 0,
        wish.interpolation or defaults.interpolation,
        network.vocabulary,
        network.inputs,
        length_of_texts(wish.length, device) if tokens else "fixed",
        network.gives_tokens or wish.length == "any",
    )


def resize_size(wish, defaults, size):
    """The shorter side's size: the flag's, else the network's default, scaled to the image size."""
    smallest, largest = min(size), max(size)
    if wish.resize_size is None:
        in_proportion = min(round(defaults.resize_size * largest / defaults.image_size), LARGEST_SIZE)
        return in_proportion if SMALLEST_SIZE <= smallest == largest else 0
    if wish.resize_size and not SMALLEST_SIZE <= smallest == largest <= wish.resize_size:
        raise UsageError(
            f"--resize-size {wish.resize_size} cuts out the middle of a picture, but the network takes {'x'.join(map(str, size))} pixels",
            f"Give a square --image-size of {SMALLEST_SIZE} to {wish.resize_size}, or omit --resize-size",
        )
    return wish.resize_size


def around(network, before, after):
    """The network, with `before` applied to its inputs and `after` to its outputs."""

    class Around(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, *inputs, **named):
            inputs, named = before((inputs, named))
            return after(self.network(*inputs, **named))

    # torch.export names dynamic dimensions by parameter.
    Around.forward.__signature__ = inspect.signature(type(network).forward)
    return Around()


def in_half(network):
    """The network, computing in bfloat16 between float32 and float32."""
    return around(
        network.to(torch.bfloat16),
        lambda given: floats(given, torch.bfloat16),
        lambda answer: floats(answer, torch.float32),
    )


def floats(tree, dtype):
    return torch.utils._pytree.tree_map(
        lambda t: t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t, tree
    )


def fields_of(answer):
    """The fields of a NamedTuple or a torch.return_types, types that a package cannot name; else empty."""
    if not isinstance(answer, tuple):
        return ()
    return getattr(answer, "_fields", ()) or (
        type(answer).__match_args__ if hasattr(type(answer), "n_sequence_fields") else ()
    )


def with_named_fields(answer):
    """The answer with dictionaries instead of named tuples, at any depth."""
    if fields := fields_of(answer):
        return {name: with_named_fields(getattr(answer, name)) for name in fields}
    if type(answer) in (dict, collections.OrderedDict):
        return {name: with_named_fields(one) for name, one in answer.items()}
    if type(answer) in (list, tuple):
        return type(answer)(map(with_named_fields, answer))
    return answer


def has_named_fields(answer):
    if type(answer) in (dict, collections.OrderedDict):
        return any(map(has_named_fields, answer.values()))
    return bool(fields_of(answer)) or type(answer) in (list, tuple) and any(map(has_named_fields, answer))


def prepared(network, plan):
    """The network, ready to compile. Errors: those of check_outputs(), before the compiler runs for minutes."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = plan.precision == "tf32"
    network = network.to(plan.device)
    if plan.pictures:
        network = network.to(memory_format=plan.torch_format)
    network = in_half(network) if plan.precision == "bf16" else network
    given, named = plan.arguments(plan.example_batch, 0)
    answer = check_outputs(network, given, named, plan.example_batch)
    return around(network, lambda given: given, with_named_fields) if has_named_fields(answer) else network


def traced(module, given, named, dynamic_shapes):
    """The network as a graph, from example inputs. Errors: LaunchError if PyTorch cannot trace it."""
    try:
        with torch.no_grad(), without_graphs():
            program = torch.export.export(module, given, named, dynamic_shapes=dynamic_shapes)
    except Exception as problem:  # the network's code may raise any exception
        raise InputError(f"the network cannot be exported: {first_lines(problem)}", advice_for(problem)) from problem
    # torch.export traces without cuDNN, and PyTorch caches the layout of each operation's result. With these cached
    # layouts, compiled code would read cuDNN's channels-last results as contiguous (PyTorch 2.11: wrong numbers without
    # an error).
    FakeTensorMode.cache_clear()
    return program


@contextlib.contextmanager
def without_graphs():
    """Hides the partial graph that PyTorch prints on a failure, unless TORCH_LOGS is set."""
    if os.environ.get("TORCH_LOGS"):
        yield
        return
    torch._logging.set_logs(all=logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def advice_for(problem):
    """The advice, followed by the line of the network's code that failed."""
    advice = "Only networks that run the same operations for every input can be exported"
    if "data-dependent" in str(problem):
        advice += (
            ": replace each `if` or loop over values by torch.where or torch.cond, or save it as TorchScript, which run accepts "
            "(torch.jit.script(network).save('net.pt'), run --model net.pt)"
        )
    line = own_line(problem)
    return f"{advice}\n    {line}" if line else advice


def check_outputs(module, given, named, batch):
    """The network's answer. Errors: LaunchError if an output is not a batch, or the network fails."""
    try:
        with torch.no_grad():
            answer = module(*given, **named)
            tensors, names = flattened(answer)
    except Exception as problem:  # the network's code may raise any exception
        line = own_line(problem)
        raise InputError(
            f"the network cannot be exported, because it fails on an input {', '.join(str(list(one.shape)) for one in (*given, *named.values()))}: "
            f"{first_lines(problem)}",
            "\n    ".join(filter(None, (of_other_channels(problem, given), line)))
            or "A run passes these inputs: fix forward(), or describe its inputs with --input",
        ) from problem
    if isinstance(answer, (list, tuple)) and answer and all(isinstance(each, dict) for each in answer):
        raise InputError(
            "the network is a detector: it returns a dict for each picture, whose tensors have as many rows as it found",
            "Run it in a loop (launch/guide/recipes.md, recipe 14): define model and categories in mine.py, then "
            "python3 tests/examples/programs/instances.py PICTURES RESULTS",
        )
    for name, tensor in zip(names, tensors):
        check_is_batch(name, tensor, batch)
    return answer


def of_other_channels(problem, given):
    """The flag for a network whose first convolution takes other pictures than RGB; None for any other problem."""
    expected = re.search(r"to have (\d+) channels, but got 3 channels", str(problem))
    if expected is None or not given or given[0].dim() != 4 or given[0].shape[1] != 3:
        return None
    return f"Pass --input-shape {expected[1]}x{given[0].shape[2]}x{given[0].shape[3]}"


def check_is_batch(name, tensor, batch):
    if tensor.dim() == 0 or tensor.shape[0] != batch:
        raise InputError(
            f"the output '{name}', {list(tensor.shape)}, is not a batch of {batch} samples: expected [{batch}, ...]",
            "Let the network return a row for each sample, or give --batch 1 if it returns one sample only",
        )


def flattened(answer):
    """The answer's tensors and their names: "out", "1", "features.0"."""
    leaves = [(path, leaf) for path, leaf in pytree.tree_leaves_with_path(answer) if isinstance(leaf, torch.Tensor)]
    names = tuple(
        ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path) or "output"
        for path, _ in leaves
    )
    return [leaf for _, leaf in leaves], names


def length_of_texts(wished, device):
    """On a GPU the length is dynamic only on request: its cost has not been measured."""
    return "fixed" if wished == "auto" and device == "cuda" else wished


def compile_to(file, module, plan):
    """
    Returns "", or the reason why the length of texts is fixed although any was possible. Errors: LaunchError if PyTorch
    cannot trace or compile it.
    """
    given, named = plan.arguments(plan.example_batch, 0)
    obstacle = ""
    if plan.length != "fixed":
        try:
            check_any_length(module, plan)
            package(file, traced(module, given, named, open_dimensions(plan, given, named, any_length=True)))
            return obstacle
        except LaunchError as problem:
            if plan.length == "any":
                raise
            obstacle = str(problem).splitlines()[0]
    package(file, traced(module, given, named, open_dimensions(plan, given, named, any_length=False)))
    return obstacle


def package(file, program):
    try:
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(file), inductor_configs={"aot_inductor.metadata": {"torch": torch.__version__}}
        )
    except Exception as problem:
        raise LaunchError(
            f"compiling failed: {first_lines(problem)}",
            "The lines above have the details"
            if os.environ.get("TORCH_LOGS")
            else "TORCH_LOGS=+inductor in the environment shows more",
        ) from problem


def open_dimensions(plan, given, named, any_length):
    """The dynamic dimensions of the network's inputs, for torch.export."""
    sizes = {} if plan.batch else {0: torch.export.Dim("batch", min=1, max=MOST_BATCH)}
    if any_length:
        sizes[next(iter((*given, *named.values()))).dim() - 1] = torch.export.Dim(
            "length", min=SHORTEST, max=plan.longest
        )
    return {name: sizes for name in named} if sizes and named else (sizes,) if sizes else None


def check_any_length(module, plan):
    """
    Errors: LaunchError if the outputs depend on the text's length or padding, or the network fails on a shorter text.
    """
    if plan.longest <= SHORTEST:
        raise UsageError(f"--length any is for rows of more than {SHORTEST} tokens", "Give --length fixed")
    shapes = []
    for length in (plan.longest, SHORTEST):
        given, named = plan.arguments(plan.example_batch, 0, length)
        check_outputs(module, given, named, plan.example_batch)
        with torch.no_grad():
            shapes.append([tuple(one.shape) for one in flattened(module(*given, **named))[0]])
    of_tokens = [plan.gives_tokens and has_row_for_each_token(*both, plan.longest) for both in zip(*shapes)]
    if any(one != other and not follows for one, other, follows in zip(*shapes, of_tokens)):
        raise InputError(
            f"the shapes of the outputs depend on the text's length: {shapes[0]}, {shapes[1]}",
            "Give --length fixed; --length any takes outputs [batch, tokens, ...]",
        )
    length = (SHORTEST + plan.longest) // 2
    given, named = plan.arguments(plan.example_batch, 0, length)
    longer = torch.nn.ConstantPad1d((0, plan.longest - length), 0)
    with torch.no_grad():
        short, _ = flattened(module(*given, **named))
        filled_up, _ = flattened(module(*map(longer, given), **{name: longer(one) for name, one in named.items()}))
        filled_up = [one[:, :length] if follows else one for one, follows in zip(filled_up, of_tokens)]
    if not all(
        torch.allclose(
            one.double(), other.double(), rtol=0, atol=plan.tolerance * max(one.double().abs().max().item(), 1e-9)
        )
        for one, other in zip(short, filled_up)
    ):
        raise InputError(
            "the outputs depend on the padding of texts: the mask does not hide all of it", "Give --length fixed"
        )


def has_row_for_each_token(shape_of_longest, shape_of_shortest, longest):
    return (
        len(shape_of_longest) >= 3
        and shape_of_longest[1] == longest
        and shape_of_shortest == (shape_of_longest[0], SHORTEST, *shape_of_longest[2:])
    )


def takes_any_length(file, plan):
    """Whether the compiled package accepts rows of any length: the compiler may have narrowed the range."""
    dimension = 1 if plan.inputs else 2
    least, most = size_range(file, dimension)
    return plan.length != "fixed" and least <= SHORTEST and most != least and (most is None or most >= plan.longest)


def size_range(file, dimension):
    """The sizes of this dimension that the compiled package accepts: (least, most or None). 0: the batch."""
    with zipfile.ZipFile(file) as package:
        code = "".join(
            package.read(name).decode(errors="replace") for name in package.namelist() if name.endswith("wrapper.cpp")
        )
    at = rf'at {dimension}, "\s*<<\s*"expected'
    if exact := re.search(rf"input_handles\[0\]: unmatched dim value {at}: (\d+)", code):
        return int(exact[1]), int(exact[1])
    least = re.search(rf"input_handles\[0\]: dim value is too small {at} it to be >= (\d+)", code)
    most = re.search(rf"input_handles\[0\]: dim value is too large {at} to be <= (\d+)", code)
    return int(least[1]) if least else 1, int(most[1]) if most else None
