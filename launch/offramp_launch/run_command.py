"""The command `run`: resolves the settings, makes the run directory, starts and watches the programs, and writes the summary."""

import contextlib
import glob
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from offramp_launch import interrupts, sink, summary, texts
from offramp_launch.user import account_of
from offramp_launch.arguments import hide_query, setting_given, shown, to_type_again, without_values
from offramp_launch.supervision.children import Child
from offramp_launch.demo import demo_flags, shipped_model_flags, show, wants_demo
from offramp_launch.exit_code import NO_ROOM, ExitCode, LaunchError, cannot_be_started, shell_code, way_to_write
from offramp_launch.failure import failure_of, is_outweighed, merge_failure
from offramp_launch.ladder import rungs
from offramp_launch.supervision.log_follower import COMMAND_ERROR, last_error
from offramp_launch.finishing import Finishing
from offramp_launch.output_folder import OutputLock, is_used_by_other_run, make_room, prepare, removed_after_a_failure, require_no_job
from offramp_launch.progress import as_record, make_display
from offramp_launch.retries import Recovered, retry_failed
from offramp_launch.run_dir import SUMMARY, RunDir, choose_run_dir, new_run_id
from offramp_launch.supervision.supervisor import Supervisor
from offramp_launch.supervision.scaling import MOST_CONSUMERS, bounds_given
from offramp_launch.supervision.watch import STATUS_SECONDS, RunPlan
from offramp_launch.watching import address

# Flags that make the producer answer instead of running.
ANSWERED_BY_THE_PRODUCER = ("--print-config", "--list", "--help-all")
# Set by the launcher for every program of the run.
SETTLED = ("--run-dir", "--run-id", "--lifeline-fd")
# Given anew for every run, so not part of the settings that another run may start from.
OF_ONE_RUN = (*SETTLED, "--resume", "--overwrite", "--samples-folder", "--input-list", "--turn")
# Plural nouns for the items of each source, unless these are parts of its items.
UNITS = {"auto": "images", "images": "images", "jsonl": "images", "webdataset": "images", "text": "lines", "jsonl-text": "texts", "parquet-text": "texts"}


def start(places, argv, typed, go_on=None, held=None, first=None):
    """
    `argv`: the programs' flags. `typed`: the command as the user gave it, for the continue command. `go_on`: the continue command,
    where it is another one. `held`: the output's lock, where the caller holds it. `first`: number of consumers to begin with
    under autoscaling; None: the default number.
    """
    http, argv = address.take(argv)
    if any(argument.partition("=")[0] in ANSWERED_BY_THE_PRODUCER for argument in argv):
        program = str(places.producer())
        with contextlib.suppress(LaunchError):      # the producer reports its own refusals
            program = resolve_run(places, argv)[0] if "--print-config" in argv else program
        code = subprocess.run([program, *argv], check=False).returncode
        if code == 0 and "--list" in argv:
            code = subprocess.run([str(places.consumer()), "--list"], check=False).returncode
        return code

    argv, typed = sink.hide_password(argv, os.environ), sink.hide_password(typed, os.environ)
    argv = hide_query(argv, os.environ)
    producer, config = resolve_run(places, argv)
    argv = [*argv, *sink.resolve(config, os.environ)]
    demo = wants_demo(argv, config)
    if demo:
        flags = demo_flags(places, argv)
        announce(config, f"no input given; running the demo: {shlex.join(flags)}")
        argv = [*argv, *flags]
        producer, config = resolve_run(places, argv)
        if config.get("source") == "text":
            raise LaunchError(f"--model {config['model']} takes lines of text, and no input was given", "Give --input FILE.txt", ExitCode.NO_INPUT)
    elif shipped := shipped_model_flags(argv, config):
        announce(config, f"no --model given; using the shipped one, which knows rendered pictures (launch/demo/README.md): {shlex.join(shipped)}")
        argv = [*argv, *shipped]
        producer, config = resolve_run(places, argv)

    found = detected_flags(config, resolve(str(places.consumer()), argv))
    if config.get("source") in texts.SOURCES:
        texts.provide_tokenizers(places)
    consumers, bounds = number_of_consumers(config, argv, first) if rungs.of_run(config).has_consumers else (config.get("consumers") or 0, None)

    if config.get("resume") and not (config.get("output") or config.get("run-dir")):
        raise LaunchError("--resume needs the run to continue",
                          "Give its --output (or its --run-dir, if it had no --output)", ExitCode.USAGE)
    run_id = config.get("run-id") or new_run_id()
    account = account_of(config.get("consumer-user"))
    run_path = choose_run_dir(places, config.get("run-dir"), run_id)
    require_apart(config.get("output") or run_path / "output", config)
    version, commit = version_of(producer), places.commit()
    interrupts.handle_all_signals()
    run_dir = RunDir(places, run_path, account)
    output, made = resolve_output(config, run_dir, account)
    flags = [*without_values(argv, SETTLED), "--run-dir", str(run_dir.path), "--output", output]
    settled = {**config, "run-id": run_id, "run-dir": str(run_dir.path), "output": output, "consumers": consumers}
    keep_settings(run_dir, settled, config, argv)

    plan = RunPlan(run_id, run_dir, [producer, *flags, "--run-id", run_id, "--consumers", str(consumers)],
                   [str(places.consumer()), *flags, *found, *at_most(bounds)], consumers, bounds, account,
                   config.get("producer-restarts", 0), rungs.not_recovered(config))
    plan.log_format, plan.http, plan.status_seconds = config.get("log-format", "text"), http, config.get("status-seconds", STATUS_SECONDS)
    unit = unit_of(config)
    about = summary.about(run_id, run_dir, version, commit, shown(typed), settled, output)

    def note(text, **_):
        announce(config, text.removeprefix("[run] "))

    with removed_after_a_failure(made) as ended, samples_in_summary(run_dir, about), written_to(run_dir):
        lock = held or OutputLock(output, run_id, note)
        try:
            plan.output_lock = lock
            if not held:        # else it is a shard of the job
                require_no_job(output, config)
                make_room(lock, output, config)
            prepare(output, plan.consumer, identity_of(account), run_id, beyond=bool(config.get("sink")) or names_other_processors(config), note=note)
            code, lines = supervise(plan, run_dir, output, unit, producer, about,
                                    lambda: go_on or continue_command(places, typed, config, run_dir, replaces=is_used_by_other_run(output, run_id)))
        finally:
            if not held:
                lock.close()
        ended.well = code == 0
    announce_end(config, lines)
    if demo and code == 0:
        announce(config, show(places, output, config), "")
    return code


def unit_of(config):
    """Plural noun for the run's items."""
    if config.get("model") == "copy":
        return "samples"
    return "tiles" if config.get("tile") else "chunks" if config.get("chunk-tokens") else UNITS.get(config.get("source"), "samples")


def announce(config, text, prefix="[run] "):
    """Prints a message in the form of the logs."""
    print(as_record(text) if config.get("log-format") == "json" else f"{prefix}{text}", flush=True)


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
        raise LaunchError(f"the run directory {run_dir.path} cannot be written: {problem.strerror}",
                          way_to_write(problem, "Make room there, or choose another with --run-dir"), ExitCode.CANNOT_WRITE) from problem


@contextlib.contextmanager
def samples_in_summary(run_dir, about):
    """Writes the reason into the summary when the run cannot start."""
    try:
        yield
    except (LaunchError, KeyboardInterrupt) as problem:
        code, failure = (problem.code, problem.in_one_line()) if isinstance(problem, LaunchError) else (ExitCode.INTERRUPTED, "the run was stopped before it began")
        with contextlib.suppress(OSError):
            if run_dir.read_json(SUMMARY) is None:       # else the interruption came after the run's end
                summary.write(run_dir, {**about, "incomplete": True, "exit": int(code), "failure": failure, "ended": summary.wall_clock()})
        raise


def version_of(program):
    """The last word of its --version output; None where it has none."""
    try:
        words = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.split()
    except OSError:
        return None
    return words[-1] if words else None


def resolve_run(places, argv):
    """(the producer program for these flags, the settings that it resolved)."""
    producer = str(places.producer())
    config = resolve(producer, argv)
    chosen = str(rungs.program_of(places, config))
    return (producer, config) if chosen == producer else (chosen, resolve(chosen, argv))


def resolve(program, argv):
    """The settings as a program resolves them. Producer and consumers know every flag. Passes a refusal on unchanged."""
    try:
        answer = subprocess.run([program, "--print-config", *argv], capture_output=True, text=True, check=False)
    except OSError as problem:
        raise cannot_be_started(program, problem) from problem
    if answer.returncode != 0:
        raise LaunchError(last_error(answer.stderr) or answer.stderr.strip() or f"'{program}' ended with exit code {answer.returncode} and wrote nothing",
                          "", shell_code(answer.returncode))
    try:
        return json.loads(answer.stdout)
    except ValueError as problem:
        raise LaunchError(f"'{program} --print-config' gave no JSON ({problem})",
                          "The programs and the launch script are of different versions: ./launch/offramp setup",
                          ExitCode.PROTOCOL) from problem


def detected_flags(config, without):
    """
    Flags that pass on to consumers what only the producer detects, from a model's metadata, the input and the device: the settings in
    its `config` that differ from those resolved `without` it.
    """
    return [part for name, value in config.items() if value != without.get(name) for part in as_flag(name, value)]


def as_flag(name, value):
    """A string may be empty; a switch takes its value only after '='."""
    return [f"--{name}", value] if isinstance(value, str) else [f"--{name}={json.dumps(value)}"]


def number_of_consumers(config, argv, first=None):
    """(initial number of consumers, Bounds of autoscaling or None). `first`: as in start(). Errors: LaunchError (USAGE)."""
    if bounds := bounds_given(argv):
        return bounds.within(first or default_consumers(config)), bounds
    consumers = config.get("consumers") or default_consumers(config)
    if consumers > MOST_CONSUMERS:
        raise LaunchError(f"--consumers {consumers} is more than a run can hold", f"Give at most {MOST_CONSUMERS}", ExitCode.USAGE)
    return consumers, None


def at_most(bounds):
    """Flags by which consumers divide the cores among the largest possible number of them."""
    return ["--consumers", str(bounds.most)] if bounds else []


def keep_settings(run_dir, settled, config, argv):
    """`settled`: all settings of the run; `config`: the requested ones, reusable with --config; `argv`: the user's flags."""
    with written_to(run_dir):
        run_dir.previous.put("config.json", json.dumps(settled, indent=2) + "\n")
        run_dir.previous.put("config.toml", to_toml({**config, "consumers": setting_given("consumers", argv) if bounds_given(argv) else settled["consumers"]}))


def to_toml(config):
    """The settings as a file for --config, without those that belong to one run only."""
    lines = ["# The settings of a run; another run with the same: ./launch/offramp run --config THIS_FILE"]
    # JSON strings, numbers and booleans are valid TOML.
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in config.items()
              if f"--{key}" not in OF_ONE_RUN and (key, value) != ("output", "")]
    return "\n".join(lines) + "\n"


def default_consumers(config, cores=None):
    """For a producer that leaves the number to the launcher."""
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    gpu = config.get("device") != "cpu" and glob.glob("/dev/nvidia[0-9]*")
    return min(max(cores // 2, 2), 8) if gpu else 2


def resolve_output(config, run_dir, account):
    """(the user's folder, or one in the run directory owned by the consumers' user; the folders that it created for the user)."""
    if config.get("output"):
        folder = pathlib.Path(config["output"]).absolute()
        return str(folder), check_output(folder, account)
    folder = run_dir.file("output")
    folder.mkdir(exist_ok=True)
    if account:
        os.chown(folder, account.uid, account.gid)
    return str(folder), []


def names_other_processors(config):
    """Whether to check them before the run even for an empty output: common/app/settings/processor_spec."""
    return any(":" in name for name in config.get("processor", "").split(","))


def require_apart(output, config):
    """
    Refuses an output within the input folder: results could replace their input, and would become input of the next run. The producer checks
    single files and lists.
    """
    source = config.get("input")
    if not source or not os.path.isdir(source):
        return
    source, output = pathlib.Path(source).resolve(), pathlib.Path(output).resolve()
    names = config.get("processor", "").split(",")
    for folder in (output, *(output / name for name in names if len(names) > 1)):
        # The producer also walks the targets of links.
        folder = folder.resolve()
        if folder == source or source in folder.parents:
            where = "is the --input folder" if folder == source else f"is in the --input folder {source}"
            what = f"--output {folder}" if folder == output and config.get("output") else f"the folder for results, {folder},"
            raise LaunchError(f"{what} {where}: results could replace what they are made from, and would be input of the next run",
                              "Give --output a folder beside it", ExitCode.USAGE)


def check_output(folder, account):
    """Makes the folder and refuses one that cannot be written. Returns the folders that it created, innermost first."""
    made = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not account:
            with tempfile.TemporaryFile(dir=folder):
                pass
        return made
    except OSError as problem:
        raise LaunchError(f"--output {folder} cannot be written: {problem.strerror}",
                          "Give --output a folder that you may write to", ExitCode.CANNOT_WRITE) from problem


def continue_command(places, typed, config, run_dir, replaces):
    """
    The command that continues a run, from any folder: the original command, run in its original folder, since its paths and those of its
    environment and --config are relative to it. `replaces`: the output still belongs to another run, which --resume would continue; unless
    --resume was given, the command then starts this run's work anew.
    """
    words = without_values(to_type_again(typed), SETTLED)
    anew = replaces and not config.get("resume")
    if not anew:
        words = [word for word in words if word.partition("=")[0] not in ("--resume", "--overwrite")]
    # Without --output a run is identified by its directory.
    where = [] if config.get("output") and not config.get("run-dir") else ["--run-dir", str(run_dir.path)]
    command = shlex.join([places.continue_command_line(), *words, *where, *([] if anew else ["--resume"])])
    folder = summary.working_folder()
    return f"(cd {shlex.quote(folder)} && {command})" if folder else command


def supervise(plan, run_dir, output, unit, producer, about, go_on):
    sweep(producer)
    display = make_display(unit, plan.log_format)
    display.note(f"run {plan.run_id}: {plan.consumers} consumers, {run_dir.path}")
    supervisor = Supervisor(plan, display)

    def note(text):
        announce({"log-format": plan.log_format}, text)

    with Finishing(note) as finishing:
        try:
            code = supervisor.run()
            display.close()
            code, whole = conclude(plan, run_dir, supervisor, code, about, finishing)
            if plan.output_lock:
                plan.output_lock.put_back()
            display.show_end(run_dir.status())
            return code, summary.describe(whole, unit, output, go_on(), run_dir.summary_name())
        finally:
            display.close()
            sweep(producer)
            supervisor.close()


def conclude(plan, run_dir, supervisor, code, about, finishing):
    """
    Retries the samples of failed batches, merges the outputs and writes the summary, once all programs of the run have ended. Returns
    (the run's exit code, the summary).
    """
    recovered = recover(plan, run_dir, finishing, code)
    finished, why = finish(plan, run_dir, finishing, [plan.consumer[0], "finish", *plan.consumer[1:], "--run-id", plan.run_id])
    report = summary.read_producer_summary(run_dir)
    code = recovered.correct(report, code)
    if is_outweighed(code, finished):
        code, failure = finished, merge_failure(why, run_dir)
    else:
        failure = failure_of(code, supervisor.failure, report, supervisor.producer_end_reason(), why, run_dir)
    whole = summary.join(about, report, supervisor, code, failure)
    try:
        summary.write(run_dir, whole)
    except OSError as problem:
        if code in (ExitCode.OK, ExitCode.DEAD_LETTERS):
            code = int(ExitCode.CANNOT_WRITE)
            ended = f"{failure}. Besides," if failure else "the run is done, but"
            whole.update(exit=code, failure=f"{ended} its summary.json cannot be written: {problem.strerror}. "
                                            + way_to_write(problem, f"Make room in {run_dir.path}, or choose another folder with --run-dir"))
            summary.close_status(run_dir, whole)
    return code, whole


def sweep(producer):
    """Removes the memory of dead runs from /dev/shm. A run starts even if that fails; the program prints its own warnings."""
    try:
        subprocess.run([producer, "sweep", "--log-level", "warning"], stdin=subprocess.DEVNULL, check=False)
    except OSError:
        pass


def recover(plan, run_dir, finishing, code):
    """
    Processes failed batches again, halved until only single samples fail, for a run that ends with dead letters. Skipped for consumers of another user: their
    processor runs as that user only, who cannot read the payloads.
    """
    if code != ExitCode.DEAD_LETTERS or plan.account:
        return Recovered()

    def run(command):
        if plan.output_lock:
            plan.output_lock.require_in_place()
        child = Child("retry", command, run_dir.log("retry"), ())
        return int(ExitCode.INTERRUPTED) if finishing.wait(child) is Finishing.ENDED else child.status

    try:
        return retry_failed(run_dir.path, plan.run_id, plan.consumer, run)
    except (LaunchError, OSError) as problem:
        announce({"log-format": plan.log_format}, f"dead letters could not be retried: {problem}")
        return Recovered()


def finish(plan, run_dir, finishing, command):
    """
    Runs `command` to merge the consumers' outputs, after all of them have ended. Returns (0, None), or its exit code and the reason; also fails
    where another folder has the output's name by now.
    """
    lock = plan.output_lock     # None for a run without an output, such as the ladder's timed runs
    try:
        if lock:
            lock.require_in_place()
        child = Child("finish", command, run_dir.log("finish"), (lock.fd,) if lock else (), **identity_of(plan.account))
        if finishing.wait(child) is Finishing.ENDED:
            return int(ExitCode.INTERRUPTED), "merging the outputs was ended by a signal; they stay as they are, and --resume continues"
        if lock:
            lock.require_in_place()
    except LaunchError as problem:
        return int(problem.code), str(problem)
    if child.status == 0:
        return 0, None
    return shell_code(child.status), f"merging the outputs {child.ending()}: {child.reason() or 'it wrote nothing'}"


def identity_of(account):
    """User and groups as subprocess arguments."""
    return account.of_consumers() if account else {}
