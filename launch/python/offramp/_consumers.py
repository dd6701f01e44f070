"""The consumers that an Egress starts itself: the launcher's command `consume`, as a child."""

from __future__ import annotations

import contextlib
import json
import numbers
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO, Any, Callable, Iterable, Mapping

from offramp import _validate
from offramp._errors import BadArgument, ConsumersFailed, Error, LibraryNotFound, Timeout
from offramp._groups import Processing
from offramp._library import library
from offramp._run import Stats

LOOK_AGAIN_SECONDS = 0.01
LAST_OUTPUT_BYTES = 1 << 16  # of the output's end, searched for the final messages
OPTIONS = "processor-option"
OF_SEVERAL = (OPTIONS, "columns")  # flags with several values, separated by commas
# Messages of the command: a consumer's error, and the end of one that could not reach its sink, such as a database.
ERROR = re.compile(r"(?:\[run\] )?([a-z][a-z0-9-]*-\d+): error: (.*)")
GAVE_UP = re.compile(r"(?:\[run\] )?([a-z][a-z0-9-]*-\d+) \(pid \d+\) ended with exit code 75;")
CONSUMERS_LOG = re.compile(r"[a-z][a-z0-9-]*-\d+\.log")  # named after the group, or "consumer"
# The Egress argument for each flag.
_IN_PYTHON = {
    "resume": "resume=True",
    "output": "output",
    "processor": "processor",
    "consumers": "consumers",
    "group": "groups",
    "kill-stalled": "kill_stalled=True",
    **{flag: f"settings={{'{flag}': True}}" for flag in ("overwrite", "durable")},
    **{
        flag: f"settings={{'{flag}': ...}}"
        for flag in (OPTIONS, "input", "sink", "sink-table", "http-url", "http-header", "consumer-python", "png-level")
    },
}
# Flags that an Egress takes as arguments, or sets itself.
SETTLED = (
    *("run-dir", "run-id", "output", "processor", "consumers", "group", "resume", "program", "work", "wait"),
    "lifeline-fd",
)


class OwnConsumers:
    """
    Owns: the command's process, which supervises consumers and writes final results. It exits by itself after the run
    or this process ends. Thread: one at a time. Blocks: wait(), close().
    """

    def __init__(
        self,
        run_dir: str,
        output: str,
        processing: Processing,
        settings: Mapping[str, object],
        work: str,
        resume: bool,
    ):
        flags = [
            "--run-dir",
            run_dir,
            "--program",
            str(os.getpid()),
            "--work",
            work,
            "--output",
            output,
            *processing.flags,
        ]
        flags += ["--resume"] * resume + flags_of(settings)
        self._run_dir = run_dir
        self._has_work = False
        self._earlier_logs = self._logs_of_consumers()
        self._output = tempfile.TemporaryFile()
        self.unreachable = GiveUps(self._output, processing.required).reason
        # A separate session, so that a terminal's Ctrl-C reaches only the loop.
        self._process = subprocess.Popen(
            [*launcher_command("consume"), *flags],
            env=launcher_environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def require_alive(self) -> None:
        """Errors: ConsumersFailed or BadArgument, once the command has exited."""
        if self._process.poll() is not None:
            raise self._failure()

    def wait_for_first(self, stats: Callable[[], Stats], deadline: float | None) -> None:
        """
        Waits until a batch is submitted or a consumer connects: an empty run would end before. Errors: those of
        require_alive(), Timeout.
        """
        while not self._has_work and (now := stats()).batches_submitted == 0 and now.consumers == 0:
            self.require_alive()
            if deadline is not None and time.monotonic() >= deadline:
                raise Timeout("no consumer has connected yet. Call drain() again")
            time.sleep(LOOK_AGAIN_SECONDS)
        self._has_work = True

    def wait(self, deadline: float | None) -> bool:
        """Waits for the command's exit after the run ended; False at the deadline. Errors: those of require_alive()."""
        while self._process.poll() is None:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK_AGAIN_SECONDS)
        if self._process.returncode != 0:
            raise self._failure()
        return True

    def scale(self, consumers: str) -> None:
        """`consumers`: a number, or NAME=N for a group."""
        while not os.path.exists(f"{self._run_dir}/live/control.sock"):  # the command has not connected to the run yet
            self.require_alive()
            time.sleep(LOOK_AGAIN_SECONDS)
        code, _, message = run_launcher("scale", consumers, "--run-dir", self._run_dir)
        if code != 0:
            self.require_alive()
            raise BadArgument(message)

    def close(self) -> None:
        """Waits until the command and all its consumers have exited."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        self._output.close()

    def _logs_of_consumers(self) -> set[tuple[str, int]]:
        """Names and inodes: the command moves the logs of an earlier run."""
        with contextlib.suppress(FileNotFoundError), os.scandir(f"{self._run_dir}/logs") as entries:
            return {(each.name, each.inode()) for each in entries if CONSUMERS_LOG.fullmatch(each.name)}
        return set()

    def _failure(self) -> Error:
        self._output.seek(max(0, os.fstat(self._output.fileno()).st_size - LAST_OUTPUT_BYTES))
        message = final_messages(self._output.read().decode(errors="replace"))
        code = self._process.returncode
        if code == BadArgument.code and self._logs_of_consumers() <= self._earlier_logs:
            return BadArgument(in_python(message))  # the command started no consumer
        if code < 0:
            message = (
                f"the command that supervises the consumers was killed by signal {-code}; its last message: {message}"
            )
        elif code == 0:
            message = "the consumers ended before the run"
        logs = f"{self._run_dir}/logs"
        message = in_python(message) + ("" if logs in message else f" (logs: {logs})")
        return ConsumersFailed(message, code if code >= 0 else 128 - code)


class GiveUps:
    """
    Finds consumers that gave up waiting for their sink, but for those of optional groups. Borrows: the command's
    output. Thread: one at a time.
    """

    def __init__(self, output: IO[bytes], required: Iterable[str] = ("consumer",)):
        self._output, self._required = output, tuple(required)
        self._searched = 0  # bytes
        self._errors: dict[str, str] = {}  # the last one of each consumer, in these bytes

    def reason(self, is_first: bool) -> str:
        """
        Why a consumer gave up since the last call; "" if none did. The command starts another one. `is_first`: the
        loop begins to wait, so what is older no longer counts.
        """
        if is_first:
            self._searched = os.fstat(self._output.fileno()).st_size
        output = os.pread(self._output.fileno(), LAST_OUTPUT_BYTES, self._searched)
        lines = output[: output.rfind(b"\n") + 1] or output * (len(output) == LAST_OUTPUT_BYTES)
        self._searched += len(lines)
        why = ""
        for message in map(message_of, lines.decode(errors="replace").splitlines()):
            if error := ERROR.match(message):
                self._errors[error[1]] = error[2]
            elif (gave_up := GAVE_UP.match(message)) and gave_up[1].rpartition("-")[0] in self._required:
                why = self._errors.pop(gave_up[1], f"{gave_up[1]} ended with exit code 75")
        return why


def message_of(line: str) -> str:
    """The text of a line that the command printed, in either log format; "" for progress."""
    if line.startswith("{"):
        with contextlib.suppress(ValueError):
            return str(json.loads(line).get("message", ""))
        return ""
    return line


def launcher_command(command: str) -> list[str]:
    """The launcher is beside the package, in the repository and when installed."""
    package = pathlib.Path(__file__).resolve().parent
    for folder in (
        package.parents[1] / "offramp_launch",
        package.parent / "offramp_launch",
        package / "offramp_launch",
    ):
        if (folder / "__main__.py").exists():
            return [sys.executable, "-E", "-s", "-B", str(folder), command]
    raise LibraryNotFound(
        f"the launcher, offramp_launch, is not beside {package}. Install it with the package, or pass run_dir= and start the consumers "
        "there yourself"
    )


def run_launcher(command: str, *arguments: str, **options: Any) -> tuple[int, str, str]:
    """Exit code, output and final messages of a command. `options`: those of subprocess.run()."""
    done = subprocess.run(
        [*launcher_command(command), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    return done.returncode, done.stdout, final_messages(done.stdout + done.stderr)


def launcher_environment() -> dict[str, str]:
    """For commands that run consumers: the programs of the library's place, and this interpreter."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OFFRAMP_RUN_DIR", "OFFRAMP_RUN_ID", "OFFRAMP_RESUME")
    }
    environment.setdefault("OFFRAMP_CONSUMER_PYTHON", sys.executable)
    if programs := _programs():
        environment.setdefault("OFFRAMP_BIN_DIR", programs)
    return environment


def run_dir_of(url: str) -> str | None:
    """The run directory of the work in an object store; None without work. Errors: BadArgument."""
    code, output, message = run_launcher("run-dir-of-a-url", url)
    if code != 0:
        raise BadArgument(in_python(message))
    return output.strip() or None


def _programs() -> str | None:
    """The program folder of the library's build or installation, if known."""
    named = library()._name
    folder = pathlib.Path(named).resolve().parents[1] / "bin"
    return str(folder) if os.path.isabs(named) and (folder / "offramp-consumer").exists() else None


def values_of(settings: Mapping[str, object]) -> dict[str, str]:
    """The settings as texts, by flag. Errors: BadArgument, which names the fix."""
    values: dict[str, str] = {}
    for name, value in settings.items():
        if not isinstance(name, str) or not name.strip("-_"):
            raise BadArgument(f"a setting has the name {name!r:.80}. Give names of flags, such as 'png-level'")
        flag = flag_of(_validate.encodable("a setting's name", name))
        if flag in SETTLED:
            raise BadArgument(f"'{name}' cannot be passed in settings. Give it as an argument of Egress, or omit it")
        if flag in values:
            raise BadArgument(f"the setting '{flag}' is given twice. Give it once")
        values[flag] = _validate.encodable(f"the setting '{name}'", _value_of(flag, value))
    return values


def flags_of(settings: Mapping[str, object]) -> list[str]:
    """The settings as flags. Errors: those of values_of()."""
    return [f"--{flag}={value}" for flag, value in values_of(settings).items()]


def is_durable(settings: Mapping[str, object]) -> bool:
    """Whether results and checkpoint have to survive a power cut. Errors: those of values_of()."""
    return values_of(settings).get("durable", os.environ.get("OFFRAMP_DURABLE")) in ("true", "1")


def flag_of(name: str) -> str:
    return name.lstrip("-").replace("_", "-")


def _value_of(flag: str, value: object) -> str:
    """One text per flag, because a repeated flag would replace the first."""
    if flag == OPTIONS and isinstance(value, Mapping):
        return ",".join(f"{_option_name(key)}={_one(flag, each)}".replace(",", r"\,") for key, each in value.items())
    if isinstance(value, (list, tuple)):
        if flag not in OF_SEVERAL:
            raise BadArgument(
                f"the setting '{flag}' is {value!r:.80}, and takes one value. Give one value"
                + (": '@FILE', a file with a header in each line" if flag == "http-header" else "")
            )
        if flag == OPTIONS and (wrong := [each for each in value if not isinstance(each, str) or "=" not in each]):
            raise BadArgument(
                f"the setting '{flag}' has {wrong[0]!r:.80}. Give strings KEY=VALUE, or a mapping {{KEY: VALUE}}"
            )
        return ",".join(_one(flag, each) for each in value)
    return _one(flag, value)


def _one(flag: str, value: object) -> str:
    if callable(item := getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
        value = item()  # a number of NumPy or PyTorch
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, (str, numbers.Number)):
        return str(value)
    remedy = (
        "Give strings KEY=VALUE, or a mapping {KEY: VALUE}"
        if flag == OPTIONS
        else "Omit it"
        if value is None
        else "Give a str, a number, True or False"
    )
    raise BadArgument(f"the setting '{flag}' has {value!r:.80}, of type {type(value).__name__}. {remedy}")


def _option_name(key: object) -> str:
    if not isinstance(key, str) or not key or "=" in key or "," in key:
        raise BadArgument(f"the setting '{OPTIONS}' has an option named {key!r:.80}. Give a str without '=' and ','")
    return key


def require_files(processor: str) -> None:
    """Checks that the files of custom processors exist, before consumers start. Errors: BadArgument."""
    for name in processor.split(","):
        kind, _, rest = name.partition(":")
        path = rest if kind == "so" else name.rpartition(":")[0]
        if (kind == "so" or path.endswith(".py")) and not os.path.isfile(path := path.removeprefix("python:")):
            raise BadArgument(
                f"the processor '{name}' needs a file that does not exist: {os.path.abspath(path)}. Give an existing path, relative to the "
                "working directory, or absolute"
            )


def in_python(message: str) -> str:
    """Replaces flags in a command's message with arguments of an Egress."""
    message = message.replace(
        "--resume to add to them (a sample of the same key replaces its earlier result),",
        "--resume to leave out what is done, with egress.pending(),",
    )
    return re.sub(r"--([a-z][a-z-]*)(?:=true\b)?", lambda flag: _IN_PYTHON.get(flag[1], flag[0]), message)


def final_messages(output: str) -> str:
    """The last error message of this output, with its remedy, in one line."""
    messages = "\n".join(map(message_of, output.splitlines()))
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    at = max((number for number, line in enumerate(lines) if line.startswith("offramp: ")), default=len(lines) - 1)
    message = ""
    for line in lines[at:]:
        message += (" " if message.endswith(tuple(".,:;!?")) else ". ") * bool(message) + line.removeprefix("offramp: ")
    return message or "it printed nothing"
