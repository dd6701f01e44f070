"""
The command `run --gpus`: one worker per GPU of this host, or N producers on its CPU, with the results of one run. It
builds on jobs (jobs/folder.py): it begins a job in the output, runs its shards, and merges them.
"""

import contextlib
import functools
import math
import os
import pathlib
import tempfile

from offramp_launch import arguments, interrupts, run_command, run_steps, settings, sink, summary
from offramp_launch.gpus import job as gpus_job, summary as gpus_summary
from offramp_launch.jobs import command as job_command, merge as job_merge
from offramp_launch.supervision.children import Child
from offramp_launch.demo import wants_demo
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError, shell_code
from offramp_launch.failure import dead_letters_failure
from offramp_launch.finishing import Finishing
from offramp_launch.gpus.devices import VISIBLE, devices_of
from offramp_launch.supervision.scaling import bounds_given
from offramp_launch.gpus.shares import flags_of_workers, initial_consumers
from offramp_launch.gpus.status import counted, total_of
from offramp_launch.gpus.supervisor import GpusPlan, GpusSupervisor
from offramp_launch.groups import groups_of, longest_folder, plan_of, without_defaults
from offramp_launch.output_folder import OutputLock, make_room, require_one_intent
from offramp_launch.progress import print_note
from offramp_launch.run_dir import RunDir, choose_run_dir, new_run_id
from offramp_launch.stores.place import url_given
from offramp_launch.supervision.watch import STATUS_SECONDS
from offramp_launch.watching import address

FLAG = "--gpus"
AHEAD = "--start-ahead"
OF_THE_WHOLE = ("--run-dir", "--run-id", "--output")
# The longest name of a worker's run directory.
LONGEST_NAME = "s99999-99"
NOT_HERE = {
    "--producer": "your own producer program chooses its GPU itself",
    "--shard": "it runs all shards: --shards sets their number",
    "--strategy": "the rungs are measured with one producer",
    "--consumer-user": "it has no consumers of another user",
    "--samples-folder": "it is an internal flag of the programs",
    "--input-list": "it is an internal flag of the programs",
    "--input-index": "it is an internal flag of the programs",
    "--turn": "it is an internal flag of the programs",
    "--trace-dir": "all its programs would write the same files",
    "--log-file": "all its programs would write to one file",
}


def start(places, argv, typed):
    """`argv`: the flags. `typed`: the command as the user gave it."""
    http, argv = address.take(argv)
    given, flags = arguments.take_values(argv, (FLAG, "--shards"))
    starts_ahead, flags = arguments.take_switch(flags, AHEAD)
    require_gpus(given, starts_ahead)
    if not arguments.names_in(flags).isdisjoint(run_command.ANSWERED_BY_THE_PRODUCER):
        return run_command.start(places, flags, ["run", *flags])
    refuse(flags, {})
    if url := url_given(flags):
        raise UsageError(
            f"--gpus cannot be combined with --output {url}: its workers share a folder",
            "Leave --gpus out, or give a local --output and copy the results",
        )
    shards = arguments.count(given["--shards"], "--shards") if "--shards" in given else None
    if shards == 0:
        raise UsageError("--shards is 0", "Give a number from 1 on, or leave it out")
    typed = sink.hide_password(typed, os.environ)
    resume, flags = arguments.take_switch(
        arguments.hide_query(sink.hide_password(flags, os.environ), os.environ), "--resume"
    )
    device = arguments.setting_given("device", flags)  # parsed here: a program would open a GPU to answer
    devices = devices_of(given[FLAG], device or "auto")
    if starts_ahead:
        require_different(given[FLAG], devices)
    if device != "cpu":  # a lost GPU must not move its work to the CPU
        flags = [*arguments.without_values(flags, ("--device",)), "--device", "cuda"]
    config = on_first_working(devices, lambda: settings.resolve_run(places, flags)[1])
    resume = resume or config["resume"]
    flags = arguments.without_switches(flags, ("--resume", "--overwrite"))
    # Overrides a settings file: each shard's run gets its own --resume, and only this launcher makes room.
    os.environ.update(OFFRAMP_RESUME="false", OFFRAMP_OVERWRITE="false")
    refuse(flags, config)
    config["resume"] = resume
    require_one_intent(config)
    settings.require_run_to_continue(config)
    if wants_demo(flags, config):
        raise UsageError(
            f"--gpus {given[FLAG]} needs an input, and none was given",
            "Give --input and --model; without --gpus a run without an input is the demo",
        )
    run_id = config.get("run-id") or new_run_id()
    groups = groups_of(config, flags)
    run_path = choose_run_dir(places, config.get("run-dir"), run_id, f"{LONGEST_NAME}/{longest_folder(groups)}")
    output = place_of(config, run_path)
    if resume and is_of_one_producer(output, run_id):
        run_steps.announce(config, f"{output} is from a run with one producer: {devices[0].name} continues it")
        return run_command.start(
            places, [*flags, "--resume", *([] if http is None else [address.FLAG, address.spelled(*http)])], typed
        )
    return run(places, flags, typed, {**config, "run-id": run_id}, run_path, devices, shards, http, starts_ahead)


def require_gpus(given, starts_ahead):
    """Errors: LaunchError (USAGE) for a flag that needs --gpus."""
    if FLAG not in given and starts_ahead:
        raise UsageError(
            f"{AHEAD} needs --gpus", f"Give --gpus, whose workers process one shard after another, or leave {AHEAD} out"
        )
    if FLAG not in given:
        raise UsageError(
            f"--shards {given['--shards']} needs --gpus",
            "Give --gpus, or see ./launch/offramp job --help for shards on many hosts",
        )


def require_different(wanted, devices):
    """Errors: LaunchError (USAGE) if a GPU is named twice. Producers on the CPU have no GPU to share."""
    uuids = [uuid for device in devices if (uuid := device.environment.get(VISIBLE))]
    if len(set(uuids)) < len(uuids):
        raise UsageError(
            f"{AHEAD} with --gpus {wanted}, which names a GPU twice: {AHEAD} already gives each GPU two workers, and they compute alternately",
            f"Name each GPU once, or leave {AHEAD} out",
        )


def on_first_working(devices, ask):
    """ask()'s result on the first device that works. This process keeps that device for later questions to programs."""
    for device in devices:
        os.environ.update(device.environment)
        try:
            return ask()
        except LaunchError as problem:
            if problem.code not in (ExitCode.DEVICE_BROKEN, ExitCode.DEVICE_UNSUPPORTED) or device == devices[-1]:
                raise
            print_note(f"{device.name} does not answer, trying the next: {problem.what}")
    raise AssertionError("there is a device")


def refuse(flags, config):
    for name in arguments.given_among(NOT_HERE, flags, config):
        raise UsageError(f"--gpus cannot be combined with {name}: {NOT_HERE[name]}", f"Leave {name} out, or --gpus")


def place_of(config, run_path):
    """The output's real path: shards compare it."""
    return pathlib.Path(os.path.realpath(config.get("output") or run_path / "output"))


def is_of_one_producer(output, run_id):
    """Whether the output has one checkpoint, of a run without --gpus or of a merge: then one producer continues it."""
    if gpus_job.is_begun_in(output) or not gpus_job.holds_more_than_a_job(output):
        return False
    with contextlib.closing(OutputLock(str(output), run_id)):
        gpus_job.clear_remains(output)
    return True


def run(places, flags, typed, config, run_path, devices, shards, http, starts_ahead=False):
    output, given = place_of(config, run_path), flags
    job_command.require_job_flags(flags := arguments.take_values(flags, OF_THE_WHOLE)[1])
    flags, settled = job_command.settled(places, flags)
    groups = groups_of(settled, flags)
    run_steps.require_apart(str(output), {**settled, "output": config.get("output")}, groups)
    shares = flags_of_workers(settled, given, len(devices), settled["device"] == "cpu")
    interrupts.handle_all_signals()
    run_dir = RunDir(places, run_path)
    made = run_steps.resolve_output(config, run_dir, None)[1]
    run_id, producer = config["run-id"], str(places.producer())
    whole = {
        **settled,
        "run-id": run_id,
        "run-dir": str(run_dir.path),
        "output": str(output),
        "consumers": sum(map(initial_consumers, shares)),
    }
    about = summary.about(
        run_id, run_dir, settings.version_of(producer), places.commit(), arguments.shown(typed), whole, str(output)
    )

    plan = GpusPlan(
        places,
        run_id,
        run_dir,
        None,
        list(zip(devices, shares)),
        flags,
        log_format=settled.get("log-format", "text"),
        http=http,
        status_seconds=settled.get("status-seconds", STATUS_SECONDS),
        bounds=bounds_given(given),
        starts_ahead=starts_ahead,
    )

    def steps():
        gpus_job.clear_remains(output)
        if config["resume"] and gpus_job.is_begun_in(output):
            plan.job = gpus_job.go_on(places, output, flags, settled, shards)
        else:
            make_room_in(output, plan.output_lock, config)
            plan.job = gpus_job.begin(places, output, flags, settled, shards, len(devices))
        plan.error_limit = most_errors(settled.get("max-errors"), plan.job.items)
        # Later commands for dead letters find the results by the job's id.
        of_job, kept = {**whole, "run-id": plan.job.id}, without_defaults(settled) if groups else settled
        settings.keep_settings(run_dir, of_job, {**kept, "output": config.get("output") or ""}, given)
        plan.groups = [plan_of(group, groups, places, flags, (), run_dir, of_job, None) for group in groups]

        def go_on(whole):
            return run_steps.continue_command(places, typed, config, run_dir, False, summary.demanded_flags(whole))

        return supervise(work, go_on)

    work = run_steps.Work(plan, settled, str(output), made, about, run_steps.notes_of(settled))
    return work.hold_output(steps, may_hold_job=True)


def make_room_in(output, lock, config):
    """Renames the results there with --overwrite. Errors: LaunchError (USAGE) if other files are there."""
    if gpus_job.is_begun_in(output):
        raise UsageError(
            f"--output {output} holds an unfinished run with --gpus",
            "Pass --resume to continue it; else give another --output, or remove what is there",
        )
    if config["overwrite"]:
        if config.get("sink"):
            raise UsageError(
                "--gpus with --overwrite cannot rename the tables of --sink", "Leave --overwrite or --gpus out"
            )
        make_room(lock, str(output), config)
    if gpus_job.holds_more_than_a_job(output):
        raise UsageError(
            f"--output {output} is not empty: {', '.join(sorted(os.listdir(output))[:3])}",
            "Pass --resume to continue a run, or --overwrite to rename its results; else give an empty or new folder",
        )


def supervise(work, go_on):
    """(the exit code, the summary's lines)."""
    plan, job, unit = work.plan, work.plan.job, settings.unit_of(work.config)
    producer = str(plan.places.producer())
    run_steps.sweep(producer)
    workers = counted(len(plan.workers) * (2 if plan.starts_ahead else 1), "worker")
    left = job.shards - len(job.records())

    def watch_on(display):
        if plan.starts_ahead and left < 2 * len(plan.workers):
            display.note(
                f"{AHEAD} begins few shards ahead, as {counted(left, 'shard')} {'is' if left == 1 else 'are'} left to do: --shards sets the number for a new run"
            )
        return GpusSupervisor(plan, display)

    return run_steps.watched(
        work,
        producer,
        watch_on,
        lambda *ended: conclude(work, *ended),
        lambda _, whole: gpus_summary.lines(whole, unit, job, go_on(whole)),
        unit,
        lambda _: plan.run_dir.status(),
        f"{workers} ({', '.join(device.name for device, _ in plan.workers)}), {job.items} {unit} in {counted(job.shards, 'shard')}"
        + (f", {counted(len(plan.groups), 'group')} of consumers" if plan.groups else ""),
    )


def most_errors(limit, items):
    """As common/app/settings/parsed_values.cpp computes it. The programs have already validated the limit."""
    limit = str(limit)
    return math.ceil(float(limit[:-1]) * items / 100) if limit.endswith("%") else int(limit)


def conclude(work, supervisor, code, finishing, seconds):
    """Merges and removes the job if all shards are done, and writes the summary. Returns (exit code, summary)."""
    plan, run_dir, job = work.plan, work.plan.run_dir, work.plan.job
    whole = gpus_summary.join(work.about, job, supervisor, gpus_summary.summaries_of(job, supervisor), seconds)
    failure = supervisor.failure
    if code == 0:
        try:
            ask_program = functools.partial(ask, run_dir=run_dir, lock=plan.output_lock, finishing=finishing)
            gpus_job.merge(plan.places, job, plan.flags, ask_program, plan.output_lock, work.note)
            whole["not_merged"] = job_merge.groups_not_merged(job)
            if job_merge.is_merged(job):  # else the shards' folders have results of an optional group
                gpus_job.put_away(job)
            job_merge.require_a_result(job.items, whole["samples"]["skipped"])
            job_merge.require_whole_pictures(job, total_of(supervisor.counts.values()))
        except LaunchError as problem:
            failure, code = problem, int(problem.code)
        if code == 0 and whole["samples"]["dead_letters"]:
            why = dead_letters_failure(whole["samples"]["dead_letters"], *whole["dead_letters_in"] or [run_dir.path])
            code, failure = int(ExitCode.DEAD_LETTERS), LaunchError(why)
    elif code == ExitCode.INTERRUPTED:
        failure = LaunchError("the run was stopped before its input was used up")
    whole.update(exit=code, failure=failure.in_one_line() if code != 0 else None, ended=summary.wall_clock())
    summary.write(run_dir, whole)
    return code, whole


def ask(command, text="", *, run_dir, lock, finishing):
    """Runs a program of the merge; `text`: its input. Errors: LaunchError, with the program's message and code."""
    with tempfile.TemporaryFile("w+") as words:
        words.write(text)
        words.seek(0)
        program = Child("merge", command, run_dir.log("merge"), (lock.fd,), stdin=words)
        is_ended = finishing.wait(program) is Finishing.ENDED
    if is_ended:
        raise LaunchError(
            "the merge was ended by a signal; the results stay, and --resume continues it", "", ExitCode.INTERRUPTED
        )
    if program.status != 0:
        raise LaunchError(
            f"the merge {program.ending()}: {program.reason() or 'it wrote nothing'}",
            f"Its log: {program.log_path}",
            shell_code(program.status),
        )
