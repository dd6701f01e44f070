"""The server process: DESCRIPTOR of a listening socket, RUN_DIR. Exits when its standard input is closed."""

import os
import sys

# Python puts this folder on the path when it runs it; the package is found from the package's parent.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import pathlib  # noqa: E402
import resource  # noqa: E402
import socket  # noqa: E402
import threading  # noqa: E402

from offramp_launch.watching.address import is_loopback  # noqa: E402
from offramp_launch.watching.server import serve, Server, Source

NICE = 10
STACK_BYTES = 256 << 10  # per client thread
MOST = ((resource.RLIMIT_AS, 1 << 30), (resource.RLIMIT_NOFILE, 256), (resource.RLIMIT_CORE, 0))


def main(descriptor, run_dir):
    os.nice(NICE)
    for what, limit in MOST:
        hard = resource.getrlimit(what)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (limit, limit))
    threading.stack_size(STACK_BYTES)
    listener = socket.socket(fileno=int(descriptor))
    page = (pathlib.Path(__file__).resolve().parent / "page.html").read_text()
    serve(Server(listener, Source(pathlib.Path(run_dir)), page, is_loopback(listener)), sys.stdin.buffer)
    os._exit(0)  # does not wait for clients that are still connected


main(*sys.argv[1:])
