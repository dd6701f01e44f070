"""
`offramp-consumer --processor post.py:save` executes this module, in the interpreter that --consumer-python names. The
consumer runs in the library libofframp_worker.so and calls the user's function for each slab. Do not start this module
by hand.
"""

from __future__ import annotations

import sys
from os.path import dirname, join

if __name__ == "__main__":
    del sys.path[0]  # the package's own folder

if sys.version_info < (3, 9):
    print(
        f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}. Give one of 3.9 or later with --consumer-python",
        file=sys.stderr,
    )
    sys.exit(64)

import atexit
import ctypes
import importlib.util
import io
import os
import signal

LIBRARY = "OFFRAMP_WORKER_LIBRARY"


def import_package() -> None:
    """
    Imports this file's package as `offramp`, without adding its parent folder to sys.path: other packages there may be
    for another interpreter.
    """
    folder = dirname(__file__)
    spec = importlib.util.spec_from_file_location(
        "offramp", join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["offramp"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    import_package()

from offramp import _host


def main(argv: list[str]) -> int:
    path = os.environ.pop(LIBRARY, "")  # the consumer would read it as a setting
    if not path:
        print(
            f"offramp.worker: {LIBRARY} is not set. Start offramp-consumer --processor FILE.py:FUNCTION, which starts this module",
            file=sys.stderr,
        )
        return 64
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that the log is complete if this process is killed
    worker = ctypes.CDLL(path)
    worker.offramp_worker_main.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p]
    command = [b"offramp-consumer", *map(os.fsencode, argv)]
    table = _host.table()
    # The consumer blocks signals and reads them. Forked children unblock them: multiprocessing ends its pools with
    # SIGTERM.
    os.register_at_fork(after_in_child=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, []))
    return int(
        worker.offramp_worker_main(len(command), (ctypes.c_char_p * (len(command) + 1))(*command), ctypes.byref(table))
    )


if __name__ == "__main__":
    code = main(sys.argv[1:])
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without waiting for the user's threads
