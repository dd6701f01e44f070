"""A run's settings: resolved by the programs, completed for demo and shipped model, kept in the run directory."""

import dataclasses
import glob
import json
import os
import subprocess

from offramp_launch import sink
from offramp_launch.arguments import hide_query, setting_given, without_values, words_of
from offramp_launch.demo import SOURCES_OF_PICTURES, demo_flags, shipped_model_flags, wants_demo
from offramp_launch.exit_code import ExitCode, LaunchError, NotFoundError, UsageError
from offramp_launch.ladder import rungs
from offramp_launch.places import as_typed
from offramp_launch.processes import answer_of
from offramp_launch.run_dir import SETTINGS
from offramp_launch.supervision.scaling import MOST_CONSUMERS, bounds_given

# Set by the launcher for every program of the run.
SETTLED = ("--run-dir", "--run-id", "--lifeline-fd")
# Given anew for every run, so not part of the settings that another run may start from.
OF_ONE_RUN = (*SETTLED, "--resume", "--overwrite", "--samples-folder", "--input-list", "--input-index", "--turn")
# Plural nouns for the items of each source, unless these are parts of its items.
UNITS = {
    **dict.fromkeys(("auto", "images", "jsonl", "webdataset"), "images"),
    **dict.fromkeys(("jsonl-text", "parquet-text"), "texts"),
    "text": "lines",
}


@dataclasses.dataclass
class Answer:
    """A program's settings. `given`: those before the producer detected some."""

    config: dict
    given: dict
    version: str


@dataclasses.dataclass
class Resolved:
    """
    `argv`: the programs' flags, without secrets. `added`: those of them that the launcher chose, for the demo or the
    shipped model.
    """

    producer: str
    argv: list
    config: dict
    found: list  # flags that only the producer can detect
    version: str
    added: list
    is_demo: bool


def ask(program, argv):
    """The settings as a program resolves them; producer and consumers know every flag. Passes a refusal on."""
    answer = answer_of([program, "settings", *argv])
    try:
        found = json.loads(answer)
        return Answer(found["settings"], found.get("given", {}), found["version"])
    except (ValueError, KeyError) as problem:
        raise LaunchError(
            f"'{program} settings' gave no settings ({problem})",
            "The programs and the launch script are of different versions: ./launch/offramp setup",
            ExitCode.PROTOCOL,
        ) from problem


def resolve(program, argv):
    return ask(program, argv).config


def version_of(program):
    """The last word of its --version output; None where it has none."""
    try:
        words = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.split()
    except OSError:
        return None
    return words[-1] if words else None


def producer_for(places, argv):
    """The producer with the strategy of these flags."""
    return str(rungs.program_of(places, setting_given("strategy", argv)))


def resolve_run(places, argv):
    """(the producer program for these flags, the settings that it resolved)."""
    producer = producer_for(places, argv)
    return producer, resolve(producer, argv)


def resolve_with_defaults(places, argv):
    """Asks the producer once, for the given flags and those of the demo or of the shipped model."""
    argv = hide_query(sink.hide_password(argv, os.environ), os.environ)
    producer = producer_for(places, argv)
    is_demo = wants_demo(argv, {"model": setting_given("model", argv)})
    if is_demo:
        added = demo_flags(places, argv)
        answer = ask(producer, [*argv, *added])
        if answer.config.get("source") == "text":
            raise NotFoundError(
                f"--model {answer.config['model']} takes lines of text, and no input was given", "Give --input FILE.txt"
            )
    else:
        added, answer = ask_with_shipped_model(producer, argv)
    argv = [*argv, *sink.resolve(answer.config, os.environ), *added]
    sink.resolve(answer.given, {})
    return Resolved(
        producer, argv, answer.config, detected_flags(answer.config, answer.given), answer.version, added, is_demo
    )


def ask_with_shipped_model(producer, argv):
    """(the flags of the shipped model, if the input is of pictures and no model is named; the producer's answer)."""
    added = shipped_model_flags(argv, {"source": SOURCES_OF_PICTURES[0]})
    try:
        answer, refusal = ask(producer, [*argv, *added]), None
    except LaunchError as problem:
        answer, refusal = None, problem
    if added and not (answer and answer.config.get("source") in SOURCES_OF_PICTURES):
        answer = ask(producer, argv)  # it may be an input for another model
        if answer.config.get("source") not in SOURCES_OF_PICTURES:
            return [], answer
    if refusal:
        raise refusal
    return added, answer


def detected_flags(config, without):
    """Flags by which consumers learn what only the producer detects: what differs from the settings `without` it."""
    return [part for name, value in config.items() if value != without.get(name) for part in as_flag(name, value)]


def as_flag(name, value):
    """A string may be empty; a switch takes its value only after '='."""
    return [f"--{name}", value] if isinstance(value, str) else [f"--{name}={json.dumps(value)}"]


def unit_of(config):
    """Plural noun for the run's items."""
    if config.get("model") == "copy":
        return "samples"
    if config.get("tile"):
        return "tiles"
    return "chunks" if config.get("chunk-tokens") else UNITS.get(config.get("source"), "samples")


def number_of_consumers(config, argv, first=None):
    """(the initial number, `first` under autoscaling; Bounds of autoscaling or None). Errors: LaunchError (USAGE)."""
    if bounds := bounds_given(argv):
        return bounds.within(first or default_consumers(config)), bounds
    consumers = config.get("consumers") or default_consumers(config)
    if consumers > MOST_CONSUMERS:
        raise UsageError(f"--consumers {consumers} is more than a run can hold", f"Give at most {MOST_CONSUMERS}")
    return consumers, None


def default_consumers(config):
    """For a producer that leaves the number to the launcher."""
    cores = len(os.sched_getaffinity(0))
    gpu = config.get("device") != "cpu" and glob.glob("/dev/nvidia[0-9]*")
    return min(max(cores // 2, 2), 8) if gpu else 2


def consumer_command(places, argv, run_dir, output, most=None, found=()):
    """
    The command of a consumer. `run_dir`: a path. `most`: the largest possible number of consumers, which divide the
    cores; None: as the flags give it.
    """
    own = words_of({"--run-dir": run_dir, "--output": output})
    most = words_of({"--consumers": most})
    return [str(places.consumer()), *without_values(argv, SETTLED), *own, *found, *most]


def require_run_to_continue(config):
    if config.get("resume") and not (config.get("output") or config.get("run-dir")):
        raise UsageError(
            "--resume needs the run to continue", "Give its --output (or its --run-dir, if it had no --output)"
        )


OF_A_RUN = "The settings of a run; another run with the same: ./launch/offramp run --config THIS_FILE"


def to_toml(config, settled=None, title=OF_A_RUN):
    """
    The settings as a file for --config. Those that belong to one run only are comments at its end, from `settled`, the
    settings as this run has them, and so are values that the launcher settled. `title`: its first line.
    """
    lines = [f"# {as_typed(title, anywhere=True)}"]
    kept = {
        key: value for key, value in config.items() if f"--{key}" not in OF_ONE_RUN and (key, value) != ("output", "")
    }
    # JSON strings, numbers and booleans are valid TOML.
    lines += [line_of(*item) for item in kept.items()]
    lines += [
        f"# {line_of(key, value)}" for key, value in (settled or {}).items() if key not in kept or kept[key] != value
    ]
    return "\n".join(lines) + "\n"


def line_of(key, value):
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def keep_settings(run_dir, settled, config, argv):
    """`settled`: all the run's settings; `config`: the requested ones; `argv`: the user's flags. Errors: OSError."""
    if not config.get("group"):  # each group has its own number
        config = {
            **config,
            "consumers": setting_given("consumers", argv) if bounds_given(argv) else settled["consumers"],
        }
    run_dir.write(SETTINGS, to_toml(config, settled))
