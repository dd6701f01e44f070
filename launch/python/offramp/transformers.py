"""The Trainer of Hugging Face's transformers: logits leave the device before the Trainer gathers them."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Callable, Mapping, Sequence

from offramp import ranks
from offramp._egress import Egress
from offramp._errors import BadArgument

KEEPS = ("argmax", "nothing")


class LogitsWriter:
    """
    A function for Trainer(preprocess_logits_for_metrics=...) that submits the logits and the labels of each batch to
    consumers, and returns a small tensor. Without it, evaluate() and predict() gather all logits and keep them.

        with offramp.transformers.LogitsWriter("RESULTS", "post.py:save", consumers=8) as writer:
            trainer = transformers.Trainer(model, arguments, eval_dataset=data, preprocess_logits_for_metrics=writer)
            trainer.evaluate()

    `output`, `processor` and `options`: those of offramp.ranks.egress(): the processes of a distributed Trainer share
    the output. `keep`: what the Trainer gets for its metrics, a function of (logits, labels) that returns a tensor of
    shape (samples, ...); "argmax" over the last dimension, or the values if it has one, as for regression; or
    "nothing", a tensor of shape (samples, 0).

    `keys`: a function of (logits, labels) that returns one key per sample. Default: "0", "1" and so on, counted over
    all calls, and "RANK/NUMBER" with several processes, which get samples in turns and some of them twice.

    A slab has the tensors "logits", of one sample's shape (classes,) or (tokens, classes), and "labels" if there are
    any. If a model returns several outputs, they are "logits.0", "logits.1" and so on, and several labels, as for
    question answering, "labels.0" and "labels.1". Texts are as long as the longest of their batch: where labels are
    -100, there is padding.

    Owns: an Egress, from the first batch to the end of the context, which drains. An exception abandons unfinished
    work. Thread: the Trainer's. Errors: those of Egress.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        processor: str,
        *,
        keep: str | Callable[[Any, Any], Any] = "argmax",
        keys: Callable[[Any, Any], Sequence[str]] | None = None,
        **options: Any,
    ):
        if not callable(keep) and keep not in KEEPS:
            raise BadArgument(
                f"keep is {keep!r:.80}. Give {' or '.join(map(repr, KEEPS))}, or a function of logits and labels"
            )
        self._keep, self._keys = keep, keys
        self._options: Mapping[str, Any] = {"output": output, "processor": processor, **options}
        self._egress: Egress | None = None
        self._prefix = ""
        self._count = 0
        self._is_over = False

    def __call__(self, logits: Any, labels: Any = None) -> Any:
        if self._is_over:
            raise BadArgument("the LogitsWriter's context has ended. Evaluate inside it, or create another one")
        outputs = logits if isinstance(logits, tuple) else (logits,)
        samples = len(outputs[0])
        egress = self._open()
        keys = (
            [f"{self._prefix}{self._count + row}" for row in range(samples)]
            if self._keys is None
            else self._keys(logits, labels)
        )
        batch: dict[str, Any] = {
            "logits": tuple(map(_by_sample, outputs)) if len(outputs) > 1 else _by_sample(outputs[0])
        }
        if isinstance(labels, tuple):
            batch["labels"] = tuple(_by_sample(each) for each in labels if hasattr(each, "unbind"))
        elif hasattr(labels, "unbind"):
            batch["labels"] = _by_sample(labels)
        egress.submit(batch, keys)
        self._count += samples
        if callable(self._keep):
            return self._keep(logits, labels)
        if self._keep == "nothing":
            return outputs[0].new_empty((samples, 0))
        return outputs[0] if outputs[0].shape[-1] == 1 else outputs[0].argmax(-1)

    def _open(self) -> Egress:
        """Opens the Egress with the first batch: the processes' group exists by then."""
        if self._egress is None:
            rank, number = ranks.rank_of_this_process()
            self._prefix = f"{rank}/" if number > 1 else ""
            self._egress = ranks.egress(rank=rank, ranks=number, **self._options)
        return self._egress

    def __enter__(self) -> LogitsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over = True
        if self._egress is not None:
            self._egress.__exit__(kind, problem, traceback)


def _by_sample(tensor: Any) -> Any:
    """A list of samples if batches may differ in the samples' shape, as those of texts do."""
    return list(tensor.unbind()) if tensor.ndim > 2 or tensor.ndim == 2 and not tensor.is_floating_point() else tensor
