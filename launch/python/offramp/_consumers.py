"""The consumers that an Egress starts itself: the launcher's command `consume`, as a child."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import Mapping

from offramp._errors import BadArgument, ConsumersFailed, LibraryNotFound
from offramp._library import library

LOOK_AGAIN_SECONDS = 0.01
SAID_BYTES = 1 << 16        # of the end of what it said, in which its last words are looked for
# Of an Egress's own arguments, or decided by it.
SETTLED = ("run-dir", "run-id", "output", "processor", "consumers", "resume", "program", "work", "wait", "lifeline-fd")


class Consumers:
    """
    Owns: the command's process, which starts, watches and ends consumers, and puts together what they made. It ends by itself once the run is over,
    or this process is. Thread: one at a time. Blocks: wait(), close().
    """

    def __init__(self, run_dir: str, output: str, processor: str, consumers: int, settings: Mapping[str, object], work: str, resume: bool):
        flags = ["--run-dir", run_dir, "--program", str(os.getpid()), "--work", work, "--output", output, "--processor", processor]
        flags += ["--consumers", str(consumers)] * bool(consumers) + ["--resume"] * resume + flags_of(settings)
        environment = {name: value for name, value in os.environ.items() if name not in ("OFFRAMP_RUN_DIR", "OFFRAMP_RUN_ID", "OFFRAMP_RESUME")}
        environment.setdefault("OFFRAMP_CONSUMER_PYTHON", sys.executable)
        if programs := _programs():
            environment.setdefault("OFFRAMP_BIN_DIR", programs)
        self._run_dir = run_dir
        self._said = tempfile.TemporaryFile()
        # In a session of its own: a terminal's Ctrl-C reaches the loop alone, whose run tells it what to do.
        self._process = subprocess.Popen([*launcher_command("consume-set-up"), *flags], env=environment, stdin=subprocess.DEVNULL, stdout=self._said,
                                         stderr=subprocess.STDOUT, start_new_session=True)

    def require_alive(self) -> None:
        """Errors: ConsumersFailed, once it has given up."""
        if self._process.poll() is not None:
            raise self._failure()

    def wait(self, deadline: float | None) -> bool:
        """Until it has ended, for a run that is over; False when the time is over before. Errors: ConsumersFailed."""
        while self._process.poll() is None:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK_AGAIN_SECONDS)
        if self._process.returncode != 0:
            raise self._failure()
        return True

    def scale(self, consumers: int) -> None:
        while not os.path.exists(f"{self._run_dir}/control.sock"):      # it has not met the run yet
            self.require_alive()
            time.sleep(LOOK_AGAIN_SECONDS)
        done = subprocess.run([*launcher_command("scale"), str(consumers), "--run-dir", self._run_dir], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            self.require_alive()
            raise BadArgument(last_words(done.stdout + done.stderr))

    def close(self) -> None:
        """Until it has ended: then no consumer is left. A run that was not drained it may not even have met."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        self._said.close()

    def _failure(self) -> ConsumersFailed:
        self._said.seek(max(0, os.fstat(self._said.fileno()).st_size - SAID_BYTES))
        words = last_words(self._said.read().decode(errors="replace"))
        code = self._process.returncode
        if code < 0:
            words = f"the command that watched the consumers was killed by signal {-code}; its last words: {words}"
        elif code == 0:
            words = "the consumers were ended before the run was over"
        return ConsumersFailed(f"{words} (logs: {self._run_dir}/logs)", code if code >= 0 else 128 - code)


def launcher_command(command: str) -> list[str]:
    """The launcher lies beside the package: in the repository, and where it is installed."""
    package = pathlib.Path(__file__).resolve().parent
    for folder in (package.parents[1] / "offramp_launch", package.parent / "offramp_launch", package / "offramp_launch"):
        if (folder / "__main__.py").exists():
            return [sys.executable, "-E", "-s", "-B", str(folder), command]
    raise LibraryNotFound(f"the launcher, offramp_launch, is not beside {package}. Install it with the package, or give a run_dir and start the consumers "
                          "there yourself")


def _programs() -> str | None:
    """Of the library's own build or installation, where it is known."""
    named = library()._name
    folder = pathlib.Path(named).resolve().parents[1] / "bin"
    return str(folder) if os.path.isabs(named) and (folder / "offramp-consumer").exists() else None


def flags_of(settings: Mapping[str, object]) -> list[str]:
    flags = []
    for name, value in settings.items():
        flag = str(name).lstrip("-").replace("_", "-")
        if flag in SETTLED:
            raise BadArgument(f"settings have '{name}', which an Egress decides. Give it as an argument of its own, or leave it out")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            flags.append(f"--{flag}={str(one).lower() if isinstance(one, bool) else one}")
    return flags


def last_words(said: str) -> str:
    """The reason and its remedy, in one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("{")]     # no progress
    at = max((number for number, line in enumerate(lines) if line.startswith("offramp: ")), default=len(lines) - 1)
    words = ""
    for line in lines[at:]:
        words += (" " if words.endswith(tuple(".,:;!?")) else ". ") * bool(words) + line.removeprefix("offramp: ")
    return words or "it said nothing"
