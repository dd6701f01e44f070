"""Runs launch/offramp on a build's programs, as a user would, with a watchdog."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tests.support.compiled import build_folder
from tests.support.gate import Gate
from tests.support.marked_processes import processes_marked

ROOT = pathlib.Path(__file__).resolve().parents[2]
WATCHDOG_SECONDS = 240


def find_packages_of_launch(case):
    """Makes the launch script's packages importable until the test `case` ends."""
    sys.path.insert(0, str(ROOT / "launch"))
    case.addCleanup(sys.path.remove, str(ROOT / "launch"))


def programs_with_faulty_consumer(folder):
    """A folder of programs in `folder` with the faulty consumer."""
    built = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).absolute()
    programs = pathlib.Path(folder, "programs")
    programs.mkdir(exist_ok=True)
    for name, program in (
        ("offramp-producer", "offramp-producer"),
        ("offramp-ladder", "offramp-ladder"),
        ("offramp-consumer", "tests/offramp-consumer-faulty"),
    ):
        if not (programs / name).is_symlink():
            (programs / name).symlink_to(built / program)
    return programs


class Launched:
    """
    Starts and observes runs of the launch script. A subclass has `folder`, `run_dir`, `output`, `environment`,
    `launcher`, run_id() and _patience().
    """

    through = ()  # a command that executes the launcher, such as prlimit with its flags

    @contextlib.contextmanager
    def gate(self):
        """Yields a gate; consumers of runs that start within the context wait there in each slab."""
        before = self.environment
        with Gate(self.folder) as gate:
            self.environment = {
                **before,
                **gate.environment,
                "OFFRAMP_BIN_DIR": str(programs_with_faulty_consumer(self.folder)),
            }
            yield gate
            self.environment = before

    def until(self, holds, what):
        """Returns the first true value of `holds`; fails when the watchdog's time is up or the launcher has ended."""
        deadline = self._patience()
        while time.monotonic() < deadline:
            ended = self.launcher.poll() is not None
            value = holds()
            if value:
                return value
            if ended:
                break
            time.sleep(0.005)
        raise AssertionError(f"never seen: {what}\n{self.logs()}")

    def interrupt_behind(self, gate, slabs, samples):
        """
        Lets `slabs` slabs through the gate, interrupts the run after `samples` samples, and opens the gate when the run
        drains.
        """
        gate.let(slabs)
        self.until(lambda: self.status().get("done_samples", 0) >= samples, f"{samples} samples done")
        self.launcher.send_signal(signal.SIGINT)
        self.until(lambda: self.status().get("state") == "draining", "the signal taken")
        gate.open()

    def launch(self, *flags):
        folders = ("--run-dir", str(self.run_dir), "--run-id", self.run_id(), "--output", str(self.output))
        with open(self.folder / "launcher.log", "wb") as log:
            self.launcher = subprocess.Popen(
                [*self.through, str(ROOT / "launch/offramp"), "run", *flags, *folders],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment,
            )
        return self

    def status(self):
        try:
            return json.loads((self.run_dir / "status.json").read_text())
        except (OSError, ValueError):
            return {}

    def summary(self):
        return json.loads((self.run_dir / "summary.json").read_text())

    def logs(self):
        """The launcher's log and the ends of the programs' logs."""
        logs = [
            (self.folder / "launcher.log", 0),
            *((path, -2500) for path in sorted((self.run_dir / "logs").glob("*.log"))),
        ]
        return "".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[begin:]}\n" for path, begin in logs if path.exists()
        )


class LaunchedRun(Launched):
    def __init__(self, *flags):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-system-"))
        self.run_dir = self.folder / "run"
        self.output = self.folder / "output"
        self.environment = {
            **os.environ,
            "OFFRAMP_BIN_DIR": os.environ["OFFRAMP_TEST_BIN"],
            "OFFRAMP_SKIP_PACKAGES": "1",
            "OFFRAMP_BUILD_DIR": build_folder(self.folder),
            "OFFRAMP_TEST_RUNS": str(self.folder / "runs"),
        }
        self.flags = flags
        self.deadline = time.monotonic() + WATCHDOG_SECONDS
        self.launcher = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.launcher and self.launcher.poll() is None:
            self.launcher.send_signal(signal.SIGINT)
            self.launcher.send_signal(signal.SIGINT)
            try:
                self.launcher.wait(20)
            except subprocess.TimeoutExpired:
                self.launcher.kill()
        for pid in processes_marked("OFFRAMP_BUILD_DIR", str(self.folder / "build")):  # as after a failed test
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *flags):
        (self.run_dir / "status.json").unlink(missing_ok=True)  # an earlier run's file stays until this run has begun
        return self.launch(*self.flags, *flags)

    def run_id(self):
        return f"test-{os.getpid()}-{self.folder.name[-8:].replace('_', '-')}"

    def command(self, *words, stdin=""):
        return subprocess.run(
            [str(ROOT / "launch/offramp"), *words, "--run-dir", str(self.run_dir)],
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment,
            input=stdin,
        )

    def wait(self):
        return self.launcher.wait(timeout=max(1, self.deadline - time.monotonic()))

    def _patience(self):
        return self.deadline

    def files(self):
        """{name: bytes} of the results, without the checkpoint, which names the run, and its items."""
        return {
            str(path.relative_to(self.output)): path.read_bytes()
            for path in sorted(self.output.rglob("*"))
            if path.is_file() and path.name not in (".offramp-checkpoint", ".offramp-items")
        }
