"""
A loop like those of diffusers: several steps turn noise into pictures. Each batch is copied while the next one is
computed.
"""

import sys

import offramp
import torch

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
denoise = torch.nn.Conv2d(4, 4, 3, padding=1).to(device).eval()  # instead of a UNet
# instead of a VAE
decode = torch.nn.Sequential(torch.nn.Upsample(scale_factor=8), torch.nn.Conv2d(4, 3, 1)).to(device).eval()

with offramp.Egress(sys.argv[1], name="diffusion") as egress:
    for prompt in range(5):
        latents = torch.randn((4, 4, 8, 8), device=device)
        with torch.inference_mode():
            for step in range(20):
                latents = latents - 0.1 * denoise(latents)
            pictures = ((decode(latents).tanh() + 1) * 127.5).round().to(torch.uint8)  # (4, 3, 64, 64)
        egress.submit({"pictures": pictures}, [f"prompt-{prompt}-{variant}" for variant in range(4)])
