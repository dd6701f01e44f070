"""Opens the compiled model of a package, in this process."""

import ctypes
import os

import torch


def load(file):
    """What aoti_load_package gives, for inputs of the right shapes only. Errors: RuntimeError."""
    # Before the first run: otherwise compiled code takes inputs of any size and reads beyond them.
    os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"
    # A compiler that finds no libstdc++.so links its archive into the model, and half of each copy would be used. With the process's own in the
    # global scope, as in a C++ program, the model takes that one.
    try:
        ctypes.CDLL("libstdc++.so.6", mode=ctypes.RTLD_GLOBAL)
    except OSError as problem:
        raise RuntimeError(str(problem)) from problem
    return torch._inductor.aoti_load_package(str(file))
