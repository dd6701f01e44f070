"""Contestants that run to their end in each window: they start, measure themselves and print one line of JSON."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

from contest import Window
from contestants import ContestantError, flag_list, python_command, python_environment, sweep_dead_runs
from processes import die_with_parent, kill_group

SHOT_SECONDS = 300


def run_to_end(name, command, environment=None, seconds=None):
    """The command's output. A command that takes too long is killed with its process group."""
    try:
        with tempfile.TemporaryDirectory(prefix="offramp-bench-") as folder:  # for its temporary files
            child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                preexec_fn=die_with_parent,
                env={**os.environ, "TMPDIR": folder, **(environment or {})},
            )
            with child:
                try:
                    output, logged = child.communicate(timeout=seconds or SHOT_SECONDS)
                except BaseException:
                    kill_group(child.pid)
                    raise
        if child.returncode == 0:
            return output
        raise ContestantError(f"{name} ended with {child.returncode}\n{output[-1000:]}{logged[-3000:]}")
    except (OSError, subprocess.TimeoutExpired, ValueError) as problem:
        raise ContestantError(f"{name}: {problem}\n    command: {' '.join(map(str, command))}") from problem


def run_for_json(name, command, environment=None):
    """The last line that the command prints, parsed."""
    output = run_to_end(name, command, environment)
    try:
        return json.loads(output.strip().splitlines()[-1])
    except (ValueError, IndexError) as problem:
        raise ContestantError(f"{name}: {problem}\n    command: {' '.join(map(str, command))}") from problem


def run_python_for_json(name, program, flags):
    return run_for_json(name, [*python_command(program), *flag_list(flags)], python_environment())


class MessageBench:
    """offramp-message-bench: our channels alone. A window is one run; the figures exclude its start."""

    def __init__(self, name, settings, consumers, slabs, bare=False, consumer_flags=None, payload_bytes=4096):
        self.name = name
        self._binaries = pathlib.Path(settings.binaries)
        self._program = self._binaries / "offramp-message-bench"
        self._flags = {"consumers": consumers, "slabs": slabs, "bare": bare, "payload-bytes": payload_bytes}
        self._consumer_flags = consumer_flags or {}

    def start(self):
        if not self._program.exists():
            raise ContestantError(
                f"{self.name}: {self._program} does not exist. Build it: ninja -C {self._binaries.parent} {self._program.name}"
            )

    def wait_until_warm(self, samples):
        pass

    def run_on(self, seconds):
        pass

    def pause(self):
        pass

    def window(self, batch, pace):
        output = self._run(pace.seconds)
        rate = output["slabs_per_second"]
        if rate <= 0:
            raise ContestantError(
                f"{self.name}: no slab was released in {pace.seconds} s, according to {self._program}. Pass a larger --seconds"
            )
        return Window(
            seconds=pace.seconds,
            batches=rate * pace.seconds,
            batches_per_second=rate,
            bytes_per_batch=0,
            producer_cpu_ms_per_batch=output["producer_cpu_us_per_slab"] / 1000,
            readers_cpu_ms_per_batch=output["consumer_cpu_us_per_slab"] / 1000,
            producer_faults_per_batch=0,
            readers_faults_per_batch=0,
            producer_private_mib=0,
            readers_private_mib=0,
            stage="",
        )

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
        try:
            own = flag_list({**self._flags, "seconds": seconds, "latency": latency})
            theirs = ["--", *flag_list(self._consumer_flags)] if self._consumer_flags else []
            return run_for_json(self.name, [self._program, *own, *theirs])
        except BaseException:
            with contextlib.suppress(ContestantError):
                sweep_dead_runs(self._binaries)  # a killed program leaves its memory
            raise
