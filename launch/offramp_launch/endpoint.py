"""The file in a run directory that names the run's endpoint: common/transport/endpoint.hpp."""

import pathlib

from offramp_launch.run_dir import ENDPOINT

NEEDED = ("run_id", "nonce", "producer_pid")


def values_in(file):
    """The values in an endpoint's file by key, as text; empty where it is missing."""
    try:
        lines = pathlib.Path(file).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def read_endpoint(run_dir):
    """As values_in(); empty where the file is incomplete."""
    values = values_in(pathlib.Path(run_dir, ENDPOINT))
    return values if all(values.get(key) for key in NEEDED) and values["producer_pid"].isdigit() else {}
