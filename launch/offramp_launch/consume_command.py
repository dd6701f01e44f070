"""The command `consume`: starts consumers for a run that the user's program began, and watches them until its end."""

import os
import pathlib
import subprocess
import time

from offramp_launch import groups, interrupts, output_folder, sink, summary
from offramp_launch.arguments import count, hide_query, names_in, take_values
from offramp_launch.exit_code import ExitCode, LaunchError, NotFoundError, UsageError, in_one_line
from offramp_launch.failure import dead_letters_failure
from offramp_launch.help_pages import print_page
from offramp_launch.joined_run_dir import (
    PRODUCERS_OWN,
    JoinedRunDir,
    require_may_join,
    wait_for_run,
    wait_for_run_of,
)
from offramp_launch.run_dir import STATUS, read_endpoint, read_object
from offramp_launch.run_steps import begin_work, end_of_work, note_folders, notes_of, require_apart, watched
from offramp_launch.settings import ask, number_of_consumers
from offramp_launch.stores import place as stores
from offramp_launch.supervision.program_watch import ProgramWatch
from offramp_launch.watching import address

WAIT_SECONDS = 300  # for the run to begin: a program may load its model first
# Flags of an `offramp.Egress` that starts this command: its process, whose end also ends the wait, and the name of its
# work.
EGRESS_FLAGS = ("--program", "--work")
OF_THE_PROGRAM = "the program that submits the batches decides that"
# Flags of `run` that consumers would ignore: (names, why, remedy).
REFUSED = (
    (
        "--model --weights --random-weights --seed --precision --memory-format --transform --output-dtype --confidence "
        "--cuda-graphs --deterministic",
        OF_THE_PROGRAM,
        "Leave it out: consumers take the slabs' tensors as they are",
    ),
    (
        "--source --batches --limit --shard --batch --image-size --max-errors --tokenizer --resize --decode "
        "--decode-workers --id-column --text-column --columns --by-length",
        OF_THE_PROGRAM,
        "Leave it out",
    ),
    (
        "--device --slabs --samples-per-slab --batches-per-slab --max-delay --strategy --when-full --slab-bytes "
        "--spill-dir --visibility-timeout --max-failures --kill-stalled --run-id",
        OF_THE_PROGRAM,
        "Leave it out, and set it where the program opens its egress",
    ),
    (
        "--group",
        "your program names its groups: offramp.Egress(RUN, groups=...)",
        "Start the program yourself, and ./launch/offramp consume --run-dir RUN --group NAME for each group",
    ),
    ("--producer-restarts", "this command does not start the program", "Leave it out"),
    (
        "--consumer-user",
        "only the run's user can open its memory",
        "Leave it out, and start this command as that user",
    ),
    ("--lifeline-fd", "the launcher uses it internally", "Leave it out"),
)
NEED_PICTURES = ("cut-out", "overlay")


def start(places, argv, typed):
    """`argv`: the flags. `typed`: the command as the user gave it."""
    interrupts.handle_all_signals()
    http, argv = address.take(argv)
    flags, rest = take_values(argv, ("--run-dir", "--wait", *EGRESS_FLAGS))
    pid = count(flags["--program"], "--program") if "--program" in flags else None
    joined, rest = ({}, rest) if pid else take_values(rest, (groups.FLAG,))  # an Egress has the consumers of all groups
    if not flags.get("--run-dir"):
        raise UsageError(
            "consume needs the directory of a run",
            "./launch/offramp consume --run-dir RUN --processor npy --output RESULTS",
        )
    folder = pathlib.Path(flags["--run-dir"]).absolute()
    if group := joined.get(groups.FLAG, ""):
        folder = folder_of_group(folder, group)
        if (folder / PRODUCERS_OWN).exists():
            # One consumer more. The run's launcher does not start it again, and merges its results.
            os.execv(places.consumer(), [str(places.consumer()), *rest, "--run-dir", str(folder)])
    wait = count(flags["--wait"], "--wait") if "--wait" in flags else WAIT_SECONDS
    place, rest = stores.take(rest)
    with interrupts.deferred():  # it asks a program, which must not outlive this command: an Egress may close early
        rest, config, version, *number = parse_flags(places, rest, besides=(groups.FLAG,) if pid else ())
    started = groups.groups_of(config, rest)
    rest = groups.given_as_flags(started, config, rest)
    if started:
        number = [sum(each.consumers for each in started), None]
    typed = sink.hide_password(typed, os.environ)
    if place:
        place.refuse_settings(config)

    endpoint, program = wait_for_run_of(pid, folder) if pid else wait_for_run(folder, wait, notes_of(config))
    # With --resume it starts soon after a program's death, whose launcher may still be merging results.
    goes_on = bool(pid and config.get("resume"))
    run_dir = once_free(lambda: JoinedRunDir(places, folder, group), goes_on)
    for each in started:
        once_free(lambda name=each.name: run_dir.hold_group(name), goes_on)
    require_apart(config.get("output") or folder / "output", config, started)
    about = (rest, typed, version, number, http)
    work = begin_work(places, endpoint["run_id"], run_dir, config, *about, place=place, groups=started, is_own=True)

    def steps():
        begin_results(work, flags.get("--work"), f"{endpoint['run_id']}-{endpoint['nonce']}")
        return attend(work, places, endpoint, program)

    return work.hold_output(
        steps,
        take=lambda *about: once_free(lambda: output_folder.OutputLock(*about), goes_on),
        give_back=("finish-own-run", "nothing"),
        has_summary=False,
    )


def folder_of_group(run_dir, name):
    """A run directory for the group's consumers. Errors: LaunchError, if the run there has no such group."""
    require_may_join(run_dir)
    met = read_endpoint(run_dir)
    if not groups.NAME.fullmatch(name) or met and name not in met.get("groups", "").split(","):
        raise NotFoundError(
            f"the run in '{run_dir}' has no group '{name}'",
            f"Its groups: {met['groups'].replace(',', ', ')}" if met.get("groups") else "Leave --group out",
        )
    workers = [] if met else (read_object(run_dir / STATUS) or {}).get("workers") or []
    if of_one := next(filter(None, (worker.get("run_dir") for worker in workers)), None):
        raise UsageError(
            f"the run in '{run_dir}' has several producers, and a consumer joins one of them",
            f"Give the run directory of a worker, such as --run-dir {of_one}; ./launch/offramp status lists all",
        )
    return run_dir / groups.FOLDER / name


def is_started_by_egress(argv):
    return not names_in(argv).isdisjoint(EGRESS_FLAGS)


def parse_flags(places, flags, command="consume", besides=()):
    """
    (the consumers' flags, the settings, the programs' version, the number of consumers, Bounds of autoscaling or None).
    `besides`: refused flags that the `command` accepts. Errors: LaunchError for refused flags.
    """
    require_consumer_flags(flags, command, besides)
    flags = hide_query(sink.hide_password(flags, os.environ), os.environ)
    answer = ask(str(places.consumer()), flags)
    flags = [*flags, *sink.resolve(answer.config, os.environ)]
    require_processors(answer.config)
    return flags, answer.config, answer.version, *number_of_consumers(answer.config, flags)


def once_free(take, waits):
    """Calls take(); if it `waits`, repeats while another launcher holds the resource. Errors: those of take()."""
    deadline = time.monotonic() + (output_folder.LEFT_OVER_SECONDS if waits else 0)
    while True:
        try:
            return take()
        except LaunchError as problem:
            if problem.code != ExitCode.RUN_IN_USE or time.monotonic() >= deadline:
                raise
        time.sleep(output_folder.LOOK_AGAIN_SECONDS)


def begin_results(work, name, run):
    """`name`: of an Egress's work, if it keeps a checkpoint. `run`: a unique name of the run."""
    output, config, plan = work.output, work.config, work.plan
    goes_on = name and output_folder.own_work_of(output) == name
    if not goes_on and not output_folder.has_own_run(output, name or run):
        output_folder.make_room(plan.output_lock, output, config, is_own=True)
    plan.may_owe_tables = bool(config.get("overwrite") and config.get("sink"))
    words = ("prepare-own-work" if goes_on else "prepare-own-run", name or run)
    for group in plan.all_groups():
        folder = group.results or output
        with output_folder.output_errors(folder):
            os.makedirs(folder, exist_ok=True)
        output_folder.prepare(folder, group.finishing, {}, plan.run_id, beyond=True, note=work.note, words=words)
    if name:
        output_folder.begin_own_work(output, name)


def require_consumer_flags(argv, command, besides):
    for name in (argument.partition("=")[0] for argument in argv):
        for names, why, remedy in REFUSED:
            if name in names.split() and name not in besides:
                raise UsageError(f"{command} does not accept {name}: {why}", remedy)


def print_help(places):
    """Adds the flags from the program's help, since only the processors document their settings."""
    print_page(places, "consume", sets_up=True)
    if not places.consumer().exists():
        print("\nAll flags of consumers are listed here once `./launch/offramp setup` has built the programs.")
        return int(ExitCode.OK)
    program = subprocess.run([places.consumer(), "--help-all"], stdout=subprocess.PIPE, text=True, check=False)
    if program.returncode != 0:
        raise LaunchError(
            f"the flags of consumers cannot be listed: {places.consumer()} --help-all ended with exit code {program.returncode}",
            "Its error is above; ./launch/offramp setup rebuilds it",
        )
    print("\nAll flags of consumers, those of each processor among them:\n\n" + flags_among(program.stdout))
    return int(ExitCode.OK)


def flags_among(text):
    """A consumer's flags in a program's full help, without refused ones; all text where it has another form."""
    lines, section = text.splitlines(), "Consumers:"
    if section not in lines:
        return text.rstrip()
    refused = {name for names, _, _ in REFUSED for name in names.split()}
    kept, keeps = [section], True
    for line in lines[lines.index(section) + 1 :]:
        if line and not line.startswith(" "):
            break
        if line.startswith("  -"):
            keeps = line.split()[0] not in refused
        if line and keeps:
            kept.append(line)
    return "\n".join(kept)


def require_processors(config):
    for processor in config.get("processor", "").split(","):
        if processor in NEED_PICTURES and not config.get("input"):
            raise UsageError(
                f"processor {processor} needs the original pictures, which your program's run does not provide",
                "Give --input FOLDER with them, where each sample's key is a picture's path without its ending, or choose another --processor",
            )


def attend(work, places, endpoint, program):
    """Returns (the exit code, the summary's lines)."""
    return watched(
        work,
        str(places.producer()),
        watch_on=lambda display: ProgramWatch(work.plan, display, endpoint, program),
        conclude=lambda *ended: conclude(work.plan, work.about, *ended),
        lines=lambda attendance, whole: "\n".join(lines_of(whole, work.shown_output, attendance.consumer_restarts)),
    )


def conclude(plan, about, attendance, *ended):
    """Merges the outputs and writes the summary, once all consumers have ended. Returns (exit code, summary)."""
    is_over, status = attendance.run_is_over, attendance.status

    def words(_):
        return ["finish-own-run", outcome_of(attendance)]

    def explain(code, why, report):
        return failure_of(code, attendance, why, report)

    code, whole = end_own_run(plan, about, attendance, ended, status, words, explain, run_is_over=is_over)
    summary.write_joined(plan.run_dir, whole, run_is_over=is_over, nonce=attendance.nonce)
    return code, whole


def end_own_run(plan, about, watch, ended, totals, words, explain, **more):
    """`ended`: (code, Finishing, seconds). `words`, `explain`: of end_of_work(). Returns (exit code, summary)."""
    code, finishing, seconds = ended
    report = {"samples": counts(totals)}
    if plan.groups:
        report["groups"] = totals.get("groups") or []
    note_folders(report, plan)
    code, failure = end_of_work(plan, finishing, code, report, words, lambda code, why: explain(code, why, report))
    note_folders(report, plan)
    batches = totals.get("released_batches", 0)
    return code, summary.of_own_run(about, watch, code, failure, seconds, report, batches, **more)


def outcome_of(attendance):
    """The fate of the results: `ended`, `unfinished`, or `nothing` where certainly none was made."""
    if attendance.end == "ended" and not attendance.failure:
        return "ended"
    made = attendance.completed() or any(
        group.get("released_samples") for group in attendance.status.get("groups") or []
    )
    return "unfinished" if attendance.died or made or attendance.status.get("redelivered") else "nothing"


def counts(status):
    return {
        "released": status.get("released_samples") or 0,
        "dead_letters": status.get("dead_lettered_samples") or 0,
        "dropped_when_full": status.get("dropped_samples") or 0,
        "submitted": status.get("submitted_samples"),
    }


def failure_of(code, attendance, finishing, report):
    """None for exit code 0, else one non-empty line."""
    if code == ExitCode.OK:
        return None
    run_dir, status = attendance.run_dir, attendance.status
    if attendance.failure:
        what = str(attendance.failure)
    elif attendance.died:
        what = (
            "the run's program died before the run was over: the batches in its slabs are lost, and the rest was not submitted\n"
            "Start the program again with the remaining work, and this command with --resume, which adds to the results"
        )
    elif attendance.end == "failed":
        what = f"the run failed in its program: {status.get('message') or 'it gave no reason'}"
    elif code == ExitCode.DEAD_LETTERS:
        folders = report.get("dead_letters_in") or [run_dir.path]
        what = dead_letters_failure(report["samples"]["dead_letters"], *folders)
    elif finishing:
        what = f"{finishing}\nIts log: {run_dir.log('finish')}"
    elif attendance.end == "abandoned":
        what = "the program closed the run without draining it: batches that consumers had not begun are lost"
    elif attendance.run_is_over:
        what = "the run is over, and its program did not report how it ended"
    else:
        what = "the consumers were stopped before the run ended, and the run waits for new ones: start them with this command and --resume"
    return in_one_line(what)


def lines_of(whole, output, restarts):
    """The summary as lines for a reader."""
    samples = whole["samples"]
    end = summary.ending(whole) if whole["run_is_over"] else "continues without the consumers of this command"
    batches = f", {whole['batches']['released']} batches" if "batches" in whole else ""
    done = f"{samples['released']} samples{batches}"
    dropped = samples["dropped_when_full"]
    has_output = whole["exit"] == ExitCode.OK or samples["released"]
    holders = (whole.get("dead_letters_in") or [whole["run_dir"]]) if samples["dead_letters"] else []
    return [
        f"Run {whole['run_id']} {end}",
        *summary.labelled(
            ("done", f"{done}; consumers were present for {whole['seconds']:.2f} s"),
            *(("group", summary.group_line(group, "samples")) for group in whole.get("groups") or []),
            ("consumers", restarts and f"{restarts} ended early and were replaced"),
            ("recovered", summary.recovered(samples, "samples")),
            *(("look", summary.way_to_look(each)) for each in holders),
            ("dropped", dropped and f"{dropped} samples: no slab was free"),
        ),
        *summary.closing_lines(whole, output if has_output else None),
    ]
