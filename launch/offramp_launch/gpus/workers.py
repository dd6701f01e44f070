"""A worker of a run with --gpus, as its launcher sees it: a GPU, and the process that does a shard on it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import sys
import time

from offramp_launch.arguments import words_of
from offramp_launch.supervision.backoff import Backoff
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.control import ControlClient
from offramp_launch.exit_code import LaunchError
from offramp_launch.gpus.devices import Device
from offramp_launch.gpus.shares import GROUPS, least_of, starting_groups
from offramp_launch.gpus.worker import COMMAND
from offramp_launch.groups import parsed
from offramp_launch.supervision.log_follower import LogFollower, record, printed_by_command
from offramp_launch.supervision.logbook import KEPT_DEATHS
from offramp_launch.places import LAUNCHER
from offramp_launch.processes import stat_of
from offramp_launch.run_dir import LIVE, LOGBOOK, SUMMARY, read_object, read_status
from offramp_launch.watching.counters import BusySeconds, added, grown

SHOWN_LINES = 20  # of each shard's log
ANSWERS_SECONDS = 2
PATIENCE_SECONDS = 10  # until a process that is held counts as silent
HELD = {"T": "it is stopped", "t": "a debugger has stopped it", "D": "it waits for a disk or a device"}
RUN_WIDE_LINES = ("run ", "Run ", "draining: ", "abandoning ")


class StoppedProcess:
    """
    Detects a worker's process that is held: stopped, or blocked on a disk that does not answer. Such a process handles
    no signal but SIGKILL. Compares its state from look to look. Thread: one. `clock` and `stat` are seams for tests.
    """

    def __init__(self, pid, clock=time.monotonic, stat=None):
        self._pid, self._clock, self._stat = pid, clock, stat or stat_of
        self._last: tuple | None = None
        self._since = 0.0

    def look(self):
        """(seconds held, why) once the process is held for longer than a busy disk explains; else None."""
        stat, now = self._stat(self._pid), self._clock()
        if stat is None or stat[0] not in HELD or stat != self._last:
            self._last, self._since = stat, now
            return None
        seconds = now - self._since
        return (seconds, HELD[stat[0]]) if seconds >= PATIENCE_SECONDS else None


@dataclasses.dataclass
class Worker:
    """
    Runs its shards on one GPU, each in a new process. Owns: the process. Thread: the launcher's. Blocks: on its answers
    only.
    """

    device: Device
    shares: dict  # settings of its runs, by name; consumers: a number, or the text of Bounds
    child: Child | None = None
    index: int | None = None  # of the current shard, or the last
    run_dir: pathlib.Path | None = None
    status: dict = dataclasses.field(default_factory=dict)
    # its launcher's log book of the run: supervision/logbook.py
    launcher: dict = dataclasses.field(default_factory=dict)
    busy: BusySeconds = dataclasses.field(default_factory=BusySeconds)
    _earlier: dict = dataclasses.field(default_factory=dict)  # counters of its earlier runs
    _earlier_launchers: dict = dataclasses.field(default_factory=dict)
    _earlier_deaths: list = dataclasses.field(default_factory=list)
    backoff: Backoff = dataclasses.field(default_factory=Backoff)
    is_waiting: bool = False  # for its backoff
    to_be_scaled: dict = dataclasses.field(default_factory=dict)  # requests that its run has not answered yet, by group
    failures: int = 0  # since its last completed shard
    shards_done: int = 0
    lost: str = ""  # why its GPU was given up
    left_out: str = ""  # why this second worker of a device was dropped
    silent: str = ""  # why it does not answer, and for how long
    turn: pathlib.Path | None = None  # the lock file of two workers that share a device
    number: int = 0  # 1 or 2 of the workers that share the device
    _log: LogFollower | None = None
    _stopped_process: StoppedProcess | None = None
    _shown: int = 0

    @property
    def consumers(self):
        """The number set, of all groups; with autoscaling, the number alive once its run has begun."""
        if GROUPS in self.shares:
            return sum(self.consumers_of(group.name) for group in self.groups())
        alive = len(self.status.get("consumers") or []) if self.follows else 0
        return max(least_of(self.shares["consumers"]), alive)

    follows = property(lambda self: isinstance(self.shares.get("consumers"), str))
    name = property(lambda self: f"{self.device.name}, worker {self.number}" if self.turn else self.device.name)
    is_out = property(lambda self: bool(self.lost or self.left_out), doc="It begins no more shards.")
    is_loading = property(lambda self: bool(self.child) and not self.status, doc="Its run has no status yet.")
    is_free = property(lambda self: not (self.child or self.is_waiting or self.is_out))

    def begin(self, index, run_dir, log, command, lifeline, kept_open):
        """`command`: of the worker's process; `log`: the path. Errors: LaunchError."""
        self.index, self.run_dir, self.status, self.launcher = index, run_dir, {}, {}
        self.log_path, self._log, self._shown = log, LogFollower(log), 0
        self.child = Child(
            self.name, command, log, (lifeline, *kept_open), env={**os.environ, **self.device.environment}
        )
        self._stopped_process, self.silent = StoppedProcess(self.child.pid), ""
        # A run begins with one consumer of each group at least.
        empty = [group.name for group in self.groups() if not group.consumers]
        self.to_be_scaled = {name: f"{name}=0" for name in empty}

    def groups(self):
        """Its groups, with its share of their consumers."""
        return [parsed(line) for line in self.shares.get(GROUPS, ())]

    def group(self, name):
        return next(each for each in self.groups() if each.name == name)

    def consumers_of(self, name):
        """As `consumers`, of one group."""
        group = self.group(name)
        alive = sum(each.get("group") == name for each in self.status.get("consumers") or [])
        return group.bounds.within(alive) if group.bounds else group.consumers

    def ended(self):
        """Returns the worker's reaped process."""
        self._earlier = grown(self._earlier, self.status)
        self._earlier_launchers = added(self._earlier_launchers, self._counts())
        self._earlier_deaths = self.deaths()[-KEPT_DEATHS:]
        child, self.child, self.status, self.launcher, self.silent = self.child, None, {}, {}, ""
        return child

    def report(self):
        """All its runs as one, for watchers. `taking_over`: its producer died after the last status."""
        deaths = [death["at_ns"] for death in self.launcher.get("deaths") or [] if death["who"] == "producer"]
        died = [time for time in deaths if time >= (self.status.get("now_ns") or 0)]
        return {
            "run_dir": str(self.run_dir) if self.child else None,
            "status": self.status,
            "earlier": self._earlier,
            "consumer_busy_seconds": round(self.busy.seconds, 3),
            "taking_over": bool(died),
            "taking_over_since_ns": died[-1] if died else None,
            **added(self._earlier_launchers, self._counts()),
        }

    def deaths(self):
        """In all its runs."""
        return [*self._earlier_deaths, *(self.launcher.get("deaths") or [])]

    def _counts(self):
        return {name: self.launcher.get(name) or 0 for name in ("restarts", "takeovers")}

    def look(self):
        """Reads its run's status and log. Returns the log lines to show."""
        assert self.run_dir and self._log  # it was begun
        self.status = read_status(self.run_dir) or self.status
        self.launcher = read_object(self.run_dir / LOGBOOK) or self.launcher
        self.busy.look(self.status.get("consumers"))
        lines = list(filter(None, map(notable, self._log.new_lines())))
        shown, self._shown = lines[: max(0, SHOWN_LINES - self._shown)], self._shown + len(lines)
        return shown

    def look_at_its_process(self):
        """A line if its process stopped answering or answers again; else empty."""
        assert self.child and self._stopped_process
        held, was = self._stopped_process.look(), self.silent
        self.silent = f"no answer for {held[0]:.0f} s: {held[1]}" if held else ""
        if self.silent and not was:
            return f"{self.name}: process {self.child.pid} (shard {self.index}): {self.silent}. The run waits for it; stop --now ends the run without it"
        return f"{self.name}: process {self.child.pid} answers again" if was and not held else ""

    def why(self):
        """Why its last process ended: its run's failure, or its log's last line."""
        assert self.run_dir
        if failure := (read_object(self.run_dir / SUMMARY) or {}).get("failure"):
            return failure
        return (printed_by_command(self.log_path)[0] or ["it gave no reason"])[-1]

    def ask(self, request):
        """Errors: LaunchError, if its run has not begun, or is ending."""
        return ControlClient(self.run_dir, ANSWERS_SECONDS).ask(request)

    def scale_to(self, consumers, group=""):
        if self.child:
            self.to_be_scaled[group] = f"{group}={consumers}" if group else consumers
            self.scale()

    def scale(self):
        """A worker whose run has not begun is asked again later."""
        for group, wanted in list(self.to_be_scaled.items()):
            with contextlib.suppress(LaunchError):
                self.ask({"do": "scale", "consumers": wanted})
                del self.to_be_scaled[group]


def workers_of(workers, run_dir, starts_ahead):
    """`workers`: [(device, shares)]. With `starts_ahead` two workers a device alternate, each with its whole share."""
    if not starts_ahead:
        return [Worker(device, shares) for device, shares in workers]
    return [
        Worker(device, dict(shares), turn=run_dir.file(f"{LIVE}/turn-{place}"), number=number)
        for place, (device, shares) in enumerate(workers, 1)
        for number in (1, 2)
    ]


def command_of(plan, worker, index, run_dir, lifeline):
    """`plan`: a GpusPlan."""
    own = {
        "--job": plan.job.folder,
        "--index": index,
        "--lifeline-fd": lifeline,
        "--cores": ",".join(map(str, worker.device.cores)) or None,
        **{f"--{name}": value for name, value in worker.shares.items() if name != GROUPS},
        "--turn": worker.turn,
        "--max-errors": plan.error_limit,
        "--run-dir": run_dir,
    }
    groups = (word for line in starting_groups(worker.shares) for word in (f"--{GROUPS}", line))
    python = plan.places.python_command(sys.executable, LAUNCHER, "-E", "-s")
    return [*python, COMMAND, *words_of(own), *groups, "--", *plan.flags]


def notable(line):
    """A note of the worker's launcher; empty for progress, the summary, and notes that the whole run repeats."""
    text = (record(line) or ("", ""))[1] if line.startswith("{") else ""
    if line.startswith("[run] "):
        text = line.removeprefix("[run] ")
    return "" if text.startswith(RUN_WIDE_LINES) else text
