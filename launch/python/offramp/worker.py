"""
`offramp-consumer --processor post.py:save` goes on as this module, in the interpreter that --consumer-python names: the consumer itself is a
library here (libofframp_worker.so), and calls the user's function with one slab after another. Nobody starts it by hand.
"""

from __future__ import annotations

import sys
from os.path import dirname

if __name__ == "__main__":
    sys.path[0] = dirname(dirname(__file__))    # of the package, not of what is in it

if sys.version_info < (3, 9):
    print(f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}. Give one of 3.9 or later with --consumer-python", file=sys.stderr)
    sys.exit(64)

import atexit
import ctypes
import io
import os
import signal

from offramp import _host

LIBRARY = "OFFRAMP_WORKER_LIBRARY"


def main(argv: list[str]) -> int:
    path = os.environ.pop(LIBRARY, "")      # it would be taken for a setting
    if not path:
        print(f"offramp.worker: {LIBRARY} is not set. Start offramp-consumer --processor FILE.py:FUNCTION: it starts this", file=sys.stderr)
        return 64
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)     # what is printed stands in the log, also of one that is killed
    worker = ctypes.CDLL(path)
    worker.offramp_worker_main.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p]
    words = [b"offramp-consumer", *map(os.fsencode, argv)]
    table = _host.table()
    # The consumer blocks signals, and reads them. What the user's code forks takes them: multiprocessing ends its pools by SIGTERM.
    os.register_at_fork(after_in_child=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, []))
    return int(worker.offramp_worker_main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words), ctypes.byref(table)))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)      # threads of the user's keep nobody waiting, and what is to be closed is closed
