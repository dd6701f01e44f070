"""The command `consume`: consumers for a run that a program of one's own began, watched until it is over."""

import os
import pathlib
import time

from offramp_launch import interrupts, program_checkpoint, sink, summary
from offramp_launch.arguments import count, hide_query, shown, take_values
from offramp_launch.supervision.program_watch import ProgramWatch
from offramp_launch.exit_code import ExitCode, LaunchError, in_one_line
from offramp_launch.failure import dead_letters_failure, is_outweighed, merge_failure
from offramp_launch.finishing import Finishing
from offramp_launch.joined_run_dir import JoinedRunDir, wait_for_run, wait_for_run_of
from offramp_launch.output_folder import LEFT_OVER_SECONDS, LOOK_AGAIN_SECONDS, OutputLock, is_beside_output, prepare, removed_after_a_failure, require_no_job
from offramp_launch.progress import make_display
from offramp_launch.run_command import (announce, announce_end, at_most, finish, keep_settings, number_of_consumers, recover, require_apart, resolve, resolve_output, sweep,
                                        version_of, written_to)
from offramp_launch.supervision.watch import RunPlan
from offramp_launch.watching import address

WAIT_SECONDS = 300      # for the run: a program may load its model first
# Words of an `offramp.Egress` that starts this command: its process, without which nobody waits for the run, and how its work is called.
EGRESS_FLAGS = ("--program", "--work")
OF_THE_PROGRAM = "that is decided by the program which submits the batches"
# Flags of `run` that say nothing to consumers, and would be passed over: (names, why, remedy).
REFUSED = (
    (("--model", "--weights", "--random-weights", "--seed", "--precision", "--memory-format", "--transform", "--output-dtype", "--confidence",
      "--cuda-graphs", "--deterministic"), OF_THE_PROGRAM, "Leave it out: consumers take tensors as they lie in the slabs"),
    (("--source", "--batches", "--limit", "--shard", "--batch", "--image-size", "--max-errors", "--tokenizer", "--decode-workers", "--id-column",
      "--text-column", "--columns", "--by-length"),
     OF_THE_PROGRAM, "Leave it out"),
    (("--device", "--slabs", "--samples-per-slab", "--batches-per-slab", "--max-delay", "--strategy", "--when-full", "--spill-dir", "--visibility-timeout",
      "--max-failures", "--kill-stalled", "--run-id"), OF_THE_PROGRAM, "Leave it out, and set it where the program opens its egress"),
    (("--producer-restarts",), "the program is not the launcher's to start", "Leave it out"),
    (("--consumer-user",), "the memory of such a run is open to its own user alone", "Leave it out, and start this command as that user"),
    (("--lifeline-fd",), "it is the launcher's own word", "Leave it out"),
)
NEED_PICTURES = ("cut-out", "overlay")


def start(places, argv, typed):
    """`argv`: the flags. `typed`: the command as the user gave it."""
    http, argv = address.take(argv)
    flags, rest = take_values(argv, ("--run-dir", "--wait", *EGRESS_FLAGS))
    if not flags.get("--run-dir"):
        raise LaunchError("consume wants the directory of a run", "./launch/offramp consume --run-dir RUN --processor npy --output RESULTS", ExitCode.USAGE)
    folder = pathlib.Path(flags["--run-dir"]).absolute()
    wait = count(flags["--wait"], "--wait") if "--wait" in flags else WAIT_SECONDS
    pid = count(flags["--program"], "--program") if "--program" in flags else None
    rest, config, consumers, bounds = parse_flags(places, rest)
    typed = sink.hide_password(typed, os.environ)
    consumer = str(places.consumer())

    interrupts.handle_all_signals()
    endpoint, program = wait_for_run_of(pid, folder) if pid else wait_for_run(folder, wait, lambda text: announce(config, text))
    # Who goes on comes soon after a program's death, whose own launcher is still putting results together.
    goes_on = bool(pid and config.get("resume"))
    run_dir = once_free(lambda: JoinedRunDir(places, folder), goes_on)
    require_apart(config.get("output") or folder / "output", config)
    output, made = resolve_output(config, run_dir, None)
    run_id = endpoint["run_id"]
    settled = {**config, "run-id": run_id, "run-dir": str(folder), "output": output, "consumers": consumers}
    keep_settings(run_dir, settled, config, rest)
    served = [*rest, "--run-dir", str(folder), "--output", output]
    plan = RunPlan(run_id, run_dir, [], [consumer, *served, *at_most(bounds)], consumers, bounds, log_format=config.get("log-format", "text"), http=http)
    about = summary.about(run_id, run_dir, version_of(consumer), places.commit(), shown(typed), settled, output)

    def note(text, **_):
        announce(config, text.removeprefix("[run] "))

    with removed_after_a_failure(made) as ended, written_to(run_dir):
        lock = once_free(lambda: OutputLock(output, run_id, note), goes_on)
        try:
            plan.output_lock = lock
            require_no_job(output, config)
            begin_results(output, plan, flags.get("--work"), f"{run_id}-{endpoint['nonce']}", note)
            code, told = attend(plan, places, endpoint, program, output, about, note)
        finally:
            lock.close()
        ended.well = code == 0
    announce_end(config, told)
    return code


def parse_flags(places, flags, command="consume", besides=()):
    """
    (the flags that consumers are given, what they mean, how many consumers, the Bounds of that number if it follows the work). `besides`: flags that the
    `command` knows all the same. Errors: LaunchError, for what would be refused.
    """
    require_consumer_flags(flags, command, besides)
    flags = hide_query(sink.hide_password(flags, os.environ), os.environ)
    config = resolve(str(places.consumer()), flags)
    flags = [*flags, *sink.resolve(config, os.environ)]
    require_processors(config)
    return flags, config, *number_of_consumers(config, flags)


def once_free(take, waits):
    """What take() takes, where another launcher has it: at once, or when that one has ended, if it `waits`. Errors: those of take()."""
    deadline = time.monotonic() + (LEFT_OVER_SECONDS if waits else 0)
    while True:
        try:
            return take()
        except LaunchError as problem:
            if problem.code != ExitCode.RUN_IN_USE or time.monotonic() >= deadline:
                raise
        time.sleep(LOOK_AGAIN_SECONDS)


def begin_results(output, plan, work, run, note):
    """`work`: of an Egress that keeps a checkpoint. `run`: what no other run is called."""
    goes_on = work and program_checkpoint.work_of(output) == work
    prepare(output, plan.consumer, {}, plan.run_id, continues=True, beyond=True, note=note,
            words=("prepare-own-work" if goes_on else "prepare-own-run", work or run))
    if work:
        program_checkpoint.begin(output, work)


def require_consumer_flags(argv, command, besides):
    for name in (argument.partition("=")[0] for argument in argv):
        for names, why, remedy in REFUSED:
            if name in names and name not in besides:
                raise LaunchError(f"{command} has no {name}: {why}", remedy, ExitCode.USAGE)


def flags_among(said, section="Consumers:"):
    """Of what a program says of all settings, in sections, those of consumers that are not refused here; all of it where there is no such section."""
    lines = said.splitlines()
    if section not in lines:
        return said.rstrip()
    refused = {name for names, _, _ in REFUSED for name in names}
    kept, keeps = [section], True
    for line in lines[lines.index(section) + 1:]:
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
            raise LaunchError(f"processor {processor} needs the pictures that the outputs were made of, and a run of one's own tells of none",
                              "Give --input FOLDER with them, where each sample's key is a picture's path without its ending, or choose another --processor",
                              ExitCode.USAGE)


def attend(plan, places, endpoint, program, output, about, note):
    """(the exit code, what is told at the end)."""
    return watched(plan, places, output, note,
                   watch_on=lambda display: ProgramWatch(plan, display, endpoint, program),
                   conclude=lambda *ended: conclude(plan, about, *ended),
                   lines=lambda attendance, whole: lines_of(whole, output, followers_among(attendance.records)),
                   beside=": --resume adds to that")


def watched(plan, places, output, note, watch_on, conclude, lines, beside):
    """
    (the exit code, what is told at the end) of the watch that is made on a display. `conclude`: the exit code and the summary of (the watch, its exit
    code, Finishing, seconds). `lines`: of (the watch, the summary), for a reader. `beside`: what becomes of results that lie beside earlier ones.
    """
    began = time.monotonic()
    display = make_display("samples", plan.log_format)
    display.note(f"run {plan.run_id}: {plan.consumers} consumers, {plan.run_dir.path}")
    watch = watch_on(display)
    with Finishing(note) as finishing:
        try:
            code = watch.run()
            display.close()
            code, whole = conclude(watch, code, finishing, time.monotonic() - began)
            display.show_end(watch.status)
            if is_beside_output(output):
                note(f"the earlier results in {output} are as they were; what this run made lies beside them{beside}")
            return code, "\n".join(lines(watch, whole))
        finally:
            display.close()
            sweep(str(places.producer()))
            watch.close()


def conclude(plan, about, attendance, code, finishing, seconds):
    """Puts the outputs together and writes the summary, once no consumer is left: (the exit code, the summary)."""
    samples = {"samples": counts(attendance.status)}
    code = recover(plan, plan.run_dir, finishing, code).correct(samples, code)
    program, *flags = plan.consumer
    how = outcome_of(attendance)
    finished, why = finish(plan, plan.run_dir, finishing, [program, "finish-own-run", how, *flags, "--run-id", plan.run_id])
    if is_outweighed(code, finished):
        code, failure = finished, merge_failure(why, plan.run_dir)
    else:
        failure = failure_of(code, attendance, why, samples["samples"]["dead_letters"])
    status = attendance.status
    whole = {**about, **summary.merge({"consumers": status.get("consumers")}, attendance.records), "following": attendance.following, "model": status.get("name"),
             "state": status.get("state"), "run_is_over": attendance.run_is_over, "exit": code, "seconds": round(seconds, 3),
             "failure": failure, **samples, "batches": {"released": status.get("released_batches") or 0},
             "ended": summary.wall_clock()}
    summary.write_joined(plan.run_dir, whole, run_is_over=attendance.run_is_over, nonce=attendance.nonce)
    return code, whole


def outcome_of(attendance):
    """For what becomes of results: `ended`, `unfinished`, or `nothing` where surely none was made."""
    if attendance.end == "ended" and not attendance.failure:
        return "ended"
    return "unfinished" if attendance.died or attendance.completed() or attendance.status.get("redelivered") else "nothing"


def counts(status):
    return {"released": status.get("released_samples") or 0, "dead_letters": status.get("dead_lettered_samples") or 0,
            "dropped_when_full": status.get("dropped_samples") or 0, "submitted": status.get("submitted_samples")}


def failure_of(code, attendance, finishing, dead_letters):
    """Nothing for an end with 0, else one line that is never empty."""
    if code == ExitCode.OK:
        return None
    run_dir, status = attendance.run_dir, attendance.status
    if attendance.failure:
        what = str(attendance.failure)
    elif attendance.died:
        what = ("the run's program died before the run was over: what it had not submitted is not there, and what was in its slabs is lost\n"
                "Start the program again, with what is left, and this command with --resume, which adds to the results")
    elif attendance.end == "failed":
        what = f"the run failed in its program: {status.get('message') or 'it said no reason'}"
    elif code == ExitCode.DEAD_LETTERS:
        what = dead_letters_failure(dead_letters, run_dir.path)
    elif finishing:
        what = f"{finishing}\nIts log: {run_dir.log('finish')}"
    elif attendance.end == "abandoned":
        what = "the program closed the run without having drained it: what consumers had not begun is lost"
    elif attendance.run_is_over:
        what = "the run is over, and how it ended was not told"
    else:
        what = "consumers were stopped before the run was over: it waits for others, and this command with --resume starts them"
    return in_one_line(what)


def followers_among(records):
    """Of consumers that have all ended: how many were started because the one before them in their seat had."""
    return len(records) - len({record["number"] for record in records})


def lines_of(whole, output, followers):
    """The summary as lines for a reader."""
    samples = whole["samples"]
    lines = [f"Run {whole['run_id']} " + (("ended" if whole["exit"] == 0 else f"ended with exit code {whole['exit']}") if whole["run_is_over"]
                                          else "goes on without consumers of this command"),
             f"  done       {samples['released']} samples, {whole['batches']['released']} batches; consumers were here for {whole['seconds']:.2f} s"]
    if followers:
        lines.append(f"  consumers  {followers} ended early and were followed by others")
    if samples.get("recovered"):
        lines.append(summary.recovered_line(samples["recovered"], "samples"))
    if samples["dead_letters"]:
        lines.append(f"  look       ./launch/offramp dead-letters list --run-dir {whole['run_dir']}")
    if samples["dropped_when_full"]:
        lines.append(f"  dropped    {samples['dropped_when_full']} samples found no free slab")
    if whole["exit"] == ExitCode.OK or samples["released"]:
        lines.append(f"  outputs    {output}")
    lines.append(f"  summary    {whole['run_dir']}/summary.json, logs in {whole['run_dir']}/logs/")
    if whole["failure"]:
        lines.append(f"offramp: {whole['failure']}")
    return lines
