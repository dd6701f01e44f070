"""The steps that `run`, `run --producer` and `consume` have in common, from the output's folder to the summary."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

from offramp_launch import interrupts, summary
from offramp_launch.arguments import shown, to_type_again, without_switches, without_values, words_of
from offramp_launch.exit_code import (
    ExitCode,
    LaunchError,
    NO_ROOM,
    UsageError,
    WriteError,
    in_one_line,
    shell_code,
    way_to_write,
    write_errors,
)
from offramp_launch.failure import is_outweighed, merge_failure
from offramp_launch.finishing import Finishing
from offramp_launch.groups import longest_folder, plan_of, without_defaults
from offramp_launch.incidents import recovered_among
from offramp_launch.output_folder import OutputLock, is_used_by_other_run, removed_after_a_failure, require_no_job
from offramp_launch.progress import as_record, make_display
from offramp_launch.retries import Recovered, retry_failed
from offramp_launch.run_dir import OUTPUT, RunDir, choose_run_dir, new_run_id
from offramp_launch.settings import SETTLED, consumer_command, keep_settings
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.log_follower import COMMAND_ERROR
from offramp_launch.supervision.watch import RunPlan


def announce(config, text, prefix="[run] "):
    """Prints a message in the form of the logs."""
    print(as_record(text) if config.get("log-format") == "json" else f"{prefix}{text}", flush=True)


def notes_of(config):
    """The function that prints a run's notes."""
    return lambda text: announce(config, text)


def announce_end(config, text):
    """Prints the summary; the reason of a failure goes to standard error."""
    for is_reason, lines in itertools.groupby(text.splitlines(), key=lambda line: line.startswith(COMMAND_ERROR)):
        with contextlib.redirect_stdout(sys.stderr if is_reason else sys.stdout):
            announce(config, "\n".join(lines), "")


@contextlib.contextmanager
def written_to(run_dir):
    """Errors: LaunchError (CANNOT_WRITE) where the run directory has no room."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        raise WriteError(
            f"the run directory {run_dir.path} cannot be written: {problem.strerror}",
            way_to_write(problem, "Make room there, or choose another with --run-dir"),
        ) from problem


@contextlib.contextmanager
def reason_in_summary(run_dir, about):
    """Writes the reason into the summary when the run cannot start."""
    try:
        yield
    except (LaunchError, KeyboardInterrupt) as problem:
        code, failure = ExitCode.INTERRUPTED, "the run was stopped before it began"
        if isinstance(problem, LaunchError):
            code, failure = problem.code, problem.in_one_line()
        with contextlib.suppress(OSError):
            if not summary.is_complete(run_dir):  # else the interruption came after the run's end
                end = {"exit": int(code), "failure": failure, "ended": summary.wall_clock()}
                summary.write(run_dir, {**about, **summary.read_producer_summary(run_dir), **end})
        raise


@dataclasses.dataclass
class Work:
    """A run with its directory and its kept settings. Its output is checked, and not held yet."""

    plan: Any  # RunPlan, or GpusPlan
    config: dict
    output: str
    made: list  # the folders that resolve_output() created
    about: dict  # facts for the summary
    note: Callable
    place: Any = None  # stores.place.Place; None: results stay in the output folder

    shown_output = property(lambda self: self.place.url if self.place else self.output)

    def hold_output(
        self, steps, held=None, take=OutputLock, give_back=("finish",), has_summary=True, may_hold_job=False
    ):
        """
        Calls `steps()`, which returns (exit code, the summary's lines), while this run holds the output. `held`: the
        output's lock, where the caller holds it. `give_back`: of give_tables_back(). `has_summary`: a run that cannot
        start writes the reason into it. `may_hold_job`: the caller checks whose job is in the output. Returns the exit
        code.
        """
        plan = self.plan
        with (
            removed_after_a_failure(self.made) as ended,
            reason_in_summary(plan.run_dir, self.about) if has_summary else contextlib.nullcontext(),
            written_to(plan.run_dir),
        ):
            plan.output_lock = held or take(self.output, plan.run_id, self.note)
            try:
                if not held and not may_hold_job:  # else it is a shard of the job
                    require_no_job(self.output, self.config)
                with self.place.held(plan, self.config, self.output) if self.place else contextlib.nullcontext():
                    code, lines = steps()
            finally:
                if not held:
                    give_tables_back(plan, give_back)
                    plan.output_lock.close()
            ended.well = code == 0
        announce_end(self.config, lines)
        return code

    def go_on(self, places, typed, flags=None):
        """The command that continues this run, with these flags."""
        replaces = is_used_by_other_run(self.output, self.plan.run_id)
        return continue_command(places, typed, self.config, self.plan.run_dir, replaces, flags or {})


def run_dir_of(places, config, account=None, groups=()):
    """(a new run's id, its directory, held). SIGTERM and SIGHUP act like Ctrl-C from here on. Errors: LaunchError."""
    run_id = config.get("run-id") or new_run_id()
    run_path = choose_run_dir(places, config.get("run-dir"), run_id, longest_folder(groups))
    require_apart(config.get("output") or run_path / "output", config, groups)
    interrupts.handle_all_signals()
    return run_id, RunDir(places, run_path, account)


def begin_work(
    places,
    run_id,
    run_dir,
    config,
    argv,
    typed,
    version,
    number,
    http,
    found=(),
    account=None,
    place=None,
    groups=(),
    is_own=False,
    **settled,
):
    """
    Keeps the run's settings: `config`, as requested, and those that were `settled`. `argv`: the programs' flags.
    `found`: flags of what only the producer detects. `typed`: the command as the user gave it. `number`: as
    number_of_consumers() returns it. The plan of the returned Work has no producer yet. `groups`: of --group.
    `is_own`: the run is a custom program's.
    """
    output, made = resolve_output(config, run_dir, account)
    kept = without_defaults(config) if groups else config
    consumers, bounds = number
    settled = {
        **config,
        **settled,
        "run-id": run_id,
        "run-dir": str(run_dir.path),
        "output": output,
        "consumers": consumers,
    }
    with written_to(run_dir):
        keep_settings(run_dir, settled, kept, argv)
        of_all = places, argv, found, run_dir, settled, account, is_own
        plans = [plan_of(group, groups, *of_all) for group in groups]
    plan = RunPlan(
        run_id,
        run_dir,
        [],
        consumer_command(places, argv, run_dir.path, output, bounds.most if bounds else None, found),
        consumers,
        bounds,
        account,
        config.get("producer-restarts", 0),
        log_format=config.get("log-format", "text"),
        http=http,
        groups=plans,
    )
    shown_output = place.url if place else output
    about = summary.about(run_id, run_dir, version, places.commit(), shown(typed), settled, shown_output)
    return Work(plan, config, output, made, about, notes_of(config), place)


def give_tables_back(plan, words):
    """For a run that ended unmerged after --overwrite renamed a table. `words`: the consumer's command that merges."""
    if plan.may_owe_tables:
        with contextlib.suppress(OSError):
            command = [plan.consumer[0], *words, *plan.consumer[1:], "--run-id", plan.run_id]
            null = subprocess.DEVNULL
            subprocess.run(command, stdin=null, stdout=null, stderr=null, check=False, **identity_of(plan.account))


def watched(work, sweeper, watch_on, conclude, lines, unit="samples", status=lambda watch: watch.status, begins=None):
    """
    Runs a watch. Returns (the exit code, the summary's lines). `watch_on(display)` makes the watch. `conclude(watch,
    code, Finishing, seconds)` returns (the exit code, the summary). `lines(watch, summary)`: a text for a reader.
    `sweeper`: the program that removes a dead producer's memory. `status(watch)`: the final one. `begins`: what begins,
    if not consumers.
    """
    plan, began = work.plan, time.monotonic()
    display = make_display(unit, plan.log_format)
    display.note(f"run {plan.run_id}: {begins or f'{plan.consumers} consumers'}, {plan.run_dir.path}")
    watch = watch_on(display)
    with Finishing(work.note) as finishing:
        try:
            code = watch.run()
            display.close()
            code, whole = conclude(watch, code, finishing, time.monotonic() - began)
            plan.output_lock.put_back()
            display.show_end(status(watch))
            return code, lines(watch, whole)
        finally:
            display.close()
            if not plan.is_swept:
                sweep(sweeper)
            watch.close()


def end_of_work(plan, finishing, code, report, words, explain):
    """
    Retries the samples of failed batches and merges the outputs, once all programs of the run have ended.

    `report`: corrected by the retries.
    `words(code)`: the consumer's command that merges. `explain(code, why)`: the reason of the code, where merging does
    not outweigh it. Returns (the exit code, the reason).
    """
    code = recover(plan, finishing, code).correct(report, code)
    finished, why = finish_all(plan, finishing, words(code))
    if is_outweighed(code, finished):
        return finished, merge_failure(why, plan.run_dir)
    return code, explain(code, why)


def note_folders(report, plan):
    """Each group has its own dead letters. Its folder may also have an earlier run's."""
    if plan.groups:
        lost = {group.get("name") for group in report.get("groups") or [] if group.get("dead_lettered_samples")}
        report["dead_letters_in"] = [str(group.folder) for group in plan.groups if group.name in lost]


def finish_all(plan, finishing, words):
    """
    Merges each group's outputs, or those of a run without groups. A group that fails leaves the others' results to be
    merged; only a signal ends that. Returns the first failure as finish() does, but not of an optional group.
    """
    first: tuple = (int(ExitCode.OK), None)
    for group in plan.all_groups():
        program, *flags = group.finishing
        code, why = finish(plan, finishing, [program, *words, *flags, "--run-id", plan.run_id])
        if group.optional and code not in (ExitCode.OK, ExitCode.INTERRUPTED):
            fix = "Fix it, then continue the run with --resume. The run succeeds without it, because the group is optional"
            note = in_one_line(f"group {group.name} is not merged: {why}\n{fix}")
            announce({"log-format": plan.log_format}, f"{note}\n    Its log: {plan.run_dir.log('finish')}")
        elif first[0] == ExitCode.OK:
            first = code, f"group {group.name}: {why}" if group.name and why else why
        if code == ExitCode.INTERRUPTED:
            break
    return first


def recover(plan, finishing, code):
    """
    Processes failed batches again, halved until only single samples fail, for a run that ends with dead letters.
    Skipped for consumers of another user: their processor runs as that user only, who cannot read the payloads.
    """
    if code != ExitCode.DEAD_LETTERS or plan.account:
        return Recovered()

    def run(command):
        if plan.output_lock:
            plan.output_lock.require_in_place()
        child = Child("retry", command, plan.run_dir.log("retry"), ())
        return int(ExitCode.INTERRUPTED) if finishing.wait(child) is Finishing.ENDED else child.status

    try:
        recovered = Recovered()
        required = [group for group in plan.all_groups() if not group.optional]  # others' results may have gaps
        for group in required:
            recovered.add(retry_failed(group.folder, plan.run_id, group.finishing, run))
        if plan.groups:  # a sample may be a dead letter of several
            recovered.samples = recovered_among([group.folder for group in required], plan.run_id)
        return recovered
    except (LaunchError, OSError) as problem:
        announce({"log-format": plan.log_format}, f"dead letters could not be retried: {problem}")
        return Recovered()


def finish(plan, finishing, command):
    """
    Runs `command` to merge the consumers' outputs and to remove the run's memory, after all programs have ended.
    Returns (0, None), or its exit code and the reason; also fails where another folder has the output's name by now.
    """
    plan.may_owe_tables = False
    lock = plan.output_lock  # None for a run without an output, such as the ladder's timed runs
    try:
        if lock:
            lock.require_in_place()
        commands = {"merging": command}
        if plan.place:
            commands["storing"] = plan.place.command_for_whole_files(lock.folder)
        for doing, each in commands.items():
            child = Child(
                "finish", each, plan.run_dir.log("finish"), (lock.fd,) if lock else (), **identity_of(plan.account)
            )
            if finishing.wait(child) is Finishing.ENDED:
                why = f"{doing} the outputs was ended by a signal; they stay as they are, and --resume continues"
                return int(ExitCode.INTERRUPTED), why
            if child.status != 0:
                break
        if lock:
            lock.require_in_place()
    except LaunchError as problem:
        return int(problem.code), str(problem)
    if child.status == 0:
        plan.is_swept = not plan.account  # another user may not remove this user's memory
        return 0, None
    return shell_code(child.status), f"{doing} the outputs {child.ending()}: {child.reason() or 'it wrote nothing'}"


def identity_of(account):
    """User and groups as subprocess arguments."""
    return account.of_consumers() if account else {}


def sweep(producer):
    """Removes the memory of dead runs, as each producer does when it starts. The program prints its own warnings."""
    with contextlib.suppress(OSError):
        subprocess.run([producer, "sweep", "--log-level", "warning"], stdin=subprocess.DEVNULL, check=False)


def resolve_output(config, run_dir, account):
    """(the output folder: the user's, or one in the run directory; the folders that it created for the user)."""
    if config.get("output"):
        folder = pathlib.Path(config["output"]).absolute()
        return str(folder), check_output(folder, account)
    folder = run_dir.file(OUTPUT)
    folder.mkdir(exist_ok=True)
    if account:
        os.chown(folder, account.uid, account.gid)
    return str(folder), []


def require_apart(output, config, groups=()):
    """Refuses an output in the input folder: results would replace their input, or become input of the next run."""
    source = config.get("input")
    if not source or not os.path.isdir(source):
        return
    source, output = pathlib.Path(source).resolve(), pathlib.Path(output).resolve()
    names = [group.name for group in groups] or config.get("processor", "").split(",")
    for folder in (output, *(output / name for name in names if groups or len(names) > 1)):
        # The producer also walks the targets of links.
        folder = folder.resolve()
        if folder == source or source in folder.parents:
            where = "is the --input folder" if folder == source else f"is in the --input folder {source}"
            is_given = folder == output and config.get("output")
            what = f"--output {folder}" if is_given else f"the folder for results, {folder},"
            raise UsageError(
                f"{what} {where}: results could replace what they are made from, and would be input of the next run",
                "Give --output a folder beside it",
            )


def check_output(folder, account):
    """Makes the folder and refuses one that cannot be written. Returns the folders that it created, innermost first."""
    made = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    with write_errors(f"--output {folder} cannot be written", "Give --output a folder that you may write to"):
        folder.mkdir(parents=True, exist_ok=True)
        if not account:
            with tempfile.TemporaryFile(dir=folder):
                pass
    return made


def continue_command(places, typed, config, run_dir, replaces, flags):
    """
    The command that continues a run, from any folder: the original command, run in its original folder, since its paths
    and those of its environment and --config are relative to it. `replaces`: the output still belongs to another run,
    which --resume would continue; unless --resume was given, the command then starts this run's work anew. `flags`:
    with their values, instead of the same ones.
    """
    words = [*without_values(to_type_again(typed), (*SETTLED, *flags)), *words_of(flags)]
    anew = replaces and not config.get("resume")
    if not anew:
        words = without_switches(words, ("--resume", "--overwrite"))
    # Without --output a run is identified by its directory.
    where = [] if config.get("output") and not config.get("run-dir") else ["--run-dir", str(run_dir.path)]
    command = shlex.join([places.continue_command_line(), *words, *where, *([] if anew else ["--resume"])])
    folder = summary.working_folder()
    return f"(cd {shlex.quote(folder)} && {command})" if folder else command
