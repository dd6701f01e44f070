"""Runs the rungs one after another as ordinary runs, and saves their files."""

import contextlib
import sys
import time

from offramp_launch import shared_folder, sink, summary
from offramp_launch.arguments import shown
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.finishing import Finishing
from offramp_launch.ladder.rungs import COPY_CEILING_FROM, LIMIT
from offramp_launch.output_folder import OutputLock
from offramp_launch.progress import describe
from offramp_launch.run_command import conclude
from offramp_launch.run_steps import sweep
from offramp_launch.settings import resolve
from offramp_launch.run_dir import RunDir, choose_run_dir, new_run_id
from offramp_launch.supervision.supervisor import Supervisor
from offramp_launch.supervision.watch import RunPlan


class Measuring:
    """
    Borrows: the folder for results. Thread: the main one, as each run handles signals.
    Blocks: measure() until every rung has ended. Ctrl-C drains the current rung, a second Ctrl-C abandons it; either
    ends the ladder with LaunchError (INTERRUPTED). No program is left when it returns.
    """

    def __init__(self, places, workload, saved):
        self._places = places
        self._workload = workload
        self._saved = saved
        self._producer = str(places.ladder())
        self._display = LadderDisplay()

    def settings(self):
        """The settings of a timed run, as resolved by the producer. Errors: the producer's refusals."""
        config = resolve(self._producer, [*self._workload.flags, "--consumers", str(self._workload.consumers)])
        return {
            **config,
            "consumers": self._workload.consumers,
            "warmup_batches": self._workload.warmup,
            "measured_batches": self._workload.batches,
            "flags": shown(sink.hide_password(self._workload.flags, {})),
        }

    def measure(self, rungs):
        """Returns {rung: {"exit": code}}. All rungs are tried, even after one has failed."""
        copies = next((key for key in COPY_CEILING_FROM if key in {rung.key for rung in rungs}), None)
        outcome = {}
        for number, rung in enumerate(rungs, start=1):
            print_note(
                f"{number} of {len(rungs)}: {rung.title}: {self._workload.warmup} + {self._workload.batches} batches"
            )
            self._saved.clear(rung.key)
            code = self._run(
                rung, "timed", self._workload.timed_flags(self._saved.trace_dir(rung.key)), self._saved.rung(rung.key)
            )
            if code == 0 and rung.key != LIMIT:
                check = self._saved.check_dir(rung.key)
                limits = ["--measure-limits", str(self._workload.limit_batches)] if rung.key == copies else []
                code = self._run(rung, "check", [*self._workload.checked_flags(check), *limits], check)
            outcome[rung.key] = {"exit": code}
        return outcome

    def _run(self, rung, what, flags, folder):
        run_id = f"{new_run_id()}-{rung.key}"
        run_dir = RunDir(self._places, choose_run_dir(self._places, None, run_id))
        flags = [*flags, *rung.flags, "--run-dir", str(run_dir.path)]
        plan = RunPlan(
            run_id,
            run_dir,
            [self._producer, *flags, "--run-id", run_id, "--consumers", str(self._workload.consumers)],
            [str(self._places.consumer()), *flags],
            self._workload.consumers if rung.has_consumers else 0,
        )
        if what == "check":
            plan.output_lock = OutputLock(folder, run_id, print_note)
        try:
            code = self._supervise(plan, run_dir)
        finally:
            if plan.output_lock:
                plan.output_lock.close()
        with contextlib.suppress(OSError):
            shared_folder.write(folder, "summary.json", run_dir.file("summary.json").read_bytes())
        if code == ExitCode.INTERRUPTED:
            raise LaunchError(
                f"interrupted in {rung.title}; the rungs before it are not compared", "", ExitCode.INTERRUPTED
            )
        if code != 0:
            print_note(f"{rung.title}: the {what} run ended with exit code {code}; its logs are in {run_dir.path}/logs")
        return code

    def _supervise(self, plan, run_dir):
        sweep(self._producer)
        self._display.begin_run()
        supervisor = Supervisor(plan, self._display)
        try:
            with Finishing(print_note) as finishing:
                code = supervisor.run()
                about = summary.about(plan.run_id, run_dir, None, None, plan.producer[1:], {}, None)
                code, whole = conclude(plan, supervisor, code, about, finishing)
            if whole["failure"]:
                print_note(whole["failure"])
            return code
        finally:
            sweep(self._producer)
            supervisor.close()


def print_note(text):
    """Prints to standard error: standard output is for the table."""
    with contextlib.suppress(OSError, ValueError):
        print(f"[ladder] {text}", file=sys.stderr, flush=True)


# Part of warnings that a ladder expects: they are not shown.
EXPECTED = "this run shows what it costs"


class LadderDisplay:
    """Shows each warning once, and a progress line every ten seconds."""

    SECONDS = 10

    def __init__(self):
        self._noted = set()
        self.begin_run()

    def begin_run(self):
        self._next = time.monotonic() + self.SECONDS

    def note(self, text):
        if text not in self._noted and EXPECTED not in text:
            self._noted.add(text)
            print_note(text)

    def show(self, status):
        if status and time.monotonic() >= self._next:
            self._next = time.monotonic() + self.SECONDS
            print_note(f"  {describe(status, 'samples')}")
