"""Samples of different shapes: lists of arrays, and arrays that hold samples one after another."""

from __future__ import annotations

import array
import math
import operator
from typing import Any, Mapping, Sequence

from offramp._arrays import Outputs, Samples, concatenated, outputs_of, parts_of
from offramp._dtypes import ALL
from offramp._errors import BadArgument
from offramp._exchange import attribute, outcome
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
    BadArgument.
    """
    if isinstance(values, (list, tuple)):
        raise BadArgument(
            f"the values are a {type(values).__name__}. Submit a list of samples without packed(): list(...). Or give one array: torch.cat(values)"
        )
    return Packed(values, _lengths_of(lengths))


def _lengths_of(given: Any) -> array.array[int]:
    _require_on_the_cpu("the lengths are", given, "lengths.tolist()")
    if type(given) in (list, tuple):
        numbers = given
    else:
        numbers, _ = outcome(lambda: given.tolist() if hasattr(given, "tolist") else given)
        if not isinstance(numbers, (list, tuple)):
            kind = "None" if given is None else f"of type {type(given).__qualname__}"
            raise BadArgument(f"the lengths are {kind}. Give a list of whole numbers, one per sample")
    if not set(map(type, numbers)) <= {int}:
        numbers = [each if type(each) is int else _length_of(sample, each) for sample, each in enumerate(numbers)]
    if numbers and not 0 <= min(numbers) <= max(numbers) < 1 << 63:
        sample, length = next((sample, length) for sample, length in enumerate(numbers) if not 0 <= length < 1 << 63)
        raise BadArgument(
            f"the length of sample {sample} is {length}. Give {'0 or more' if length < 0 else 'less than 2**63'}"
        )
    return array.array("q", numbers)


def _length_of(sample: int, given: Any) -> int:
    """A length of another type than int, such as a number of NumPy or a tensor of one element."""
    _require_on_the_cpu(f"the length of sample {sample} is", given, f"lengths[{sample}].item()")
    is_bool = isinstance(given, bool) or str(attribute(given, "dtype")) == "torch.bool"
    length, _ = (None, None) if is_bool else outcome(lambda: operator.index(given))
    if length is None:
        shown = f"{given!r:.80} of type {type(given).__qualname__}"
        raise BadArgument(f"the length of sample {sample} is {' '.join(shown.split())}. Give a whole number")
    return length


def _require_on_the_cpu(subject: str, given: Any, remedy: str) -> None:
    device = given.device if is_torch(given) else None
    if device is not None and device.type != "cpu" or attribute(given, "__cuda_array_interface__") is not None:
        raise BadArgument(
            f"{subject} on the device '{device or 'cuda'}', whose work would have to finish first. Keep lengths on the CPU, and pass {remedy}"
        )


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


def samples_of(
    name: str, given: Any, copy: bool | None, layout: Layout | None = None, stream: object = None
) -> Outputs:
    """
    Validates one tensor of a batch: an array, a list of one array per sample, or packed(). Without a layout, or if the
    layout is fixed, a list varies in all dimensions, and packed() in the first. Errors: BadArgument.
    """
    if isinstance(given, list):
        return _of_list(name, given, copy, layout, stream)
    if isinstance(given, Packed):
        return _of_packed(name, given, copy, layout, stream)
    outputs = outputs_of(name, given, copy, layout, stream)
    if layout is None or not layout.varies or len(outputs.shape) != len(layout.shape):
        return outputs
    shapes = [outputs.shape[1:]]
    if other_extent(shapes, layout.shape[1:]) is not None:
        return outputs  # the Egress refuses it
    return _with_samples(outputs, shapes * outputs.rows, layout.shape[1:])


def _of_packed(name: str, given: Packed, copy: bool | None, layout: Layout | None, stream: object) -> Outputs:
    outputs = outputs_of(name, given.values, copy, _SAMPLE, stream)
    if not outputs.shape:
        raise BadArgument(
            f"the values of '{name}' have no dimensions. Give each sample at least one: values.reshape(1)"
        )
    total, lengths, rest = sum(given.lengths), given.lengths, outputs.shape[1:]
    if total != outputs.shape[0]:
        raise BadArgument(
            f"the lengths of '{name}' add up to {total}, and its values have the shape {outputs.shape}. "
            f"{_remedy_for_lengths(lengths.tolist(), outputs.shape)}"
        )
    if not lengths:
        raise BadArgument(f"'{name}' has no samples. Give one length per sample")
    if (layout is None or not layout.varies) and 0 in rest:
        raise BadArgument(f"'{name}' of shape {outputs.shape} is empty. Give every other dimension at least 1 element")
    if layout is None or not layout.varies or layout.shape[1:] == (None, *rest):  # only lengths differ
        return outputs._replace(shape=(len(lengths), None, *rest), samples=Samples(lengths))
    shapes = [(length, *rest) for length in lengths]
    return _with_samples(outputs, shapes, _pattern_of(shapes, layout))


def _remedy_for_lengths(lengths: list[int], shape: Shape) -> str:
    """For lengths that do not add up to the number of values."""
    rows, total = shape[0] or 0, sum(lengths)
    if len(lengths) == rows and len(shape) > 1 and max(lengths) <= (shape[1] or 0):
        return (
            "If the samples are padded, submit a list of them without the padding, instead of packed(): "
            "[sample[:length] for sample, length in zip(values, lengths)]"
        )
    if lengths and lengths == sorted(lengths):
        if lengths[-1] == rows:
            return f"If these are offsets, pass numpy.diff(offsets{'' if lengths[0] == 0 else ', prepend=0'})"
        if lengths[0] == 0 and lengths[-1] < rows:
            return (
                f"If these are offsets, they lack the end: {len(lengths)} samples have {len(lengths) + 1} offsets, the last one {rows}. Pass "
                f"numpy.diff(offsets, append={rows})"
            )
    if total < rows:
        return f"If the rest is unused, pass values[:{total}], that is values[:sum(lengths)]"
    return f"Give lengths that add up to {rows}"


def _of_list(name: str, given: list[Any], copy: bool | None, layout: Layout | None, stream: object) -> Outputs:
    if not given:
        raise BadArgument(f"'{name}' is an empty list. Give one array per sample")
    try:
        each = _each_of(name, given, stream)
    except BadArgument:
        if (remedy := _remedy_for_parts(name, given)) is None:
            raise
        raise BadArgument(remedy) from None
    _require_alike(name, each)
    if not each[0].shape:  # single numbers: together an array of one shape
        if (one := concatenated(each, stream)) is None:
            raise BadArgument(f"the samples of '{name}' have no dimensions. Submit one array of shape ({len(each)},)")
        return one._replace(shape=(len(each),))
    shapes = [sample.shape for sample in each]
    pattern = _pattern_of(shapes, layout)
    if copy or copy is None and any(sample.may_change_unseen for sample in each):
        if (one := concatenated(each, stream)) is not None:
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
        if kind is not None and kind.matches(sample) and sample.is_contiguous():
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
            raise BadArgument(
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


def _remedy_for_parts(name: str, given: list[Any]) -> str | None:
    """For a list of mappings or tuples, such as the results of a detection model."""
    for index, sample in enumerate(given):
        keys = [key for key, _ in parts_of(sample)]
        if isinstance(sample, Mapping) or any(attribute(part, "shape") is not None for _, part in parts_of(sample)):
            lists = ", ".join(f"'{key}': [each[{key!r}] for each in outputs]" for key in keys[:2])
            more = ", ..." if len(keys) > 2 else ""
            return (
                f"'{name}[{index}]' is of type {type(sample).__qualname__}. Submit a list for each of its tensors"
                + (f": {{{lists}{more}}}" if keys else "")
            )
    return None


def _pattern_of(shapes: Sequence[Shape], layout: Layout | None) -> Shape:
    """
    The shape of samples, with None where they differ. If they do not fit the run, all dimensions: the Egress refuses
    them.
    """
    if layout is not None and layout.varies and len(shapes[0]) == len(layout.shape) - 1:
        if other_extent(shapes, layout.shape[1:]) is None:
            return layout.shape[1:]
    return (None,) * len(shapes[0])


def other_extent(shapes: Sequence[Shape], expected: Shape) -> int | None:
    """The first sample that differs from the run in a dimension in which samples do not differ."""
    fixed = [(dim, extent) for dim, extent in enumerate(expected) if extent is not None]
    return next(
        (index for index, shape in enumerate(shapes) if any(shape[dim] != extent for dim, extent in fixed)), None
    )


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
