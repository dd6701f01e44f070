"""The process of the server: DESCRIPTOR, of a socket that listens, and RUN_DIR. It ends with its standard input, whose other end the launcher holds."""

import os
import sys

# Run as a folder: the parent of the package, not the folder itself, is where that is found.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import pathlib  # noqa: E402
import resource  # noqa: E402
import socket  # noqa: E402
import threading  # noqa: E402

from offramp_launch.watching.address import is_loopback  # noqa: E402
from offramp_launch.watching.server import Server, serve  # noqa: E402
from offramp_launch.watching.source import Source  # noqa: E402

NICE = 10
STACK_BYTES = 256 << 10     # of a thread, of which there is one for each client
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
    os._exit(0)     # whoever is still connected is not waited for


main(*sys.argv[1:])
