"""Item numbers of batches, and the batches of pending() that are not submitted yet."""

from __future__ import annotations

import collections
from numbers import Integral
from typing import Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from offramp._checkpoint import Comparison
from offramp._errors import BadArgument
from offramp._keys import Key, KeysBefore, key_text_of, keys_of

_Batch = TypeVar("_Batch")


class Numbering:
    """
    Borrows: the comparison, if progress is recorded; the earlier keys, if keys name results. Thread: pending() may run
    in other threads than of() and submitted(), which are serialized. submitted() fixes a batch's numbers once the
    library has accepted it; it may be called twice for one batch.
    """

    def __init__(self, comparison: Comparison | None, once: bool, before: KeysBefore | None):
        self._comparison = comparison  # covers the batches of all pending() calls
        self._once = once  # refuse a key that repeats in a batch
        self._before = before
        self.next_item = 0  # the next number if a checkpoint counts items and pending() does not
        self._is_counted = True  # by the library too
        self._next_pending: int | None = None  # the next number once pending() counts items
        self._unfinished = 0  # pending() iterations that have not consumed all their batches
        self._yielded: collections.deque[_PendingBatch] = collections.deque()

    def begin_at(self, item: int) -> None:
        """Numbers the items from this one on, for a run with a checkpoint. Call it before the first batch."""
        self.next_item, self._is_counted = item, False

    @property
    def expects_more(self) -> bool:
        """Whether pending() has yielded batches that are not submitted."""
        return bool(self._yielded)

    def pending(
        self,
        batches: Iterable[_Batch],
        keys: Callable[[_Batch], Iterable[Key] | int] | None,
        accepts_more: Callable[[], bool],
    ) -> Iterator[_Batch]:
        """Yields unfinished batches while `accepts_more()` returns True. Errors: BadArgument."""
        if keys is not None and not callable(keys):
            raise BadArgument(
                f"keys is {keys!r:.80}. Give a function that returns a batch's keys: pending(batches, keys=lambda batch: batch['key'])"
            )
        if not (hasattr(type(batches), "__iter__") or hasattr(type(batches), "__getitem__")):
            raise BadArgument(f"batches is {batches!r:.80}. Give an iterable of batches, such as a DataLoader")
        keys = keys or _first_part
        if self._next_pending is None:
            self._next_pending = self.next_item
        self._unfinished += 1
        for batch in batches:
            if not accepts_more():
                return
            returned = keys(batch)
            if isinstance(returned, Integral):  # also NumPy's
                returned = int(returned)
            if isinstance(returned, int):
                batch_keys, samples, text = None, returned, None
            else:
                batch_keys = keys_of(returned)
                samples, text = len(batch_keys), key_text_of(batch_keys, len(batch_keys), self._once)
            if samples < 0:
                raise BadArgument(f"keys returned {samples} for a batch. Return its keys, or its number of samples")
            if samples == 0:  # submit() ignores it
                yield batch
                continue
            first, self._next_pending = self._next_pending, self._next_pending + samples
            if self._comparison is not None and self._comparison.skips(first, samples, text):
                if self._before is not None and batch_keys is not None and text is not None:
                    self._before.add(batch_keys, len(text))
                continue
            self._yielded.append(_PendingBatch(first, samples, batch_keys))
            yield batch
        self._unfinished -= 1

    def finish(self) -> None:
        """Call it after the last batch. Errors: BadArgument if the earlier run finished more items."""
        if self._comparison is not None and self._next_pending is not None and self._unfinished == 0:
            self._comparison.finish(self._next_pending)

    @property
    def numbers_by_pending(self) -> bool:
        """Whether pending() numbers all batches."""
        return self._next_pending is not None

    def find(self, keys: Sequence[str] | None, rows: int) -> _PendingBatch | None:
        """The unsubmitted batch of pending() with these keys and this size; None without one."""
        if self._yielded and self._yielded[0].matches(keys, rows):
            return self._yielded[0]
        # a copy: pending() may run in another thread
        return next((given for given in list(self._yielded) if given.matches(keys, rows)), None)

    def of(self, keys: Sequence[str] | None, rows: int, items: list[int] | None) -> list[int] | range | None:
        """The items' numbers; None: the library continues to count. Errors: BadArgument."""
        if not self.numbers_by_pending:
            return (
                items if items is not None or self._comparison is None else range(self.next_item, self.next_item + rows)
            )
        if items is not None:
            raise BadArgument("pending() numbers the items. Submit its batches without items")
        if keys is None:
            self._require_unambiguous(rows)
        if (given := self.find(keys, rows)) is not None:
            return range(given.first, given.first + rows)
        raise BadArgument(
            f"pending() has not yielded this batch of {rows} samples, or it was submitted before. Submit each batch of pending() once, whole, in "
            "its order, with the same keys"
        )

    def is_next(self, numbers: list[int] | range | None) -> bool:
        """Whether the library's own count gives the same numbers."""
        return self._is_counted and isinstance(numbers, range) and numbers[0] == self.next_item

    def submitted(self, numbers: Sequence[int] | None) -> None:
        """Notes a submitted batch, and forgets earlier batches of pending() that the loop skipped."""
        if numbers is None:
            return
        if self._comparison is not None:
            self.next_item = numbers[-1] + 1
        while self.numbers_by_pending and self._yielded and self._yielded[0].first <= numbers[0]:
            self._yielded.popleft()

    def _require_unambiguous(self, rows: int) -> None:
        """Without keys, only the size identifies a batch. Errors: BadArgument."""
        if sum(given.matches(None, rows) for given in list(self._yielded)) > 1:
            raise BadArgument(
                f"the batch of {rows} samples has no keys, and pending() has yielded several unsubmitted batches of that size. "
                "Submit each batch before you take the next one, or give keys: pending(batches, keys=...)"
            )


class _PendingBatch(NamedTuple):
    """A batch that pending() yielded."""

    first: int
    samples: int
    keys: Sequence[str] | None

    def matches(self, keys: Sequence[str] | None, rows: int) -> bool:
        return self.samples == rows and (
            self.keys is None if keys is None else self.keys is not None and list(self.keys) == list(keys)
        )


def _first_part(batch: object) -> Iterable[Key]:
    if isinstance(batch, (tuple, list)) and batch:
        keys: Iterable[Key] = batch[0]
        if isinstance(keys, (tuple, list)) or getattr(keys, "ndim", None) == 1:
            return keys
    raise BadArgument(
        "pending() got a batch that is not a tuple whose first element is a list of keys. Pass keys=, to return its keys: "
        "pending(batches, keys=lambda batch: batch['key']); or its number of samples: keys=len"
    )
