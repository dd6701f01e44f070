"""offramp.Dataset: a trainer reads a run's samples. Imports PyTorch."""

from __future__ import annotations

import importlib
import os
from typing import Any, Iterator

from offramp import _validate
from offramp._consumer import Consumer
from offramp._errors import BadArgument, NoSuchRun
from offramp._packages import needs
from offramp._slab import Sample, Slab

with needs("offramp.Dataset", "PyTorch", "torch"):
    data: Any = importlib.import_module("torch.utils.data")  # type checkers may lack it

OWN = ("key", "metadata")


class Dataset(data.IterableDataset):  # type: ignore[misc]  # PyTorch may be absent where types are checked
    """
    The samples of a run, each one once per run, for a torch.utils.data.DataLoader.

        for batch in torch.utils.data.DataLoader(offramp.Dataset("run"), batch_size=64):
            train(batch["hidden"], batch["key"])

    An item is a dict of tensors on the CPU, each without the batch dimension, and "key", a str. If the program
    submitted metadata with the sample, "metadata" is a dict. With `whole_slabs=True` an item is a slab: tensors of
    shape (samples, ...), or lists of tensors if samples differ in shape, and lists of keys and metadata. Pass
    DataLoader(batch_size=None) then. The tensors are copies, which you own.

    A sample is accepted when the next one is asked for, and its slab when a sample of the next slab is. If the process
    dies before, the slab is delivered again, to another consumer or to the restarted trainer, as a whole: samples can
    arrive twice. A DataLoader asks ahead: without workers, for the rest of a batch; each worker, for `prefetch_factor`
    batches. What it has asked for and not given you is lost if the process dies. To lose nothing, use
    `whole_slabs=True, batch_size=None, num_workers=0`.

    `run_dir`, `window`, `wait_for_run`: those of Consumer. Each worker is a consumer of its own and gets other slabs.
    With several workers, pass DataLoader(in_order=False). In order, the loader waits for one worker while another holds
    slabs, which are delivered again after the visibility timeout.
    The slabs' order is that of the run with one consumer, and undetermined with several. A run can be iterated once: to
    train for several epochs, start the producer again for each.

    Owns: a Consumer while it is iterated. Thread: one at a time. Blocks: until the next slab is available or the run
    ends. Errors: those of Consumer; BadArgument if a tensor is named "key" or "metadata".
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        *,
        whole_slabs: bool = False,
        window: int = 0,
        wait_for_run: float = 10.0,
    ):
        super().__init__()
        self._run_dir = _validate.path("run_dir", run_dir)
        self._whole_slabs = _validate.yes_or_no("whole_slabs", whole_slabs)
        self._window, self._wait_for_run = window, wait_for_run

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = data.get_worker_info()
        try:
            for slab in Consumer(self._run_dir, self._window, self._wait_for_run):
                yield from [_batch_of(slab)] if self._whole_slabs else _samples_of(slab)
        except NoSuchRun:
            # Faster workers may have finished a short run. Worker 0 reports a run that does not exist.
            if worker is None or worker.id == 0:
                raise


def _samples_of(slab: Slab) -> Iterator[dict[str, Any]]:
    tensors = _tensors_of(slab)
    for sample in slab.samples:
        yield {
            **{name: tensor[sample.row].clone() for name, tensor in tensors.items()},
            "key": sample.key,
            **({"metadata": sample.metadata} if sample.metadata_json else {}),
        }


def _batch_of(slab: Slab) -> dict[str, Any]:
    samples: tuple[Sample, ...] = slab.samples
    rows = [sample.row for sample in samples]
    return {
        **{
            name: [tensor[row].clone() for row in rows] if isinstance(tensor, tuple) else tensor[rows]  # a copy
            for name, tensor in _tensors_of(slab).items()
        },
        "key": [sample.key for sample in samples],
        **(
            {"metadata": [sample.metadata for sample in samples]} if any(each.metadata_json for each in samples) else {}
        ),
    }


def _tensors_of(slab: Slab) -> dict[str, Any]:
    names = [info.name for info in slab.tensors]
    if taken := [name for name in names if name in OWN]:
        raise BadArgument(
            f"the slab has a tensor named '{taken[0]}', and a sample has that already. Submit it under another name"
        )
    return {name: slab.torch(name) for name in names}
