"""Whole loops as one call: map() over a loader, and tap() around a loop of another package."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import sys
from numbers import Integral
from typing import Any, Callable, ContextManager, Iterable, Iterator, Mapping, Sequence

from offramp import _validate
from offramp._egress import Egress
from offramp._errors import BadArgument
from offramp._hook import KeySource, Select, require_selection, selected
from offramp._keys import Key, keys_of
from offramp._run import Stats, warn
from offramp._torch import is_torch


def map(
    batches: Iterable[Any],
    model: Callable[..., object],
    processor: str | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    keys: Callable[[Any], Iterable[Key] | int] | None = None,
    inputs: Callable[[Any], object] | None = None,
    metadata: Callable[[Any], Iterable[Mapping[str, object] | None]] | None = None,
    select: Select = None,
    device: object = None,
    copy: bool | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Stats:
    """
    Runs a model over batches, and post-processes its outputs in consumers. Returns when the results are in place.

        stats = offramp.map(loader, model, "post.py:save", output="OUT", consumers=8, resume=True)

    is this loop:

        with offramp.Egress(output="OUT", processor="post.py:save", consumers=8, resume=True) as egress:
            for keys, images in egress.pending(loader):
                with torch.inference_mode():
                    outputs = model(images.to(DEVICE, non_blocking=True))
                egress.submit(outputs, keys)

    `batches`: (keys, inputs) each; the keys as in Egress.submit(), one per sample. `keys`, `inputs`: functions that
    return those of other batches. `keys` may return the number of samples instead. Default of `inputs`: the elements
    after the keys; with `keys`, the whole batch. `metadata`: a function of the batch that returns each sample's.

    `model`: a module or any function, such as a prediction step. It is called in PyTorch's inference mode: with the
    inputs, with a tuple's elements as arguments, or with a mapping's as keyword arguments. `device`: where tensors in
    the inputs are moved first. Default: the device of the module's first parameter or buffer; if it has none, they stay
    where they are. `select`: the part of the outputs to submit: a name, an index, or a function of the outputs.
    Default: all.

    `progress`: a progress bar, which needs the package tqdm. Default: if it is installed and stderr is a terminal. It
    counts submitted batches, and those that resume=True skips. `copy`: see Egress.submit(). `processor`, `output` and
    `options` are arguments of Egress.

    Thread: the calling one runs the model. Blocks: until all results are in place. Errors: those of Egress; exceptions
    of the model and of the batches abandon unfinished work. Pass resume=True to continue.
    """
    if not callable(model):
        raise BadArgument(f"the model is of type {type(model).__qualname__}. Give a module or a function")
    for name, function in (("keys", keys), ("inputs", inputs), ("metadata", metadata)):
        if function is not None and not callable(function):
            raise BadArgument(
                f"{name} is {function!r:.80}. Give a function of a batch, such as lambda batch: batch['key']"
            )
    require_selection(select)
    device = _device_of(model) if device is None else device
    torch = sys.modules.get("torch")
    parts = _parts_with(keys, inputs)
    with Egress(output=output, processor=processor, **options) as egress, _shown(batches, progress) as shown:
        given_parts = ((*parts(batch), batch) for batch in shown)
        for batch_keys, given, batch in egress.pending(given_parts, keys=lambda parts: parts[0]):
            with contextlib.nullcontext() if torch is None else torch.inference_mode():
                outputs = selected(_called(model, given if device is None else _moved(given, device)), select)
            texts = None if isinstance(batch_keys, int) else batch_keys
            egress.submit(outputs, texts, copy=copy, metadata=None if metadata is None else metadata(batch))
    return egress.stats()


@contextlib.contextmanager
def tap(
    module: Any,
    processor: str | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    keys: KeySource = None,
    select: Select = None,
    copy: bool | None = True,
    **options: Any,
) -> Iterator[Egress]:
    """
    An Egress that takes what a module returns, for loops of other packages. See Egress.tap().

        with offramp.tap(model.encoder, "npy", output="FEATURES", keys=names, consumers=4):
            run_of_another_package(model)

    `processor`, `output` and `options` are arguments of Egress. With resume=True, all batches are processed again. The
    context is the Egress; leaving it waits until the results are in place.
    """
    with Egress(output=output, processor=processor, **options) as egress, egress.tap(module, keys, select, copy):
        yield egress


def _parts_with(
    keys: Callable[[Any], Iterable[Key] | int] | None, inputs: Callable[[Any], object] | None
) -> Callable[[Any], tuple[Sequence[str] | int, object]]:
    """A function that returns a batch's keys, or its number of samples, and its inputs."""

    def parts_of(batch: Any) -> tuple[Sequence[str] | int, object]:
        found = _checked(batch)[0] if keys is None else keys(batch)
        if isinstance(found, Integral):  # also NumPy's
            found = int(found)
        given = inputs(batch) if inputs is not None else batch if keys is not None else _after_keys(batch)
        return found if isinstance(found, int) else keys_of(found), given

    return parts_of


def _checked(batch: Any) -> Any:
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        raise BadArgument(
            f"a batch is of type {type(batch).__qualname__}, not a tuple (keys, inputs). Pass keys= and inputs=, functions of a batch: "
            "keys=lambda batch: batch['key'], inputs=lambda batch: batch['image']; or keys=len for a batch of inputs alone"
        )
    if getattr(batch[0], "ndim", 0) > 1:
        raise BadArgument(
            f"the first element of a batch is its keys, and is an array of shape {tuple(batch[0].shape)}. For batches of images and labels, pass "
            "keys=lambda batch: len(batch[0]), inputs=lambda batch: batch[0]"
        )
    return batch


def _after_keys(batch: Any) -> object:
    _, *rest = _checked(batch)
    return rest[0] if len(rest) == 1 else tuple(rest)


def _called(model: Callable[..., object], given: Any) -> object:
    if isinstance(given, Mapping):
        return model(**given)
    return model(*given) if isinstance(given, tuple) else model(given)


def _moved(given: Any, device: object) -> Any:
    if is_torch(given):
        return given.to(device, non_blocking=True)
    if isinstance(given, Mapping):
        return {name: _moved(each, device) for name, each in given.items()}
    if isinstance(given, (tuple, list)):
        return (tuple if isinstance(given, tuple) else list)(_moved(each, device) for each in given)
    return given


def _device_of(model: Any) -> object:
    """The device of a module or of a module's method; None of other functions."""
    module = getattr(model, "__self__", model)
    if not callable(getattr(module, "parameters", None)) or not callable(getattr(module, "buffers", None)):
        return None
    if getattr(module, "training", False):
        warn("the model is in training mode, in which dropout and normalisation differ. Call model.eval() first")
    first = next(itertools.chain(module.parameters(), module.buffers()), None)
    return None if first is None else first.device


def _shown(batches: Iterable[Any], progress: bool | None) -> ContextManager[Iterable[Any]]:
    """The batches, with a progress bar if it is wanted and possible."""
    if progress is not None:
        _validate.yes_or_no("progress", progress)
    if progress is False or progress is None and not sys.stderr.isatty():
        return contextlib.nullcontext(batches)
    try:
        tqdm: Any = importlib.import_module("tqdm")  # type checkers may lack it
    except ImportError:
        if progress is None:
            return contextlib.nullcontext(batches)
        raise BadArgument(
            "progress=True needs the package tqdm. Install it: pip install tqdm; or omit progress"
        ) from None
    bar: ContextManager[Iterable[Any]] = tqdm.tqdm(batches, unit="batch")
    return bar
