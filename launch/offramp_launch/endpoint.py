"""The file in a run directory that names the run's endpoint: common/transport/endpoint.hpp."""

import pathlib

from offramp_launch.run_dir import ENDPOINT

NEEDED = ("run_id", "nonce", "producer_pid")


def read_endpoint(run_dir):
    """Its values by key, as text; empty where the file is missing or incomplete."""
    try:
        lines = pathlib.Path(run_dir, ENDPOINT).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return values if all(values.get(key) for key in NEEDED) and values["producer_pid"].isdigit() else {}
