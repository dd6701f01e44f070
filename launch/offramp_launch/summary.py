"""The end of a run: the producer's account and the launcher's own, merged into summary.json and told on the screen."""

import json
import pathlib

from offramp_launch.exit_code import ExitCode, signal_name

SHOWN_SKIPPED = 20
# A command that ends so before anything was done ends so again: the setting, the input or the machine has to be mended.
WOULD_END_THE_SAME_WAY = (ExitCode.USAGE, ExitCode.BAD_INPUT, ExitCode.NO_INPUT, ExitCode.PROTOCOL, ExitCode.NOT_PERMITTED, ExitCode.CONFIG,
                          ExitCode.DEVICE_UNSUPPORTED, ExitCode.RUN_IN_USE)


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


def write(run_dir, producer_status, producer_cpu_seconds, run_id, records, exit_code, failure, producer_restarts=0):
    """Writes summary.json and returns it. A producer that died left no account; then the launcher's stands alone."""
    try:
        account = json.loads(run_dir.file("producer-summary.json").read_text())
    except (OSError, ValueError):
        account = {"incomplete": True, "producer_cpu_seconds": round(producer_cpu_seconds, 3)}
    whole = {"run_id": run_id, "run_dir": str(run_dir.path), **merge(account, records), "exit": exit_code,
             "producer_exit": producer_status, "producer_restarts": producer_restarts}
    if failure:
        whole["launcher_failure"] = str(failure)
    partial = run_dir.file("summary.json.part")
    partial.write_text(json.dumps(whole, indent=2) + "\n")
    partial.replace(run_dir.file("summary.json"))
    return whole


def tell(summary, unit, output, go_on):
    """The summary as lines for a reader. `go_on`: the command that makes what is left of the run."""
    lines = [f"Run {summary['run_id']} " + ("ended" if summary["exit"] == 0 else f"ended with exit code {summary['exit']}")]
    samples, batches = _counts(summary.get("samples")), _counts(summary.get("batches"))
    if summary.get("incomplete"):
        lines.append("  the producer left no summary; its log says why")
    else:
        lines.append(f"  done       {samples.get('released', 0)} {unit} in {_number(summary.get('seconds'))} s, "
                     f"{_number(summary.get('samples_per_second'))} {unit}/s, "
                     f"first batch after {_number(summary.get('first_batch_seconds'))} s")
        if samples.get("done_before"):
            lines.append(f"  resumed    {samples['done_before']} {unit} were done by earlier runs")
        lines.append("  model      " + ", ".join(str(summary[key]) for key in ("model", "precision", "device") if summary.get(key)))
        lines.append("  batches    " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in batches.items()))
    skipped = summary.get("skipped") or []
    if skipped:
        lines.append(f"  skipped    {_skipped_count(summary, skipped)}:")
        lines += [f"    {entry.get('origin') or entry.get('item')}: {entry.get('reason')}" for entry in skipped[:SHOWN_SKIPPED]]
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
    if summary.get("failure"):
        lines.append(f"  failure    {summary['failure']}")
    if summary.get("random_weights"):
        lines += ["", "  !! RANDOM WEIGHTS: no --weights were given, so these outputs show that the road works and MEAN NOTHING.", ""]
    if output and pathlib.Path(output).exists():
        lines.append(f"  outputs    {output}")
    lines.append(f"  summary    {summary['run_dir']}/summary.json, logs in {summary['run_dir']}/logs/")
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
    return count if isinstance(count, int) else len(skipped)

