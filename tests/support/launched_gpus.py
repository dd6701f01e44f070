"""Runs with --gpus, on the CPU, that the launch script starts: for tests."""

import json
import os

from tests.support.launched_resume import World


class GpusWorld(World):
    """As a World's, each run with several producers."""

    def __init__(self, *flags, workers=3, shards=None):
        super().__init__(*flags)
        self.workers, self.shards = workers, shards

    def start(self, *flags):
        shards = ("--shards", str(self.shards)) if self.shards else ()
        return super().start("--gpus", str(self.workers), *shards, *flags)

    def told_of(self, name):
        """The status of the named worker; None before the first report."""
        return next((worker for worker in self.status().get("workers") or [] if worker["name"] == name), {})

    def shared_memory(self):
        """Of its shards' runs, which are named after the job."""
        jobs = {config["run-id"].rsplit("-", 2)[0] for config in map(read, self.folder.glob("run-*/s*/config.json")) if config}
        return {name for name in os.listdir("/dev/shm") if any(job in name for job in jobs)}


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
