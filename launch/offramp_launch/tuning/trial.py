"""A trial of `tune`: a short run in a temporary folder, measured once its number of consumers is stable."""

import contextlib
import fcntl
import os
import pathlib
import subprocess
import tempfile
import time

from offramp_launch import interrupts
from offramp_launch.commanded_run import begin, failure_of, paths_within, remove, within
from offramp_launch.arguments import without_values, words_of
from offramp_launch.exit_code import LaunchError, shell_code
from offramp_launch.output_folder import LOCK
from offramp_launch.progress import ENDS
from offramp_launch.run_steps import sweep
from offramp_launch.run_dir import read_object, read_status
from offramp_launch.supervision.control import ControlClient
from offramp_launch.supervision.autoscaler import Autoscaler, Moment, Window, live_slabs
from offramp_launch.tuning.search import Outcome

LOOK_SECONDS = 0.25
WARM_SECONDS = 1  # after the first released slab
MEASURED_SECONDS = 3  # at least, with a constant number of consumers
SEVERAL = 8  # slabs, at least
LONGEST_SECONDS = 25  # from the first released slab: the trial then counts as it is
ANSWER_SECONDS = 2  # for a live run to answer
# To end a run: it is asked to abandon its work, then to kill its programs, then killed. Its programs die with it.
ABANDONED_SECONDS, KILLED_SECONDS = 4, 2
# A consumer whose launcher is gone waits 5 s for a silent producer (kOrphanPatience), and may be slow to notice.
PROGRAMS_SECONDS = 15
NOTICED = 0.2  # a stage that waits for this share of the time limits the run


class Trials:
    """
    Owns: a folder for all files of trials, on the file system of the results, and the lifeline of their runs. Thread:
    one. Blocks: measure(), until the trial is over. close() removes the folder. A signal ends the current trial, after
    its cleanup.
    """

    def __init__(self, places, flags, config, beside):
        """`flags`: of the run, without a trial's. `config`: their settings. `beside`: the new folder's parent."""
        self._places, self._flags, self._config = places, flags, config
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix=".offramp-tune-", dir=beside))
        self._runs = pathlib.Path(tempfile.mkdtemp(prefix="offramp-tune-"))  # short enough for sockets
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._number = 0

    def close(self):
        with interrupts.deferred():
            os.close(self._lifeline_write)
            os.close(self._lifeline_read)
            remove(self._folder, self._runs)

    def measure(self, setting, consumers, bounds, deadline):
        """
        The Outcome of a run that starts with `consumers` and stays within `bounds`; None if nothing was measured before
        `deadline`, by time.monotonic().
        """
        self._number += 1
        whole, run_dir = self._folder / str(self._number), self._runs / str(self._number)
        output = whole / "output"
        apart = {"--run-id": f"tune-{os.getpid()}-{self._number}", **paths_within(whole, self._config)}
        own = {
            **{f"--{name}": value or None for name, value in setting.items()},
            "--consumers": consumers,
            "--output": output,
            "--run-dir": run_dir,
            **apart,
        }
        flags = [*without_values(self._flags, apart), *words_of(own)]
        printed = self._runs / f"{self._number}.said"
        process = None
        try:
            with interrupts.deferred():
                output.mkdir(parents=True)
                process = begin(self._places, self._lifeline_read, flags, printed)
            outcome = Trial(process, run_dir, consumers, bounds, deadline).outcome()
            if process.poll():  # it failed, whatever was measured before
                return Outcome(error=failure_of(run_dir, printed), code=shell_code(process.returncode))
            return outcome
        finally:
            with interrupts.deferred():
                if process:
                    end(process, run_dir, output, lambda: sweep(str(self._places.producer())))
                remove(whole, run_dir)


class Trial:
    """A trial's run. Borrows: its process."""

    def __init__(self, process, run_dir, consumers, bounds, deadline):
        self._process, self._run_dir, self._wanted, self._deadline = process, run_dir, consumers, deadline
        self._autoscaler = Autoscaler(bounds)

    def outcome(self):
        """None if nothing could be measured."""
        status: dict = {}
        began: dict = {}  # the status when the window began
        begun, first, is_measured = None, None, False
        latest: Window | None = None
        while not is_measured and self._process.poll() is None and time.monotonic() < self._deadline:
            time.sleep(LOOK_SECONDS)
            status = read_status(self._run_dir) or status
            if status.get("state") in ENDS or not status.get("released_samples") or not status.get("now_ns"):
                continue
            now = Moment.of(status)
            begun = begun or now.at
            if now.at - begun < WARM_SECONDS:
                continue
            if change := self._autoscaler.look(status, self._wanted):
                self._scale(change.wanted)
                first = None
            elif first is None or len(now.consumers) != len(first.consumers):
                first, began = now, status
            elif now.at > first.at:
                latest = Window(first, now)
                is_measured = self._is_measured(latest, now.at - begun)
        if not is_measured:
            whole = read_object(self._run_dir / "summary.json") or {}
            if whole.get("exit") == 0 and (whole.get("samples") or {}).get("released"):  # its input ended early
                rate, slabs = whole.get("samples_per_second") or 0.0, live_slabs(status.get("slabs") or {})
                return Outcome(rate, status.get("limiting_stage") or "", self._wanted, slabs)
            if not latest or latest.seconds < MEASURED_SECONDS / 2 or not latest.samples:
                return None
        assert latest
        return Outcome(latest.rate, limiting_stage(began, status, latest), self._wanted, latest.last.slabs, latest.load)

    def _is_measured(self, window, seconds):
        """Also waits for the autoscaler to settle, for LONGEST_SECONDS at most."""
        if window.seconds < MEASURED_SECONDS:
            return False
        is_settled = window.slabs >= SEVERAL and not self._autoscaler.is_undecided(self._wanted)
        return is_settled or seconds >= LONGEST_SECONDS

    def _scale(self, wanted):
        with contextlib.suppress(LaunchError):  # the run is ending
            ControlClient(self._run_dir, ANSWER_SECONDS).ask({"do": "scale", "consumers": wanted})
        self._wanted = wanted


def limiting_stage(before, status, window):
    """Like `limiting_stage` in status.json, but for the window only: before it there may have been fewer consumers."""
    shares = [
        (word, (status[name] - before[name]) / window.seconds)
        for word, name in (("input", "input_wait_seconds"), ("copy to host", "output_wait_seconds"))
        if None not in (status.get(name), before.get(name))
    ]
    for word, share in (("consumers", window.waits), *shares):
        if share > NOTICED:
            return word
    reported = status.get("limiting_stage") or ""
    return "compute" if shares or reported == "consumers" else reported


def end(process, run_dir, output, sweep_up):
    """Ends the run and discards its work. No program is left, unless the kernel holds one longer than this waits."""
    if process.poll() is None:
        try:
            ControlClient(run_dir, ANSWER_SECONDS).ask({"do": "stop", "now": True})
            wait_for(process, ABANDONED_SECONDS)
        except LaunchError:
            pass  # it has not begun, or is ending
    if process.poll() is None:
        process.terminate()
        wait_for(process, KILLED_SECONDS)
    if process.poll() is None:
        process.kill()  # its programs end with its lifeline
        process.wait()
    if process.returncode < 0:
        within(PROGRAMS_SECONDS, lambda: is_free(output / LOCK))
        sweep_up()


def wait_for(process, seconds):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def is_free(lock):
    """Whether the output's lock is free: the run's programs inherit it, so the last one has then ended."""
    try:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
