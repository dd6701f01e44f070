"""The file in a run directory that says where the run is met: common/transport/endpoint.hpp."""

import pathlib

FILE = "endpoint"
NEEDED = ("run_id", "nonce", "producer_pid")


def read_endpoint(run_dir):
    """What it says, by key, as text; nothing where there is none that says all of it."""
    try:
        lines = pathlib.Path(run_dir, FILE).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    said = dict(line.split("=", 1) for line in lines if "=" in line)
    return said if all(said.get(key) for key in NEEDED) and said["producer_pid"].isdigit() else {}
