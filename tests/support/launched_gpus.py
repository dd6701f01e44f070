"""Runs with --gpus, started by the launch script: of three producers on the CPU, of one on a GPU."""

import json
import os
import re

from tests.support.device import ON_GPU
from tests.support.launched_resume import World


class GpusWorld(World):
    """A World whose runs have several producers."""

    def __init__(self, *flags, workers=1 if ON_GPU else 3, shards=None):
        super().__init__(*flags)
        self.workers, self.shards = workers, shards

    def start(self, *flags):
        shards = ("--shards", str(self.shards)) if self.shards else ()
        return super().start("--gpus", str(self.workers), *shards, *flags)

    def status_of(self, name):
        """The status of the named worker; None before the first report."""
        return next((worker for worker in self.status().get("workers") or [] if worker["name"] == name), {})

    def shared_memory(self):
        """Names in /dev/shm of its shards' runs, which contain the job's name."""
        named = [
            re.search('run-id = "(.*)-.*-.*"', path.read_text()) for path in self.folder.glob("run-*/s*/config.toml")
        ]
        jobs = {found[1] for found in named if found}
        return {name for name in os.listdir("/dev/shm") if any(job in name for job in jobs)}


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
