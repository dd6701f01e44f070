"""The summary of a run: merges producer's and launcher's reports into summary.json, and formats them for readers."""

import contextlib
import datetime
import json
import os
import re

from offramp_launch.exit_code import ExitCode, codes, signal_name
from offramp_launch.output_folder import is_empty
from offramp_launch.run_dir import LOGS, STATUS, SUMMARY

SHOWN_SKIPPED = 20
AUTO = " (mask-png, or npy where no output can become masks)"
# Permanent until a setting is fixed: the same command would fail again, however much is done.
REPEATS_FAILURE = codes("USAGE NO_INPUT NOT_PERMITTED CONFIG DEVICE_UNSUPPORTED")
# Permanent only if nothing was done.
FAILS_AT_START = codes("BAD_INPUT PROTOCOL RUN_IN_USE SYSTEM SHARED_MEMORY_FULL DEVICE_OUT_OF_MEMORY")
SCHEMA = 1  # version of summary.json; raised when a field changes its meaning or is removed


def merge(producer_summary, records):
    """
    The producer reports what each consumer did, by pid; the launcher reports its cost and its end. The list includes
    consumers that only one of them knows (one that never connected, or one started by hand).
    """
    known = {entry.get("pid"): dict(entry) for entry in producer_summary.get("consumers") or []}
    consumers = []
    for record in records:
        entry = {"pid": record["pid"], "batches": 0, "samples": 0, **known.pop(record["pid"], {})}
        entry.update(cpu_seconds=record["cpu_seconds"], exit=record["exit"])
        entry["signal"] = signal_name(-record["exit"]) if record["exit"] < 0 else None
        if group := record.get("group"):
            entry["group"] = group
        consumers.append(entry)
    consumers += [
        {"batches": 0, "samples": 0, "cpu_seconds": None, "exit": None, "signal": None, **entry}
        for entry in known.values()
    ]
    return {**producer_summary, "consumers": consumers}


def producer_exit(run_dir):
    """The exit code in the producer's summary; None where it wrote none, or an error ended it."""
    return (run_dir.read_json(SUMMARY) or {}).get("exit")


def about(run_id, run_dir, version, commit, command, config, output):
    """The facts known when a run begins. `command`: without its secrets."""
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "run_dir": str(run_dir.path),
        "version": version,
        "commit": commit,
        "command": command,
        "cwd": working_folder(),
        "input": config.get("input"),
        "output": output,
        "processor": config.get("processor"),
        "began": wall_clock(),
    }


def read_producer_summary(run_dir):
    """The producer's summary; only {"incomplete": True} where it died before writing one."""
    report = run_dir.read_json(SUMMARY)
    return {"incomplete": True} if report is None else report


def join(about, report, supervisor, exit_code, failure):
    """The complete summary: facts `about` the run from its start, the producer's report, and how the programs ended."""
    if report.get("incomplete"):
        report = {**report, "producer_cpu_seconds": round(supervisor.producer_cpu_seconds, 3)}
    merged = merge(report, supervisor.records)
    note_autoscaling(merged.get("groups"), supervisor)
    return {
        **about,
        **merged,
        "exit": exit_code,
        "failure": failure,
        "skipped_samples": _counts(report.get("samples")).get("skipped"),
        "following": supervisor.following,
        "producer_exit": supervisor.producer_status,
        "producer_restarts": supervisor.producer_restarts,
        "ended": wall_clock(),
    }


def note_autoscaling(groups, watch):
    """Adds the autoscaling reports to the groups of a summary, which may be None."""
    for group in groups or []:
        if following := watch.following_of_groups.get(group.get("name")):
            group["following"] = following


def of_own_run(about, watch, code, failure, seconds, samples, batches, **more):
    """
    The complete summary of a run whose producer is the user's program, which writes none. `batches`: None where they
    are unknown.
    """
    status = watch.status
    note_autoscaling(samples.get("groups"), watch)
    return {
        **about,
        **merge({"consumers": status.get("consumers")}, watch.records),
        "following": watch.following,
        "model": status.get("name"),
        "state": status.get("state"),
        "exit": code,
        "seconds": round(seconds, 3),
        "failure": failure,
        **samples,
        **({} if batches is None else {"batches": {"released": batches}}),
        **more,
        "ended": wall_clock(),
    }


def write(run_dir, whole):
    """Completes summary.json and closes status.json, once all programs of the run have ended. Errors: OSError."""
    try:
        _put(run_dir, SUMMARY, whole)
    finally:
        close_status(run_dir, whole)


def is_complete(run_dir):
    """Whether summary.json is not only the producer's."""
    return "ended" in (run_dir.read_json(SUMMARY) or {})


def write_joined(run_dir, whole, run_is_over, nonce):
    """
    Writes the summary of consumers that joined the run `nonce` of the user's program. The program owns the status while
    the run goes on, and the next run does once it has begun in the same directory. Errors: OSError.
    """
    _put(run_dir, SUMMARY, whole)
    is_of_a_group = run_dir.file(STATUS).is_symlink()  # to the status of the whole run
    if run_is_over and not is_of_a_group and (run_dir.read_json(STATUS) or {}).get("nonce") in (nonce, None):
        close_status(run_dir, whole)


def close_status(run_dir, whole):
    """Adds the run's end to its last status, if that can be written. Without one it has not begun."""
    with contextlib.suppress(OSError):
        status = run_dir.read_json(STATUS) or {"run_id": whole.get("run_id"), "begun": False}
        status.update(state=last_state(status.get("state"), whole["exit"]), time=whole["ended"])
        status.update(exit=whole["exit"], failure=whole["failure"])
        if _counts(whole.get("samples")).get("recovered"):
            status["dead_lettered_samples"] = whole["samples"]["dead_letters"]
            status.update({"groups": whole["groups"]} if whole.get("groups") else {})
        _put(run_dir, STATUS, status)


def last_state(reported, exit_code):
    """`reported`: the producer's last state; it may have died in it, or the run failed for another reason."""
    if exit_code not in (ExitCode.OK, ExitCode.DEAD_LETTERS, ExitCode.INTERRUPTED):
        return "failed"
    if reported in ("ended", "abandoned"):
        return reported
    return "abandoned" if exit_code == ExitCode.INTERRUPTED else "ended"


def _put(run_dir, name, value):
    run_dir.write(name, json.dumps(value, indent=2) + "\n")


def working_folder():
    """The base of relative paths in the command, its environment and its settings; None where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def wall_clock():
    """UTC time in ISO 8601."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def describe(summary, unit, output, go_on):
    """The summary as lines for a reader. `go_on`: the command that continues the run."""
    samples, batches = _counts(summary.get("samples")), _counts(summary.get("batches"))
    lines = [f"Run {summary['run_id']} {ending(summary)}"]
    if not summary.get("incomplete"):
        before, processor = samples.get("done_before"), summary.get("processor")
        lines += labelled(
            ("done", _done(summary, samples, unit)),
            ("resumed", before and f"{before} {unit} were done by earlier runs"),
            ("model", ", ".join(str(summary[key]) for key in ("model", "precision", "device") if summary.get(key))),
            ("decoded", summary.get("decoded_on_gpu") and f"{summary['decoded_on_gpu']} pictures on the GPU"),
            ("batches", ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in batches.items() if count)),
            ("processor", processor and f"{processor}{AUTO if processor == 'auto' else ''}"),
        )
    lines += labelled(*(("group", group_line(group, unit)) for group in summary.get("groups") or []))
    lines += _skipped_lines(summary)
    lines += _losses(summary, samples, unit)
    if summary.get("random_weights"):
        # The weights of a complete model file were fixed when it was made.
        real = "--weights FILE.safetensors gives it real ones"
        if re.search(r"\.pt2?\b", str(summary.get("model"))):
            real = "./launch/offramp export --weights FILE makes a model with real ones"
        warning = f"  !! RANDOM WEIGHTS: these outputs MEAN NOTHING; they only show that the pipeline works. {real}."
        lines += ["", warning, ""]
    has_output = output and (summary["exit"] == ExitCode.OK or os.path.isdir(output) and not is_empty(output))
    lines += closing_lines(summary, output if has_output else None)
    return "\n".join([*lines, *labelled(("continue", leaves_work(summary) and go_on))])


def group_line(group, unit):
    kind = " (optional)" if group.get("optional") else ""
    counts = (
        (group.get(f"{name}_samples"), word)
        for name, word in (("dead_lettered", "dead-lettered"), ("dropped", "dropped"), ("ever_spilled", "were on disk"))
    )
    lost = "".join(f", {count} {word}" for count, word in counts if count)
    return f"{group.get('name')}{kind}: {group.get('released_samples') or 0} {unit} done{lost}"


def labelled(*lines):
    """The lines of (label, text) pairs, without those that have no text."""
    return [f"  {label:<10} {text}" for label, text in lines if text]


def _losses(summary, samples, unit):
    restarts, dropped = summary.get("producer_restarts"), samples.get("dropped_when_full")
    spilled = samples.get("ever_spilled")
    # Includes dead letters of an earlier producer, which are only in the run's folder.
    holders = summary.get("dead_letters_in") or [summary["run_dir"]] if samples.get("dead_letters") else []
    if summary.get("groups"):  # an optional group's samples are not among these
        holders = summary.get("dead_letters_in") or []
    where = f"{summary['run_dir']}/dropped.jsonl"
    return labelled(
        *(("left out", f"{part['count']} {part['what']}") for part in summary.get("left_out") or []),
        ("recovered", recovered(samples, unit)),
        *(("dead", _dead_letter(slab, unit)) for slab in summary.get("dead_letters") or []),
        *(("look", way_to_look(each)) for each in holders),
        ("dropped", dropped and f"{dropped} {unit}: no slab was free; {where} lists them, --resume makes them"),
        ("spilled", spilled and f"{spilled} {unit} waited on the disk for a consumer"),
        ("producers", restarts and f"died and were replaced: {restarts}"),
    )


def recovered(samples, unit):
    number = samples.get("recovered")
    return number and f"{number} {unit} of failed batches, which were processed again"


def way_to_look(run_dir):
    return f"./launch/offramp dead-letters list --run-dir {run_dir}"


def _dead_letter(slab, unit):
    reason = slab["reason"] if slab.get("failures") else f"{slab.get('deaths')} consumers died of it"
    lost = f"its payload is lost: {slab.get('error') or 'not kept'}"
    kept = f"kept in {slab['payload']}" if slab.get("payload") else lost
    whose = f"group {slab['group']}, " if slab.get("group") else ""
    return f"{whose}batch {slab.get('batch')}, {slab.get('samples')} {unit}: {reason}; {kept}"


def ending(summary):
    return "ended" if summary["exit"] == ExitCode.OK else f"ended with exit code {summary['exit']}"


def closing_lines(summary, output):
    """Where results, summary and logs are, and the failure. `output`: None where there is none."""
    lines = labelled(
        ("outputs", output),
        ("summary", f"{summary['run_dir']}/{SUMMARY}, logs in {summary['run_dir']}/{LOGS}/"),
    )
    return [*lines, f"offramp: {summary['failure']}"] if summary.get("failure") else lines


def leaves_work(summary):
    """Whether the same command with --resume can do more: work is left, and no setting must be fixed first."""
    samples = _counts(summary.get("samples"))
    if summary["exit"] == ExitCode.OK:
        return bool(samples.get("dropped_when_full") or summary.get("not_merged"))
    if summary["exit"] == ExitCode.BAD_INPUT and _counts(summary.get("failure_cause")).get("kind") == "model":
        return False  # it fails again on the same items
    if summary["exit"] in FAILS_AT_START:
        return bool(samples.get("released") or samples.get("done_before") or demanded_flags(summary))
    return summary["exit"] not in REPEATS_FAILURE


def demanded_flags(summary):
    """The flags that the same command needs to get further."""
    slab_bytes = _counts(summary.get("failure_cause")).get("slab_bytes")
    return {"--slab-bytes": str(slab_bytes)} if slab_bytes else {}


def _done(summary, samples, unit):
    """The rate after the warm-up where measured; else that of the whole run, including its start."""
    seconds = _number(summary.get("seconds"))
    if samples.get("released"):
        when = "then {} {}/s" if summary.get("steady") else "{} {}/s in all"
        return (
            f"{samples['released']} {unit} in {seconds} s: the first batch after {_number(summary.get('first_batch_seconds'))} s, "
            + when.format(_number(summary.get("samples_per_second")), unit)
        )
    if summary["exit"] == ExitCode.OK and samples.get("done_before") and not samples.get("sourced"):
        return f"nothing was left to do ({seconds} s)"
    return f"0 {unit} in {seconds} s"


def _counts(value):
    return value if isinstance(value, dict) else {}


def _number(value):
    return f"{value:.2f}" if isinstance(value, (int, float)) else "?"


def _skipped_lines(summary):
    skipped, count = summary.get("skipped") or [], _counts(summary.get("samples")).get("skipped")
    listed, shown = _listed_count(skipped), skipped[:SHOWN_SKIPPED]
    count = max(count if isinstance(count, int) else 0, listed)
    lines = [f"  skipped    {count}{':' if shown else ''}"] if count else []
    lines += map(_skipped_line, shown)
    if more := count - _listed_count(shown):
        where = "a producer that died found them; a run with --resume tries them again, and lists them"
        if count == listed or len(skipped) > len(shown):
            where = "summary.json lists " + ("all" if count == listed else f"the first {listed}")
        lines.append(f"    {f'and {more} more: ' if shown else ''}{where}")
    if ahead := summary.get("unreadable_upcoming"):
        shown = ahead[:SHOWN_SKIPPED]
        lines += [
            f"  unreadable {_listed_count(ahead)}, in batches that were never started:",
            *map(_skipped_line, shown),
        ]
        if more := _listed_count(ahead[SHOWN_SKIPPED:]):
            lines.append(f"    and {more} more: summary.json lists all")
    return lines


def _skipped_line(entry):
    similar = f" (and {entry['similar']} more like it)" if entry.get("similar") else ""
    return f"    {entry.get('origin') or entry.get('item')}: {entry.get('reason')}{similar}"


def _listed_count(skipped):
    """Number of items behind the entries. Parts of one item, such as tiles, share one entry if they share a reason."""
    return sum(1 + (entry.get("similar") or 0) for entry in skipped)
