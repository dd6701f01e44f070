"""Sends what a module returns to an Egress, from a loop that is not the program's own."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
from typing import Any, Callable, Iterable, Iterator, Mapping, Protocol, Sized, Union

from offramp import _validate
from offramp._arrays import named_tensors
from offramp._errors import BadArgument
from offramp._keys import Key
from offramp._run import warn
from offramp._samples import Packed
from offramp._torch import is_torch

Select = Union[str, int, Callable[[Any], object], None]
KeySource = Union[Iterable[Key], Callable[[], "Iterable[Key] | None"], None]


class _Receiver(Protocol):
    def submit(self, outputs: object, keys: Iterable[Key] | None = ..., *, copy: bool | None = ...) -> None: ...


@contextlib.contextmanager
def tapped(egress: _Receiver, module: Any, keys: KeySource, select: Select, copy: bool | None) -> Iterator[None]:
    """Submits each output of the module while the context is open. See Egress.tap()."""
    if not callable(getattr(module, "register_forward_hook", None)):
        raise BadArgument(
            f"the module is of type {type(module).__qualname__}. Give a torch.nn.Module, such as model.layer4"
        )
    tap = _Tap(egress, keys, select, copy)
    _warn_of_compiled(module)

    def hook(module: Any, inputs: Any, outputs: Any) -> None:
        tap.submit(outputs)

    handle = module.register_forward_hook(_uncompiled(hook))
    try:
        yield
    finally:
        handle.remove()
    if tap.calls > 0 and tap.unused > 0:
        warn(
            f"{tap.unused} of the keys were not used: the module returned fewer samples. Check that each sample has its own key"
        )
    if tap.calls == 0:
        warn(
            f"the {type(module).__qualname__} was not called while it was tapped: nothing was submitted. If torch.compile or torch.jit.script "
            "compiled a model around it, which bypasses its hooks, tap the compiled model itself, or run the original model"
        )


def _uncompiled(hook: Callable[..., None]) -> Callable[..., None]:
    """The hook, kept out of graphs of models that are compiled around it. Loads PyTorch's compiler, once."""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    disable: Any = getattr(compiler, "disable", None)
    wrapped: Callable[..., None] = hook if disable is None else disable(hook)
    return wrapped


class _Tap:
    """Borrows: the Egress. Thread: those that call the module, one at a time."""

    def __init__(self, egress: _Receiver, keys: KeySource, select: Select, copy: bool | None):
        self._egress, self._select, self._copy = egress, require_selection(select), copy
        self._ask = keys if callable(keys) else None
        self._keys = None if keys is None or callable(keys) else _iterator_of(keys)
        self._count = len(keys) if isinstance(keys, Sized) else 0
        self._taken = 0
        self.calls = 0

    @property
    def unused(self) -> int:
        """Keys that are left; 0 if their number is unknown."""
        return max(0, self._count - self._taken)

    def submit(self, outputs: object) -> None:
        self.calls += 1
        if (chosen := selected(outputs, self._select)) is not None:
            self._egress.submit(chosen, self._next_keys(chosen), copy=self._copy)

    def _next_keys(self, outputs: object) -> Iterable[Key] | None:
        if self._ask is not None:
            return self._ask()
        if self._keys is None:
            return None
        rows = _rows_of(outputs)
        keys = list(itertools.islice(self._keys, rows))
        self._taken += len(keys)
        if len(keys) < rows:
            raise BadArgument(
                f"the keys ended after {self._taken}, and the module has returned {rows - len(keys)} samples more. Give one key for each sample of "
                "each call; to leave out calls, such as a warm-up, return None from `select`"
            )
        return keys


def _iterator_of(keys: Iterable[Key]) -> Iterator[Key]:
    if isinstance(keys, (str, bytes, set, frozenset)) or not hasattr(type(keys), "__iter__"):
        _validate.one_per_sample("keys", keys, "['a', 'b']")
    return iter(keys)


def _rows_of(outputs: object) -> int:
    """The number of samples of a batch that submit() has not validated yet; 0: unknown."""
    first = next(iter(named_tensors(outputs).values()), None)
    if isinstance(first, list):
        return len(first)
    if isinstance(first, Packed):
        return len(first.lengths)
    shape: Any = getattr(first, "shape", ())
    return int(shape[0]) if len(shape) else 0


def require_selection(select: Select) -> Select:
    if select is None or callable(select) or isinstance(select, (str, int)) and not isinstance(select, bool):
        return select
    raise BadArgument(
        f"select is {select!r:.80}. Give the name or the index of an output, or a function: select=lambda outputs: outputs[0]"
    )


def selected(outputs: Any, select: Select) -> object:
    """The chosen part of a module's outputs. Errors: BadArgument if it has no such part."""
    if select is None:
        return outputs
    if callable(select):
        return select(outputs)
    if not is_torch(outputs):
        with contextlib.suppress(KeyError, IndexError, TypeError):
            return outputs[select]
    if isinstance(select, str) and hasattr(outputs, select):
        return getattr(outputs, select)
    kind = type(outputs).__qualname__
    has = f" with {', '.join(map(repr, outputs))}" if isinstance(outputs, Mapping) else ""
    raise BadArgument(
        f"select is {select!r}, and the outputs are a {kind}{has}. Give the name or the index of one of its parts, or a function"
    )


def _warn_of_compiled(module: Any) -> None:
    """torch.compile ignores hooks of inner modules that were added after the first call."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    kind = getattr(compiler, "OptimizedModule", None)
    if kind is None:
        return
    for each in gc.get_objects():
        if type(each) is kind and each is not module and any(part is module for part in each._orig_mod.modules()):
            warn(
                f"torch.compile compiled a model that contains this {type(module).__qualname__}. If the compiled model was called before, it "
                "bypasses the tap: tap the compiled model itself, run the original model, or open the tap before the first call"
            )
            return
