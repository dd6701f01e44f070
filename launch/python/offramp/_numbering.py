"""Item numbers of batches, and the batches of pending() that are not submitted yet."""

from __future__ import annotations

import collections
from typing import Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from offramp._checkpoint import Comparison
from offramp._errors import BadArgument
from offramp._keys import EXAMPLE, KeysBefore, key_text_of
from offramp._validate import one_a_sample

_Batch = TypeVar("_Batch")


class Numbering:
    """
    Borrows: the comparison, if progress is recorded; the earlier keys, if keys name results. Thread: pending() may run in other threads than of()
    and submitted(), which are serialized. submitted() fixes a batch's numbers once the library has accepted it; it may be called twice for one batch.
    """

    def __init__(self, comparison: Comparison | None, once: bool, before: KeysBefore | None):
        self._comparison = comparison       # of the batches of all pending()
        self._once = once                   # a batch has each key
        self._before = before
        self._next_item = 0                 # of a checkpoint's batches
        self._next_pending: int | None = None       # of pending()'s, which then numbers all batches
        self._unfinished = 0                # calls of pending() that have not reached the end of their batches
        self._given: collections.deque[_Given] = collections.deque()

    @property
    def expects_more(self) -> bool:
        """Whether batches that pending() gave are not submitted."""
        return bool(self._given)

    def pending(self, batches: Iterable[_Batch], keys: Callable[[_Batch], Sequence[str] | int] | None, takes_more: Callable[[], bool]) -> Iterator[_Batch]:
        """Yields batches that are not done, while `takes_more()`. Errors: BadArgument."""
        if keys is not None and not callable(keys):
            raise TypeError(f"keys are {keys!r:.80}. Give a function that returns a batch's keys: pending(batches, keys=lambda batch: batch['key'])")
        keys = keys or _first_part
        if self._next_pending is None:
            self._next_pending = self._next_item
        self._unfinished += 1
        for batch in batches:
            if not takes_more():
                return
            said = keys(batch)
            if isinstance(said, int):
                told, samples, text = None, said, None
            else:
                told = one_a_sample("keys", said, EXAMPLE)
                samples, text = len(told), key_text_of(told, len(told), self._once)
            if samples < 1:
                raise BadArgument("pending() was given a batch without samples. Leave it out")
            first, self._next_pending = self._next_pending, self._next_pending + samples
            if self._comparison is not None and self._comparison.leaves_out(first, samples, text):
                if self._before is not None and told is not None and text is not None:
                    self._before.add(told, len(text))
                continue
            self._given.append(_Given(first, samples, told))
            yield batch
        self._unfinished -= 1

    def finish(self) -> None:
        """No more batches come. Errors: BadArgument, where the run before had more."""
        if self._comparison is not None and self._next_pending is not None and self._unfinished == 0:
            self._comparison.finish(self._next_pending)

    @property
    def is_pendings(self) -> bool:
        """Whether pending() numbers all batches."""
        return self._next_pending is not None

    def gives(self, keys: Sequence[str] | None, rows: int) -> _Given | None:
        """The batch of pending()'s that this one is, and that is not submitted."""
        if self._given and self._given[0].is_of(keys, rows):
            return self._given[0]
        return next((given for given in list(self._given) if given.is_of(keys, rows)), None)       # another thread may be in pending() meanwhile

    def of(self, keys: Sequence[str] | None, rows: int, items: list[int] | None) -> list[int] | range | None:
        """The items' numbers; None: the library counts on. Errors: BadArgument."""
        if not self.is_pendings:
            return items if items is not None or self._comparison is None else range(self._next_item, self._next_item + rows)
        if items is not None:
            raise BadArgument("pending() numbers the items. Submit its batches without items")
        if keys is None:
            self._require_no_other_like_it(rows)
        if (given := self.gives(keys, rows)) is not None:
            return range(given.first, given.first + rows)
        raise BadArgument(f"a batch of {rows} samples that pending() has not given, or that was submitted before. Submit each of its batches once, whole, in "
                          "its order, with the same keys")

    def is_next(self, numbers: list[int] | range | None) -> bool:
        return isinstance(numbers, range) and numbers[0] == self._next_item

    def submitted(self, numbers: Sequence[int] | None) -> None:
        """Notes a submitted batch, and forgets earlier batches of pending() that the loop skipped."""
        if numbers is None:
            return
        if self._comparison is not None:
            self._next_item = numbers[-1] + 1
        while self.is_pendings and self._given and self._given[0].first <= numbers[0]:
            self._given.popleft()

    def _require_no_other_like_it(self, rows: int) -> None:
        """Without keys, only the size identifies a batch. Errors: BadArgument."""
        if sum(given.is_of(None, rows) for given in list(self._given)) > 1:
            raise BadArgument(f"a batch of {rows} samples without keys, and pending() has yielded several batches of that size that are not submitted. "
                              "Submit each batch before you take the next one, or give keys: pending(batches, keys=...)")


class _Given(NamedTuple):
    """A batch that pending() gave."""

    first: int
    samples: int
    keys: Sequence[str] | None

    def is_of(self, keys: Sequence[str] | None, rows: int) -> bool:
        return self.samples == rows and (self.keys is None if keys is None else self.keys is not None and list(self.keys) == list(keys))


def _first_part(batch: object) -> Sequence[str]:
    keys = batch[0] if isinstance(batch, (tuple, list)) and batch else None
    if not isinstance(keys, (tuple, list)):
        raise TypeError("pending() was given a batch that is not a tuple whose first part is a list of keys. Say where its keys are: "
                        "pending(batches, keys=lambda batch: batch['key']); or how many samples it holds: keys=len")
    return keys
