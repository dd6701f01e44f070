"""One run whose processes die, stop or end at chosen failpoints, and the invariants afterwards."""

import dataclasses
import functools
import os
import pathlib
import re
import signal
import time

from tests.support.done_items import led_by_the_checkpoint
from tests.support.launched_run import ROOT, LaunchedRun, programs_with_faulty_consumer
from tests.support.marked_processes import processes_marked
from tests.support.real_run import left_behind

BIN = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"])
VISIBILITY_TIMEOUT = 0.3
SAMPLES = 96
WATCHDOG_SECONDS = 60  # a run takes two
COPY = (
    *"--device cpu --model copy --copy-bytes 256KiB --batch 4 --batches".split(),
    str(SAMPLES // 4),
    *"--slabs 4 --processor checksum --consumers 2 --producer-restarts 4 --visibility-timeout".split(),
    str(VISIBILITY_TIMEOUT),
    "--log-level",
    "info",
)
# Flags that provoke each --when-full. If the run drops, at least `--slabs` slabs are delivered and most of the rest is
# dropped.
WHEN_FULL = {
    "wait": (),
    "drop": ("--when-full", "drop", "--slabs", "12"),
    "drop-oldest": ("--when-full", "drop-oldest", "--slabs", "12"),
    "spill": ("--when-full", "spill"),
}
DEATHS = ("kill", "segv", "abort", "exit", "stop")
HANG = "consumer.work_noted#2:stop"  # lets visibility timeouts expire
DEATH = "consumer.work_noted#2:kill"  # makes the broker take holds back
RECOVERY = "ledger.leased#4:kill"  # makes another producer take over
LAUNCHER = "kill-parent"


@dataclasses.dataclass(frozen=True)
class Order:
    """The process that passes `name` for the `nth` time does `action`, once in the whole run."""

    name: str
    action: str
    nth: int = 2

    def __str__(self):
        return f"{self.name}#{self.nth}:{self.action}"


@functools.cache
def failpoints_of_the_sources():
    """{failpoint: program that passes it}"""
    files = [*ROOT.glob("producer/**/*.cpp"), *ROOT.glob("consumer/**/*.cpp"), *ROOT.glob("common/**/*.cpp")]
    return {
        name: "consumer" if file.relative_to(ROOT).parts[0] == "consumer" else "producer"
        for name, file in failpoints_in(files).items()
    }


def failpoints_in(files):
    """{failpoint: its file}"""
    found = {}
    for file in sorted(files):
        for name in re.findall(r'failpoint\("([^"]+)"\)', file.read_text()):
            if name in found:
                raise AssertionError(f"failpoint '{name}' occurs twice in the sources")
            found[name] = file
    return found


class CrashRun:
    """
    Use as a context. Every process of the run gets `orders`, and the orders `setting_up` that make them reachable.
    """

    RUN = COPY
    resume_flags = ("--resume", "--when-full", "wait")

    def __init__(self, *orders, setting_up=(), when_full="wait", flags=()):
        self.orders, self.run = orders, LaunchedRun(*self.RUN, *WHEN_FULL[when_full], *flags)
        self.may_drop = when_full in ("drop", "drop-oldest")
        self.run.deadline = time.monotonic() + WATCHDOG_SECONDS
        self.once = self.run.folder / "failpoints"
        self.once.mkdir()
        self.changed = self.run.folder / "changed-slabs"
        self.run.environment.update(self.consumers())
        self._clean = dict(self.run.environment)
        self.run.environment.update(
            {
                "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
                "OFFRAMP_FAILPOINT": ",".join([*map(str, orders), *setting_up]),
                "OFFRAMP_FAILPOINT_ONCE": str(self.once),
            }
        )

    def consumers(self):
        """Environment variables for consumers that reread a slab while they hold it."""
        return {
            "OFFRAMP_BIN_DIR": str(programs_with_faulty_consumer(self.run.folder)),
            "OFFRAMP_TEST_RECHECK_FILE": str(self.changed),
        }

    def outputs(self):
        """The run's results, without its own bookkeeping files."""
        return {name: text for name, text in self.run.files().items() if name == "checksums.tsv"}

    def is_conserved(self):
        return self.run.summary().get("conserved")

    @staticmethod
    def is_ended_by(order):
        """
        Only the launcher's death ends the run, which a second run resumes. Dead consumers and producers are replaced.
        """
        return order.action == LAUNCHER

    def led_by_the_checkpoint(self):
        """Items that the checkpoint has and the files lack."""
        return led_by_the_checkpoint(self.run.output)

    def __enter__(self):
        self.run.__enter__()
        return self

    def __exit__(self, *exception):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.run.__exit__(*exception)

    def finish(self):
        """
        Waits for the end of the run; continues stopped processes after a visibility timeout. Returns the launcher's
        exit code.
        """
        self.run.start()
        continued = {}
        while self.run.launcher.poll() is None or self.processes():
            self._check_time()
            self._continue_the_stopped(continued)
            time.sleep(0.01)
        return self.run.launcher.returncode

    def resume(self):
        """Resumes the run, undisturbed, for the missing items."""
        self.run.environment = self._clean
        self.may_drop = False
        return self.run.start(*self.resume_flags).wait()

    def wrong(self, code, expected):
        """
        Violated invariants, as texts, of a run that ended with `code` and of the run that repeats its dropped batches.
        """
        wrong = [f"exit code {code}"] if code != 0 else []
        if code == 0 and not self.is_conserved():
            wrong.append("samples are not conserved")
        if code == 0 and (led := self.led_by_the_checkpoint()):
            wrong.append(f"done in the checkpoint but missing in the outputs: items {led}")
        if code == 0 and self.may_drop:
            if not lines(self.outputs()) <= lines(expected):
                wrong.append("outputs do not belong to the undisturbed run")
            code = self.resume()
            wrong += [f"exit code {code} with --resume"] if code != 0 else []
        if code == 0 and self.outputs() != expected:
            wrong.append("outputs differ from the undisturbed run's")
        if self.changed.exists():
            wrong.append(f"bytes changed under a holder: {self.changed.read_text()}")
        if left := left_behind(self.left_in_shared_memory):
            wrong.append(f"left in /dev/shm: {left}")
        return wrong

    def reached(self, order):
        return (self.once / order.name).exists()

    def processes(self):
        """The run's living processes."""
        return processes_marked("OFFRAMP_FAILPOINT_ONCE", self.once)

    def left_in_shared_memory(self):
        return [name for name in os.listdir("/dev/shm") if self.run.folder.name[-8:].replace("_", "-") in name]

    def _continue_the_stopped(self, continued):
        for text in self.run.environment["OFFRAMP_FAILPOINT"].split(","):
            name, _, action = text.partition(":")
            file = self.once / name.partition("#")[0]
            if action == "stop" and file.exists() and file.read_text().endswith("\n"):
                pid = int(file.read_text())
                began = continued.setdefault(file.name, time.monotonic())
                if began and time.monotonic() - began > 3 * VISIBILITY_TIMEOUT:
                    continued[file.name] = 0
                    try:
                        os.kill(pid, signal.SIGCONT)
                    except ProcessLookupError:
                        pass

    def _check_time(self):
        if time.monotonic() > self.run.deadline:
            raise AssertionError(
                f"the run does not end; failpoints: {self.run.environment['OFFRAMP_FAILPOINT']}\n{self.run.logs()}"
            )


def lines(outputs_of_a_run):
    return {line for text in outputs_of_a_run.values() for line in text.splitlines()}


def undisturbed(make=CrashRun):
    with make() as crash:
        assert crash.finish() == 0, crash.run.logs()
        return crash.outputs()
