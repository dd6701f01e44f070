"""Memory order of a sample's dimensions, outermost first. Row-major is the empty order."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from offramp._dtypes import DType

Order = tuple[int, ...]  # the dimensions after the first, without those of extent 1

ROW_MAJOR: Order = ()


Shape = tuple[Optional[int], ...]  # None: samples differ in this dimension


class Layout(NamedTuple):
    """The layout of one tensor of a run: shape[0] is the usual batch size. Samples that differ are row-major."""

    name: str
    dtype: DType
    shape: Shape
    order: Order = ROW_MAJOR

    @property
    def varies(self) -> bool:
        return None in self.shape

    def order_for(self, shape: Sequence[int]) -> Order | None:
        """None for another shape, which the Egress refuses."""
        return self.order if self.varies or tuple(shape[1:]) == self.shape[1:] else None


def order_of(shape: Sequence[int], strides: Sequence[int]) -> Order | None:
    """The order for strides in elements. None if a sample is not dense or samples have gaps."""
    inner = tuple(sorted((dim for dim in range(1, len(shape)) if shape[dim] > 1), key=lambda dim: -strides[dim]))
    expected = 1
    for dim in reversed(inner):
        if strides[dim] != expected:
            return None
        expected *= shape[dim]
    if shape[0] > 1 and strides[0] != expected:
        return None
    return ROW_MAJOR if list(inner) == sorted(inner) else inner


def outermost_first(order: Order, dims: int) -> tuple[int, ...]:
    """All dimensions: transposing a tensor of this order to them makes it row-major."""
    return (0, *(dim for dim in range(1, dims) if dim not in order), *order)


def strides_of(shape: Sequence[int], order: Order) -> tuple[int, ...]:
    """Strides in elements of dense samples in this order."""
    strides, stride = [0] * len(shape), 1
    for dim in reversed(outermost_first(order, len(shape))):
        strides[dim] = stride
        stride *= shape[dim]
    return tuple(strides)
