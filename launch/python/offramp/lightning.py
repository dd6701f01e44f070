"""
Lightning: a callback that sends each prediction to consumers. Works with `lightning` and `pytorch_lightning`. Import
this module only if one of them is installed; if both are, import the one that you use first.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any, Callable, Iterable, Mapping, Sequence

from offramp import ranks
from offramp._egress import Egress
from offramp._errors import BadArgument
from offramp._packages import needs

PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _package() -> str:
    """The imported package, else the installed one."""
    imported = [name for name in PACKAGES if name in sys.modules]
    installed = [name for name in PACKAGES if importlib.util.find_spec(name.partition(".")[0])]
    return [*imported, *installed, PACKAGES[0]][0]


with needs("offramp.lightning", "lightning"):
    callbacks: Any = importlib.import_module(f"{_package()}.callbacks")


class PredictionWriter(callbacks.BasePredictionWriter):  # type: ignore[misc]  # absent where types are checked
    """
    Submits the result of each predict_step() to consumers, and returns from trainer.predict() once they have finished.

        writer = offramp.lightning.PredictionWriter("RESULTS", "post.py:save", consumers=8)
        lightning.pytorch.Trainer(callbacks=[writer]).predict(module, loader, return_predictions=False)

    `output`, `processor` and `options`: those of offramp.ranks.egress(). With several devices, all ranks share the
    output. predict_step() returns a tensor of shape (samples, ...), or a mapping from names to such tensors. Do not
    write to them afterwards, or pass `copy=True`.

    `keys`: a function of (batch, indices) that returns one key per sample. Default: the sample's index in the dataset.
    With several dataloaders, keys begin with the loader's number: "1/17". `metadata`: such a function that returns each
    sample's metadata. offramp.zarr:Writer needs it on several devices.

    `resume=True` continues an earlier run: batches that are done are predicted again, but not submitted. The loader
    must give the same batches in the same order.

    Owns: an Egress, from the start of predict() to its end. An exception in predict() abandons unfinished work, and
    prints how many samples. Thread: the Trainer's. Blocks: while all slabs are full, and at the end. Errors:
    BadArgument, also for return_predictions=True, Lightning's default, which keeps every prediction in memory; those of
    Egress.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        processor: str,
        *,
        keys: Callable[[Any, Sequence[int]], Sequence[str]] | None = None,
        metadata: Callable[[Any, Sequence[int]], Iterable[Mapping[str, object] | None]] | None = None,
        copy: bool | None = None,
        **options: Any,
    ):
        super().__init__("batch")
        for name, given in (("keys", keys), ("metadata", metadata)):
            if given is not None and not callable(given):
                raise BadArgument(f"{name} is {given!r:.80}. Give a function of a batch and its indices")
        self._keys, self._metadata, self._copy = keys, metadata, copy
        self._options: Mapping[str, Any] = {"output": output, "processor": processor, **options}
        self._egress: Egress | None = None

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        if not isinstance(self, sys.modules[type(trainer).__module__.partition(".trainer")[0]].Callback):
            raise BadArgument(
                f"the Trainer is of another package than offramp.lightning, which uses {_package()}. Import only one of "
                f"{' and '.join(PACKAGES)}"
            )
        if trainer.predict_loop.return_predictions:
            raise BadArgument(
                "Lightning would keep all predictions in memory. Call trainer.predict(..., return_predictions=False)"
            )
        self._egress = ranks.egress(rank=trainer.global_rank, ranks=trainer.world_size, **self._options)

    def write_on_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        prediction: Any,
        batch_indices: Sequence[int] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        if self._egress is None:
            raise BadArgument("predict() has not begun. The Trainer calls this")
        keys = self._keys_of(batch, batch_indices)
        trainer.predict_loop.current_batch_indices = []  # a loader without indices would leave these
        if trainer.predict_loop.num_dataloaders > 1:
            keys = [f"{dataloader_idx}/{key}" for key in keys]
        for _ in self._egress.pending([(keys,)]):
            metadata = None if self._metadata is None else self._metadata(batch, batch_indices or ())
            self._egress.submit(prediction, keys, copy=self._copy, metadata=metadata)

    def _keys_of(self, batch: Any, indices: Sequence[int] | None) -> list[str]:
        if self._keys is not None:
            return list(self._keys(batch, indices or ()))
        if not indices:
            raise BadArgument(
                "Lightning knows no indices of this batch, as with an IterableDataset. Pass keys=, a function that returns "
                "them: PredictionWriter(..., keys=lambda batch, indices: batch['name'])"
            )
        return [str(index) for index in indices]

    def on_predict_end(self, trainer: Any, pl_module: Any) -> None:
        if self._egress is not None:
            self._egress.drain()
            self._close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        egress, self._egress = self._egress, None
        if egress is not None:
            egress.__exit__(type(exception), exception, exception.__traceback__)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._close()

    def _close(self) -> None:
        egress, self._egress = self._egress, None
        if egress is not None:
            egress.close()
