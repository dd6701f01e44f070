"""
Hidden states of a transformer without padding, in safetensors shards: states.py MODEL PROMPTS OUTPUT. PROMPTS has one
prompt per line.
"""

import sys

import safetensors.torch


def save(slab):
    """One shard per slab, named after its first sample. NumPy has no bfloat16, so it reads the slab with PyTorch."""
    shard = {
        f"{sample.key}.{tensor.name}": slab.torch(tensor.name)[sample.row]
        for sample in slab.samples
        for tensor in slab.tensors
    }
    if shard:
        yield slab.samples[0], ".safetensors", safetensors.torch.save(shard)


if __name__ == "__main__":
    import offramp
    import torch
    from transformers import AutoModel, AutoTokenizer

    name, prompts, output = sys.argv[1:]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(name, padding_side="right")
    model = AutoModel.from_pretrained(name).to(device, torch.bfloat16).eval()
    batches = torch.utils.data.DataLoader(open(prompts).read().splitlines(), batch_size=8)
    with offramp.Egress(output=output, processor=f"{__file__}:save") as egress:
        for number, texts in enumerate(batches):
            tokens = tokenizer(texts, padding=True, return_tensors="pt")
            lengths = tokens.attention_mask.sum(1).tolist()  # on the CPU, so nothing waits for the GPU
            with torch.inference_mode():
                hidden = model(**tokens.to(device)).last_hidden_state  # (prompts, longest, width)
            tensors = {"hidden": hidden, "tokens": tokens.input_ids}
            lists = {name: [row[:end] for row, end in zip(tensors[name], lengths)] for name in tensors}
            egress.submit(lists, [f"prompt-{8 * number + row}" for row in range(len(texts))])
