"""The producer side: an Egress moves batches of a loop's outputs to consumers."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import sys
import threading
import time
import warnings
import weakref
from numbers import Integral
from types import TracebackType
from typing import Any, Callable, ContextManager, Iterable, Iterator, Mapping, Sequence, TypeVar

from offramp import _validate
from offramp._batch import Submission, has_entries, owners_of, require_fit, require_one_batch
from offramp._batch_cache import BatchCache, batch_cache_of, outputs_from_cache
from offramp._arrays import Outputs, named_tensors, stream_of
from offramp._checkpoint import Checkpoint, Comparison
from offramp._consumers import OwnConsumers, is_durable, run_dir_of
from offramp._dead_letters import require_none
from offramp._errors import BadArgument, Error, ForgottenWarning, Stopped, Timeout, WrongProcess
from offramp._groups import (
    MOST_CONSUMERS,
    Group,
    GroupStats,
    fields_of_groups,
    groups_started,
    may_drop,
    processing_of,
    stats_in,
)
from offramp._hook import KeySource, Select, tapped
from offramp._metadata import json_of, limit_for
from offramp._keys import Key, KeysBefore, file_names_of, key_text_of, keys_of, require_one_key_each
from offramp._launched import ENDED_BY_THE_USER
from offramp._library import library, path_of
from offramp._numbering import Numbering
from offramp._options import (
    device_of,
    facts_of,
    launcher_of_this_program,
    layout_of,
    library_options,
    new_run_dir,
    require_complete,
)
from offramp._order import Layout
from offramp._remedies import of_other_tensors, of_tuple
from offramp._run import Run, Stats, warn
from offramp._samples import is_empty_batch, samples_of, slab_bytes_for
from offramp._threads import is_within

DROPS = "wait", "drop", "drop-oldest"  # when_full, by offramp_egress_options.drop_when_full
_Batch = TypeVar("_Batch")


class Egress:
    """
    Moves batches of tensors off the device without blocking it, and hands them to consumers in other processes.

        with offramp.Egress(output="OUT", processor="post.py:save", consumers=8) as egress:
            for keys, images in egress.pending(loader):
                with torch.inference_mode():
                    logits = model(images.cuda(non_blocking=True))
                egress.submit({"logits": logits}, keys)

    `processor`: the post-processing that consumers run, as in `offramp run --processor`: "npy", "post.py:save",
    "so:./mine.so", "exec:./tool", or several separated by commas. The Egress starts `consumers` of them (0: chosen) and
    replaces those that die. `settings` are further consumer flags, such as {"png-level": 3}. Results are written to the
    folder `output`, or stored as objects ("s3://BUCKET/PREFIX", also gs:// and az://). Without a processor you start
    consumers yourself: they connect to the directory `run_dir`, which must be absent, empty or left by an earlier run.
    Omit all of these in a program that `offramp run --producer` starts.

    `resume`: continue an earlier run into this output. pending() then skips batches that are done. `identity`: a text
    or mapping that describes everything your results depend on, such as {"weights": "v3"}. A run resumes another only
    if identity, processor, processor options, tensor types and tensor shapes are the same. Without a processor or
    launcher, progress is recorded only with `resume=True`.

    `repeated_keys`: "refuse", or "allow" if one key may name several samples. See submit().

    `tensors`: types and shapes of a batch, such as {"logits": ("float32", (64, 21, 512, 512))}, where shape[0] is the
    usual batch size. None in a later dimension: samples differ there, as in {"hidden": ("bfloat16", (64, None, 4096))}.
    Default: those of the first batch. `device`: "cpu", "cuda" or "cuda:1". Default: that of the first batch. With both,
    the run opens immediately. Otherwise it opens with the first batch. Consumers wait 10 s for a run by default.

    `name`: a name for the source of the slabs, which consumers see. `slabs`, `samples_per_slab`: number and size of the
    buffers in shared memory. `slab_bytes`: their room for tensors whose samples differ in shape, as a number or as
    "256MiB"; each sample must fit. Default: chosen by the first batch (16 to 256 MiB, or twice its largest sample), 64
    MiB with `tensors`. `metadata_bytes`: largest metadata of a sample as JSON, at most 16384. Default: chosen by the
    first batch (1024, or twice its longest; 0 if it has none), 0 with `tensors` and `device`. `when_full`: "wait" for a
    free slab, "drop" the batch, or "drop-oldest": drop the slab that has waited longest for a consumer. `max_failures`:
    failed deliveries before a slab becomes a dead letter. `max_delay`: seconds that a small batch waits to share a slab
    with others.
    `visibility_timeout`: seconds without progress before a slab is also delivered to another consumer. `kill_stalled`:
    kill consumers without progress and count a failure against their slab. A consumer in the Egress's own process is
    never killed. Zero and empty values use the defaults in offramp.h.

    `groups`: several kinds of post-processing, each with its own consumers, which get every batch: {"masks":
    offramp.Group("mask-png", consumers=8)}, instead of `processor` and `consumers`. Results go to OUTPUT/masks. For
    consumers that you start yourself, names: ("masks", "latest,drop-oldest", "preview,optional"). They join with
    offramp.Consumer(run_dir, group="masks"). A batch is complete when every group but optional ones has processed it.

    A function that never returns can block drain() forever. drain() then issues a RuntimeWarning; `kill_stalled=True`
    prevents this. A function that is only slow should call slab.progress().

    Leaving the context drains the run. Leaving it by an exception abandons unfinished work, and prints how much it was.
    Without any batch it issues a RuntimeWarning. An Egress that is garbage-collected, or alive at program exit,
    without drain() or close() also abandons unfinished work, with a ForgottenWarning.

    Owns: the run, the library's threads, its own threads and the consumers that it starts. Thread: any; calls are
    serialized. Blocks: submit() while all slabs are full; drain(). In a forked child every call raises WrongProcess:
    the run belongs to the parent. Errors: Error and its subclasses; ConsumersFailed, with the reason, if consumers that
    the Egress started failed.
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str] | None = None,
        tensors: Mapping[str, tuple[object, Sequence[int | None]]] | None = None,
        device: str | None = None,
        *,
        output: str | os.PathLike[str] | None = None,
        processor: str | None = None,
        consumers: int = 0,
        settings: Mapping[str, object] | None = None,
        resume: bool = False,
        identity: str | Mapping[str, object] | None = None,
        repeated_keys: str = "refuse",
        name: str = "",
        run_id: str = "",
        slabs: int = 0,
        samples_per_slab: int = 0,
        slab_bytes: int | str = 0,
        max_key_bytes: int = 0,
        metadata_bytes: int = 0,
        max_consumers: int = 0,
        when_full: str = "wait",
        max_failures: int = 0,
        max_delay: float = 0.0,
        visibility_timeout: float = 0.0,
        kill_stalled: bool = False,
        groups: Sequence[str] | Mapping[str, Group] = (),
    ):
        self._pid, self._began_at = os.getpid(), time.time()
        self._lock = threading.RLock()  # reentrant: before Python 3.11, Ctrl-C may leave it locked by the loop's thread
        self._is_submitting = False
        # Set during submit(): after an exception, the loop does not know whether the batch was accepted.
        self._submission: Submission | None = None
        self._opening: Run | None = None  # becomes _run once it is open
        self._run: Run | None = None
        self._consumers: OwnConsumers | None = None
        self._group_stats: dict[str, GroupStats] = {}  # once closed
        self._checkpoint: Checkpoint | None = None
        self._closed = self._cut_short = False
        self._is_done = False  # drained to the end
        self._cache: BatchCache | None = None  # of the last accepted batch
        _validate.one_of("when_full", when_full, *DROPS)
        _validate.one_of("repeated_keys", repeated_keys, "refuse", "allow")
        self._options = library_options(Egress.__init__, locals())
        resume = _validate.yes_or_no("resume", resume)
        self._device = None if device is None else device_of(str(device))
        self._requested_layout = (
            None
            if tensors is None
            else [
                layout_of(*each)
                for each in _validate.mapping("tensors", tensors, "{'output': ('float32', (64, 1000))}").items()
            ]
        )
        self._layout = self._requested_layout
        url = _validate.store_url("output", output)
        output = None if output is None or url else _validate.path("output", output)
        own = {
            "run_dir": run_dir,
            "output": output or url,
            "processor": processor,
            "consumers": None if isinstance(consumers, Integral) and consumers == 0 else consumers,
            "settings": settings,
            "groups": (started := groups_started(groups)) or None,
        }
        self._launched = launcher_of_this_program(own)
        launch = self._launched.settings if self._launched else None
        processing = None
        if launch is None:
            require_complete(own)
            processing = processing_of(processor, consumers, started)
            if processing is not None and run_dir is None:
                run_dir = (run_dir_of(url) if url and resume else None) or new_run_dir()
        folder = path_of(launch.run_dir if launch else "" if run_dir is None else run_dir)
        # the loop may change the working folder before its first batch
        folder = os.path.abspath(folder) if folder else folder
        library()  # raises LibraryNotFound early
        destination = launch.output if launch else output
        results = None if destination is None else os.path.abspath(destination)
        if url:  # files become objects; the checkpoint stays there
            results = os.path.join(os.fsdecode(folder), "output")
        resume = resume or bool(launch and launch.resume)
        facts = facts_of(
            identity,
            launch.processor if launch else processing and processing.identity,
            {"processor-option": launch.processor_option} if launch else settings or {},
        )
        if results is not None or resume:
            work = launch.work if launch else f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
            durable = launch.durable if launch else is_durable(settings or {})
            self._checkpoint = Checkpoint(results or os.fsdecode(folder), facts, work, resume, durable)
        self._run_dir = os.fsdecode(folder)
        self._options.update(run_dir=folder, drop_when_full=DROPS.index(when_full))
        self._options.update(fields_of_groups(groups, when_full, launch is not None or processor is not None))
        if launch is not None:
            self._options["run_id"] = launch.run_id.encode() or None
            self._options["kill_stalled"] |= int(launch.kill_stalled)
        if processing is not None and results is not None and self._checkpoint is not None:
            self._consumers = OwnConsumers(
                os.fsdecode(folder), url or results, processing, settings or {}, self._checkpoint.work, resume
            )
        self._once = repeated_keys == "refuse"
        self._keys_before = KeysBefore() if self._once and (launch is not None or processing is not None) else None
        named_by = launch.processor if launch else processing and processing.processors
        self._file_names = None if named_by is None else file_names_of(named_by)
        self._may_drop = when_full != "wait" or may_drop(groups)  # a submitted batch may have no results
        self._numbering = Numbering(
            None if self._checkpoint is None else Comparison(self._checkpoint), self._once, self._keys_before
        )
        _open.add(self)
        if self._layout is not None and self._device is not None:
            try:
                self._open_run(self._layout, self._device)
            except BaseException:
                self.close()
                raise

    def submit(
        self,
        outputs: object,
        keys: Iterable[Key] | None = None,
        items: Iterable[int] | None = None,
        stream: object = None,
        copy: bool | None = None,
        metadata: Iterable[Mapping[str, object] | None] | None = None,
    ) -> None:
        """
        Submits one batch and returns immediately; blocks only while all slabs are full.

        `outputs`: a mapping from names to tensors of shape (samples, ...), or a single tensor, which is named "output".
        Mappings and tuples in it are flattened: {"hidden_states": (a, b)} has the tensors "hidden_states.0" and
        "hidden_states.1". A tuple always has several tensors, a list one tensor per sample. None is left out, and a
        batch without samples is ignored. Batches may differ in size. All tensors must be on the CPU or on one CUDA
        device. Accepts PyTorch tensors, NumPy arrays and objects with DLPack, the CUDA array interface or the buffer
        protocol (CuPy, JAX, Numba).

        `copy`: None, True or False. Consumers get the data from the slab, to which the library copies a tensor in the
        background: on the device's own stream, or in a thread. Do not write to the tensor until then. Memory of the CPU
        whose changes can stay undetected (see TensorChanged below) is copied in submit() by default, so the loop may
        reuse it; this costs a memcpy of the batch. `copy=False` promises not to write to it. `copy=True` copies every
        tensor, on the current stream: pass it if the loop reuses tensors of a GPU, replays a CUDA graph or uses
        torch.compile(mode="reduce-overhead").

        Samples may differ in shape if the first batch or `tensors` says so. Submit a list of one tensor per sample, or
        offramp.packed(): {"hidden": [h0, h1]}. A list in the first batch means that all dimensions vary; packed(), the
        first. Samples of a tensor have one type and number of dimensions. They are row-major; extents may be 0. With
        `copy=True`, a list of PyTorch tensors or CPU arrays becomes one array.

        Samples keep the memory layout of the first batch, including channels-last, and consumers see its strides. If
        `tensors` was given, the layout is row-major. Tensors with another layout or with gaps are copied first, on the
        stream that writes them. Gradients are dropped.

        `keys`: one per sample; they name its results. Texts, paths or whole numbers, which become texts: 7 is "7". Also
        an array or a CPU tensor of whole numbers, of shape (samples,). Default: item numbers. A batch with a repeated
        key is refused. If keys name results (with `processor` or under a launcher), a key of an earlier batch is
        refused too, because its result would be replaced. The check covers about 2 million recent keys (256 MiB),
        including those that pending() skips. If `when_full` drops batches, it covers only the skipped keys, because a
        dropped batch may be submitted again.
        `metadata`: one dict per sample, or None, for consumers: sample.metadata. At most `metadata_bytes` as JSON.
        `items`: one number per sample, increasing across batches. Default: counted.
        `stream`: the stream that writes the tensors, as a torch.cuda.Stream, a cupy.cuda.Stream or a cudaStream_t
        number. Default: PyTorch's current stream; for arrays of other packages, the stream in their CUDA array
        interface (CuPy, Numba), else the legacy stream. submit() waits for the computation of JAX arrays.

        A signal handler's exception (Ctrl-C, an alarm) can leave submit() after the batch was accepted. Submit the
        batch again or continue: with keys or pending() it is not accepted twice.

        Errors: BadArgument for unsupported arguments; the message names the call to make, and nothing was
        submitted. TensorChanged: an earlier batch's tensor was written to, freed or resized before it was copied. The
        current batch was not submitted, and the loop may continue. Produce the changed batch again with resume=True, or
        in the same loop with repeated_keys="allow". The check has no false positives, but it misses a change if the
        copy finishes before the next check. submit() checks the previous batch every time, and all pending tensors
        every 5 ms. drain() checks all; a thread checks every 20 ms while submit() is idle. Writes are detected with
        PyTorch's version counter, which does not cover inference_mode() tensors, slices of other tensors, `.data`,
        tensors that NumPy or another process shares, NumPy arrays and arrays of other packages. Stopped: the launcher
        was asked to end this run. Let the exception leave the context, which drains.
        """
        self._require_own()
        self._require_not_asked_to_end()
        if copy is not None and _validate.yes_or_no("copy", copy) and stream is not None:
            raise BadArgument(
                "copy=True copies on the current stream. Give no stream with copy=True, and submit under "
                "`with torch.cuda.stream(stream):`"
            )
        named = named_tensors(outputs)
        if not named:
            raise BadArgument("the batch has no tensors. Submit one or more")
        if is_empty_batch(named) and not (has_entries("keys", keys) or has_entries("items", items)):
            return
        with self._lock:
            if self._is_submitting and is_within(Egress._submit.__code__, self):
                raise BadArgument(
                    "submit() was called while submit() runs on this thread, for example by a signal handler or a finalizer. Submit that "
                    "batch in the loop instead"
                )
            submission = self._submit(outputs, named, keys, items, stream, copy, metadata)
        if self._submission is submission:  # the last step: submit() returns, so the loop knows
            self._submission = None

    def _submit(
        self,
        outputs: object,
        named: Mapping[str, object],
        keys: Iterable[Key] | None,
        items: Iterable[int] | None,
        stream: object,
        copy: bool | None,
        metadata: Iterable[Mapping[str, object] | None] | None,
    ) -> Submission:
        try:
            self._is_submitting = True
            self._require_own()
            accepted = self._settle()
            if self._run is not None:
                self._require_unchanged(self._run)
            texts = None if keys is None else keys_of(keys)
            try:
                given, cache = self._outputs_of(named, texts, copy, stream)
            except BadArgument as problem:
                remedy = None if self._has_names(named) else of_tuple(outputs)
                if remedy is None or type(problem) is not BadArgument:  # such as a signal handler's
                    raise
                raise BadArgument(f"{problem}. {remedy}") from problem.__cause__
            rows = given[0].rows
            key_text = key_text_of(texts, rows, self._once)
            metadata_json = json_of(metadata, rows)
            given_items = None if items is None else _validate.items(items, rows)
            if accepted is not None and self._is_repeated(accepted, texts, key_text, rows, given_items):
                return accepted
            if self._keys_before is not None and texts is not None:
                self._keys_before.require_others(texts)
            if self._file_names is not None and texts is not None and key_text is not None:
                self._file_names.require_usable(texts, key_text, self._keys_before or ())
            numbers = self._numbering.of(texts, rows, given_items)
            counted, on_stream = None if self._numbering.is_next(numbers) else numbers, stream_of(stream, given)
            run = self._run
            if run is None:
                layout, sizes = self._layout, {}
                if layout is None:
                    layout = [Layout(name, each.dtype, each.shape, each.order) for name, each in zip(named, given)]
                    if any(each.varies for each in layout):
                        sizes["slab_bytes"] = slab_bytes_for(given)
                if metadata_json is not None:
                    sizes["metadata_bytes"] = limit_for(metadata_json)
                run = self._open_run(layout, self._device or given[0].device, **sizes)
            if self._consumers is not None:
                self._consumers.require_alive()
            if self._checkpoint is not None and numbers is not None:
                run.require_recorded()
            self._claim(texts)
            submission = self._submission = Submission(
                run.accepted, rows, None if texts is None else tuple(texts), key_text, numbers, given_items
            )
            if self._checkpoint is not None and submission.is_recorded:
                self._checkpoint.submitted(submission.first, rows, key_text)
            run.submit(
                given,
                rows,
                key_text,
                counted,
                on_stream,
                owners_of(given, key_text, None if numbers is None else numbers[0]),
                metadata_json,
            )
            self._note_accepted(submission)
            self._cache = cache
            return submission
        finally:
            self._is_submitting = False

    def _claim(self, keys: Sequence[str] | None) -> None:
        """Called once a batch is validated. Errors: BadArgument, for ranks.egress()."""

    def _require_unchanged(self, run: Run) -> None:
        """Called before a batch is submitted. Errors: TensorChanged."""
        run.require_unchanged()

    def _settle(self) -> Submission | None:
        """
        The batch of an interrupted submit(), if the library accepted it. May itself be interrupted and called again.
        """
        submission, run = self._submission, self._run
        if submission is None or run is None:
            return None
        if run.accepted > submission.number:
            self._note_accepted(submission)
            return submission
        if self._checkpoint is not None and submission.is_recorded:
            self._checkpoint.changed(submission.first)
        self._submission = None
        return None

    def _note_accepted(self, submission: Submission) -> None:
        self._numbering.submitted(submission.numbers)
        if self._file_names is not None and submission.keys is not None:
            self._file_names.add()
        if (
            self._keys_before is not None
            and not self._may_drop
            and submission.keys is not None
            and submission.key_text is not None
        ):
            self._keys_before.add(submission.keys, len(submission.key_text))

    def _is_repeated(
        self,
        accepted: Submission,
        keys: Sequence[str] | None,
        key_text: bytes | None,
        rows: int,
        items: list[int] | None,
    ) -> bool:
        """Whether the loop submits the accepted batch again, and not another batch with equal keys and size."""
        if (key_text, rows, items) != (accepted.key_text, accepted.rows, accepted.given_items):
            return False
        if self._numbering.numbers_by_pending:
            return self._numbering.find(keys, rows) is None
        return items is not None or keys is not None and self._keys_before is not None and not self._may_drop

    def pending(
        self, batches: Iterable[_Batch], keys: Callable[[_Batch], Iterable[Key] | int] | None = None
    ) -> Iterator[_Batch]:
        """
        Yields the batches that are not done. With resume=True it skips those that an earlier run finished. It yields
        batches without samples each time.

        `batches`: in the same order and of the same size as before (shuffle=False); new ones may follow. `keys`: a
        function that returns a batch's keys, or its number of samples if it has none. Default: the first element of the
        batch, a tuple. Submit each batch whole, with its keys, in this order. A batch that the loop does not submit
        stays undone. Without keys, submit each batch before you take the next one. The iteration ends early if the
        launcher was asked to end the run. pending() may be called again with the batches that follow.

        Errors: BadArgument if batches that are done had other keys; submitted batches are not affected. drain() raises
        it if batches are missing.
        """
        self._require_own()
        with self._lock:
            self._settle()
        yield from self._numbering.pending(batches, keys, self._accepts_more)

    def tap(
        self, module: Any, keys: KeySource = None, select: Select = None, copy: bool | None = True
    ) -> ContextManager[None]:
        """
        Submits each output of a module while the context is open, for loops of other packages:

            with egress.tap(model.layer4, keys=iter(names)):
                run_of_another_package(model)

        `module`: a torch.nn.Module. Its outputs are submitted as by submit(): dimension 0 counts the samples. `keys`:
        an iterable of one key per sample, over all calls; or a function without arguments that returns the keys of one
        call. Default: item numbers. `select`: the part of the outputs to submit: a name, an index, or a function of the
        outputs. A call for which it returns None is left out. `copy`: see submit(). Default: True, because the rest of
        the model may write to the output (ReLU(inplace=True)).

        Thread: submit() runs in the thread that calls the module. Errors: those of submit() leave the module's call.
        RuntimeWarning if torch.compile may bypass the tap, and if the module was never called.
        """
        self._require_own()
        return tapped(self, module, keys, select, copy)

    def drain(self, timeout: float | None = None) -> None:
        """
        Waits until consumers have processed every batch, and consumers that this Egress started have written their
        final results.

        Errors: Timeout after `timeout` seconds; call it again. ConsumersFailed if consumers failed or samples became
        dead letters. TensorChanged, after all other work: see submit(). BadArgument if pending() got fewer batches than
        an earlier run finished. SystemExit(130) if the launcher was asked to end the run before all batches were
        submitted.
        """
        self._require_own()
        if timeout is not None and not _validate.seconds("the timeout", timeout) >= 0:
            raise BadArgument(f"the timeout is {timeout}. Give seconds, or None to wait forever")
        self._numbering.finish()
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._run is None and self._checkpoint is not None and self._checkpoint.resumes and self._checkpoint.tensors:
            with self._lock:  # all batches were done: finish the earlier run's results, which needs no memory
                self._options["slabs"] = 1
                self._open_run(
                    [layout_of(name, description) for name, *description in self._checkpoint.tensors],
                    self._device or "cpu",
                )
        if self._run is not None:
            if self._consumers is not None:
                self._consumers.wait_for_first(self._run.stats, deadline)
            self._run.drain(timeout)
            if self._consumers is not None and not self._consumers.wait(deadline):
                raise Timeout(f"final results are not written after {timeout} s. Call drain() again")
            if self._consumers is None and self._launched is None:
                require_none(self._run_dir, self._began_at, self._run.stats().samples_dead_lettered)
            self._is_done = True
            self._run.require_unchanged()
        if self._cut_short:
            raise SystemExit(ENDED_BY_THE_USER)

    def scale(self, consumers: int, group: str = "") -> None:
        """
        Sets the number of consumers that this Egress runs, or runs in this `group`. Errors: BadArgument if it has
        started none.
        """
        self._require_own()
        consumers = _validate.whole("consumers", consumers, MOST_CONSUMERS, f"1 to {MOST_CONSUMERS}", least=1)
        group = _validate.text("group", group)
        if self._consumers is None or self._run is None:
            raise BadArgument(
                "this Egress has no consumers to scale. It starts them for processor= or groups=, with the first batch. "
                "Scale a launcher's consumers with `offramp scale`"
            )
        self._consumers.scale(f"{group}={consumers}" if group else str(consumers))

    @property
    def run_dir(self) -> str:
        """The run directory: `run_dir`, the launcher's, or the one that was chosen. Logs and dead letters are there."""
        return self._run_dir

    def __repr__(self) -> str:
        state = "closed" if self._closed else "waiting for its first batch" if self._run is None else "open"
        if self._pid != os.getpid():
            state = "of the parent process"
        tensors = ", ".join(f"{each.name} {each.dtype} {each.shape}" for each in self._layout or ())
        counts = ""
        with contextlib.suppress(Error):  # a forked child, or another thread closes it
            now = self.stats()
            counts = f", samples: {now.samples_submitted} submitted, {now.samples_completed} completed"
            counts += f", {now.samples_dead_lettered} dead-lettered" * bool(now.samples_dead_lettered)
        return f"<offramp.Egress in {self._run_dir!r}, {state}{f', tensors: {tensors}' * bool(tensors)}{counts}>"

    def stats(self) -> Stats:
        """Returns the counters of the run so far, or the final ones once the Egress is closed. Thread: any."""
        self._require_own_process()
        return Stats() if self._run is None else self._run.stats()

    def group_stats(self) -> dict[str, GroupStats]:
        """
        Returns the counters of each group by its name, at most 0.5 s old, or the final ones once the Egress is closed.
        stats() counts a sample as completed once every group has, but for optional ones. Thread: any.
        """
        self._require_own_process()
        return self._group_stats if self._closed or self._run is None else stats_in(self._run_dir)

    def close(self) -> None:
        """Ends the run and abandons unfinished work. Idempotent; has no effect in a forked child."""
        if self._pid != os.getpid():
            return
        self._closed = True
        _open.discard(self)
        try:
            if self._opening is not None:
                self._opening.close()
                self._group_stats = self._group_stats or stats_in(self._run_dir)
        finally:
            if self._consumers is not None:
                self._consumers.close()
            if self._checkpoint is not None:
                self._checkpoint.close()

    def __enter__(self) -> Egress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pid != os.getpid() or self._closed:
            self.close()
            return
        try:
            if kind is None or kind is Stopped and self._cut_short:
                self.drain()
                self._warn_of_no_batch()
        finally:
            self.close()
            if self._run is not None:
                report_abandoned(self._run.stats, self._checkpoint is not None and self._launched is None)

    def _warn_of_no_batch(self) -> None:
        if self.stats().batches_submitted == 0 and (self._checkpoint is None or not self._checkpoint.earlier.list()):
            warn("no sample was submitted, so there are no results. Check that the loop has batches")

    def __del__(self) -> None:
        _close_forgotten(self)

    def _require_own_process(self) -> None:
        if self._pid != _process:
            raise WrongProcess(
                "the Egress belongs to the parent process, and this is a forked child. Call it in the parent"
            )

    def _require_own(self) -> None:
        self._require_own_process()
        if self._closed:
            raise BadArgument("the egress is closed. Create another one")

    def _accepts_more(self) -> bool:
        self._require_own()
        if self._launched is not None and self._launched.asked_to_end:
            self._cut_short = True
        return not self._cut_short

    def _require_not_asked_to_end(self) -> None:
        if self._launched is not None and self._launched.asked_to_end and not self._numbering.expects_more:
            self._cut_short = True
            raise Stopped("the run is ending and accepts no more batches. Leave the context, which drains")

    def _open_run(self, layout: list[Layout], device: str, **sizes: int) -> Run:
        """
        May be called again after an exception: it continues with the same layout and device. `sizes`: options that the
        first batch chooses, unless the program or the resumed run did.
        """
        checkpoint, consumers = self._checkpoint, self._consumers
        run = self._opening
        if run is None:
            if checkpoint is not None:
                checkpoint.require_same([[each.name, each.dtype.name, list(each.shape)] for each in layout])
                # a later batch may be as large as the earlier run's first one
                sizes = checkpoint.sizes = {
                    name: self._options[name] or max(sizes.get(name, 0), earlier)
                    for name, earlier in checkpoint.sizes.items()
                }
                if consumers is not None:
                    checkpoint.begin(in_place=False)
            if consumers is not None:
                consumers.require_alive()
            run = Run(
                {**self._options, **{name: self._options[name] or size for name, size in sizes.items()}},
                layout,
                device,
                checkpoint,
                consumers.require_alive if consumers is not None else lambda: None,
                consumers.unreachable if consumers is not None else lambda is_first: "",
            )
            self._layout, self._opening = layout, run
        try:
            run.open()
        except BaseException:
            if not run.is_begun:
                self._opening, self._layout = None, self._requested_layout
                run.close()
            raise
        if checkpoint is not None and consumers is None:
            checkpoint.begin(in_place=True)
        self._run = run
        if self._closed:  # by another thread
            run.close()
        return run

    def _layout_before(self, name: str) -> Layout | None:
        """
        In the run that this one resumes, if samples differed in shape: the first pending batch may not show in which
        dimensions.
        """
        earlier = self._checkpoint.tensors if self._checkpoint is not None and self._checkpoint.resumes else []
        layouts = [layout_of(each, description) for each, *description in earlier if each == name]
        return layouts[0] if layouts and layouts[0].varies else None

    def _has_names(self, named: Mapping[str, object]) -> bool:
        return self._layout is not None and {layout.name for layout in self._layout} == set(named)

    def _outputs_of(
        self, named: Mapping[str, object], keys: Sequence[str] | None, copy: bool | None, stream: object
    ) -> tuple[list[Outputs], BatchCache | None]:
        """Validated outputs in the run's order, and the cache to keep once the batch is accepted."""
        names = list(named) if self._layout is None else [layout.name for layout in self._layout]
        try:
            tensors = [named[name] for name in names]
        except KeyError:
            tensors = []
        if len(tensors) != len(named):
            raise BadArgument(of_other_tensors(names, list(named)))
        given = None if self._cache is None or copy else outputs_from_cache(self._cache, names, tensors, copy)
        if given is not None:
            return given, self._cache
        layouts: Sequence[Layout | None] = self._layout or [self._layout_before(name) for name in names]
        given = [
            samples_of(name, tensor, copy, layout, stream) for name, tensor, layout in zip(names, tensors, layouts)
        ]
        require_one_batch(names, given)
        if keys is not None:
            require_one_key_each(keys, given[0].rows)
        require_fit(given, self._device if self._opening is None else self._opening.device, self._layout or ())
        return given, batch_cache_of(tensors, given)


def report_abandoned(stats_of_run: Callable[[], Stats], is_resumable: bool) -> None:
    """Prints how many submitted samples an exception has abandoned, if any. Errors: none: it matters more."""
    with contextlib.suppress(Error, OSError, ValueError):  # another thread closes the run; stderr is closed
        stats = stats_of_run()
        if stats._unfinished > 0 and sys.stderr is not None:
            remedy = ". To process them, start again with resume=True, in a loop of your own with pending()"
            print(
                f"offramp: an exception abandoned {stats._unfinished} of {stats.samples_submitted} submitted samples"
                f"{remedy * is_resumable}",
                file=sys.stderr,
                flush=True,
            )


_open: weakref.WeakSet[Egress] = weakref.WeakSet()
_process = os.getpid()  # cached, to save a system call per batch; the library checks again


def _note_fork() -> None:
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_note_fork)


def _close_forgotten(egress: Egress) -> None:
    if (
        (getattr(egress, "_opening", None) or getattr(egress, "_consumers", None)) is not None
        and not egress._closed
        and egress._pid == os.getpid()
    ):
        try:
            if not egress._is_done:
                warnings.warn(
                    "an Egress was neither drained nor closed: unfinished work is abandoned. Use it as a context, or call drain() and "
                    "close()",
                    ForgottenWarning,
                    stacklevel=3,
                )
        finally:  # also if warnings are errors
            egress.close()


@atexit.register
def _close_all_forgotten() -> None:
    for egress in list(_open):
        _close_forgotten(egress)
