"""Opens the compiled model of a package, in this process."""

import ctypes
import os

import torch


def load(file):
    """The loaded package, which accepts only inputs of the right shapes. Errors: RuntimeError."""
    # Before the first run: otherwise compiled code accepts inputs of any size and reads beyond them.
    os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"
    # A compiler that finds no libstdc++.so links the archive into the model, and the process would use half of each
    # copy. With the process's library in the global scope, as in a C++ program, the model uses that one.
    try:
        ctypes.CDLL("libstdc++.so.6", mode=ctypes.RTLD_GLOBAL)
    except OSError as problem:
        raise RuntimeError(str(problem)) from problem
    return torch._inductor.aoti_load_package(str(file))
