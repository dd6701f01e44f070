"""The command `dead-letters list|show|retry`: lists, shows and retries a run's dead letters."""

import collections
import contextlib
import datetime
import os
import pathlib
import re
import signal
import subprocess
import sys
import types

from offramp_launch import shared_folder
from offramp_launch.arguments import folder_given, hide_query, names_in, refuse, take_switch, take_values, words_of
from offramp_launch.exit_code import (
    ExitCode,
    LaunchError,
    NotFoundError,
    UsageError,
    cannot_be_started,
    shell_code,
    signal_name,
)
from offramp_launch.groups import FOLDER as GROUPS
from offramp_launch.incidents import FOLDER, incidents_of, write_incident
from offramp_launch.output_folder import CLAIM, OutputLock, require_no_job, run_noted
from offramp_launch.retries import error_in, left_of, process_samples, retry_outcome
from offramp_launch.run_dir import SETTINGS, last_begun, own_runs, read_settings, require_owned_by_user
from offramp_launch.run_steps import check_output
from offramp_launch.sink import hide_password
from offramp_launch.stores import place as stores

WITH_TABLE = re.compile(r"\w+-postgres")
SAMPLES_SHOWN = 20


def start(places, argv):
    flags, rest = take_values(argv, ["--run-dir"])
    what, *rest = rest or [""]
    if what not in ("list", "show", "retry"):
        raise UsageError(
            f"'{what}' is not a command of dead-letters" if what else "dead-letters needs a command",
            "Known: list, show, retry",
        )
    run_dir = choose_run(places, flags.get("--run-dir"))
    return {"list": list_all, "show": show, "retry": retry}[what](places, run_dir, rest)


def choose_run(places, wanted):
    """--run-dir, or the run with the latest dead letter."""
    if wanted:
        folder = pathlib.Path(wanted).absolute()
        if not folder.is_dir():
            raise NotFoundError(f"the run directory '{folder}' does not exist", "Give the directory of a run")
        require_owned_by_user(folder)
        return folder_of_one_group(folder)
    runs = [each for run in own_runs(places) for each in (run, *groups_in(run))]
    found = [run / FOLDER for run in runs if (run / FOLDER).is_dir()]
    if not found:
        raise NotFoundError(f"no run in '{places.runs}' has dead letters", "Name another run directory with --run-dir")
    return max(found, key=lambda folder: folder.stat().st_mtime_ns).parent


def groups_in(run_dir):
    """The folders of a run's groups, which have their dead letters. They are of the run directory's owner."""
    return sorted(folder for folder in run_dir.glob(f"{GROUPS}/*") if folder.is_dir())


def folder_of_one_group(run_dir):
    """The run directory, or the only group's folder with dead letters. Errors: LaunchError (USAGE) for several."""
    found = [folder for folder in groups_in(run_dir) if incidents_of(folder)]
    if not found or (run_dir / FOLDER).is_dir():
        return run_dir
    if len(found) > 1:
        listed = "".join(f"\n    --run-dir {folder}" for folder in found)
        raise UsageError(f"{len(found)} groups of the run have dead letters; choose one:{listed}", "")
    return found[0]


def incident_named(run_dir, name):
    incidents = incidents_of(run_dir)
    if name not in incidents:
        raise NotFoundError(
            f"no dead letter '{name}' in '{run_dir / FOLDER}'", f"There: {', '.join(incidents) or 'nothing'}"
        )
    return incidents[name]


def list_all(_, run_dir, rest):
    refuse(rest, "dead-letters list")
    incidents = incidents_of(run_dir)
    if not incidents:
        print(f"no dead letters in {run_dir}")
        return int(ExitCode.OK)
    rows = [("NAME", "SAMPLES", "MIB", "FAILURES", "ENDED BY", "STATE")]
    rows += [
        (
            name,
            str(len(left_of(incident)) or len(incident.get("samples") or [])),
            f"{(incident.get('payload_bytes') or 0) / 2**20:.1f}",
            str((incident.get("deaths") or 0) + (incident.get("failures") or 0)),
            ends_of(incident),
            state_of(incident),
        )
        for name, incident in incidents.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(f"in {run_dir / FOLDER}")
    return int(ExitCode.OK)


def ends_of(incident):
    """The counted failures: "2 SIGSEGV, 1 failed"."""
    ends = collections.Counter(
        outcome_of(delivery) for delivery in incident.get("deliveries") or [] if delivery.get("counted")
    )
    return ", ".join(f"{number} {end}" for end, number in ends.items()) or "-"


def outcome_of(delivery):
    if delivery.get("signal"):
        return delivery["signal"]
    return f"exit {delivery['exit']}" if delivery.get("exit") is not None else delivery.get("end") or "?"


def state_of(incident):
    if not incident.get("payload"):
        return "payload lost"
    samples, left = [sample for sample in incident.get("samples") or [] if not sample.get("empty")], left_of(incident)
    if len(left) < len(samples):
        return f"{len(left)} of {len(samples)} samples failed" if left else "recovered"
    last = (incident.get("retries") or [{}])[-1]
    return "retried" if last.get("exit") == 0 else f"retry failed ({last['exit']})" if last else "dead-lettered"


def show(_, run_dir, rest):
    name = one_name(rest, "show")
    incident = incident_named(run_dir, name)
    when = datetime.datetime.fromtimestamp(incident.get("dead_lettered_at") or 0).isoformat(" ", "seconds")
    print(f"{name}: {state_of(incident)}; {incident.get('reason')}; run {incident.get('run_id')}, {when}")
    print(
        f"  payload    {run_dir / FOLDER / incident['payload'] if incident.get('payload') else incident.get('error')}"
    )
    for piece in incident.get("batches") or []:
        print(f"  batch      {piece['batch']}, rows {piece['first_row']} to {piece['first_row'] + piece['rows'] - 1}")
    for tensor in incident.get("tensors") or []:
        print(f"  tensor     {tensor['name']} {tensor['dtype']} {tensor['shape']}")
    # failed samples first
    samples = sorted(incident.get("samples") or [], key=lambda sample: sample.get("result") != "failed")
    for sample in samples[:SAMPLES_SHOWN]:
        print(f"  sample     {sample['item']} {sample['key']}" + fate_of(sample))
    if len(samples) > SAMPLES_SHOWN:
        print(f"  sample     and {len(samples) - SAMPLES_SHOWN} more")
    for delivery in incident.get("deliveries") or []:
        print(
            f"  delivery   {delivery['attempt']} to pid {delivery['pid']}: {delivery['end']} after {delivery['seconds']:.1f} s, "
            f"{outcome_of(delivery)}" + (", while processing it" if delivery.get("counted") else "")
        )
        for line in (delivery.get("why") or "").splitlines() or delivery.get("last_log_lines") or []:
            print(f"      {line}")
    for attempt in incident.get("retries") or []:
        print(f"  retry      {attempt['at']}: exit {attempt['exit']}, output {attempt['output']}")
    return int(ExitCode.OK)


def fate_of(sample):
    if sample.get("empty"):
        return " (was unreadable)"
    if sample.get("result") == "failed":
        return f" failed: {error_in(sample.get('why') or '')}"
    return " done by a retry" if sample.get("result") == "done" else ""


def retry(places, run_dir, rest):
    """
    Starts a consumer without a run, which maps the payload instead of a slab. It uses the run's settings, unless others
    are given. Results go to the run's output while that still belongs to the run, else to a separate folder. Rows go
    into the run's tables, wherever these are by now, or into the table of --sink-table.
    """
    every, rest = take_switch(rest, "--all")
    debugged, rest = take_switch(rest, "--pdb")
    kept = [name for name, incident in incidents_of(run_dir).items() if incident.get("payload")] if every else []
    names = kept if every else [one_name(rest[:1], "retry")]
    given, rest = take_values(rest if every else rest[1:], ["--output"])
    rest = hide_query(hide_password(rest, os.environ), os.environ)
    output = str(folder_given(given.get("--output") or output_of(run_dir)))
    if debugged:
        require_python(
            take_values(rest, ["--processor"])[0].get("--processor") or settings_in(run_dir).get("processor") or ""
        )
    own = words_of({"--run-dir": run_dir, "--output": output})
    command = [str(places.consumer()), *settings_of(run_dir, rest), *rest, *own]
    check_output(pathlib.Path(output), None)
    lock = OutputLock(output, f"{run_dir.name}, retried,")
    try:
        require_no_job(output, {})  # a shard writes to its job's --write-path
        command += flags_for_tables(run_dir, output, rest)
        run = run_in_debugger if debugged else run_program
        return retry_into(stores.noted_in(output), run_dir, output, names, command, lock, run)
    finally:
        lock.close()


def retry_into(place, run_dir, output, names, command, lock, run):
    """`place`: the stores.place.Place of the run's results; None for a folder."""
    if not place:
        return retry_all(run_dir, names, command, output, (lock.fd,), run)
    about = types.SimpleNamespace(run_id=run_dir.name, run_dir=types.SimpleNamespace(path=run_dir), place=None)
    with place.held(about, {"resume": True}, output):
        code = retry_all(run_dir, names, command, place.url, (lock.fd,), run)
        return code or shell_code(run_program(place.command_for_whole_files(output)))


def require_python(processor):
    if not re.search(r"(^|,)(?!so:|exec:)(python:|[^,]*\.py:)", processor):
        raise UsageError(
            f"--pdb debugs processors in Python, and --processor is '{processor}'",
            "Leave it out; `show` prints the last lines of each log",
        )


def output_of(run_dir):
    """The output of retries: the run's output, unless that is a job's or now holds another run's results."""
    config = settings_in(run_dir)
    output = config.get("output")
    is_of_job = output and (CLAIM.parent.name in pathlib.Path(output).parts or shared_folder.holds(output, CLAIM))
    is_of_run = output and not is_of_job and run_noted(output) == config.get("run-id")
    return output if is_of_run else run_dir / FOLDER / "output"


def retry_all(run_dir, names, command, output, kept_open, run):
    """
    `run`: run_program(), to find failing samples, or run_in_debugger(), for a whole payload. Both run user code, which
    takes a share of the output's lock of its own.
    """
    code = ExitCode.OK
    for name in names:
        incident = incident_named(run_dir, name)
        if not incident.get("payload"):
            raise NotFoundError(f"'{name}' has no payload: {incident.get('error')}", "Run its input again")
        if run is run_program:
            ended = process_samples(run_dir / FOLDER, name, incident, command, run_program)
            result, ended = retry_outcome(incident, ended, output)
        else:
            ended = run([command[0], "retry", str(run_dir / FOLDER / incident["payload"]), *command[1:]])
            result = f"done; output in {output}" if ended == 0 else f"failed again with {outcome_of(end_of(ended))}"
        incident["retries"] = [
            *(incident.get("retries") or []),
            {"at": datetime.datetime.now().isoformat(" ", "seconds"), "exit": ended, "output": output},
        ]
        write_incident(run_dir / FOLDER / f"{name}.json", incident)
        prefix, stream = ("", sys.stdout) if ended == 0 else ("offramp: ", sys.stderr)
        print(f"{prefix}{name}: {result}", file=stream, flush=True)
        code = code or shell_code(ended)
    finished = run_program([command[0], "finish", *command[1:]], kept_open)
    return int(code or shell_code(finished))


def settings_in(run_dir):
    return read_settings(last_begun(run_dir))


def settings_of(run_dir, given):
    """The run's settings as flags, where `given` does not set them."""
    given_names = names_in(given)
    flags = []
    kept = last_begun(run_dir) / SETTINGS
    if kept.exists() and "--config" not in given_names:
        flags += ["--config", str(kept)]
    settled = settings_in(run_dir)
    named = "group" if run_dir.parent.name == GROUPS else "processor"  # a group has its folder in the output
    if settled.get(named) and "--processor" not in given_names:
        flags += [f"--{named}", settled[named]]
    return flags


def flags_for_tables(run_dir, output, given):
    """
    Copies the marks of the run's tables (consumer/sinks/postgres/postgres_table.hpp) into the output of the retries. By
    them the rows go into the run's tables, and never into another run's. Errors: LaunchError where the run's tables
    cannot be identified.
    """
    config, given_names = settings_in(run_dir), names_in(given)
    processors = (take_values(given, ["--processor"])[0].get("--processor") or config.get("processor") or "").split(",")
    tables = [name for name in processors if WITH_TABLE.fullmatch(name)]
    if not tables:
        return ["--sink", ""] if config.get("sink") and "--sink" not in given_names else []
    if given_names & {"--sink", "--sink-table"} or output == config.get("output"):
        return []
    for processor in tables:
        contents = processor.removesuffix("-postgres")
        folder = pathlib.Path(output, processor if len(processors) > 1 else "")
        mark = f".offramp-made-{contents}-postgres"
        folder.mkdir(exist_ok=True)
        if not shared_folder.holds(folder, mark):
            shared_folder.write(folder, mark, mark_of_run(config, processor, mark))
    # An index needs the whole table.
    return [] if "--index" in given_names else ["--index", "none"]


def mark_of_run(config, processor, mark):
    """The mark in the run's output, if its checkpoint is still this run's."""
    run, output, processors = config.get("run-id"), config.get("output") or "", config.get("processor") or ""
    try:
        whose = run_noted(output) or ""
    except LaunchError:
        whose = ""
    if whose == run:
        with contextlib.suppress(OSError):
            return shared_folder.read(output, f"{processor if ',' in processors else '.'}/{mark}")
    why = f"holds the results of run {whose} now" if whose not in ("", run) else "does not name that table"
    raise UsageError(
        f"the table of run {run} cannot be found: its --output {output} {why}",
        "Repeat the run with --resume, which processes dead letters; or give --sink-table NAME, another table for the retries",
    )


def run_program(command, kept_open=(), stdin=subprocess.DEVNULL, **environment):
    try:
        return subprocess.run(
            command, stdin=stdin, check=False, pass_fds=kept_open, env={**os.environ, **environment}
        ).returncode
    except OSError as problem:
        raise cannot_be_started(command[0], problem) from problem


def run_in_debugger(command):
    """Gives the program this terminal, and leaves Ctrl-C to it."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # ignoring it would make the program ignore it, too
    try:
        return run_program(command, stdin=None, OFFRAMP_PDB="1")
    finally:
        signal.signal(signal.SIGINT, before)


def end_of(status):
    return {"signal": signal_name(-status)} if status < 0 else {"exit": status}


def one_name(rest, command):
    if not rest or rest[0].startswith("-"):
        raise UsageError(f"dead-letters {command} needs a name", "./launch/offramp dead-letters list shows them")
    refuse(rest[1:], f"dead-letters {command}")
    return rest[0].removesuffix(".json").removesuffix(".safetensors")
