"""One batch of submit(): its validation, and its record until the library has accepted it."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Sequence

from offramp import _abi, _validate
from offramp._arrays import Outputs
from offramp._errors import BadArgument
from offramp._keys import EXAMPLE
from offramp._order import Layout
from offramp._remedies import of_another_shape
from offramp._run import Watch


class Submission(NamedTuple):
    """A batch that submit() passes to the library, which has accepted `number` batches before it."""

    number: int
    rows: int
    keys: tuple[str, ...] | None
    key_text: bytes | None
    numbers: Sequence[int] | None  # of its items; None: the library continues to count
    given_items: list[int] | None  # the loop's argument

    @property
    def first(self) -> int:
        return self.numbers[0] if self.numbers is not None else 0

    @property
    def is_recorded(self) -> bool:
        """Whether the checkpoint records it: its items are consecutive."""
        return self.numbers is not None and self.numbers[-1] - self.numbers[0] == self.rows - 1


def require_one_batch(names: list[str], given: list[Outputs]) -> None:
    for name, each in zip(names, given):
        if each.rows != given[0].rows:
            raise BadArgument(
                f"'{name}' has {each.rows} samples, '{names[0]}' has {given[0].rows}. Submit tensors of one batch"
            )
        if each.device != given[0].device:
            raise BadArgument(
                f"'{name}' is on the device '{each.device}', '{names[0]}' on '{given[0].device}'. Submit tensors of one device"
            )
        if len(each.shape) > _abi.MOST_DIMS:
            raise BadArgument(f"'{name}' has {len(each.shape)} dimensions. Submit one of at most {_abi.MOST_DIMS}")
    if len(given) > _abi.MOST_TENSORS:
        raise BadArgument(f"the batch has {len(given)} tensors. Submit at most {_abi.MOST_TENSORS}")


def has_entries(name: str, given: Iterable[object] | None) -> bool:
    return given is not None and len(_validate.one_per_sample(name, given, EXAMPLE)) > 0


def owners_of(given: list[Outputs], keys: bytes | None, first: int | None) -> list[object]:
    owners: list[object] = [each.owner for each in given]
    memories = [each.memory for each in given if each.memory is not None]
    memories += [memory for each in given if each.samples is not None for memory in each.samples.memories]
    if memories:
        owners.append(Watch(memories, keys, first))
    return owners


def require_fit(given: Sequence[Outputs], device: str | None, layouts: Sequence[Layout]) -> None:
    """`device`, `layouts`: the run's, if known. Errors: BadArgument."""
    if device not in (None, given[0].device):
        raise BadArgument(
            f"the batch is on the device '{given[0].device}'; the run is for '{device}'. Submit tensors on that device, or open another run"
        )
    for at, (layout, each) in enumerate(zip(layouts, given)):
        if each.dtype != layout.dtype:
            raise BadArgument(
                f"'{layout.name}' has elements of type {each.dtype}; the run has {layout.dtype}. Convert them, or open another run"
            )
        if each.shape[1:] != layout.shape[1:]:
            raise BadArgument(of_another_shape(layouts, given, at))
