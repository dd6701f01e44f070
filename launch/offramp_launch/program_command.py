"""The command `run --producer`: starts the user's program as the producer, and watches it and its consumers like any run."""

import os
import secrets
import shlex
import shutil

from offramp_launch import interrupts, program_checkpoint, sink, summary
from offramp_launch.arguments import shown, take_values, without_values
from offramp_launch.consume_command import begin_results, counts, followers_among, outcome_of, lines_of, parse_flags, watched
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.failure import failure_of, is_outweighed, merge_failure
from offramp_launch.output_folder import OutputLock, is_used_by_other_run, removed_after_a_failure, require_no_job
from offramp_launch.supervision.program_supervisor import ProgramSupervisor
from offramp_launch.run_command import (SETTLED, announce, announce_end, at_most, finish, continue_command, keep_settings, recover, require_apart, resolve_output, sweep, samples_in_summary, version_of,
                                        written_to)
from offramp_launch.run_dir import RunDir, choose_run_dir, new_run_id
from offramp_launch.supervision.watch import RunPlan
from offramp_launch.watching import address

PRODUCER = "--producer"
ACCEPTED = ("--run-id", "--producer-restarts", "--kill-stalled")


def is_meant(argv):
    return any(argument.partition("=")[0] == PRODUCER for argument in argv)


def start(places, argv, typed):
    """`argv`: the flags. `typed`: the command as the user gave it."""
    http, argv = address.take(argv)
    flags, rest = take_values(argv, (PRODUCER,))
    program = words_of(flags[PRODUCER])
    rest, config, consumers, bounds = parse_flags(places, rest, "run --producer", ACCEPTED)
    typed = sink.hide_password(typed, os.environ)
    consumer = str(places.consumer())
    if config.get("resume") and not (config.get("output") or config.get("run-dir")):
        raise LaunchError("--resume needs the run to continue", "Give its --output (or its --run-dir, if it had no --output)", ExitCode.USAGE)

    run_id = config.get("run-id") or new_run_id()
    run_path = choose_run_dir(places, config.get("run-dir"), run_id)
    require_apart(config.get("output") or run_path / "output", config)
    interrupts.handle_all_signals()
    run_dir = RunDir(places, run_path)
    output, made = resolve_output(config, run_dir, None)
    settled = {**config, "producer": flags[PRODUCER], "run-id": run_id, "run-dir": str(run_dir.path), "output": output, "consumers": consumers}
    keep_settings(run_dir, settled, config, rest)
    served = [*without_values(rest, SETTLED), "--run-dir", str(run_dir.path), "--output", output]
    plan = RunPlan(run_id, run_dir, program, [consumer, *served, *at_most(bounds)], consumers, bounds, producer_restarts=config.get("producer-restarts", 0),
                   log_format=config.get("log-format", "text"), http=http)
    work = config.get("resume") and program_checkpoint.work_of(output) or f"{run_id}-{secrets.token_hex(4)}"
    environment = environment_of(places, run_dir, run_id, output, config, work)
    about = summary.about(run_id, run_dir, version_of(consumer), places.commit(), shown(typed), settled, output)

    def note(text, **_):
        announce(config, text.removeprefix("[run] "))

    with removed_after_a_failure(made) as ended, samples_in_summary(run_dir, about), written_to(run_dir):
        lock = OutputLock(output, run_id, note)
        try:
            plan.output_lock = lock
            require_no_job(output, config)
            begin_results(output, config, plan, work, work, note)
            code, lines = supervise(plan, places, output, environment, about,
                                    lambda: continue_command(places, typed, config, run_dir, replaces=is_used_by_other_run(output, run_id)), note)
        finally:
            lock.close()
        ended.well = code == 0
    announce_end(config, lines)
    return code


def words_of(command):
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise LaunchError(f"--producer {command} is not a command ({problem})", "Write it as in a shell, such as --producer 'python loop.py'",
                          ExitCode.USAGE) from problem
    if not words:
        raise LaunchError("--producer is empty", "Give the command that starts the program, such as --producer 'python loop.py'", ExitCode.USAGE)
    if shutil.which(words[0]) is None:
        raise LaunchError(f"--producer names '{words[0]}', which is not a program on this machine", "Give the command that starts the program, such as --producer "
                          "'python3 loop.py'", ExitCode.NO_INPUT)
    return words


def environment_of(places, run_dir, run_id, output, config, work):
    """Environment variables by which the program's Egress finds the run."""
    return {**places.environment_of_loops(), "OFFRAMP_RUN_DIR": str(run_dir.path), "OFFRAMP_RUN_ID": run_id, "OFFRAMP_OUTPUT": output,
            "OFFRAMP_PROCESSOR": config.get("processor", ""), "OFFRAMP_PROCESSOR_OPTION": config.get("processor-option", ""), "OFFRAMP_WORK": work,
            "OFFRAMP_RESUME": "true" if config.get("resume") else "false", "OFFRAMP_KILL_STALLED": "true" if config.get("kill-stalled") else "false"}


def supervise(plan, places, output, environment, about, go_on, note):
    """Returns (the exit code, the summary's lines)."""
    def watch_on(display):
        display.note(f"the program's output goes to {plan.run_dir.log('producer')}")
        return ProgramSupervisor(plan, display, environment)

    def lines(supervisor, whole):
        shown_lines = lines_of(whole, output, followers_among(supervisor.records) if not supervisor.producer_restarts else 0)
        if supervisor.producer_restarts:
            shown_lines.insert(2, f"  producers  died and were replaced: {supervisor.producer_restarts}")
        return [*shown_lines, *([f"  continue   {go_on()}"] if summary.leaves_work(whole) and (supervisor.died or supervisor.completed()) else [])]

    sweep(str(places.producer()))
    return watched(plan, places, note, watch_on, lambda *ended: conclude(plan, about, *ended), lines)


def conclude(plan, about, supervisor, code, finishing, seconds):
    """Merges the outputs and writes the summary, once all programs of the run have ended. Returns (the run's exit code, the summary)."""
    status, totals = supervisor.status, supervisor.counts()
    samples = {"samples": counts(totals)}
    code = recover(plan, plan.run_dir, finishing, code).correct(samples, code)
    program, *flags = plan.consumer
    # A program that was stopped or failed has drained only part of its work.
    how = "unfinished" if outcome_of(supervisor) == "ended" and code not in (ExitCode.OK, ExitCode.DEAD_LETTERS) else outcome_of(supervisor)
    finished, why = finish(plan, plan.run_dir, finishing, [program, "finish-own-run", how, *flags, "--run-id", plan.run_id])
    if is_outweighed(code, finished):
        code, failure = finished, merge_failure(why, plan.run_dir)
    else:
        failure = failure_of(code, supervisor.failure, samples, supervisor.producer_end_reason(), why, plan.run_dir)
    whole = {**about, **summary.merge({"consumers": status.get("consumers")}, supervisor.records), "following": supervisor.following,
             "model": status.get("name"), "state": status.get("state"),
             "run_is_over": True, "exit": code, "seconds": round(seconds, 3), "failure": failure, **samples,
             "batches": {"released": totals["released_batches"]}, "producer_exit": supervisor.producer_status,
             "producer_restarts": supervisor.producer_restarts, "producer_cpu_seconds": round(supervisor.producer_cpu_seconds, 3),
             "ended": summary.wall_clock()}
    summary.write(plan.run_dir, whole)
    return code, whole
