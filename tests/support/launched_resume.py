"""Launched runs that are killed with all their processes and resumed: for tests and for system/resume_cycles.py."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

from tests.support.compiled import build_folder
from tests.support.database_rows import comparable
from tests.support.launched_run import ROOT, Launched
from tests.support.marked_processes import processes_marked
from tests.support.real_run import OWN

WATCHDOG_SECONDS = 120
# Marks the processes of a world, which inherit this variable.
MARK = "OFFRAMP_TEST_WORLD"


class World(Launched):
    """One output folder and the runs into it, one after another. Use as a context, whose end kills live processes."""

    def __init__(self, *flags, output=None):
        self.mark = uuid.uuid4().hex
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-resume-", dir="/tmp"))
        self.output = output or self.folder / "output"
        self.flags = flags
        self.runs = 0
        self.launcher = None
        self.environment = {
            **os.environ,
            MARK: self.mark,
            "OFFRAMP_BIN_DIR": os.environ["OFFRAMP_TEST_BIN"],
            "OFFRAMP_SKIP_PACKAGES": "1",
            "OFFRAMP_BUILD_DIR": build_folder(self.folder),
            "OFFRAMP_TEST_RUNS": str(self.folder / "runs"),
            "OFFRAMP_LOG_LEVEL": "info",
        }

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.kill_everything()
        shutil.rmtree(self.folder, ignore_errors=True)

    run_dir = property(lambda self: self.folder / f"run-{self.runs}")

    def start(self, *flags):
        """
        Each run has its own run directory and id, as for a user. "{output}" in a flag is the world's output folder.
        """
        if self.runs:
            shutil.rmtree(self.run_dir, ignore_errors=True)
        self.runs += 1
        return self.launch(*(flag.replace("{output}", str(self.output)) for flag in (*self.flags, *flags)))

    def break_off(self, *flags, samples=1, slabs=None):
        """
        Starts a run and kills all of it after at least `samples` samples. Returns the number of processes. `slabs`: the
        slabs that hold these samples, by default one per sample.
        """
        with self.gate() as gate:
            self.start(*flags)
            gate.let(slabs or samples)  # fewer than there are, otherwise the run may end first
            self.until(lambda: self.status().get("done_samples", 0) >= samples, f"{samples} samples done")
            return self.kill_everything()

    def call(self, *words, cwd=None):
        """(exit code, output)"""
        done = subprocess.run(
            [ROOT / "launch/offramp", *map(str, words)],
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=WATCHDOG_SECONDS,
            check=False,
            cwd=cwd,
        )
        return done.returncode, done.stdout + done.stderr

    def run_id(self):
        return f"test-{self.mark[:12]}-{self.runs}"

    def wait(self):
        return self.launcher.wait(WATCHDOG_SECONDS)

    def _patience(self):
        return time.monotonic() + WATCHDOG_SECONDS

    def processes(self):
        """Every living process of this world."""
        return processes_marked(MARK, self.mark)

    def kill_everything(self, order=sorted):
        """Kills all processes in this order and waits until none is left. Returns their number."""
        deadline = time.monotonic() + WATCHDOG_SECONDS
        found = set()
        while pids := self.processes():
            assert time.monotonic() < deadline, f"{pids} do not die"
            found |= set(pids)
            for pid in order(pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.launcher:
                self.launcher.poll()
        if self.launcher:
            self.launcher.wait(WATCHDOG_SECONDS)
        return len(found)

    def shared_memory(self):
        return {name for name in os.listdir("/dev/shm") if f"test-{self.mark[:12]}-" in name}

    def results(self, folder=None):
        """Results for comparison by relative name, with leftovers of Offramp except checkpoint and lock."""
        folder = folder or self.output
        return {
            str(path.relative_to(folder)): comparable(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in OWN
        }
