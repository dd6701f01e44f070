"""
What offramp.vllm and offramp.speculators import of vLLM 0.33.0 and hs-connectors 0.9.0, with the same signatures and
protocol, because vLLM needs a GPU's libraries. If OFFRAMP_TEST_VLLM_SOURCE names a folder with the unpacked wheels, the
connectors and hs-connectors come from there, and only what they import is a stub.

    pip download --no-deps vllm==0.33.0 hs-connectors==0.9.0 && for wheel in *.whl; do unzip -q $wheel -d SOURCE; done
"""

import abc
import contextlib
import dataclasses
import enum
import importlib.util
import logging
import os
import pathlib
import sys
import types
import typing

SOURCE = os.environ.get("OFFRAMP_TEST_VLLM_SOURCE", "")
V1 = "vllm.distributed.kv_transfer.kv_connector.v1"
EXAMPLE = f"{V1}.example_hidden_states_connector"


class Cell:
    """Where the stubs' rank is."""

    rank = 0


class HiddenStateCacheSpec:
    def __init__(self, block_size):
        self.block_size = block_size


class CacheOnlyAttentionLayer:
    pass


class KVConnectorMetadata(abc.ABC):
    pass


class SupportsHMA(abc.ABC):
    pass


class KVConnectorRole(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


class KVConnectorBase_V1(abc.ABC):
    def __init__(self, vllm_config, role, kv_cache_config):
        self._connector_metadata = None
        self._vllm_config = vllm_config
        self._kv_transfer_config = vllm_config.kv_transfer_config
        self._role = role

    def bind_connector_metadata(self, connector_metadata):
        self._connector_metadata = connector_metadata

    def clear_connector_metadata(self):
        self._connector_metadata = None

    def shutdown(self):
        return None


@dataclasses.dataclass
class PendingSave:
    req_id: str
    filename: str
    token_ids: typing.Any
    block_ids: list


@dataclasses.dataclass
class Metadata(KVConnectorMetadata):
    pending_saves: list


def extract_from_kv_cache(kv_cache, slot_mapping, num_tokens):
    block_size = kv_cache.shape[2]
    return kv_cache[slot_mapping // block_size, :, slot_mapping % block_size][:num_tokens]


class ExampleHiddenStatesConnector(KVConnectorBase_V1, SupportsHMA):
    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config, role, kv_cache_config)
        [self._cache_kv_group_id] = [
            number
            for number, group in enumerate(kv_cache_config.kv_cache_groups)
            if isinstance(group.kv_cache_spec, HiddenStateCacheSpec)
        ]
        self._block_size = kv_cache_config.kv_cache_groups[self._cache_kv_group_id].kv_cache_spec.block_size
        self._pending_saves, self._request_filenames = {}, {}
        self._kv_cache, self._is_tp_rank_zero, self.use_lock = None, True, True
        self._req_copy_events, self._accumulated_finished_req_ids = {}, set()

    def register_kv_caches(self, kv_caches):
        self._is_tp_rank_zero = Cell.rank == 0
        [self._kv_cache] = kv_caches.values()

    def wait_for_save(self):
        assert not self.use_lock, "the example writes lock files"

    def _submit_async_write(self, pending):
        raise AssertionError("the example writes files")

    def build_connector_meta(self, scheduler_output):
        pending = list(self._pending_saves.values())
        self._pending_saves.clear()
        self._request_filenames.update(
            (new.req_id, f"/tmp/{new.req_id}") for new in scheduler_output.scheduled_new_reqs
        )
        return Metadata(pending)

    def request_finished(self, request, block_ids):
        import torch

        filename = self._request_filenames.pop(request.request_id, None)
        if filename is None:  # it was aborted before it was scheduled
            return False, None
        with_output = (request.kv_transfer_params or {}).get("include_output_tokens", False)
        tokens = torch.tensor(list(request.all_token_ids)[:-1] if with_output else request.prompt_token_ids)
        self._pending_saves[request.request_id] = PendingSave(request.request_id, filename, tokens, list(block_ids))
        return True, {"hidden_states_path": filename}

    def request_finished_all_groups(self, request, block_ids):
        return self.request_finished(request, block_ids[self._cache_kv_group_id])

    def get_finished(self, finished_req_ids):
        for pending in self._connector_metadata.pending_saves:
            self._submit_async_write(pending)
        self._accumulated_finished_req_ids |= finished_req_ids
        done = set()
        for req_id in list(self._accumulated_finished_req_ids):
            event = self._req_copy_events.get(req_id)
            if event is None or event.query():
                done |= {req_id} if self._req_copy_events.pop(req_id, None) else set()
                self._accumulated_finished_req_ids.discard(req_id)
        return done or None, None


class HiddenStatesTransfer(abc.ABC):
    def setup(self): ...

    @abc.abstractmethod
    def get_cached(self, file_idx): ...

    @abc.abstractmethod
    def get_generated(self, hs_transfer_params): ...

    def delete(self, handle): ...


class HiddenStatesBackend(abc.ABC):
    registry: typing.ClassVar[dict] = {}

    @classmethod
    def register(cls, name):
        return lambda subclass: cls.registry.setdefault(name, subclass)

    @staticmethod
    @abc.abstractmethod
    def add_train_args(parser): ...

    @staticmethod
    @abc.abstractmethod
    def add_launch_args(parser): ...

    @staticmethod
    @abc.abstractmethod
    def from_train_args(args, data_path): ...

    @staticmethod
    @abc.abstractmethod
    def build_kv_transfer_config(args): ...


CONNECTORS = {
    f"{V1}.base": [KVConnectorBase_V1, KVConnectorMetadata, KVConnectorRole, SupportsHMA],
    EXAMPLE: [ExampleHiddenStatesConnector, extract_from_kv_cache],
    "hs_connectors": [HiddenStatesBackend, HiddenStatesTransfer],
}
# What the real connectors import.
NEIGHBOURS = {
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.config": {
        "VllmConfig": object,
        "get_layers_from_vllm_config": lambda config, kind, names: dict.fromkeys(names),
    },
    "vllm.distributed.parallel_state": {"get_tensor_model_parallel_rank": lambda: Cell.rank},
    "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
    "vllm.v1.attention.backend": {"AttentionMetadata": object},
    "vllm.v1.core.sched.output": {"SchedulerOutput": object},
    "vllm.v1.metrics.cache_hit_source": {"CacheHitSource": types.SimpleNamespace(EXTERNAL_UNSPECIFIED=None)},
    "vllm.v1.outputs": {"KVConnectorOutput": object},
    "vllm.v1.kv_cache_interface": {"HiddenStateCacheSpec": HiddenStateCacheSpec},
    "vllm.model_executor.models.extract_hidden_states": {"CacheOnlyAttentionLayer": CacheOnlyAttentionLayer},
}


def _put(name, members):
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(members)
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules.get(parent) or _put(parent, {"__path__": []}), own, module)
    return module


def install():
    for name, members in NEIGHBOURS.items():
        _put(name, members)
    for name, members in CONNECTORS.items():
        if not SOURCE:
            _put(name, {each.__name__: each for each in members})
        elif name.startswith("vllm"):
            path = pathlib.Path(SOURCE, *name.split(".")).with_suffix(".py")
            spec = importlib.util.spec_from_file_location(name, path)
            module = importlib.util.module_from_spec(spec)
            vars(_put(name, {})).update(vars(module))
            spec.loader.exec_module(sys.modules[name])
        else:
            sys.path.append(SOURCE)
