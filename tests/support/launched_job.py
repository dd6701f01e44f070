"""Jobs that the launch script begins, runs in shards and merges."""

import json
import subprocess

from tests.support.launched_resume import World
from tests.support.launched_run import ROOT


class JobWorld(World):
    """
    One job with its shards and merges, one launcher after another. start() is a plain run into its output. `flags`: for
    its runs.
    """

    def __init__(self, *flags):
        super().__init__(*flags)
        self.job = self.folder / "job"
        self.runs_before = set()

    def init(self, shards, *flags):
        return self.call(
            "job", "init", "--job", self.job, "--shards", shards, "--output", self.output, *self.flags, *flags
        )

    def shard(self, index, *flags):
        """Starts the shard; wait() returns its exit code."""
        return self.begin(
            [*self.through, ROOT / "launch/offramp", "shard", "--job", self.job, "--index", str(index), *flags]
        )

    def begin(self, command, **environment):
        """Starts a command that runs a shard."""
        self.runs_before = self.shard_runs()
        with open(self.folder / "launcher.log", "wb") as log:
            self.launcher = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**self.environment, **environment}
            )
        return self

    def merge(self, *flags):
        return self.call("job", "merge", "--job", self.job, *flags)

    def record(self, index):
        return json.loads((self.job / "done" / f"{index}.json").read_text())

    def job_summary(self):
        return json.loads((self.job / "summary.json").read_text())

    def shard_runs(self):
        return set((self.folder / "build/runs").glob("job-*"))

    def run_of_shard(self):
        """The run directory of the shard that began last."""
        (run,) = self.shard_runs() - self.runs_before
        return run

    def status(self):
        """The status of the last shard's run."""
        try:
            return json.loads((self.run_of_shard() / "status.json").read_text())
        except (OSError, ValueError):
            return {}

    def logs(self):
        log = self.folder / "launcher.log"
        return log.read_text(errors="replace") if log.exists() else ""
