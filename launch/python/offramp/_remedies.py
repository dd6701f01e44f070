"""Messages for batches that need another form."""

from __future__ import annotations

from typing import Any, Sequence

from offramp._arrays import Outputs, parts_of
from offramp._exchange import attribute
from offramp._order import Layout, Shape
from offramp._samples import other_extent, shapes_of


def of_another_shape(layouts: Sequence[Layout], given: Sequence[Outputs], at: int) -> str:
    """
    For a tensor whose samples have another shape than the run's. The declaration that it proposes has all tensors, so
    that a copy of it opens a run for this batch.
    """
    layout, each = layouts[at], given[at]
    name, expected, dims = layout.name, layout.shape, len(layout.shape)
    if each.samples is None:
        wrong = f"'{name}' has the shape {each.shape}; the run was opened for {expected}"
        if len(each.shape) != dims:
            return f"{wrong}. Reshape it to {dims} dimensions, or open another run for it"
    elif not layout.varies:
        wrong = f"'{name}' has samples of their own shapes; the run was opened for one shape, {expected}"
    elif len(each.shape) != dims:
        return (
            f"the samples of '{name}' have {len(each.shape) - 1} dimensions; the run was opened for {dims - 1}, {expected[1:]}. Reshape them, or "
            "open another run for them"
        )
    else:
        shapes = shapes_of(each)
        index = other_extent(shapes, expected[1:]) or 0
        wrong = f"'{name}[{index}]' has the shape {shapes[index]}; the run was opened for samples of {expected[1:]}"
    declared = ", ".join(
        f"'{layout.name}': ('{layout.dtype}', {_widened(layout.shape, each)})" for layout, each in zip(layouts, given)
    )
    lists = "submit lists of samples, and " if each.samples is None else ""
    return f"{wrong}. If samples differ in shape, {lists}open the run with tensors={{{declared}}}"


def _widened(expected: Shape, each: Outputs) -> Shape:
    """The run's shape, with None where the batch's samples differ from it."""
    if len(each.shape) != len(expected):
        return expected if each.samples is None else (expected[0], *each.shape[1:])
    shapes = [each.shape[1:]] if each.samples is None else shapes_of(each)
    wider = (
        expected[0],
        *(extent if all(shape[dim] == extent for shape in shapes) else None for dim, extent in enumerate(expected[1:])),
    )
    # samples of a list differ in name only: they may have equal shapes
    return wider if None in wider or each.samples is None else (expected[0], *each.shape[1:])


def of_other_tensors(names: Sequence[str], given: Sequence[object]) -> str:
    """For a batch whose tensors have other names than the run's."""
    lacking, more = [each for each in names if each not in given], [each for each in given if each not in names]
    wrong = [f"lacks {_quoted(lacking)}"] * bool(lacking)
    wrong += [f"has {_quoted(more)}, which the run does not have"] * bool(more)
    return f"the batch {' and '.join(wrong)}. Submit {_quoted(names)}"


def _quoted(names: Sequence[object]) -> str:
    return f"the tensor{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def of_tuple(outputs: Any, name: str = "") -> str | None:
    """For a batch with a tuple of tensors of equal rank, which may hold one tensor per sample: torch.split, unbind."""
    if isinstance(outputs, tuple) and not hasattr(outputs, "_fields"):
        ranks = {len(shape) if isinstance(shape := attribute(each, "shape"), tuple) else None for each in outputs}
        if len(ranks) == 1 and None not in ranks:
            form = "one tensor: torch.stack(...)" if ranks == {0} else "a list: list(...)"
            return f"If the tuple{name and f' {name!r}'} has one tensor per sample, submit it as {form}"
    return next(
        (found for key, each in parts_of(outputs) if (found := of_tuple(each, f"{name}.{key}" if name else str(key)))),
        None,
    )
