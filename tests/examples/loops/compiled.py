"""
A network under torch.compile. With mode="reduce-overhead" on a GPU, each call overwrites the outputs of the previous
one, so pass copy=True.
"""

import sys

import offramp
import torch

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
compiled = torch.compile(network, mode="reduce-overhead")

with offramp.Egress(sys.argv[1], name="compiled") as egress:
    for number in range(8):
        inputs = torch.full((4, 16), float(number))
        with torch.inference_mode():
            outputs = compiled(inputs)
        egress.submit({"outputs": outputs}, [f"{number}-{row}" for row in range(4)], copy=True)
