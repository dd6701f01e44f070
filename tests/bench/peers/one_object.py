#!/usr/bin/env python3
"""The pool as one object: reserved, mapped and registered with CUDA as a whole. Prints one line of JSON."""

import argparse
import json
import mmap
import os
import time

import torch
from page_locking import page_lock


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, required=True)
    options = parser.parse_args()
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.synchronize()  # excludes CUDA's start
    name = f"/dev/shm/offramp-bench-one-object-{os.getpid()}"
    began = time.monotonic()
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(name)
    os.posix_fallocate(descriptor, 0, options.bytes)
    memory = torch.frombuffer(mmap.mmap(descriptor, options.bytes), dtype=torch.uint8)
    if gpu:
        page_lock(memory.data_ptr(), options.bytes)
    else:
        memory[:: mmap.PAGESIZE] = 1
    print(json.dumps({"all_slabs_seconds": time.monotonic() - began, "page_locked": gpu}))


if __name__ == "__main__":
    main()
