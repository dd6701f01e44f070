"""The end of a run: the producer's account and the launcher's own, merged into summary.json and told on the screen."""

import datetime
import json
import pathlib
import re

from offramp_launch.exit_code import ExitCode, signal_name

SHOWN_SKIPPED = 20
# A command that ends so before anything was done ends so again: the setting, the input or the machine has to be mended.
WOULD_END_THE_SAME_WAY = (ExitCode.USAGE, ExitCode.BAD_INPUT, ExitCode.NO_INPUT, ExitCode.PROTOCOL, ExitCode.NOT_PERMITTED, ExitCode.CONFIG,
                          ExitCode.DEVICE_UNSUPPORTED, ExitCode.RUN_IN_USE)
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
    try:
        return json.loads(run_dir.file("producer-summary.json").read_text()).get("exit")
    except (OSError, ValueError, AttributeError):
        return None


def about(run_id, run_dir, version, commit, command, config, output):
    """What is known of a run when it begins. `command`: without its secrets."""
    return {"schema": SCHEMA, "run_id": run_id, "run_dir": str(run_dir.path), "version": version, "commit": commit, "command": command,
            "input": config.get("input"), "output": output, "processor": config.get("processor"), "began": wall_clock()}


def read_account(run_dir):
    """The producer's; of one that died before its end nothing but that."""
    try:
        account = json.loads(run_dir.file("producer-summary.json").read_text())
    except (OSError, ValueError):
        account = None
    return account if isinstance(account, dict) else {"incomplete": True}


def join(about, account, supervisor, exit_code, failure):
    """The whole of a run: what is known `about` it from its start on, the producer's account, and how the programs ended."""
    if account.get("incomplete"):
        account = {**account, "producer_cpu_seconds": round(supervisor.producer_cpu_seconds, 3)}
    merged = merge(account, supervisor.records)
    return {**about, **merged, "exit": exit_code, "failure": failure, "skipped_samples": _counts(account.get("samples")).get("skipped"),
            "producer_exit": supervisor.producer_status, "producer_restarts": supervisor.producer_restarts, "ended": wall_clock()}


def write(run_dir, whole):
    """Errors: OSError."""
    partial = run_dir.file("summary.json.part")
    partial.write_text(json.dumps(whole, indent=2) + "\n")
    partial.replace(run_dir.file("summary.json"))


def wall_clock():
    """In UTC, as ISO 8601 has it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def tell(summary, unit, output, go_on):
    """The summary as lines for a reader. `go_on`: the command that makes what is left of the run."""
    lines = [f"Run {summary['run_id']} " + ("ended" if summary["exit"] == 0 else f"ended with exit code {summary['exit']}")]
    samples, batches = _counts(summary.get("samples")), _counts(summary.get("batches"))
    if not summary.get("incomplete"):
        # The rate is that of the steady part; all of it takes the start, too.
        lines.append(f"  done       {samples.get('released', 0)} {unit} in {_number(summary.get('seconds'))} s: "
                     f"the first batch after {_number(summary.get('first_batch_seconds'))} s, "
                     f"then {_number(summary.get('samples_per_second'))} {unit}/s")
        if samples.get("done_before"):
            lines.append(f"  resumed    {samples['done_before']} {unit} were done by earlier runs")
        lines.append("  model      " + ", ".join(str(summary[key]) for key in ("model", "precision", "device") if summary.get(key)))
        lines.append("  batches    " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in batches.items()))
    skipped = summary.get("skipped") or []
    if skipped:
        lines.append(f"  skipped    {_skipped_count(summary, skipped)}:")
        lines += [f"    {entry.get('origin') or entry.get('item')}: {entry.get('reason')}" for entry in skipped[:SHOWN_SKIPPED]]
        if (count := _skipped_count(summary, skipped)) > SHOWN_SKIPPED:
            lines.append(f"    and {count - SHOWN_SKIPPED} more: summary.json lists {'all' if count == len(skipped) else f'the first {len(skipped)}'}")
    for slab in summary.get("given_up") or []:
        lines.append(f"  given up   batch {slab.get('batch')}, {slab.get('samples')} {unit}: {slab.get('deaths')} consumers died of it; "
                     + (f"kept in {slab['payload']}" if slab.get("payload") else f"its payload is lost: {slab.get('error') or 'not kept'}"))
    # Also what a producer before this one gave up, which stands in the run's folder only.
    if (summary.get("samples") or {}).get("quarantined"):
        lines.append(f"  look       ./launch/offramp quarantine list --run-dir {summary['run_dir']}")
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
    if output and pathlib.Path(output).exists():
        lines.append(f"  outputs    {output}")
    lines.append(f"  summary    {summary['run_dir']}/summary.json, logs in {summary['run_dir']}/logs/")
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
    return summary["exit"] not in WOULD_END_THE_SAME_WAY or bool(samples.get("released") or samples.get("done_before"))


def _counts(value):
    return value if isinstance(value, dict) else {}


def _number(value):
    return f"{value:.2f}" if isinstance(value, (int, float)) else "?"


def _skipped_count(summary, skipped):
    count = _counts(summary.get("samples")).get("skipped")
    return max(count if isinstance(count, int) else 0, len(skipped))

