"""The end of a run: the producer's account and the launcher's own, merged into summary.json and told on the screen."""

import contextlib
import datetime
import json
import os
import re

from offramp_launch import shared_folder
from offramp_launch.exit_code import ExitCode, signal_name
from offramp_launch.output_folder import is_empty
from offramp_launch.run_dir import SUMMARY
from offramp_launch.run_logs import LOGS, LOGS_NOT_BEGUN

SHOWN_SKIPPED = 20
AUTO = " (mask-png, or npy where no output can become masks)"
# A setting has to be mended: the same command ends so again, however much of the run is done.
REPEATS_FAILURE = (ExitCode.USAGE, ExitCode.NO_INPUT, ExitCode.NOT_PERMITTED, ExitCode.CONFIG, ExitCode.DEVICE_UNSUPPORTED)
# The same where nothing was done: else it was well for a while.
FAILS_AT_START = (ExitCode.BAD_INPUT, ExitCode.PROTOCOL, ExitCode.RUN_IN_USE, ExitCode.SYSTEM, ExitCode.SHARED_MEMORY_FULL,
                          ExitCode.DEVICE_OUT_OF_MEMORY)
SCHEMA = 1      # of summary.json: one more whenever a field changes its meaning or goes


def merge(producer_summary, records):
    """
    The producer knows what each consumer did, by pid; the launcher knows what it cost and how it ended. A consumer that
    only one of them knows (it never got to say hello; it was started by hand) is in the list all the same.
    """
    known = {entry.get("pid"): dict(entry) for entry in producer_summary.get("consumers") or []}
    consumers = []
    for record in records:
        entry = {"pid": record["pid"], "batches": 0, "samples": 0, **known.pop(record["pid"], {})}
        entry.update(cpu_seconds=record["cpu_seconds"], exit=record["exit"],
                     signal=signal_name(-record["exit"]) if record["exit"] < 0 else None)
        consumers.append(entry)
    consumers += [{"batches": 0, "samples": 0, "cpu_seconds": None, "exit": None, "signal": None, **entry}
                  for entry in known.values()]
    return {**producer_summary, "consumers": consumers}


def producer_exit(run_dir):
    """What the producer was about to end with when it had told its account; None when it never came so far, or an error ended it."""
    return (run_dir.told("producer-summary.json") or {}).get("exit")


def about(run_id, run_dir, version, commit, command, config, output):
    """What is known of a run when it begins. `command`: without its secrets."""
    return {"schema": SCHEMA, "run_id": run_id, "run_dir": str(run_dir.path), "version": version, "commit": commit, "command": command, "cwd": working_folder(),
            "input": config.get("input"), "output": output, "processor": config.get("processor"), "began": wall_clock()}


def read_account(run_dir):
    """The producer's; of one that died before its end nothing but that."""
    account = run_dir.told("producer-summary.json")
    return {"incomplete": True} if account is None else account


def join(about, account, supervisor, exit_code, failure):
    """The whole of a run: what is known `about` it from its start on, the producer's account, and how the programs ended."""
    if account.get("incomplete"):
        account = {**account, "producer_cpu_seconds": round(supervisor.producer_cpu_seconds, 3)}
    merged = merge(account, supervisor.records)
    return {**about, **merged, "exit": exit_code, "failure": failure, "skipped_samples": _counts(account.get("samples")).get("skipped"),
            "following": supervisor.following, "producer_exit": supervisor.producer_status, "producer_restarts": supervisor.producer_restarts, "ended": wall_clock()}


def write(run_dir, whole):
    """
    Once no program of the run is left: status.json, whose last word is not always its producer's, says the same. Of a run that did not begin
    in an earlier one's directory only its own not-begun.json speaks. Errors: OSError.
    """
    account = run_dir.account()
    try:
        _put(run_dir, account, whole)
    finally:
        close_status(run_dir, whole)


def write_joined(run_dir, whole, run_is_over, nonce):
    """
    The account of consumers that joined the run `nonce` of a program of one's own: its status is the program's as long as the run goes on, and
    the next run's where that one has begun in the same directory. Errors: OSError.
    """
    _put(run_dir, SUMMARY, whole)
    if run_is_over and (run_dir.told("status.json") or {}).get("nonce") in (nonce, None):
        close_status(run_dir, whole)


def close_status(run_dir, whole):
    """What the producer told last, with how the run ended. Where it cannot be written, it stays as it is."""
    if run_dir.account() != SUMMARY:
        return
    with contextlib.suppress(OSError):
        status = run_dir.told("status.json") or {"run_id": whole.get("run_id")}
        status.update(state=last_state(status.get("state"), whole["exit"]), exit=whole["exit"], failure=whole["failure"], time=whole["ended"])
        if _counts(whole.get("samples")).get("recovered"):
            status["dead_lettered_samples"] = whole["samples"]["dead_letters"]
        _put(run_dir, "status.json", status)


def last_state(told, exit_code):
    """`told`: the last state that the producer gave; it may have died in it, or the reason lies elsewhere."""
    if exit_code not in (ExitCode.OK, ExitCode.DEAD_LETTERS, ExitCode.INTERRUPTED):
        return "failed"
    return told if told in ("ended", "abandoned") else "abandoned" if exit_code == ExitCode.INTERRUPTED else "ended"


def _put(run_dir, name, value):
    shared_folder.write(run_dir.path, name, (json.dumps(value, indent=2) + "\n").encode())


def working_folder():
    """That relative paths of the command, its environment and its settings are meant from; nothing where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def wall_clock():
    """In UTC, as ISO 8601 has it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def tell(summary, unit, output, go_on, account=SUMMARY):
    """The summary as lines for a reader. `go_on`: the command that makes what is left of the run. `account`: the file that has it."""
    lines = [f"Run {summary['run_id']} " + ("ended" if summary["exit"] == 0 else f"ended with exit code {summary['exit']}")]
    samples, batches = _counts(summary.get("samples")), _counts(summary.get("batches"))
    if not summary.get("incomplete"):
        lines.append(_done(summary, samples, unit))
        if samples.get("done_before"):
            lines.append(f"  resumed    {samples['done_before']} {unit} were done by earlier runs")
        lines.append("  model      " + ", ".join(str(summary[key]) for key in ("model", "precision", "device") if summary.get(key)))
        lines.append("  batches    " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in batches.items()))
        if processor := summary.get("processor"):
            lines.append(f"  processor  {processor}{AUTO if processor == 'auto' else ''}")
    skipped = summary.get("skipped") or []
    if count := _skipped_count(summary, skipped):
        shown = skipped[:SHOWN_SKIPPED]
        lines.append(f"  skipped    {count}{':' if shown else ''}")
        lines += [f"    {entry.get('origin') or entry.get('item')}: {entry.get('reason')}" + _more_alike(entry) for entry in shown]
        if more := count - _listed_count(shown):
            where = ("summary.json lists all" if count == _listed_count(skipped) else f"summary.json lists the first {_listed_count(skipped)}" if len(skipped) > len(shown)
                     else "a producer that died met them; a run with --resume tries them again, and lists them")
            lines.append(f"    {f'and {more} more: ' if shown else ''}{where}")
    lines += [f"  left out   {part['count']} {part['what']}" for part in summary.get("left_out") or []]
    if ahead := summary.get("unreadable_upcoming"):
        lines.append(f"  unreadable {_listed_count(ahead)} more, in batches that were not begun any more: summary.json lists them")
    if samples.get("recovered"):
        lines.append(recovered_line(samples["recovered"], unit))
    for slab in summary.get("dead_letters") or []:
        lines.append(f"  dead       batch {slab.get('batch')}, {slab.get('samples')} {unit}: {_dead_letter_reason(slab)}; "
                     + (f"kept in {slab['payload']}" if slab.get("payload") else f"its payload is lost: {slab.get('error') or 'not kept'}"))
    # Also what a producer before this one gave up, which stands in the run's folder only.
    if (summary.get("samples") or {}).get("dead_letters"):
        lines += [f"  look       ./launch/offramp dead-letters list --run-dir {each}" for each in summary.get("dead_letters_in") or [summary["run_dir"]]]
    if samples.get("dropped_when_full"):
        lines.append(f"  dropped    {samples['dropped_when_full']} {unit} found no free slab: {summary['run_dir']}/dropped.jsonl lists them, "
                     "--resume makes them")
    if samples.get("ever_spilled"):
        lines.append(f"  spilled    {samples['ever_spilled']} {unit} waited on the disk for a consumer")
    if summary.get("producer_restarts"):
        lines.append(f"  producers  died and were followed by another {summary['producer_restarts']} times")
    if summary.get("random_weights"):
        # A whole model is a file of its own; what is in it was decided when it was made.
        real = "./launch/offramp export --weights FILE makes a model with real ones" if re.search(r"\.pt2?\b", str(summary.get("model"))) else \
            "--weights FILE.safetensors gives it real ones"
        lines += ["", f"  !! RANDOM WEIGHTS: these outputs show that the road works and MEAN NOTHING. {real}.", ""]
    if output and os.path.isdir(output) and (summary["exit"] == ExitCode.OK or not is_empty(output)):
        lines.append(f"  outputs    {output}")
    lines.append(f"  summary    {summary['run_dir']}/{account}, logs in {summary['run_dir']}/{LOGS if account == SUMMARY else LOGS_NOT_BEGUN}/")
    if summary.get("failure"):
        lines.append(f"offramp: {summary['failure']}")
    if leaves_work(summary):
        lines.append(f"  go on      {go_on}")
    return "\n".join(lines)


def leaves_work(summary):
    """True where the same command with --resume makes more of the run: something is left, and no setting has to be mended first."""
    samples = _counts(summary.get("samples"))
    if summary["exit"] == ExitCode.OK:
        return bool(samples.get("dropped_when_full"))
    if summary["exit"] in FAILS_AT_START:
        return bool(samples.get("released") or samples.get("done_before"))
    return summary["exit"] not in REPEATS_FAILURE


def _done(summary, samples, unit):
    """The rate is that after the warm-up where one was measured; else of all of the run, its start included."""
    seconds = _number(summary.get("seconds"))
    if samples.get("released"):
        when = "then {} {}/s" if summary.get("steady") else "{} {}/s in all"
        return (f"  done       {samples['released']} {unit} in {seconds} s: the first batch after {_number(summary.get('first_batch_seconds'))} s, "
                + when.format(_number(summary.get("samples_per_second")), unit))
    if summary["exit"] == ExitCode.OK and samples.get("done_before") and not samples.get("sourced"):
        return f"  done       nothing was left to do ({seconds} s)"
    return f"  done       0 {unit} in {seconds} s"


def _counts(value):
    return value if isinstance(value, dict) else {}


def _number(value):
    return f"{value:.2f}" if isinstance(value, (int, float)) else "?"


def _skipped_count(summary, skipped):
    count = _counts(summary.get("samples")).get("skipped")
    return max(count if isinstance(count, int) else 0, _listed_count(skipped))


def _listed_count(skipped):
    """How many these stand for: parts of one whole, as tiles of a picture, are one entry where they share a reason."""
    return sum(1 + (entry.get("more_alike") or 0) for entry in skipped)


def _more_alike(entry):
    return f" (and {entry['more_alike']} more of it)" if entry.get("more_alike") else ""


def recovered_line(samples, unit):
    return f"  recovered  {samples} {unit} of failed batches, which were processed one by one"


def _dead_letter_reason(slab):
    return slab["reason"] if slab.get("failures") else f"{slab.get('deaths')} consumers died of it"
