"""The command `run --producer`: starts the user's program as the producer, and watches it and its consumers like any run."""

import os
import secrets
import shlex
import shutil

from offramp_launch import interrupts, program_checkpoint, sink, summary
from offramp_launch.arguments import shown, take_values
from offramp_launch.consume_command import begin_results, counts, followers_among, outcome_of, lines_of, parse_flags
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.failure import failure_of
from offramp_launch.output_folder import is_used_by_other_run
from offramp_launch.run_dir import RunDir, choose_run_dir, new_run_id
from offramp_launch.run_steps import (
    continue_command,
    end_of_work,
    require_apart,
    resolve_output,
    notes_of,
    watched,
    work_in_output,
    written_to,
)
from offramp_launch.settings import consumer_command, keep_settings, require_run_to_continue
from offramp_launch.supervision.program_supervisor import ProgramSupervisor
from offramp_launch.supervision.watch import RunPlan
from offramp_launch.watching import address

PRODUCER = "--producer"
ACCEPTED = ("--run-id", "--producer-restarts", "--kill-stalled")


def start(places, argv, typed):
    """`argv`: the flags. `typed`: the command as the user gave it."""
    http, argv = address.take(argv)
    flags, rest = take_values(argv, (PRODUCER,))
    program = words_of(flags[PRODUCER])
    rest, config, version, consumers, bounds = parse_flags(places, rest, "run --producer", ACCEPTED)
    typed = sink.hide_password(typed, os.environ)
    require_run_to_continue(config)
    run_id = config.get("run-id") or new_run_id()
    run_path = choose_run_dir(places, config.get("run-dir"), run_id)
    require_apart(config.get("output") or run_path / "output", config)
    interrupts.handle_all_signals()
    run_dir = RunDir(places, run_path)
    output, made = resolve_output(config, run_dir, None)
    settled = {
        **config,
        "producer": flags[PRODUCER],
        "run-id": run_id,
        "run-dir": str(run_dir.path),
        "output": output,
        "consumers": consumers,
    }
    with written_to(run_dir):
        keep_settings(run_dir, settled, config, rest)
    plan = RunPlan(
        run_id,
        run_dir,
        program,
        consumer_command(places, rest, run_dir, output, bounds),
        consumers,
        bounds,
        producer_restarts=config.get("producer-restarts", 0),
        log_format=config.get("log-format", "text"),
        http=http,
    )
    work = config.get("resume") and program_checkpoint.work_of(output) or f"{run_id}-{secrets.token_hex(4)}"
    environment = environment_of(places, run_dir, run_id, output, config, work)
    about = summary.about(run_id, run_dir, version, places.commit(), shown(typed), settled, output)
    note = notes_of(config)

    def go():
        begin_results(output, config, plan, work, work, note)
        return supervise(
            plan,
            places,
            output,
            environment,
            about,
            lambda: continue_command(places, typed, config, run_dir, replaces=is_used_by_other_run(output, run_id)),
            note,
        )

    return work_in_output(plan, output, made, config, note, go, about, give_back=("finish-own-run", "nothing"))


def words_of(command):
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise LaunchError(
            f"--producer {command} is not a command ({problem})",
            "Write it as in a shell, such as --producer 'python loop.py'",
            ExitCode.USAGE,
        ) from problem
    if not words:
        raise LaunchError(
            "--producer is empty",
            "Give the command that starts the program, such as --producer 'python loop.py'",
            ExitCode.USAGE,
        )
    if shutil.which(words[0]) is None:
        raise LaunchError(
            f"--producer names '{words[0]}', which is not a program on this machine",
            "Give the command that starts the program, such as --producer 'python3 loop.py'",
            ExitCode.NO_INPUT,
        )
    return words


def environment_of(places, run_dir, run_id, output, config, work):
    """Environment variables by which the program's Egress finds the run."""
    return {
        **places.environment_of_loops(),
        "OFFRAMP_RUN_DIR": str(run_dir.path),
        "OFFRAMP_RUN_ID": run_id,
        "OFFRAMP_OUTPUT": output,
        "OFFRAMP_PROCESSOR": config.get("processor", ""),
        "OFFRAMP_PROCESSOR_OPTION": config.get("processor-option", ""),
        "OFFRAMP_WORK": work,
        "OFFRAMP_RESUME": "true" if config.get("resume") else "false",
        "OFFRAMP_KILL_STALLED": "true" if config.get("kill-stalled") else "false",
    }


def supervise(plan, places, output, environment, about, go_on, note):
    """Returns (the exit code, the summary's lines)."""

    def watch_on(display):
        display.note(f"the program's output goes to {plan.run_dir.log('producer')}")
        return ProgramSupervisor(plan, display, environment)

    def lines(supervisor, whole):
        shown_lines = lines_of(
            whole, output, followers_among(supervisor.records) if not supervisor.producer_restarts else 0
        )
        if supervisor.producer_restarts:
            shown_lines.insert(2, f"  producers  died and were replaced: {supervisor.producer_restarts}")
        goes_on = summary.leaves_work(whole) and (supervisor.died or supervisor.completed())
        return "\n".join([*shown_lines, *([f"  continue   {go_on()}"] if goes_on else [])])

    return watched(plan, note, str(places.producer()), watch_on, lambda *ended: conclude(plan, about, *ended), lines)


def conclude(plan, about, supervisor, code, finishing, seconds):
    """Merges the outputs and writes the summary, once all programs of the run have ended. Returns (the run's exit code, the summary)."""
    totals = supervisor.counts()
    samples = {"samples": counts(totals)}

    def words(code):
        # A program that was stopped or failed has drained only part of its work.
        how = outcome_of(supervisor)
        return [
            "finish-own-run",
            "unfinished" if how == "ended" and code not in (ExitCode.OK, ExitCode.DEAD_LETTERS) else how,
        ]

    code, failure = end_of_work(
        plan,
        finishing,
        code,
        samples,
        words,
        lambda code, why: failure_of(
            code, supervisor.failure, samples, supervisor.producer_end_reason(), why, plan.run_dir
        ),
    )
    whole = summary.of_own_run(
        about,
        supervisor,
        code,
        failure,
        seconds,
        samples,
        totals["released_batches"],
        run_is_over=True,
        producer_exit=supervisor.producer_status,
        producer_restarts=supervisor.producer_restarts,
        producer_cpu_seconds=round(supervisor.producer_cpu_seconds, 3),
    )
    summary.write(plan.run_dir, whole)
    return code, whole
