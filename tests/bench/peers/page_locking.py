"""Page-locks existing memory."""

import torch


def page_lock(address, size):
    """cudaHostRegister with default flags."""
    code = int(torch.cuda.cudart().cudaHostRegister(address, size, 0))
    if code != 0:
        raise RuntimeError(f"cudaHostRegister of {size} bytes failed with {code}")
