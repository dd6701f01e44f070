"""A worker of a run with --gpus as its launcher sees it: who has a GPU, and the process that does a shard there."""

import contextlib
import dataclasses
import os
import pathlib
import sys

from offramp_launch.supervision.backoff import Backoff
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.control import ControlClient
from offramp_launch.exit_code import LaunchError
from offramp_launch.gpus.shares import least_of
from offramp_launch.gpus.stopped_process import StoppedProcess
from offramp_launch.gpus.status import read_status
from offramp_launch.gpus.worker import COMMAND
from offramp_launch.supervision.log_follower import LogFollower, record, printed_by_command
from offramp_launch.supervision.logbook import KEPT_DEATHS
from offramp_launch.places import LAUNCHER
from offramp_launch.previous_report import LOGBOOK
from offramp_launch.run_dir import SUMMARY, read_object
from offramp_launch.watching.counters import BusySeconds, added, grown
from offramp_launch.watching.timestamps import seconds_of

SHOWN_LINES = 20                # of each shard's
ANSWERS_SECONDS = 2
RUN_WIDE_LINES = ("run ", "Run ", "draining: ", "abandoning ")


@dataclasses.dataclass
class Worker:
    """One that has a GPU: a process for each of its shards. Owns: that. Thread: the launcher's. Blocks: on its answers only."""

    device: object
    shares: dict                # by setting, of its runs; of consumers a number, or the text of their Bounds
    child: Child = None
    index: int = None           # of the shard at hand, or the last
    run_dir: pathlib.Path = None
    status: dict = dataclasses.field(default_factory=dict)
    launcher: dict = dataclasses.field(default_factory=dict)        # what its launcher keeps of the run: supervision/logbook.py
    busy: BusySeconds = dataclasses.field(default_factory=BusySeconds)
    _earlier: dict = dataclasses.field(default_factory=dict)        # counted by its runs before this one
    _earlier_launchers: dict = dataclasses.field(default_factory=dict)
    _earlier_deaths: list = dataclasses.field(default_factory=list)
    backoff: Backoff = dataclasses.field(default_factory=Backoff)
    is_waiting: bool = False    # to begin again
    is_to_be_scaled: bool = False
    failures: int = 0           # since it last did a shard
    shards_done: int = 0
    lost: str = ""              # why its GPU was given up
    left_out: str = ""          # why there is none ahead on its device, where there was to be one
    silent: str = ""        # why it gives no answer, and since when
    turn: pathlib.Path = None   # the file of the turns in which it computes with another on its device; None: it has that for itself
    number: int = 0             # of those
    _log: LogFollower = None
    _stopped_process: StoppedProcess = None
    _shown: int = 0

    consumers = property(lambda self: max(least_of(self.shares["consumers"]), len(self.status.get("consumers") or []) if self.follows else 0),
                         doc="How many it has; where their number follows the work, and its run has begun, those that are there.")
    follows = property(lambda self: isinstance(self.shares["consumers"], str))
    name = property(lambda self: f"{self.device.name}, worker {self.number}" if self.turn else self.device.name)
    is_out = property(lambda self: bool(self.lost or self.left_out), doc="It begins nothing any more.")
    is_loading = property(lambda self: bool(self.child) and not self.status, doc="Its run has not begun.")
    is_free = property(lambda self: not (self.child or self.is_waiting or self.is_out))

    def begin(self, index, run_dir, log, command, lifeline, kept_open):
        """`command`: what makes a worker of Python; `log`: the path. Errors: LaunchError."""
        self.index, self.run_dir, self.status, self.launcher = index, run_dir, {}, {}
        self.log_path, self._log, self._shown = log, LogFollower(log), 0
        self.child = Child(self.name, command, log, (lifeline, *kept_open), env={**os.environ, **self.device.environment})
        self._stopped_process, self.silent = StoppedProcess(self.child.pid), ""

    def ended(self):
        """Returns its process, which is reaped."""
        self._earlier, self._earlier_launchers = grown(self._earlier, self.status), added(self._earlier_launchers, self._counts())
        self._earlier_deaths = self.deaths()[-KEPT_DEATHS:]
        child, self.child, self.status, self.launcher, self.silent = self.child, None, {}, {}, ""
        return child

    def told(self):
        """For who watches: all its runs as one. `taking_over`: a producer of the last died behind what its status says."""
        begun = seconds_of(self.status.get("time")) or 0
        died = [death["time"] for death in self.launcher.get("deaths") or [] if death["who"] == "producer" and (seconds_of(death["time"]) or 0) >= begun]
        return {"run_dir": str(self.run_dir) if self.child else None, "status": self.status, "earlier": self._earlier, "consumer_busy_seconds": round(self.busy.seconds, 3),
                "taking_over": bool(died), "taking_over_since": died[-1] if died else None,
                **added(self._earlier_launchers, self._counts())}

    def deaths(self):
        """In its last run, and in those before."""
        return [*self._earlier_deaths, *(self.launcher.get("deaths") or [])]

    def _counts(self):
        return {name: self.launcher.get(name) or 0 for name in ("restarts", "takeovers")}

    def look(self):
        """Reads what its run tells. Returns the lines that are worth telling."""
        self.status = read_status(self.run_dir) or self.status
        self.launcher = read_object(self.run_dir / LOGBOOK) or self.launcher
        self.busy.look(self.status.get("consumers"))
        told = list(filter(None, map(is_notable, self._log.new_lines())))
        shown, self._shown = told[:max(0, SHOWN_LINES - self._shown)], self._shown + len(told)
        return shown

    def look_at_its_process(self):
        """What is to be told of it: that it gives no answer, or does so again; nothing where that is as it was."""
        held, was = self._stopped_process.look(), self.silent
        self.silent = f"no answer for {held[0]:.0f} s: {held[1]}" if held else ""
        if self.silent and not was:
            return f"{self.name}: process {self.child.pid}, which does shard {self.index}, has given {self.silent}. The run waits for it; stop --now ends the run without it"
        return f"{self.name}: process {self.child.pid} gives answers again" if was and not held else ""

    def why(self):
        """Its last process ended so: in the words of its run, or the last of its log."""
        if failure := (read_object(self.run_dir / SUMMARY) or {}).get("failure"):
            return failure
        return (printed_by_command(self.log_path)[0] or ["it gave no reason"])[-1]

    def ask(self, request):
        """Errors: LaunchError, where its run has not begun, or ends."""
        return ControlClient(self.run_dir, ANSWERS_SECONDS).ask(request)

    def scale(self):
        """One that is only starting is asked again later."""
        if self.child:
            with contextlib.suppress(LaunchError):
                self.ask({"do": "scale", "consumers": self.shares["consumers"]})
                self.is_to_be_scaled = False


def workers_of(workers, run_dir, starts_ahead):
    """`workers`: [(device, shares)]. With `starts_ahead` there are two of each, which have one share between them, as they compute by turns."""
    if not starts_ahead:
        return [Worker(device, shares) for device, shares in workers]
    return [Worker(device, dict(shares), turn=run_dir.file(f"turn-{place}"), number=number) for place, (device, shares) in enumerate(workers, 1) for number in (1, 2)]


def command_of(places, job, worker, index, run_dir, lifeline, error_limit, flags):
    """`flags`: of the run."""
    cores = ["--cores", ",".join(map(str, worker.device.cores))] if worker.device.cores else []
    shares = [part for name, value in worker.shares.items() for part in (f"--{name}", str(value))]
    turn = ["--turn", str(worker.turn)] if worker.turn else []
    return [*places.python_command(sys.executable, LAUNCHER, "-E", "-s"), COMMAND, "--job", str(job.folder), "--index", str(index), "--lifeline-fd", str(lifeline), *cores,
            *shares, *turn, "--max-errors", str(error_limit), "--run-dir", str(run_dir), "--", *flags]


def is_notable(line):
    """What a worker's launcher notes of its run, but what is told of the whole; nothing of how far it is, and of its summary."""
    text = line.removeprefix("[run] ") if line.startswith("[run] ") else (record(line) or ("", ""))[1] if line.startswith("{") else ""
    return "" if text.startswith(RUN_WIDE_LINES) else text
