"""
nnU-Net's predictor, whose export (resampling, argmax, NIfTI) runs in consumers while the device predicts the next case.

    predictor = offramp.nnunet.Predictor(device=torch.device("cuda"))
    predictor.initialize_from_trained_model_folder(MODEL, use_folds=(0,))
    predictor.predict_from_files("scans", "RESULTS", overwrite=False)

Tested with nnunetv2 2.8.1. Importing this module imports nnunetv2; importing offramp does not.
"""

from __future__ import annotations

import glob
import os
import pickle
import secrets
import shutil
import tempfile
from typing import Any, Iterable, Iterator, Mapping

from offramp import _validate
from offramp._dead_letters import DEAD_LETTERS
from offramp._egress import Egress
from offramp._errors import BadArgument, ConsumersFailed
from offramp._groups import MOST_CONSUMERS
from offramp._options import new_run_dir
from offramp._packages import needs
from offramp._slab import Sample, Slab

with needs("offramp.nnunet", "nnunetv2"):
    import numpy
    import torch
    from batchgenerators.dataloading.multi_threaded_augmenter import MultiThreadedAugmenter
    from nnunetv2.configuration import default_num_processes
    from nnunetv2.inference.export_prediction import export_prediction_from_logits
    from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
    from nnunetv2.inference.sliding_window_prediction import compute_gaussian
    from nnunetv2.utilities.helpers import empty_cache

__all__ = ["Predictor", "export"]

_DONE = ".done"
_LEAST_SLAB, _SLACK = 16 << 20, 4096  # bytes; the slack is for the alignment of a case's tensors


class Predictor(nnUNetPredictor):  # type: ignore[misc,unused-ignore]  # may be absent where types are checked
    """
    An nnUNetPredictor whose predict_from_files() and predict_from_data_iterator() export in consumers of an Egress.
    Segmentations and probabilities equal those of nnU-Net's own export byte for byte.

    A case's files appear whole, by renames, the segmentation last. So in a folder without earlier segmentations,
    `overwrite=False` continues a stopped run and repeats failed cases. A program that is killed may leave hidden
    folders `.nnunet-...` beside the results. `num_processes_segmentation_export` is the number of consumers.

    `egress`: further arguments of the Egress, such as {"slab_bytes": "2GiB", "slabs": 6}. Each case has a slab of its
    own in shared memory. By default there are two slabs more than consumers, each with room for twice the first case's
    logits. For a larger case, larger slabs replace them once the earlier cases are exported. An export without a result
    for an hour is repeated by another consumer; `visibility_timeout` sets another time.

    Logits stay on the device until an Egress copies them, also while folds are averaged. If the device has too little
    memory, nnU-Net averages them on the CPU.

    Thread: one. Errors: ConsumersFailed at the end if cases failed, with their names; all others are exported. An
    exception of the iterator is raised once the earlier cases are exported. BadArgument for a case without an output
    file.
    """

    def __init__(self, *arguments: Any, egress: Mapping[str, object] | None = None, **options: Any):
        super().__init__(*arguments, **options)
        self._egress_options = dict(_validate.mapping("egress", egress or {}, "{'slabs': 6}"))

    def predict_from_data_iterator(
        self,
        data_iterator: Iterable[dict[str, Any]],
        save_probabilities: bool = False,
        num_processes_segmentation_export: int = default_num_processes,
    ) -> list[None]:
        exports = _Exports(self, save_probabilities, num_processes_segmentation_export, self._egress_options)
        count, broken = 0, None
        try:
            try:
                for count, case in enumerate(data_iterator, 1):
                    self._predict_and_submit(case, exports)
            except Exception as problem:
                broken = problem
            exports.drain()
        finally:
            exports.close()
        if isinstance(data_iterator, MultiThreadedAugmenter):
            data_iterator._finish()
        compute_gaussian.cache_clear()
        empty_cache(self.device)
        if broken is not None:
            raise broken
        if exports.failures:
            raise ConsumersFailed(
                f"{'; '.join(exports.failures)}. All other cases are exported. Remove earlier segmentations of the failed ones, if there are any, and "
                "repeat with overwrite=False",
                DEAD_LETTERS,
            )
        return [None] * count

    def _predict_and_submit(self, case: dict[str, Any], exports: _Exports) -> None:
        if case["ofile"] is None:
            raise BadArgument(
                "the case has no output file, and consumers return no arrays. Give output files, or use nnUNetPredictor"
            )
        try:
            logits = self.predict_logits_from_preprocessed_data(_data_of(case))
        except Exception as problem:
            name = os.path.basename(case["ofile"])
            exports.failures.append(f"not predicted: {name} ({type(problem).__name__}: {problem})")
        else:
            exports.submit(os.path.abspath(case["ofile"]), logits, case["data_properties"])

    @torch.inference_mode()
    def predict_logits_from_preprocessed_data(self, data: torch.Tensor) -> torch.Tensor:
        try:
            return self._averaged_on_device(data)
        except torch.cuda.OutOfMemoryError:
            pass  # its traceback keeps the tensors until here
        logits: torch.Tensor = super().predict_logits_from_preprocessed_data(data)
        return logits

    def _averaged_on_device(self, data: torch.Tensor) -> torch.Tensor:
        """The same bits as nnU-Net's own average, which copies each fold's logits to the CPU."""
        average: Any = None
        for parameters in self.list_of_parameters:
            network: Any = self.network
            getattr(network, "_orig_mod", network).load_state_dict(parameters)  # inside torch.compile
            logits = self.predict_sliding_window_return_logits(data)  # on the CPU if the device has too little memory
            if average is not None and average.device != logits.device:
                average, logits = average.cpu(), logits.cpu()
            average = logits if average is None else average.add_(logits)
            del logits
        if (folds := len(self.list_of_parameters)) > 1:
            # CUDA would multiply by the rounded reciprocal of a Python number
            average.div_(torch.full((), folds, dtype=average.dtype, device=average.device))
        made: torch.Tensor = average
        return made


def _data_of(case: dict[str, Any]) -> Any:
    if not isinstance(path := case["data"], str):
        return case["data"]
    data = torch.from_numpy(numpy.load(path))  # preprocessing stores large cases in temporary files
    os.remove(path)
    return data


class _Exports:
    """
    Owns: an Egress, which a new one replaces when a case needs larger slabs or is on another device. Thread: one.
    Blocks: submit() while all slabs are full; drain(). Errors: those of Egress; `failures` has those of single cases.
    """

    def __init__(self, predictor: Any, save_probabilities: bool, processes: int, options: dict[str, Any]):
        self._shared = (
            predictor.configuration_manager,
            predictor.plans_manager,
            predictor.dataset_json,
            save_probabilities,
        )
        consumers = min(max(processes, 1), MOST_CONSUMERS)
        self._options = {"consumers": consumers, "slabs": consumers + 2, "visibility_timeout": 3600, **options}
        self._room = _validate.byte_count("slab_bytes", options.get("slab_bytes", 0))
        self._egress: Egress | None = None
        self._output = ""
        self._device: Any = None
        self._submitted: set[str] = set()  # keys of this Egress
        self._staging = f".nnunet-{secrets.token_hex(4)}-"  # begins the names of this run's temporary folders
        self._folders: set[str] = set()  # of results
        self.failures: list[str] = []

    def submit(self, target: str, logits: Any, properties: dict[str, Any]) -> None:
        # A tensor, because a cascade's properties are too large for metadata.
        job = bytearray(pickle.dumps((target, self._staging, properties, *self._shared)))
        size, (folder, name) = logits.nbytes + len(job) + _SLACK, os.path.split(target)
        self._folders.add(folder)
        egress = self._egress
        if egress is None or size > self._room or logits.device != self._device:
            self.drain()
            egress = self._open(size, folder, logits.device)
        key = name if name not in self._submitted else f"{name}-{secrets.token_hex(4)}"
        tensors = {"logits": [logits], "job": [torch.frombuffer(job, dtype=torch.uint8).to(logits.device)]}
        egress.submit(tensors, [key])
        self._submitted.add(key)

    def _open(self, size: int, folder: str, device: Any) -> Egress:
        self._device = device
        if size > self._room:
            self._room = max(2 * size, _LEAST_SLAB)
        os.makedirs(folder, exist_ok=True)
        run_dir = new_run_dir()
        self._output = f"{run_dir}-done"  # marks of exported cases; deleted at the end, so its name is a new one
        self._egress = Egress(
            output=self._output,
            processor="python:offramp.nnunet:export",
            samples_per_slab=1,
            **{"run_dir": run_dir, **self._options, "slab_bytes": self._room},
        )
        return self._egress

    def drain(self) -> None:
        if self._egress is not None:
            try:
                self._egress.drain()
            except ConsumersFailed as problem:
                lost = sorted(key for key in self._submitted if not os.path.exists(f"{self._output}/{key}{_DONE}"))
                self.failures.append(f"not exported: {', '.join(lost)} ({problem})")
            self._close_egress()

    def _close_egress(self) -> None:
        if self._egress is not None:
            self._egress.close()
            self._egress = None
            self._submitted.clear()
            shutil.rmtree(self._output, ignore_errors=True)

    def close(self) -> None:
        """Also removes what killed consumers have left."""
        self._close_egress()
        for folder in self._folders:
            for left in glob.glob(f"{glob.escape(folder)}/{self._staging}*"):
                shutil.rmtree(left, ignore_errors=True)


def export(slab: Slab) -> Iterator[tuple[Sample, str, bytes]]:
    """The consumers' function: nnU-Net's own export of each case. Yields a mark for each case that is done."""
    for sample in slab.samples:
        target, staging, properties, configuration, plans, dataset, save_probabilities = pickle.loads(
            slab["job"][sample.row].tobytes()
        )
        folder, name = os.path.split(target)
        with tempfile.TemporaryDirectory(prefix=staging, dir=folder) as made:
            export_prediction_from_logits(
                numpy.array(slab["logits"][sample.row]),  # a copy: nnU-Net may write to it
                properties,
                configuration,
                plans,
                dataset,
                os.path.join(made, name),
                save_probabilities,
            )
            # the segmentation last: nnU-Net takes a case with a segmentation for done
            for each in sorted(os.listdir(made), key=lambda file: file.endswith(dataset["file_ending"])):
                os.replace(os.path.join(made, each), os.path.join(folder, each))
        yield sample, _DONE, b""
