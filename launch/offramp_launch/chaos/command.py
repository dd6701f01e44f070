"""
The command `chaos`: computes a run undisturbed, then again and again with random kills, pauses, changes of the number
of consumers and resumes, and compares the results.
"""

import os
import pathlib
import random
import re
import time

from offramp_launch import interrupts, settings
from offramp_launch.arguments import count, names_in, refuse, take_values
from offramp_launch.chaos.runs import COMPARED, DECK, RESUMED, Runs
from offramp_launch.commanded_run import folder_for_results, is_within, refuse_flags
from offramp_launch.exit_code import ExitCode, UsageError
from offramp_launch.jobs.command import folder_written_to
from offramp_launch.starting import require_runner
from offramp_launch.stores.place import url_given
from offramp_launch.watching import address

FOR, UNITS = "10m", {"": 1, "s": 1, "m": 60, "h": 3600}
MOST_SHOWN = 20
ZARR = "python:offramp.zarr:Writer"  # writes to its option `path`
REFUSED = {
    "--gpus": "it disturbs one producer. Give --device cuda:N",
    "--shards": "it disturbs one producer",
    "--on": "it disturbs processes of this machine",
    "--group": "it does not know how groups are scaled",
    "--strategy": "no producer recovers the runs of the ladder",
    "--overwrite": "its runs write to scratch folders",
    "--sink": "the rows would go to that database, where they cannot be compared",
    "--http-url": "the results would be posted there, where they cannot be compared",
    "--trace-dir": "every run would write the same files",
    "--consumer-user": "that user may not enter the scratch folders, which only you can read",
}


def start(places, argv):
    at = argv.index("--") if "--" in argv else len(argv)
    own, rest = take_values(argv[:at], ("--for", "--seed", "--scratch"))
    if not argv[at + 1 :]:
        raise UsageError(
            "chaos needs the flags of a run after --", "./launch/offramp chaos --for 10m -- FLAGS OF A RUN"
        )
    refuse(rest, "chaos", "chaos --help")
    for name in ("--for", "--scratch"):  # a run has a --seed, too
        if name in names_in(argv[at + 1 :]):
            raise UsageError(f"{name} is a flag of chaos, not of the run", "Give it before --")
    deadline = time.monotonic() + seconds_of(own.get("--for", FOR))
    seed = count(own["--seed"], "--seed") if "--seed" in own else random.SystemRandom().randrange(1 << 32)
    flags, config, consumers = parse_flags(places, argv[at + 1 :])
    beside = parent_of_scratch(places, config, own.get("--scratch"))
    interrupts.handle_all_signals()
    os.environ.update(OFFRAMP_RESUME="false", OFFRAMP_OVERWRITE="false")
    with interrupts.deferred():
        runs = Runs(places, flags, config, consumers, beside, seed)
    held, keeps, code = 0, True, ExitCode.OK
    try:
        note(f"seed {seed}; scratch folder {runs.scratch}")
        files, seconds = runs.undisturbed()
        note(f"undisturbed run: {files} files in {seconds:.1f} s")
        while not runs.wrong and (not any(runs.tally[kind] for kind in DECK) or time.monotonic() < deadline):
            runs.disturbed()
            held += not runs.wrong
            note(f"disturbed run {held + bool(runs.wrong)} {'DID NOT HOLD' if runs.wrong else 'held'}")
        keeps, code = bool(runs.wrong), ExitCode.INTERNAL if runs.wrong else ExitCode.OK
    except KeyboardInterrupt:
        keeps, code = bool(runs.wrong), ExitCode.INTERRUPTED
    finally:
        with interrupts.deferred():
            runs.close(keeps)
    print("\n".join(report(runs, held)), flush=True)
    return int(code)


def note(text):
    print(f"[chaos] {text}", flush=True)


def seconds_of(text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text, re.ASCII)
    if not found:
        raise UsageError(f"--for is '{text}', which is not a time", f"Give seconds, minutes or hours: 90s, {FOR}, 2h")
    return float(found[1]) * UNITS[found[2]]


def parse_flags(places, flags):
    """(the flags of each run, their settings, the number of consumers). Errors: LaunchError for what is refused."""
    flags = [flag for flag in address.take(flags)[1] if flag.partition("=")[0] != "--resume"]
    refuse_flags("chaos", REFUSED, flags, {})
    if url := url_given(flags):
        raise UsageError(f"chaos cannot compare the objects in {url}", "Give a local --output, or leave it out")
    if "--producer" in names_in(flags):
        from offramp_launch import consume_command, program_command

        program, rest = take_values(flags, ("--producer",))
        rest, config, _, *number = consume_command.parse_flags(places, rest, "run --producer", program_command.ACCEPTED)
        flags = [*rest, "--producer", program["--producer"]]
    else:
        require_runner(places)
        resolved = settings.resolve_with_defaults(places, flags)
        if resolved.is_demo:
            raise UsageError("chaos needs an input", "Give --input, --model and the other flags of your run")
        flags, config = resolved.argv, resolved.config
        number = settings.number_of_consumers(config, flags)
    refuse_flags("chaos", REFUSED, flags, config)
    refuse_settings(config)
    return flags, config, number[0]


def refuse_settings(config):
    if (policy := config.get("when-full")) in ("drop", "drop-oldest"):
        raise UsageError(
            f"chaos cannot compare runs with --when-full {policy}: each drops others", "Give wait or spill"
        )
    processors = config.get("processor", "").split(",")
    if ZARR in processors:
        raise UsageError(
            f"chaos does not accept --processor {ZARR}: it would write to the array of your results",
            "Give another processor",
        )
    if "write" in processors and not folder_written_to(config):
        raise UsageError(
            f"chaos cannot compare what --processor write sends to --write-path {config['write-path']}",
            "Give a folder, or another processor",
        )
    source = pathlib.Path(config.get("input") or ".")
    if source.exists() and not (source.is_dir() or source.is_file()):
        raise UsageError(f"chaos cannot read --input {source} again, and it may be endless", "Give a file or a folder")


def parent_of_scratch(places, config, given):
    output = os.path.realpath(config["output"]) if config.get("output") else ""
    folder = pathlib.Path(given).absolute() if given else folder_for_results({**config, "output": output}, places)
    if not folder.is_dir() or not os.access(folder, os.W_OK) or is_within(folder, config.get("input")):
        raise UsageError(
            f"--scratch {folder} is not a folder that you may write to, outside --input", "Make it, or give another"
        )
    if output and not given and file_system_of(folder) != file_system_of(output):
        raise UsageError(
            f"chaos finds no folder for its results on the file system of --output {output}, outside that folder",
            "Give one with --scratch DIR",
        )
    return folder


def file_system_of(path):
    """Of the folder that exists, or will hold it."""
    return next(each for each in (pathlib.Path(path), *pathlib.Path(path).parents) if each.exists()).stat().st_dev


def report(runs, held):
    """Lines: what happened and what held."""
    wrong = runs.wrong
    counts = {"disturbed runs": held + bool(wrong), "of which held": held}
    counts.update({kind: runs.tally[kind] for kind in (*DECK, RESUMED, COMPARED)})
    lines = ["", *(f"{name:21} {number}" for name, number in counts.items())]
    if not wrong:
        return [*lines, "failed                none"]
    more = [f"  and {len(wrong) - MOST_SHOWN} more"] if len(wrong) > MOST_SHOWN else []
    lines += [
        f"{'failed' if runs.is_confirmed else 'failed, unconfirmed':21} {len(wrong)}",
        *(f"  {text}" for text in wrong[:MOST_SHOWN]),
        *more,
    ]
    return [*lines, f"kept                  {runs.scratch}, {runs.logs}"]
