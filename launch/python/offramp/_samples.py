"""Samples of different shapes: lists of arrays, and arrays that hold samples one after another."""

from __future__ import annotations

import array
import math
from typing import Any, Iterable, Mapping, Sequence

from offramp._arrays import Outputs, Samples, attribute, concatenated, outputs_of
from offramp._dtypes import ALL
from offramp._errors import BadArgument
from offramp._order import ROW_MAJOR, Layout, Shape
from offramp._torch import Kind, Memory, is_torch

_SAMPLE = Layout("", ALL[0], (None,))  # for outputs_of(): one sample of any shape, row-major
_LEAST_SLAB, _MOST_SLAB, _SLAB_STEP = 16 << 20, 256 << 20, 1 << 20


class Packed:
    """Samples of different lengths, one after another in one array; packed() makes it."""

    __slots__ = ("values", "lengths")

    def __init__(self, values: object, lengths: array.array[int]):
        self.values, self.lengths = values, lengths


def packed(values: object, lengths: Any) -> Packed:
    """
    Samples of different lengths, one after another in one array, for Egress.submit():

        egress.submit({"hidden": offramp.packed(values, [37, 512])}, keys)    # values has the shape (549, 4096)

    `values`: an array of shape (sum(lengths), ...). `lengths`: a list, a tuple, a NumPy array or a torch.Tensor on the
    CPU, of one whole number per sample; 0 is allowed. A batch is one copy, however many samples it has. Errors:
    TypeError and BadArgument.
    """
    return Packed(values, _lengths_of(lengths))


def _lengths_of(given: Any) -> array.array[int]:
    is_tensor = is_torch(given)
    if is_tensor and given.device.type != "cpu" or attribute(given, "__cuda_array_interface__") is not None:
        raise BadArgument(
            f"the lengths are on the device '{given.device if is_tensor else 'cuda'}', and reading them would wait for its work. Keep them on "
            "the CPU and pass lengths.tolist()"
        )
    numbers = given.tolist() if is_tensor or hasattr(given, "tolist") else given
    if not isinstance(numbers, (list, tuple)):
        raise TypeError(
            f"the lengths are of type {type(given).__qualname__}. Give a list of whole numbers, one per sample"
        )
    try:
        lengths = array.array("q", numbers)
    except (TypeError, OverflowError):
        wrong = next(each for each in numbers if not hasattr(each, "__index__") or abs(each) >= 1 << 63)
        raise TypeError(f"the length {wrong!r:.80} is not a whole number. Give whole numbers") from None
    if min(lengths, default=0) < 0:
        index, length = next((index, length) for index, length in enumerate(lengths) if length < 0)
        raise BadArgument(f"the length of sample {index} is {length}. Give 0 or more")
    return lengths


def is_empty_batch(named: Mapping[str, object]) -> bool:
    """Whether all tensors have no samples."""
    return all(map(_has_no_samples, named.values()))


def _has_no_samples(tensor: Any) -> bool:
    if isinstance(tensor, list):
        return not tensor
    if isinstance(tensor, Packed):
        return not tensor.lengths
    if getattr(tensor, "is_nested", False):  # PyTorch: it has no shape
        return False
    shape = getattr(tensor, "shape", None)
    return isinstance(shape, tuple) and shape[:1] == (0,)


def samples_of(name: str, given: Any, copy: bool, layout: Layout | None = None, stream: object = None) -> Outputs:
    """
    Validates one tensor of a batch: an array, a list of one array per sample, or packed(). Without a layout, or if the
    layout is fixed, a list varies in all dimensions, and packed() in the first. Errors: TypeError and BadArgument.
    """
    if isinstance(given, list):
        return _of_list(name, given, copy, layout, stream)
    if isinstance(given, Packed):
        return _of_packed(name, given, copy, layout, stream)
    outputs = outputs_of(name, given, copy, layout, stream)
    if layout is None or not layout.varies or len(outputs.shape) != len(layout.shape):
        return outputs
    shapes = [outputs.shape[1:]]
    if _other_extent(shapes, layout.shape[1:]) is not None:
        return outputs  # the Egress refuses it
    return _with_samples(outputs, shapes * outputs.rows, layout.shape[1:])


def _of_packed(name: str, given: Packed, copy: bool, layout: Layout | None, stream: object) -> Outputs:
    outputs = outputs_of(name, given.values, copy, _SAMPLE, stream)
    total, lengths, rest = sum(given.lengths), given.lengths, outputs.shape[1:]
    if total != outputs.shape[0]:
        raise BadArgument(
            f"the lengths of '{name}' add up to {total}, and its values have the shape {outputs.shape}. Give lengths that add up to "
            f"{outputs.shape[0]}"
        )
    if not lengths:
        raise BadArgument(f"'{name}' has no samples. Give one length per sample")
    if (layout is None or not layout.varies) and 0 in rest:
        raise BadArgument(f"'{name}' of shape {outputs.shape} is empty. Give every other dimension at least 1 element")
    if layout is None or not layout.varies or layout.shape[1:] == (None, *rest):  # only lengths differ
        return outputs._replace(shape=(len(lengths), None, *rest), samples=Samples(lengths))
    shapes = [(length, *rest) for length in lengths]
    _require_fit(name, shapes, layout)
    return _with_samples(outputs, shapes, layout.shape[1:])


def _of_list(name: str, given: list[Any], copy: bool, layout: Layout | None, stream: object) -> Outputs:
    if not given:
        raise BadArgument(f"'{name}' is an empty list. Give one array per sample")
    each = _each_of(name, given, stream)
    _require_alike(name, each)
    shapes = [sample.shape for sample in each]
    if layout is not None and layout.varies:
        _require_fit(name, shapes, layout)
        pattern = layout.shape[1:]
    else:
        pattern = (None,) * len(shapes[0])
    if copy:
        if (one := concatenated(each)) is not None:
            return _with_samples(one, shapes, pattern)
        each = [outputs_of(f"{name}[{index}]", sample, True, _SAMPLE, stream) for index, sample in enumerate(given)]
    lists = Outputs([sample.owner for sample in each], 0, each[0].dtype, (), each[0].device)
    lists = _with_samples(lists, shapes, pattern)
    assert lists.samples is not None
    return lists._replace(
        samples=lists.samples._replace(
            addresses=array.array("Q", [sample.address for sample in each]),
            memories=[sample.memory for sample in each if sample.memory is not None],
            writers=list({sample.stream: sample for sample in each}.values()),
        )
    )


def _each_of(name: str, given: list[Any], stream: object) -> list[Outputs]:
    each = [first := outputs_of(f"{name}[0]", given[0], False, _SAMPLE, stream)]
    # lists are long, and full validation of each tensor takes longer than the rest of submit()
    kind = Kind(given[0]) if is_torch(given[0]) else None
    for index in range(1, len(given)):
        sample, own_name = given[index], f"{name}[{index}]"
        if kind is not None and kind.matches(sample) and sample.is_contiguous() and sample.dim() > 0:
            address, shape = sample.data_ptr(), tuple(sample.shape)
            memory = None if 0 in shape else Memory(own_name, sample, address, first.dtype.bits // 8)
            each.append(Outputs(sample, address, first.dtype, shape, first.device, ROW_MAJOR, None, memory))
        else:
            each.append(outputs_of(own_name, sample, False, _SAMPLE, stream))
    return each


def _require_alike(name: str, each: list[Outputs]) -> None:
    first = each[0]
    for index, sample in enumerate(each):
        if sample.dtype != first.dtype:
            raise TypeError(
                f"'{name}[{index}]' has elements of type {sample.dtype}, '{name}[0]' has {first.dtype}. Convert them to one type"
            )
        if len(sample.shape) != len(first.shape):
            raise BadArgument(
                f"'{name}[{index}]' has the shape {sample.shape}, '{name}[0]' has {first.shape}. Give all samples {len(first.shape)} dimensions"
            )
        if sample.device != first.device:
            raise BadArgument(
                f"'{name}[{index}]' is on the device '{sample.device}', '{name}[0]' on '{first.device}'. Submit tensors of one device"
            )


def _require_fit(name: str, shapes: Sequence[Shape], layout: Layout) -> None:
    expected = layout.shape[1:]
    if len(shapes[0]) != len(expected):
        raise BadArgument(
            f"the samples of '{name}' have {len(shapes[0])} dimensions; the run was opened for {len(expected)}, {expected}. Reshape them, or open "
            "another run for them"
        )
    if (index := _other_extent(shapes, expected)) is not None:
        wider = widened(layout.shape, [(0, *shape) for shape in shapes])
        raise BadArgument(
            f"'{name}[{index}]' has the shape {shapes[index]}; the run was opened for samples of {expected}. If samples differ there, open it "
            f"with {declaration(layout, wider)}"
        )


def _other_extent(shapes: Sequence[Shape], expected: Shape) -> int | None:
    """The first sample that differs from the run in a dimension in which samples do not differ."""
    fixed = [(dim, extent) for dim, extent in enumerate(expected) if extent is not None]
    return next(
        (index for index, shape in enumerate(shapes) if any(shape[dim] != extent for dim, extent in fixed)), None
    )


def widened(expected: Shape, shapes: Iterable[Shape]) -> Shape:
    """The run's shape, with None where these shapes differ from it; dimension 0 stays."""
    others = list(zip(*shapes))
    return (
        expected[0],
        *(
            extent if all(other == extent for other in others[dim]) else None
            for dim, extent in enumerate(expected)
            if dim > 0
        ),
    )


def declaration(layout: Layout, shape: Shape) -> str:
    return f"tensors={{'{layout.name}': ('{layout.dtype}', {shape})}}"


def _with_samples(outputs: Outputs, shapes: Sequence[Shape], pattern: Shape) -> Outputs:
    varying = [dim for dim, extent in enumerate(pattern) if extent is None]
    extents = array.array("q", [shape[dim] or 0 for shape in shapes for dim in varying])
    return outputs._replace(shape=(len(shapes), *pattern), samples=Samples(extents))


def shapes_of(outputs: Outputs) -> list[tuple[int, ...]]:
    """The shape of each sample. `outputs`: with samples."""
    assert outputs.samples is not None
    extents = iter(outputs.samples.extents)
    return [
        tuple(next(extents) if extent is None else extent for extent in outputs.shape[1:]) for _ in range(outputs.rows)
    ]


def slab_bytes_for(given: Sequence[Outputs]) -> int:
    """The slab size of a run that opens with this batch: room for it within bounds, and for two of its samples."""
    varying = [[math.prod(shape) * each.dtype.bits // 8 for shape in shapes_of(each)] for each in given if each.samples]
    samples = [sum(parts) for parts in zip(*varying)]
    return max(min(max(_whole_steps(sum(samples)), _LEAST_SLAB), _MOST_SLAB), _whole_steps(2 * max(samples)))


def _whole_steps(size: int) -> int:
    return -(-size // _SLAB_STEP) * _SLAB_STEP
