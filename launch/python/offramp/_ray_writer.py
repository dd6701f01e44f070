"""Writers of Ray Data (offramp.ray.Writer): actors that share one output, each with an Egress of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib
import inspect
import os
import time
from typing import Any, Callable, Iterable, Mapping, Sequence, Union

from offramp._dead_letters import DEAD_LETTERS, reason_of_the_first, typed_launcher
from offramp._egress import Egress
from offramp._errors import BadArgument, ConsumersFailed
from offramp._groups import MOST_CONSUMERS
from offramp._keys import key_text_of, keys_of
from offramp._options import device_of, facts_of, library_options, require_complete
from offramp._run import Run
from offramp.ranks import PartEgress, SharedWork

LOOK_SECONDS = 0.5  # between two checks of the consumers, while a batch is not done
REASON_SECONDS = 30.0  # in which the dead letter of a failed batch is written
SET_BY_WRITER = ("identity", "max_failures", "repeated_keys", "resume", "run_dir", "tensors", "when_full")
Column = Union[str, Callable[[Any], Iterable[Any]]]


class Writer:
    """
    Submits batches of a Ray data set to consumers, and returns the keys of a batch once its results are in place:

        writer = offramp.ray.Writer.arguments("RESULTS", "post.py:save", keys="name", model=Model)
        done = images.map_batches(offramp.ray.Writer, fn_constructor_kwargs=writer, concurrency=4, num_gpus=1)
        done.write_parquet("KEYS")
        offramp.ray.merge("RESULTS", "post.py:save")

    arguments() checks them in the driver: an actor reports a wrong one only after Ray has started it.

    `output`: a folder that all nodes have at the same path, on a file system with locks. It is new, or has work of
    writers with the same processor. `processor`, `settings` and `options`: those of Egress. `keys`: the column that
    names the results, which is returned unchanged; or a function of the batch, whose keys are returned as texts. A key
    names one sample of the data set. A batch that repeats a key is refused, but a later batch with that key replaces
    the earlier result, because Ray may submit a batch again. `model`: a function of the batch that returns what
    submit() takes, or a class of such functions, which each actor makes. Default: the other columns of the batch;
    columns of texts are refused. `metadata`: a function of the batch that returns each sample's metadata. `consumers`:
    of each actor; 0: as many as it has CPUs.

    Files of single samples are in `output` immediately. merge() adds tables and records. A block is repeated as a
    whole: by Ray after an actor's death or with `retried_map_errors`, or by you after one of its batches failed. Files
    are then replaced by equal ones. Records and Parquet files may have the block's samples twice.

    Owns: an Egress. Thread: one at a time; up to 4 batches of a block are on their way. Blocks: while all slabs are
    full. Errors: BadArgument; ConsumersFailed if a sample has no result; those of Egress.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        processor: str,
        *,
        keys: Column = "key",
        model: Callable[..., Any] | None = None,
        metadata: Callable[[Any], Iterable[Mapping[str, object] | None]] | None = None,
        consumers: int = 0,
        settings: Mapping[str, object] | None = None,
        **options: Any,
    ):
        work = _checked(output, processor, keys, model, metadata, consumers, settings, **options)
        self._name_of_keys = keys if isinstance(keys, str) else "key"
        self._keys, self._metadata = keys, metadata
        self._model = model() if isinstance(model, type) else model
        work.begin(facts_of(None, processor, work.settings), resume=True)
        work.take_next_part()
        self._egress = _ActorEgress(work, consumers or _cpus_of_this_actor(), {"processor": processor, **options})

    @staticmethod
    def arguments(output: str | os.PathLike[str], processor: str, **others: Any) -> dict[str, Any]:
        """
        The constructor's arguments for map_batches(), checked. Creates nothing. The processor's files must be on this
        node, too. Errors: BadArgument, also if `output` has other work; CannotWrite.
        """
        work = _checked(output, processor, **others)
        work.is_begun(facts_of(None, processor, work.settings))
        return {"output": work.output, "processor": processor, **others}

    async def __call__(self, batch: Any) -> dict[str, Any]:
        """The batch's keys. A coroutine, because Ray then calls it for the next batches while one is not done."""
        given = self._keys(batch) if callable(self._keys) else _column_of(batch, self._keys)
        keys = keys_of(given)
        outputs = _columns_but(batch, self._keys) if self._model is None else self._model(batch)
        if keys:
            await self._egress.write(outputs, keys, None if self._metadata is None else self._metadata(batch))
        return {self._name_of_keys: list(keys) if callable(self._keys) else given}

    def __del__(self) -> None:
        if (egress := getattr(self, "_egress", None)) is not None:
            egress.close()  # every returned batch is done


def merge(
    output: str | os.PathLike[str],
    processor: str,
    *,
    settings: Mapping[str, object] | None = None,
) -> None:
    """
    Joins the tables and records of all actors in `output`. Call it once the data set is consumed, with the processor
    and settings of the Writer. It finishes what dead actors left, and may be called again.

    Errors: BadArgument if no Writer wrote there with this processor; ConsumersFailed, also while an actor writes.
    """
    work = _work(output, processor, settings)
    if not work.is_begun(facts_of(None, processor, work.settings)) or not work.parts():
        raise BadArgument(f"no writer of Ray has begun in {work.output}. Give the output of an offramp.ray.Writer")
    for work.rank in work.parts():
        with PartEgress(work, 1, {"processor": processor, "resume": True}):
            pass  # drains
    work.merge()


def _checked(
    output: str | os.PathLike[str],
    processor: str,
    keys: Column = "key",
    model: Callable[..., Any] | None = None,
    metadata: Callable[[Any], Any] | None = None,
    consumers: int = 0,
    settings: Mapping[str, object] | None = None,
    **options: Any,
) -> SharedWork:
    """The work in the output, after a check of a Writer's arguments. Errors: BadArgument."""
    if refused := [name for name in SET_BY_WRITER if name in options]:
        raise BadArgument(f"{refused[0]} is given, which a writer of Ray does not take. Omit it")
    if not isinstance(keys, str) and not callable(keys):
        raise BadArgument(f"keys is {keys!r:.80}. Give the name of a column, or a function of the batch")
    for name, given in {"model": model, "metadata": metadata}.items():
        if given is not None and not callable(given):
            raise BadArgument(f"{name} is {given!r:.80}. Give a function of the batch")
    defaults = {name: each.default for name, each in inspect.signature(Egress).parameters.items()}
    if unknown := [name for name in options if name not in defaults]:
        raise BadArgument(f"{unknown[0]} is not an argument of offramp.ray.Writer or offramp.Egress. Omit it")
    library_options(Egress.__init__, {**defaults, **options})
    if options.get("device") is not None:
        device_of(str(options["device"]))
    return _work(output, processor, settings, consumers)


def _work(
    output: str | os.PathLike[str], processor: str, settings: Mapping[str, object] | None, consumers: int | None = None
) -> SharedWork:
    """The work in the output. Errors: those of SharedWork."""
    own = {"run_dir": None, "output": output, "processor": processor, "settings": settings, "consumers": consumers}
    require_complete(own)
    return SharedWork(output, 0, 0, settings or {}, processor)


def _cpus_of_this_actor() -> int:
    ray: Any = importlib.import_module("ray")  # untyped, and absent where types are checked
    given = ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
    return min(max(int(given), 1), MOST_CONSUMERS)


def _column_of(batch: Any, name: str) -> Any:
    if name not in batch:
        raise BadArgument(
            f"keys='{name}' is no column of the batch, which has {', '.join(batch)}. Pass keys= one of them"
        )
    return batch[name]


def _columns_but(batch: Any, keys: Column) -> dict[str, Any]:
    if not isinstance(batch, Mapping):
        raise BadArgument(
            f"a batch is of type {type(batch).__qualname__}. Pass model=, a function that returns tensors"
        )
    return {name: batch[name] for name in batch if name != keys}


class _ActorEgress(PartEgress):
    """The Egress of an actor. Thread: that of the event loop; the checkpoint's calls _note_end()."""

    def __init__(self, work: SharedWork, consumers: int, arguments: Mapping[str, Any]):
        self._outcomes: dict[int, concurrent.futures.Future[bool]] = {}
        super().__init__(work, consumers, {**arguments, "repeated_keys": "allow"})  # Ray may try a batch again
        assert self._checkpoint is not None  # a processor has results
        self._checkpoint.on_end = self._note_end

    async def write(
        self, outputs: object, keys: Sequence[str], metadata: Iterable[Mapping[str, object] | None] | None
    ) -> None:
        """Returns once all results of the batch are in place. Errors: those of submit(); ConsumersFailed."""
        key_text_of(keys, len(keys), once=True)
        first, outcome = self._numbering.next_item, concurrent.futures.Future[bool]()
        items = range(first, first + len(keys))
        outcome.set_running_or_notify_cancel()  # Ray cancels the batches of a block beside one that failed
        self._outcomes[first] = outcome
        try:
            try:
                self.submit(outputs, keys, metadata=metadata)
            except BaseException:
                self._numbering.begin_at(items.stop)  # _note_end() will report these items as failed
                raise
            run = self._run_in_use()
            ended = asyncio.wrap_future(outcome)
            while not (await asyncio.wait([ended], timeout=LOOK_SECONDS))[0]:
                run.supervise_consumers()
        finally:
            self._outcomes.pop(first, None)
        run.require_unchanged(first)
        if not outcome.result():
            until = time.monotonic() + REASON_SECONDS
            while not (reason := reason_of_the_first(self.run_dir, self._began_at, items)) and time.monotonic() < until:
                await asyncio.sleep(LOOK_SECONDS)
                run.require_unchanged(first)
            raise ConsumersFailed(
                f"the batch with the key '{keys[0]}' has no results, since post-processing failed{': ' * bool(reason)}{reason}. "
                f"Inspect it on this node: {typed_launcher()} dead-letters list --run-dir {self.run_dir}",
                DEAD_LETTERS,
            )

    def _require_unchanged(self, run: Run) -> None:
        run.find_changed()  # the changed batch's own write() raises it

    def _run_in_use(self) -> Run:
        assert self._run is not None  # a batch is submitted
        return self._run

    def _note_end(self, first: int, is_done: bool) -> None:
        with contextlib.suppress(KeyError):  # a batch that was not accepted
            self._outcomes.pop(first).set_result(is_done)
