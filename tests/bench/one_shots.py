"""Contestants that run to their end each time: they start, measure themselves, print one JSON line. They have nothing to be stopped in
between windows."""

import json
import os
import pathlib
import subprocess
import tempfile

from contest import Window
from contestants import ContestantError, flag_list, python_command, python_environment
from processes import die_with_parent

SHOT_SECONDS = 300


def run_for_json(name, command, environment=None):
    """The last line that the command prints, parsed."""
    try:
        with tempfile.TemporaryDirectory(prefix="offramp-bench-") as folder:   # for whatever it leaves
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=SHOT_SECONDS, check=False,
                                  start_new_session=True, preexec_fn=die_with_parent,
                                  env={**os.environ, "TMPDIR": folder, **(environment or {})})
        if done.returncode == 0:
            return json.loads(done.stdout.strip().splitlines()[-1])
        raise ContestantError(f"{name} ended with {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as problem:
        raise ContestantError(f"{name}: {problem}\n    command: {' '.join(map(str, command))}") from problem


def run_python_for_json(name, program, flags):
    return run_for_json(name, [*python_command(program), *flag_list(flags)], python_environment())


class MessageBench:
    """offramp-message-bench: our channels alone. A window is one run of it; its own start is not in its figures."""

    def __init__(self, name, places, consumers, slabs):
        self.name = name
        self._program = pathlib.Path(places.binaries) / "offramp-message-bench"
        self._flags = {"consumers": consumers, "slabs": slabs}

    def start(self):
        if not self._program.exists():
            raise ContestantError(f"{self.name}: {self._program} does not exist; ./launch/offramp bench builds it")

    def wait_until_warm(self, samples):
        pass

    def run_on(self, seconds):
        pass

    def pause(self):
        pass

    def window(self, batch, pace):
        told = self._run(pace.seconds)
        rate = told["slabs_per_second"]
        return Window(seconds=pace.seconds, batches=rate * pace.seconds, batches_per_second=rate, bytes_per_batch=0,
                      producer_cpu_ms_per_batch=told["producer_cpu_us_per_slab"] / 1000,
                      readers_cpu_ms_per_batch=told["consumer_cpu_us_per_slab"] / 1000, producer_faults_per_batch=0,
                      readers_faults_per_batch=0, producer_private_mib=0, readers_private_mib=0, stage="")

    def latency(self, seconds):
        self.start()
        return self._run(seconds, latency=True)["latency"]

    def facts(self):
        return {}

    def end(self):
        pass

    def close(self):
        pass

    def _run(self, seconds, latency=False):
        return run_for_json(self.name, [self._program, *flag_list({**self._flags, "seconds": seconds, "latency": latency})])
