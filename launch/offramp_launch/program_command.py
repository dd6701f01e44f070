"""The command `run --producer`: starts the user's program as the producer, and watches it like any run."""

import os
import secrets
import shlex
import shutil

from offramp_launch import consume_command, output_folder, sink, summary
from offramp_launch.arguments import take_values
from offramp_launch.exit_code import ExitCode, NotFoundError, UsageError
from offramp_launch.failure import failure_of
from offramp_launch.run_steps import begin_work, run_dir_of, watched
from offramp_launch.settings import require_run_to_continue
from offramp_launch.stores import place as stores
from offramp_launch.supervision.program_supervisor import ProgramSupervisor
from offramp_launch.watching import address

PRODUCER = "--producer"
ACCEPTED = ("--run-id", "--producer-restarts", "--kill-stalled")


def start(places, argv, typed):
    """`argv`: the flags. `typed`: the command as the user gave it."""
    http, argv = address.take(argv)
    flags, rest = take_values(argv, (PRODUCER,))
    program = words_of(flags[PRODUCER])
    place, rest = stores.take(rest)
    rest, config, version, *number = consume_command.parse_flags(places, rest, "run --producer", ACCEPTED)
    typed = sink.hide_password(typed, os.environ)
    if place:
        place.refuse_settings(config)
        place.settle_run_dir(config)
    else:
        require_run_to_continue(config)
    run_id, run_dir = run_dir_of(places, config)
    about = (version, number, http)
    work = begin_work(places, run_id, run_dir, config, rest, typed, *about, place=place, producer=flags[PRODUCER])
    work.plan.producer = program
    name = config.get("resume") and output_folder.own_work_of(work.output) or f"{run_id}-{secrets.token_hex(4)}"
    environment = environment_of(places, work, name)

    def steps():
        consume_command.begin_results(work, name, name)
        return supervise(work, places, environment, lambda: work.go_on(places, typed))

    return work.hold_output(steps, give_back=("finish-own-run", "nothing"))


def words_of(command):
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise UsageError(
            f"--producer {command} is not a command ({problem})",
            "Write it as in a shell, such as --producer 'python loop.py'",
        ) from problem
    if not words:
        raise UsageError(
            "--producer is empty", "Give the command that starts the program, such as --producer 'python loop.py'"
        )
    if shutil.which(words[0]) is None:
        raise NotFoundError(
            f"--producer names '{words[0]}', which is not a program on this machine",
            "Give the command that starts the program, such as --producer 'python3 loop.py'",
        )
    return words


def environment_of(places, work, name):
    """Environment variables by which the program's Egress finds the run. `name`: of its work."""
    config = work.config
    return {
        **places.environment_of_loops(),
        "OFFRAMP_RUN_DIR": str(work.plan.run_dir.path),
        "OFFRAMP_RUN_ID": work.plan.run_id,
        "OFFRAMP_OUTPUT": work.output,
        "OFFRAMP_PROCESSOR": config.get("processor", ""),
        "OFFRAMP_PROCESSOR_OPTION": config.get("processor-option", ""),
        "OFFRAMP_WORK": name,
        "OFFRAMP_RESUME": "true" if config.get("resume") else "false",
        "OFFRAMP_KILL_STALLED": "true" if config.get("kill-stalled") else "false",
        "OFFRAMP_DURABLE": "true" if config.get("durable") else "false",
    }


def supervise(work, places, environment, go_on):
    """Returns (the exit code, the summary's lines)."""
    plan = work.plan

    def watch_on(display):
        display.note(f"the program's output goes to {plan.run_dir.log('producer')}")
        return ProgramSupervisor(plan, display, environment)

    def lines(supervisor, whole):
        restarts = supervisor.producer_restarts
        of_consumers = 0 if restarts else supervisor.consumer_restarts
        shown_lines = consume_command.lines_of(whole, work.shown_output, of_consumers)
        shown_lines[2:2] = summary.labelled(("producers", restarts and f"died and were replaced: {restarts}"))
        goes_on = summary.leaves_work(whole) and (supervisor.died or supervisor.completed())
        return "\n".join([*shown_lines, *summary.labelled(("continue", goes_on and go_on()))])

    return watched(work, str(places.producer()), watch_on, lambda *ended: conclude(plan, work.about, *ended), lines)


def conclude(plan, about, supervisor, *ended):
    """Merges the outputs and writes the summary, once all programs have ended. Returns (exit code, summary)."""

    def words(code):
        # A program that was stopped or failed has drained only part of its work.
        how, is_whole = consume_command.outcome_of(supervisor), code in (ExitCode.OK, ExitCode.DEAD_LETTERS)
        return ["finish-own-run", "unfinished" if how == "ended" and not is_whole else how]

    def explain(code, why, samples):
        producers_end = supervisor.producer_end_reason()
        return failure_of(code, supervisor.failure, samples, producers_end, why, plan.run_dir)

    more = {
        "run_is_over": True,
        "producer_exit": supervisor.producer_status,
        "producer_restarts": supervisor.producer_restarts,
        "producer_cpu_seconds": round(supervisor.producer_cpu_seconds, 3),
    }
    totals = supervisor.counts()
    code, whole = consume_command.end_own_run(plan, about, supervisor, ended, totals, words, explain, **more)
    summary.write(plan.run_dir, whole)
    return code, whole
