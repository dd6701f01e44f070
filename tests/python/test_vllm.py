"""
offramp.vllm and offramp.speculators with a scheduler and a worker that share a KV cache: what consumers get, and when
blocks become free. Blocks that are free are overwritten.
"""

import argparse
import contextlib
import importlib
import importlib.util
import inspect
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import types
import unittest
import unittest.mock
from types import SimpleNamespace as Fields

import offramp
from loops import results
from world import ROOT, World, needs_numpy, wait_for

import vllm_stubs as stubs

PACKAGES = all(map(importlib.util.find_spec, ("vllm", "transformers", "hs_connectors")))  # before the stubs
if importlib.util.find_spec("torch") and importlib.util.find_spec("safetensors"):
    import torch
    from safetensors.torch import load, load_file

    stubs.install()
    import offramp.speculators
    import offramp.vllm
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
else:
    torch = None

BLOCKS, BLOCK_SIZE, LAYERS, WIDTH, LONGEST = 12, 4, 3, 8, 36
LAYER_IDS = [2, 5, 9]
LENGTHS = [1, 36, 5, 4, 17, 9, 2, 30, 12, 7, 13, 8]  # together more than the cache holds
# Writes a file of each sample's tensors, and prints its key and metadata as a line of JSON.
READER = """
    import json, sys, offramp, safetensors.torch
    for slab in offramp.Consumer(sys.argv[1]):
        for sample in slab.samples:
            tensors = {each.name: slab.torch(each.name)[sample.row].clone() for each in slab.tensors}
            safetensors.torch.save_file(tensors, f"{sys.argv[2]}/{sample.key}")
            print(json.dumps([sample.key, sample.metadata]), flush=True)
"""
# Writes a file of each request's states, once the test has opened its gate. Fails for requests of three tokens.
POST = """
import os, time

def save(slab):
    for sample in slab.samples:
        while os.path.exists(f"{os.environ.get('GATES')}/{sample.key}"):
            time.sleep(0.01)
        states = slab["hidden_states"][sample.row]
        if len(states) == 3:
            raise ValueError("three tokens")
        yield sample, ".bin", states.tobytes()
"""
# engine_states.py with a small cache: LLM() takes most of a CPU's memory otherwise.
RECIPE = """
import functools, runpy, sys
if __name__ == "__main__":
    import vllm
    vllm.LLM = functools.partial(vllm.LLM, max_model_len=256, kv_cache_memory_bytes=64 << 20, enforce_eager=True)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
MODEL = "import sys, vllm_engine; vllm_engine.save_model(sys.argv[1], layers=12)"
LONGER_THAN_VLLM_WAITS = 8  # seconds
UNUSABLE = "def save(slab):\n    raise SystemExit('cannot start')\n"


class Engine:
    """A scheduler and a worker of vLLM, and the KV cache that they share."""

    def __init__(self, options, width=WIDTH, dtype="bfloat16", rank=0):
        groups = [Fields(kv_cache_spec=None), Fields(kv_cache_spec=stubs.HiddenStateCacheSpec(BLOCK_SIZE))]
        config = Fields(
            kv_transfer_config=Fields(
                kv_connector_extra_config=options,
                get_from_extra_config=lambda name, default: options.get(name, default),
                is_kv_producer=True,
            ),
            model_config=Fields(max_model_len=LONGEST),
            parallel_config=Fields(data_parallel_index=0),
            speculative_config=Fields(
                draft_model_config=Fields(hf_config=Fields(eagle_aux_hidden_state_layer_ids=LAYER_IDS))
            ),
        )
        cache_config = Fields(kv_cache_groups=groups)
        self.scheduler, self.worker = (
            offramp.vllm.OfframpHiddenStatesConnector(config, role, kv_cache_config=cache_config)
            for role in (KVConnectorRole.SCHEDULER, KVConnectorRole.WORKER)
        )
        # the layout of vLLM: a token's layers are adjacent in memory
        memory = torch.zeros(BLOCKS, BLOCK_SIZE, LAYERS, width, dtype=getattr(torch, dtype))
        self.cache = memory.transpose(1, 2)
        self.free = list(range(BLOCKS))[::-1]
        self.generator = torch.Generator().manual_seed(7)
        self.held, self.expected = {}, {}
        stubs.Cell.rank = rank
        self.worker.register_kv_caches({"cache_only_layers.9": self.cache})

    def forward(self, number, length, computed=None, **params):
        """Runs a request of one step, and ends it. `computed`: tokens when it was aborted."""
        prompt = torch.randint(32000, (length,), generator=self.generator)
        states = torch.randn(length, LAYERS, self.cache.shape[3], generator=self.generator).to(self.cache.dtype)
        blocks = [self.free.pop() for _ in range(-(-length // BLOCK_SIZE))]
        for token, row in enumerate(states):
            self.cache[blocks[token // BLOCK_SIZE], :, token % BLOCK_SIZE] = row
        request = Fields(
            request_id=f"cmpl-{number}.x",
            prompt_token_ids=prompt.tolist(),
            all_token_ids=[*prompt.tolist(), 5],
            num_computed_tokens=length if computed is None else computed,
            kv_transfer_params=params,
        )
        is_held, given = self.scheduler.request_finished_all_groups(request, ([], blocks))
        assert is_held
        self.held[request.request_id] = blocks
        tokens = slice(request.num_computed_tokens)
        self.expected[given["handle"]] = {"hidden_states": states[tokens], "token_ids": prompt[tokens]}
        return request.request_id, given

    def step(self, new=(), ended=()):
        """Requests begin, the worker does a step, and blocks that it has released become free."""
        metadata = self.scheduler.build_connector_meta(
            Fields(scheduled_new_reqs=[Fields(req_id=f"cmpl-{number}.x", sampling_params=None) for number in new])
        )
        self.worker.bind_connector_metadata(metadata)
        self.worker.wait_for_save()
        sent, _ = self.worker.get_finished(set(ended))
        self.worker.clear_connector_metadata()
        for request_id in sent or ():
            blocks = self.held.pop(request_id)
            self.cache[blocks] = float("nan")  # as by other requests
            self.free += blocks

    def run(self, lengths, first=0, **params):
        for number, length in enumerate(lengths, first):
            self.step(new=[number])
            request_id, _ = self.forward(number, length, **params)
            self.step(ended=[request_id])
            while len(self.free) < BLOCKS // 4:
                self.step()

    def stats(self):
        return self.worker._egress.stats()

    def end(self):
        while self.held:
            self.step()
        self.scheduler.shutdown()
        self.worker.shutdown()


@needs_numpy
@unittest.skipUnless(torch, "skipped: no PyTorch or no safetensors")
class Vllm(World):
    def engine(self, processor="safetensors", consumers=1, width=WIDTH, dtype="float32", **more):
        self.output = self.folder / "out"
        engine = Engine(
            {"output": str(self.output), "processor": processor, "consumers": consumers, **more}, width, dtype
        )
        self.addCleanup(engine.worker.shutdown)
        return engine

    def require_equal(self, engine, made):
        self.assertEqual(set(engine.expected), set(made))
        for key, tensors in engine.expected.items():
            for name, tensor in tensors.items():
                self.assertEqual((tensor.dtype, tensor.shape), (made[key][name].dtype, made[key][name].shape))
                self.assertTrue(torch.equal(tensor, made[key][name]), f"{name} of {key}")

    def post(self, text, name="post.py"):
        (self.folder / name).write_text(text)
        return f"{self.folder / name}:save"

    def test_states_of_requests_of_every_length_arrive(self):
        engine = self.engine(consumers=2, dtype="bfloat16")
        engine.run(LENGTHS)
        engine.run(LENGTHS, first=100, include_output_tokens=True)
        engine.end()
        self.assertEqual(BLOCKS, len(set(engine.free)))
        files = results(self.output)
        self.assertEqual("cmpl-0_x.safetensors", min(files))
        self.require_equal(engine, {name.partition(".")[0]: load(data) for name, data in files.items()})
        self.assertIn(
            json.dumps({"layers": LAYER_IDS}).replace(" ", "").replace('"', '\\"').encode(), files[min(files)]
        )

    def test_consumers_of_your_own_get_key_states_and_layers(self):
        """Aborted requests have the states that were computed."""
        reader = self.python(READER, self.run_dir, self.folder)
        engine = Engine({"run_dir": str(self.run_dir)})
        engine.run(LENGTHS)
        for number, computed in enumerate((0, 3, 8), 50):
            engine.step(new=[number])
            request_id, given = engine.forward(number, 11, computed)
            self.assertEqual({"handle": f"cmpl-{number}_x", "output": None}, given)
            engine.step(ended=[request_id])
        engine.end()
        seen = dict(map(json.loads, self.end(reader).splitlines()))
        self.assertEqual(dict.fromkeys(engine.expected, {"layers": LAYER_IDS}), seen)
        self.require_equal(engine, {key: load_file(self.folder / key) for key in seen})

    def test_full_slabs_bound_what_waits_and_a_killed_consumer_loses_nothing(self):
        gates = self.folder / "gates"
        gates.mkdir()
        os.environ["GATES"] = str(gates)
        self.addCleanup(os.environ.pop, "GATES")

        def open_gates():
            for gate in gates.iterdir():
                gate.unlink()

        for number in range(len(LENGTHS)):
            (gates / f"cmpl-{number}_x").touch()
        engine = self.engine(
            self.post(POST),
            consumers=2,
            width=24 << 10,
            slabs=4,
            samples_per_slab=1,
            slab_bytes="16MiB",
            run_dir=str(self.run_dir),
        )
        self.addCleanup(open_gates)
        engine_thread = threading.Thread(target=engine.run, args=(LENGTHS,))
        engine_thread.start()
        status = self.run_dir / "status.json"

        def holders():
            with contextlib.suppress(OSError, ValueError):
                return [each["pid"] for each in json.loads(status.read_text())["consumers"]]
            return []

        wait_for(lambda: engine.stats().samples_published >= 4, "that all slabs are full")
        [victim, *_] = wait_for(holders, "that status.json lists the consumers")
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: victim not in holders(), "its death")
        self.assertLess(engine.stats().samples_submitted, len(LENGTHS))
        open_gates()
        engine_thread.join()
        engine.end()
        made = {name: data for name, data in results(self.output).items() if name.endswith(".bin")}
        self.assertEqual(
            {f"{key}.bin": tensors["hidden_states"].numpy().tobytes() for key, tensors in engine.expected.items()},
            made,
        )

    def test_failures_of_consumers_are_logged_and_the_engine_continues(self):
        engine = self.engine(self.post(POST), max_failures=1)
        with self.assertLogs("vllm.offramp", "ERROR") as log:
            engine.run([3, 6])
            wait_for(lambda: engine.stats().samples_dead_lettered, "a dead letter")
            engine.run([7], first=2)
            engine.end()
        self.assertRegex(
            "\n".join(log.output),
            r"Consumers failed, and requests became dead letters: /.*/launch/offramp dead-letters list.*\n"
            r"(.*\n)*.*Consumers failed: .*three tokens",
        )
        self.assertEqual({"cmpl-1_x.bin", "cmpl-2_x.bin"}, set(results(self.output)))

    def test_without_consumers_requests_are_logged_and_their_blocks_released(self):
        engine = self.engine(self.post(UNUSABLE))
        with self.assertLogs("vllm.offramp", "ERROR") as log:
            for number in itertools.count():
                engine.run([5], first=number)
                if any("are lost" in line for line in log.output):
                    break
            engine.end()
        self.assertRegex("\n".join(log.output), r"hidden states of request cmpl-\d+\.x are lost: .*cannot start")
        self.assertEqual(BLOCKS, len(set(engine.free)))

    def test_a_request_that_no_slab_holds_is_logged(self):
        engine = self.engine(slab_bytes="1MiB", max_key_bytes=8)
        with self.assertLogs("vllm.offramp", "ERROR") as log:
            engine.run([4], first=100)
            engine.run([4], first=1)
            engine.end()
        self.assertEqual(1, len(log.output), log.output)
        self.assertIn("The hidden states of request cmpl-100.x are lost", log.output[0])
        self.assertEqual({"cmpl-1_x.safetensors"}, set(results(self.output)))

    def test_other_ranks_of_tensor_parallelism_submit_nothing(self):
        engine = Engine({"run_dir": str(self.run_dir)}, rank=1)
        self.assertIsNone(engine.worker._egress)
        engine.step(new=[0])
        request_id, _ = engine.forward(0, 9)
        engine.step(ended=[request_id])
        self.assertEqual([request_id], list(engine.held))
        engine.worker.shutdown()

    def test_folders_and_keys(self):
        given = {"output": "/data/out", "slabs": 3}
        self.assertEqual(given, offramp.vllm.options_for(given, 0))
        self.assertEqual({"output": "/data/out-2", "slabs": 3}, offramp.vllm.options_for(given, 2))
        self.assertEqual({"run_dir": os.path.abspath("run")}, offramp.vllm.options_for({"run_dir": "run"}, 0))
        self.assertEqual({"output": "s3://b/out-1"}, offramp.vllm.options_for({"output": "s3://b/out"}, 1))
        self.assertEqual("cmpl-a__b___1-c0ffee", offramp.vllm.key_of("cmpl-a/.b\0é.1-c0ffee"))
        keys = {offramp.vllm.key_of(f"{child}_{'x' * 900}") for child in range(3)}
        self.assertEqual([200] * 3, [len(key) for key in keys])

    def test_another_connector_of_vllm_is_refused(self):
        other = types.ModuleType("other")
        other.ExampleHiddenStatesConnector, other.extract_from_kv_cache = type("Other", (), {}), None
        source = importlib.util.spec_from_file_location("offramp.vllm_again", offramp.vllm.__file__)
        with unittest.mock.patch.dict(sys.modules, {stubs.EXAMPLE: other}):
            with self.assertRaisesRegex(ImportError, r"tested with vLLM 0\.33\.0"):
                source.loader.exec_module(importlib.util.module_from_spec(source))


@needs_numpy
@unittest.skipUnless(torch, "skipped: no PyTorch or no safetensors")
class Speculators(World):
    def arguments(self, add, *words):
        parser = argparse.ArgumentParser()
        add(parser)
        return parser.parse_args(words)

    def test_a_trainer_gets_each_request_and_removes_it(self):
        from hs_connectors import HiddenStatesBackend

        backend = HiddenStatesBackend.registry["offramp"]
        output = self.folder / "out"
        launch = self.arguments(
            backend.add_launch_args, "--offramp-output", os.path.relpath(output), "--offramp-consumers", "1"
        )
        # A second server renames the folder of the first once its consumers start. As in vLLM, its handles are others.
        for first in (0, 100):
            config = json.loads(json.dumps(backend.build_kv_transfer_config(launch)))
            self.assertEqual("offramp.vllm", config["kv_connector_module_path"])
            self.assertIs(getattr(offramp.vllm, config["kv_connector"]), offramp.vllm.OfframpHiddenStatesConnector)
            engine = Engine(config["kv_connector_extra_config"])
            self.addCleanup(engine.worker.shutdown)
            transfer = backend.from_train_args(self.arguments(backend.add_train_args), "")
            transfer.setup()
            self.assertIsNone(transfer.get_cached(0))
            for number, length in enumerate(LENGTHS, first):
                engine.step(new=[number])
                request_id, given = engine.forward(number, length)
                engine.step(ended=[request_id])
                engine.step()
                made = transfer.get_generated(json.loads(json.dumps(given)))
                for name, tensor in engine.expected[given["handle"]].items():
                    self.assertTrue(torch.equal(tensor, made[name]))
                if number != first:
                    transfer.delete(given["handle"])
            self.assertEqual({f"cmpl-{first}_x.safetensors"}, set(results(output)))
            engine.end()
        [before] = self.folder.glob("out.before-*")
        self.assertEqual({"hidden_states", "token_ids"}, set(load_file(before / "cmpl-0_x.safetensors")))

    def test_a_file_that_does_not_appear_is_an_error(self):
        from hs_connectors import HiddenStatesBackend

        backend = HiddenStatesBackend.registry["offramp"]
        given = self.arguments(
            backend.add_train_args, "--offramp-output", str(self.folder), "--offramp-timeout", "0.01"
        )
        transfer = backend.from_train_args(given, "")
        with self.assertRaisesRegex(TimeoutError, r"k\.safetensors did not appear within 0\.01 s"):
            transfer.get_generated({"handle": "k", "output": "/elsewhere"})
        transfer.delete("k")


@unittest.skipUnless(torch and PACKAGES, "skipped: no vLLM, Transformers or hs-connectors")
class RealEngine(World):
    """vLLM's own engine, in other processes: this one has the stubs."""

    def run_python(self, *words):
        tests = str(ROOT / "tests" / "python")
        paths = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), tests])
        with open(self.folder / "log", "a+") as log:
            done = subprocess.run(
                [sys.executable, *map(str, words)],
                env={**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=400,
            )
            log.seek(0)
            self.assertEqual(0, done.returncode, log.read())
        return done.stdout

    def test_states_equal_those_of_transformers(self):
        """Chunked prefill, shared prefixes, preemption, output tokens, an aborted request and a trainer."""
        self.run_python(ROOT / "tests" / "python" / "vllm_engine.py", self.folder)
        seen = json.loads((self.folder / "seen.json").read_text())
        self.assertTrue(seen["preempted"] and seen["cached"], seen)
        made = {name.partition(".")[0]: load(data) for name, data in results(self.folder / "out").items()}
        self.assertNotIn(seen["read"], made)
        made[seen["read"]] = load_file(self.folder / "read.safetensors")
        expected = {path.stem: load_file(path) for path in (self.folder / "expected").iterdir()}
        [aborted] = set(made) - set(expected)
        computed = len(made[aborted]["token_ids"])
        whole = load_file(self.folder / "aborted.safetensors")
        self.assertTrue(0 < computed < len(whole["token_ids"]), computed)
        expected[aborted] = {name: tensor[:computed] for name, tensor in whole.items()}
        self.assertEqual(set(expected), set(made))
        for key, tensors in expected.items():
            with self.subTest(key):
                self.assertEqual({"hidden_states", "token_ids"}, set(made[key]))
                self.assertTrue(torch.equal(tensors["token_ids"], made[key]["token_ids"]))
                scale = tensors["hidden_states"].abs().max().item()
                torch.testing.assert_close(
                    made[key]["hidden_states"], tensors["hidden_states"], rtol=0, atol=1e-4 * scale
                )

    def test_the_recipe_waits_for_slow_consumers(self):
        source = (ROOT / "tests" / "examples" / "programs" / "engine_states.py").read_text()
        program = self.folder / "engine_states.py"
        program.write_text(
            source.replace(
                "def save(slab):\n", f"def save(slab):\n    __import__('time').sleep({LONGER_THAN_VLLM_WAITS})\n"
            )
        )
        self.assertNotEqual(source, program.read_text())
        (self.folder / "prompts.txt").write_text("w1 w2 w3\nw4\n" + "w5 " * 200)
        (self.folder / "recipe.py").write_text(RECIPE)
        self.run_python("-c", MODEL, self.folder / "model")
        output = self.folder / "out"
        lines = self.run_python(
            self.folder / "recipe.py", program, self.folder / "model", self.folder / "prompts.txt", output
        )
        handles = re.findall(r"^(\S+) w[145] ?", lines, re.MULTILINE)  # vLLM's log is there too
        self.assertEqual(3, len(handles), lines)
        self.assertEqual({f"{handle}.npy" for handle in handles}, set(results(output)))


@unittest.skipUnless(torch and stubs.SOURCE, "skipped: no sources of vLLM (OFFRAMP_TEST_VLLM_SOURCE)")
class Stubs(unittest.TestCase):
    def test_stubs_have_the_signatures_of_the_sources(self):
        for name, members in stubs.CONNECTORS.items():
            module = importlib.import_module(name)
            for stub in members:
                real = getattr(module, stub.__name__)
                pairs = (
                    [("", stub, real)]
                    if inspect.isfunction(stub)
                    else [
                        (own, getattr(stub, own), getattr(real, own))
                        for own, each in vars(stub).items()
                        if callable(each) or isinstance(each, (staticmethod, classmethod))
                        if own == "__init__" or not own.startswith("__")
                    ]
                )
                for own, ours, theirs in pairs:
                    if not inspect.isclass(ours):
                        with self.subTest(f"{stub.__name__}.{own}"):
                            self.assertEqual(
                                list(inspect.signature(theirs).parameters), list(inspect.signature(ours).parameters)
                            )
