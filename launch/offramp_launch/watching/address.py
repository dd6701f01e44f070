"""The address of the HTTP server: the flag --http, and the listening socket."""

import ipaddress
import os
import socket

from offramp_launch.arguments import take_values
from offramp_launch.exit_code import UsageError

FLAG, VARIABLE = "--http", "OFFRAMP_HTTP"
WAITING_CLIENTS = 128
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
EXAMPLES = "Give an address such as 127.0.0.1:9464, [::1]:9464, or 127.0.0.1:0 for any free port"


def take(argv):
    """
    Splits argv into ((host, port), or None without --http; the rest). Removes the variable from the environment, so
    that programs of this command do not inherit it. Errors: LaunchError (USAGE).
    """
    given, rest = take_values(argv, (FLAG,))
    text = given.get(FLAG, os.environ.pop(VARIABLE, ""))
    return (parsed(text) if text or FLAG in given else None), rest


def parsed(text):
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and host and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536) or (
        ":" in host and f"[{host}]" not in text
    ):
        raise UsageError(f"{FLAG} is '{text}', which is not HOST:PORT", EXAMPLES)
    if not is_numeric(numeric(host)):
        raise UsageError(
            f"{FLAG} is '{text}', and '{host}' is neither a numeric address nor localhost: a run does not wait for a name lookup",
            f"{EXAMPLES}; 0.0.0.0:9464 for all addresses of this machine",
        )
    return host, int(port)


def numeric(host):
    return "127.0.0.1" if host.lower() == "localhost" else host


def is_numeric(host):
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return host.isascii()


def listen(address):
    """The listening socket, without a name lookup. Errors: OSError if the address is taken, or not this machine's."""
    host, port = address
    found = socket.getaddrinfo(
        numeric(host).encode(), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    )
    family, kind, protocol, _, where = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(WAITING_CLIENTS)
    except OSError:
        listener.close()
        raise
    return listener


def is_loopback(listener):
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def is_any(listener):
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_unspecified


def spelled(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def names_this_machine(host_header, bound_to):
    """Whether the Host header names this machine, unlike a foreign name that resolves to it (DNS rebinding)."""
    host = host_header.strip().lower()
    name, colon, port = host.rpartition(":")
    if not (colon and port.isdigit()):
        name = host
    name = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return name in (*LOOPBACK_NAMES, bound_to)
