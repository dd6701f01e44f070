"""A trial of `tune`: a short run of the user's own, in a folder that goes with it, measured once its number of consumers has come to rest."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from offramp_launch import interrupts
from offramp_launch.arguments import take_values, without_values
from offramp_launch.exit_code import LaunchError, shell_code
from offramp_launch.jobs.command import folder_written_to
from offramp_launch.output_folder import LOCK
from offramp_launch.places import LAUNCHER
from offramp_launch.progress import ENDS
from offramp_launch.run_command import start as start_run, sweep
from offramp_launch.run_dir import read_object
from offramp_launch.supervision import lifeline
from offramp_launch.supervision.control import ControlClient
from offramp_launch.supervision.autoscaler import Autoscaler, Moment, Window, live_slabs
from offramp_launch.supervision.log_follower import printed_by_command
from offramp_launch.status_schema import validate_status
from offramp_launch.tuning.search import Outcome

COMMAND = "trial-of-tune"
LOOK_SECONDS = 0.25
WARM_SECONDS = 1        # after the first slab that came back
MEASURED_SECONDS = 3    # at least, with a number of consumers that stays
SEVERAL = 8             # slabs, at least
LONGEST_SECONDS = 25    # from the first slab that came back on: then it counts as it is
ANSWER_SECONDS = 2      # of a run that lives
# Of a run that is given up: it is asked to abandon its work, then to kill its programs, and then killed; these end with it.
ABANDONED_SECONDS, KILLED_SECONDS = 4, 2
PROGRAMS_SECONDS = 15   # a consumer whose launcher is gone waits 5 s for a silent producer (kOrphanPatience), and may be slow to notice
REMOVED_SECONDS = 3     # for what is left to be removed
AGAIN_SECONDS = 0.05
NOTICED = 0.2           # a wait of such a share holds a run back


def start(places, argv):
    """The run of a trial, in a process of its own, which ends with the command that started it."""
    at = argv.index("--")
    lifeline.hold(take_values(argv[:at], (lifeline.FLAG,))[0][lifeline.FLAG])
    flags = argv[at + 1:]
    run_dir = pathlib.Path(take_values(flags, ("--run-dir",))[0]["--run-dir"])
    return start_run(places.with_runs_in(run_dir.parent), flags, ["run", *flags])


class Trials:
    """
    Owns: a folder beside the place of results, where all that trials leave is, and the lifeline of their runs. Thread: one. Blocks: measure(), until a trial
    is over; close() removes all of it. A signal that comes through ends the trial at hand, and what is to be put in order is before it is minded.
    """

    def __init__(self, places, flags, config, beside):
        """`flags`: of a run, without those that trials set, and what they mean; `beside`: the folder to make its own in."""
        self._places, self._flags, self._config = places, flags, config
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix=".offramp-tune-", dir=beside))
        self._runs = pathlib.Path(tempfile.mkdtemp(prefix="offramp-tune-"))      # short enough for sockets
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._number = 0

    def close(self):
        with interrupts.deferred():
            os.close(self._lifeline_write)
            os.close(self._lifeline_read)
            remove(self._folder, self._runs)

    def measure(self, setting, consumers, bounds, deadline):
        """
        The Outcome of a run that begins with so many consumers, and keeps them within Bounds; None where `deadline`, by time.monotonic(), came before
        anything was measured.
        """
        self._number += 1
        whole, run_dir = self._folder / str(self._number), self._runs / str(self._number)
        output = whole / "output"
        apart = self._set_apart(whole)
        tried = [part for name, value in setting.items() if value for part in (f"--{name}", str(value))]
        command = [*self._places.python_command(sys.executable, LAUNCHER, "-E", "-s"), COMMAND, lifeline.FLAG, str(self._lifeline_read), "--", *without_values(self._flags, apart), *tried,
                   "--consumers", str(consumers), "--output", str(output), "--run-dir", str(run_dir), *(word for pair in apart.items() for word in pair)]
        said = self._runs / f"{self._number}.said"
        process = None
        try:
            with interrupts.deferred(), open(said, "wb") as log, interrupts.blocked():
                output.mkdir(parents=True)
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(self._lifeline_read,), start_new_session=True)
            outcome = Trial(process, run_dir, consumers, bounds, deadline).outcome()
            if process.poll():      # by itself, whatever was measured before
                return Outcome(error=why(run_dir, said), code=shell_code(process.returncode))
            return outcome
        finally:
            with interrupts.deferred():
                if process:
                    end(process, run_dir, output, lambda: sweep(str(self._places.producer())))
                remove(whole, run_dir)

    def _set_apart(self, whole):
        """{flag: value} of all that a run has or leaves beside its output: variables and --config may name places, too, which flags outweigh."""
        apart = {"--run-id": f"tune-{os.getpid()}-{self._number}", "--log-file": "", "--samples-folder": ""}
        if self._config.get("when-full") == "spill":
            apart["--spill-dir"] = str(whole / "spilled")
        if folder_written_to(self._config):
            apart["--write-path"] = str(whole / "written")
            (whole / "written").mkdir(parents=True)
        return apart


class Trial:
    """One run that is under way. Borrows: its process."""

    def __init__(self, process, run_dir, consumers, bounds, deadline):
        self._process, self._run_dir, self._wanted, self._deadline = process, run_dir, consumers, deadline
        self._following = Autoscaler(bounds)

    def outcome(self):
        """None where it came to nothing that can be measured."""
        status, began, begun, first, latest, is_measured = {}, {}, None, None, None, False
        while not is_measured and self._process.poll() is None and time.monotonic() < self._deadline:
            time.sleep(LOOK_SECONDS)
            status = validate_status(read_object(self._run_dir / "status.json") or {})[0] or status
            if status.get("state") in ENDS or not status.get("released_samples") or not status.get("now_ns"):
                continue
            now = Moment.of(status)
            begun = begun or now.at
            if now.at - begun < WARM_SECONDS:
                continue
            if change := self._following.look(status, self._wanted):
                self._scale(change.wanted)
                first = None
            elif first is None or len(now.consumers) != len(first.consumers):
                first, began = now, status
            elif now.at > first.at:
                latest = Window(first, now)
                is_measured = self._is_measured(latest, now.at - begun)
        if not is_measured:
            whole = read_object(self._run_dir / "summary.json") or {}
            if whole.get("exit") == 0 and (whole.get("samples") or {}).get("released"):     # its input was used up before
                return Outcome(whole.get("samples_per_second") or 0.0, status.get("limiting_stage") or "", self._wanted, live_slabs(status.get("slabs") or {}))
            if not latest or latest.seconds < MEASURED_SECONDS / 2 or not latest.samples:
                return None
        return Outcome(latest.rate, limiting_stage(began, status, latest), self._wanted, latest.last.slabs, latest.load)

    def _is_measured(self, window, seconds):
        """With consumers that are waited for, only once nothing more is to be found by them."""
        holds = window.seconds >= MEASURED_SECONDS and window.slabs >= SEVERAL
        return holds and not self._following.is_undecided(self._wanted) or seconds >= LONGEST_SECONDS and window.seconds >= MEASURED_SECONDS

    def _scale(self, wanted):
        with contextlib.suppress(LaunchError):      # it ends just now
            ControlClient(self._run_dir, ANSWER_SECONDS).ask({"do": "scale", "consumers": wanted})
        self._wanted = wanted


def limiting_stage(before, status, window):
    """As the run tells it of the last ten seconds, but of the window alone: before it there may have been fewer consumers."""
    shares = [(word, (status[name] - before[name]) / window.seconds) for word, name in (("input", "input_wait_seconds"), ("copy to host", "output_wait_seconds"))
              if None not in (status.get(name), before.get(name))]
    for word, share in (("consumers", window.waits), *shares):
        if share > NOTICED:
            return word
    told = status.get("limiting_stage") or ""
    return "compute" if shares or told == "consumers" else told


def end(process, run_dir, output, sweep_up):
    """Gives up what is in flight: nobody wants it. No program of the run is left then, unless the kernel holds it for longer than is waited for."""
    if process.poll() is None:
        try:
            ControlClient(run_dir, ANSWER_SECONDS).ask({"do": "stop", "now": True})
            wait_for(process, ABANDONED_SECONDS)
        except LaunchError:
            pass        # it has not begun, or ends just now
    if process.poll() is None:
        process.terminate()
        wait_for(process, KILLED_SECONDS)
    if process.poll() is None:
        process.kill()      # its programs have its lifeline
        process.wait()
    if process.returncode < 0:
        within(PROGRAMS_SECONDS, lambda: is_free(output / LOCK))
        sweep_up()


def wait_for(process, seconds):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def is_free(lock):
    """A run's programs inherit its output's, which is so once the last of them has ended."""
    try:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove(*folders):
    """A program that ends may just have made another file there."""
    def are_gone():
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        return not any(folder.exists() for folder in folders)
    within(REMOVED_SECONDS, are_gone)


def within(seconds, holds):
    """Until it does, or the time is over."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(AGAIN_SECONDS)


def why(run_dir, said):
    """In one line."""
    failure = (read_object(run_dir / "summary.json") or read_object(run_dir / "not-begun.json") or {}).get("failure")
    errors, lines = printed_by_command(said)
    return failure or next(reversed(errors or [line for line in lines if line.strip()]), "it gave no reason")
