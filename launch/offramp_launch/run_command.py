"""The command `run`: resolves the settings, makes the run directory, watches the programs and writes the summary."""

import os
import shlex
import subprocess

from offramp_launch import groups as consumer_groups
from offramp_launch import settings, sink, summary, texts
from offramp_launch.arguments import names_in, setting_given, without_values, words_of
from offramp_launch.demo import show
from offramp_launch.exit_code import ExitCode, UsageError, way_to_write
from offramp_launch.failure import failure_of
from offramp_launch.ladder import rungs
from offramp_launch.output_folder import is_empty, make_room, prepare
from offramp_launch.run_steps import announce, begin_work, end_of_work, identity_of, note_folders, run_dir_of, watched
from offramp_launch.stores import place as stores
from offramp_launch.supervision.supervisor import Supervisor
from offramp_launch.supervision.watch import STATUS_SECONDS
from offramp_launch.user import account_of
from offramp_launch.watching import address
from offramp_launch.watching.diagnosis import counted

# Flags that make the producer answer instead of running.
ANSWERED_BY_THE_PRODUCER = ("--print-config", "--list", "--help-all")


def start(places, argv, typed, go_on=None, held=None, first=None):
    """
    `argv`: the programs' flags. `typed`: the command as the user gave it, for the continue command. `go_on`: the
    continue command, where it is another one. `held`: the output's lock, where the caller holds it. `first`: number of
    consumers to begin with under autoscaling; None: the default number.
    """
    http, argv = address.take(argv)
    if not names_in(argv).isdisjoint(ANSWERED_BY_THE_PRODUCER):
        return answer(places, argv)
    typed = sink.hide_password(typed, os.environ)
    place, argv = stores.take(argv)
    resolved = settings.resolve_with_defaults(places, argv)
    config = resolved.config
    announce_added(resolved)
    if config.get("source") in texts.SOURCES:
        texts.provide_tokenizers(places)
    groups = consumer_groups.groups_of(config, resolved.argv)
    resolved.argv = consumer_groups.given_as_flags(groups, config, resolved.argv)
    number = (config.get("consumers") or 0, None)
    if groups:
        require_usual_run(config, place)
        number = (sum(group.consumers for group in groups), None)
    elif rungs.of_run(config).has_consumers:
        number = settings.number_of_consumers(config, resolved.argv, first)
    if place:
        require_consumers(place, config)
        place.refuse_settings(config)
        place.settle_run_dir(config)
    else:
        settings.require_run_to_continue(config)
    check_processors(places, resolved, groups)
    account = account_of(config.get("consumer-user"))
    run_id, run_dir = run_dir_of(places, config, account, groups)
    about = (resolved.version, number, http, resolved.found, account, place, groups)
    work = begin_work(places, run_id, run_dir, config, resolved.argv, typed, *about)
    plan = work.plan
    own = {"--run-dir": run_dir.path, "--output": work.output, "--run-id": run_id}
    own.update({} if groups else {"--consumers": plan.consumers})
    plan.producer = [resolved.producer, *without_values(resolved.argv, settings.SETTLED), *words_of(own)]
    plan.not_recovered = rungs.not_recovered(config)
    plan.status_seconds = config.get("status-seconds", STATUS_SECONDS)

    def steps():
        if not held:  # else it is a shard of the job
            make_room(plan.output_lock, work.output, config)
        plan.may_owe_tables = bool(config.get("overwrite") and config.get("sink"))
        prepare(work.output, plan.consumer, identity_of(account), run_id, beyond=is_prepared(config), note=work.note)
        return supervise(work, lambda whole: go_on or work.go_on(places, typed, summary.demanded_flags(whole)))

    code = work.hold_output(steps, held)
    if resolved.is_demo and code == 0 and not place:
        announce(config, show(places, work.output, config), "")
    return code


def require_consumers(place, config):
    if not rungs.of_run(config).has_consumers:
        raise UsageError(
            f"--strategy {config.get('strategy')} does not go with --output {place.url}: it has no consumers to store objects",
            "Leave --strategy out",
        )


def answer(places, argv):
    """The programs answer themselves, and report their own refusals."""
    code = subprocess.run(
        [settings.producer_for(places, argv) if "--print-config" in argv else str(places.producer()), *argv],
        check=False,
    ).returncode
    if code == 0 and "--list" in argv:
        code = subprocess.run([str(places.consumer()), "--list"], check=False).returncode
    return code


def announce_added(resolved):
    """Notes the flags that the launcher chose."""
    if resolved.is_demo:
        announce(resolved.config, f"no input given; running the demo: {shlex.join(resolved.added)}")
    elif resolved.added:
        announce(
            resolved.config,
            f"no --model given; using the shipped one, which knows rendered pictures (launch/demo/README.md): {shlex.join(resolved.added)}",
        )


def require_usual_run(config, place):
    """Errors: LaunchError (USAGE) for what does not go with groups yet."""
    if place:
        raise UsageError(f"--group does not go with --output {place.url} yet", "Give a local --output")
    if config.get("strategy", rungs.USUAL) != rungs.USUAL:
        raise UsageError(
            f"--group does not go with --strategy {config['strategy']}: the rungs are measured with one kind of consumers",
            "Leave --strategy out",
        )


def is_prepared(config):
    """Whether consumers check the run even for an empty output: common/app/settings/processor_results.hpp."""
    return bool(config.get("sink")) or any(":" in name for name in config.get("processor", "").split(","))


def check_processors(places, resolved, groups):
    """Consumers alone know their processors. Asks one before anything is made, unless prepare() will."""
    is_chosen = "--processor" not in resolved.added and (groups or setting_given("processor", resolved.argv))
    config = resolved.config
    if is_chosen and not is_prepared(config) and not (config.get("resume") and is_used(config.get("output"))):
        settings.resolve(str(places.consumer()), resolved.argv)


def is_used(output):
    try:
        return bool(output) and not is_empty(output)
    except OSError:  # there is none yet
        return False


def supervise(work, go_on):
    """Returns (the exit code, the summary's lines)."""
    plan, unit = work.plan, settings.unit_of(work.config)
    return watched(
        work,
        plan.producer[0],
        unit=unit,
        status=lambda _: plan.run_dir.status(),
        watch_on=lambda display: Supervisor(plan, display),
        begins=f"{counted(plan.consumers, 'consumer')} in {counted(len(plan.groups), 'group')}"
        if plan.groups
        else None,
        conclude=lambda supervisor, code, finishing, _: conclude(plan, supervisor, code, work.about, finishing),
        lines=lambda _, whole: summary.describe(whole, unit, work.shown_output, go_on(whole)),
    )


def conclude(plan, supervisor, code, about, finishing):
    """Retries failed samples, merges the outputs and writes the summary. Returns (the run's exit code, the summary)."""
    run_dir, report = plan.run_dir, summary.read_producer_summary(plan.run_dir)
    note_folders(report, plan)
    code, failure = end_of_work(
        plan,
        finishing,
        code,
        report,
        lambda _: ["finish"],
        lambda code, why: failure_of(code, supervisor.failure, report, supervisor.producer_end_reason(), why, run_dir),
    )
    note_folders(report, plan)
    whole = summary.join(about, report, supervisor, code, failure)
    try:
        summary.write(run_dir, whole)
    except OSError as problem:
        if code in (ExitCode.OK, ExitCode.DEAD_LETTERS):
            code = int(ExitCode.CANNOT_WRITE)
            ended = f"{failure}. Besides," if failure else "the run is done, but"
            whole.update(
                exit=code,
                failure=f"{ended} its summary.json cannot be written: {problem.strerror}. "
                + way_to_write(problem, f"Make room in {run_dir.path}, or choose another folder with --run-dir"),
            )
            summary.close_status(run_dir, whole)
    return code, whole
