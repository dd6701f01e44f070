"""Mean hidden states of prompts, from vLLM: engine_states.py MODEL PROMPTS OUTPUT. PROMPTS has one prompt per line."""

import os
import sys


def save(slab):
    for sample in slab.samples:
        states = slab.torch("hidden_states")[sample.row]  # bfloat16: (tokens, layers, width)
        yield sample, ".npy", states.float().mean(0).numpy()


if __name__ == "__main__":
    os.environ.setdefault("VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS", "600")
    from vllm import LLM, SamplingParams

    name, prompts, output = sys.argv[1:]
    layers = {"hf_config": {"eagle_aux_hidden_state_layer_ids": [2, 5, 9]}}
    speculative = {"method": "extract_hidden_states", "num_speculative_tokens": 1, "draft_model_config": layers}
    connector = {
        "kv_connector": "OfframpHiddenStatesConnector",
        "kv_connector_module_path": "offramp.vllm",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"output": output, "processor": f"{__file__}:save"},
    }
    llm = LLM(name, speculative_config=speculative, kv_transfer_config=connector)
    for answer in llm.generate(open(prompts).read().splitlines(), SamplingParams(max_tokens=1)):
        print(answer.kv_transfer_params["handle"], answer.prompt[:60])
    llm.llm_engine.engine_core.shutdown(timeout=600)  # waits for consumers
