"""The command `tune`: finds batch, slabs, decode workers and consumers for a model, an input and this machine, by short runs."""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import shlex
import sys
import time

from offramp_launch import interrupts, run_command
from offramp_launch.arguments import count, hide_query, setting_given, shown, take_switch, take_values, to_type_again, without_values
from offramp_launch.demo import shipped_model_flags, wants_demo
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.supervision.scaling import bounds_given, cores_of_this_machine, most_of_this_machine
from offramp_launch.supervision.autoscaler import WELL_USED, Bounds
from offramp_launch.tuning.search import GAIN, TUNED, Search
from offramp_launch.tuning.trial import Trials
from offramp_launch.watching import address

SECONDS = 120
LEAST_SECONDS = 10
REPORT_SECONDS = 1      # of the whole, for the last trial's end and what is told
SHORTER = 0.7           # than the longest trial: so much time is worth another one
MANY_BATCHES = "1000000"
FOUND_ANEW = (*(f"--{name}" for name in TUNED), "--consumers")
OF_ONE_RUN = ("--run-dir", "--output")
REFUSED = {
    "--gpus": "it tunes one producer: give --device cuda:N, and what it finds for each of them to --gpus", "--shards": "it tunes one producer",
    "--producer": "a program of one's own chooses its batches and slabs itself", "--on": "it tunes this machine", "--strategy": "the article's rungs are measured by `ladder`",
    "--sink": "trials would write to that database", "--http-url": "trials would post their results there",
    "--trace-dir": "each trial would write the same files",
    "--consumer-user": "that user may not enter the folders of trials, which are yours alone",
}


def start(places, argv):
    own, flags = take_values(argv, ("--seconds",))
    as_json, flags = take_switch(flags, "--json")
    seconds = count(own["--seconds"], "--seconds") if "--seconds" in own else SECONDS
    if seconds < LEAST_SECONDS:
        raise LaunchError(f"--seconds {seconds} is too short for a trial", f"Give {LEAST_SECONDS} or more", ExitCode.USAGE)
    deadline = time.monotonic() + seconds
    typed = flags
    flags = address.take(flags)[1]      # trials are nobody's to watch
    flags = [flag for flag in hide_query(flags, os.environ) if flag.partition("=")[0] not in ("--resume", "--overwrite")]
    refuse(flag.partition("=")[0] for flag in flags)
    flags, config = parse_flags(places, flags)
    fixed = [name for name in TUNED if setting_given(name, flags)] + (["decode-workers"] if config["source"] == "synthetic" else [])
    bounds = bounds_of_trials(config, flags)
    search = Search({name: config.get(name) or 0 for name in TUNED}, fixed, most={"decode-workers": max(4, 2 * cores_of_this_machine())})
    interrupts.handle_all_signals()
    os.environ.update(OFFRAMP_RESUME="false", OFFRAMP_OVERWRITE="false")
    told = sys.stderr if as_json else sys.stdout
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as at_the_end:       # what was found by then counts
        with interrupts.deferred():
            trials = Trials(places, without_values(flags, (*FOUND_ANEW, *OF_ONE_RUN)), config, folder_for_results(config, places))
            at_the_end.callback(trials.close)
        try_out(search, trials, bounds, bounds.within(run_command.default_consumers(config)), deadline - REPORT_SECONDS, lambda line: print(f"[tune] {line}", file=told, flush=True))
    return report(search, typed, as_json)


def refuse(names):
    for name in names:
        if name in REFUSED:
            raise LaunchError(f"tune has no {name}: {REFUSED[name]}", "Leave it out", ExitCode.USAGE)


def parse_flags(places, flags):
    """(the flags of each trial, what they mean). Errors: LaunchError, of what trials would be refused for."""
    config = run_command.resolve_run(places, flags)[1]
    refuse(f"--{name[2:]}" for name in REFUSED if config.get(name[2:]) and (name, config[name[2:]]) != ("--strategy", "streams"))
    if wants_demo(flags, config):
        raise LaunchError("tune wants an input, and none was given", "Give --input, and --model or what else your run has", ExitCode.USAGE)
    if config["source"] == "synthetic":
        flags = [*without_values(flags, ("--batches",)), "--batches", MANY_BATCHES]
    flags = [*flags, *shipped_model_flags(flags, config)]
    return flags, run_command.resolve_run(places, flags)[1]


def bounds_of_trials(config, flags):
    """Of consumers: a number that was given stays. Errors: LaunchError (USAGE), where it is none."""
    if bounds := bounds_given(flags):
        return bounds
    given = setting_given("consumers", flags)
    if given and not given.strip("0"):      # the programs take it for a number that is left to them
        raise LaunchError("--consumers 0 leaves nobody to take what the model gives", "Give a number from 1 on, MIN..MAX, or leave it out", ExitCode.USAGE)
    return Bounds(config["consumers"], config["consumers"]) if given else Bounds(1, most_of_this_machine())


def folder_for_results(config, places):
    """On the file system of the user's own, which may be what holds a run back."""
    if config.get("output"):
        for folder in pathlib.Path(config["output"]).absolute().parents:
            if os.access(folder, os.W_OK) and not is_within(folder, config.get("input")):
                return folder
    places.build.mkdir(parents=True, exist_ok=True)
    return places.build


def is_within(folder, source):
    """Of an input that is a folder: what lies there is read."""
    if not source or not os.path.isdir(source):
        return False
    source, folder = pathlib.Path(source).resolve(), folder.resolve()
    return folder == source or source in folder.parents


def try_out(search, trials, bounds, consumers, deadline, note):
    """Until nothing gains any more, or the time is over."""
    longest = 0.0

    def measure(setting, number):
        nonlocal longest
        if time.monotonic() + SHORTER * longest > deadline:
            return None
        began = time.monotonic()
        outcome = trials.measure(setting, number, bounds, deadline)
        longest = max(longest, time.monotonic() - began)
        return outcome

    def tell(setting, outcome):
        note(line_of(setting if setting.get("slabs") or outcome.error else {**setting, "slabs": outcome.slabs}, outcome))

    while setting := search.next():
        outcome = measure(setting, consumers)
        if outcome is None:
            break
        search.note(outcome)
        tell(setting, outcome)
        consumers = search.best_outcome.consumers or consumers
    best = search.best_outcome
    enough = max(1, math.ceil(best.busy / WELL_USED))
    if search.best and best.busy and enough < best.consumers:
        outcome = measure(search.best, enough)
        if outcome and not outcome.error:
            search.trials.append((search.best, outcome))
            tell(search.best, outcome)
            if outcome.consumers < best.consumers and outcome.rate >= best.rate * (1 - GAIN):
                search.best_outcome = dataclasses.replace(outcome, rate=max(best.rate, outcome.rate))


def line_of(setting, outcome):
    names = ", ".join(f"{name} {value}" for name, value in setting.items() if value)
    if outcome.error:
        return f"{names}: did not run: {outcome.error}"
    return f"{names}: {outcome.rate:.1f} samples/s with {outcome.consumers} consumers, held back by {outcome.limiting or 'nothing that is known'}"


def report(search, typed, as_json):
    """Prints what was found. Errors: LaunchError, where no trial ran."""
    if search.best is None:
        errors = [outcome for _, outcome in search.trials if outcome.error]
        if errors:
            raise LaunchError(f"no trial ran: {errors[0].error}", "", errors[0].code or ExitCode.SYSTEM)
        raise LaunchError("the time was over before a trial came to a figure", f"Give more: --seconds {2 * SECONDS}", ExitCode.INTERRUPTED)
    flags = [part for name, value in {**search.best, "consumers": search.best_outcome.consumers}.items() if value for part in (f"--{name}", str(value))]
    words = [*without_values(to_type_again(typed), FOUND_ANEW), *flags]
    if as_json:
        print(json.dumps({"tried": [{**setting, **dataclasses.asdict(outcome)} for setting, outcome in search.trials], "best": {**search.best, **dataclasses.asdict(search.best_outcome)},
                          "flags": flags, "command": ["run", *shown(words)]}, indent=2))
        return int(ExitCode.OK)
    print("\n".join(["", *table(search), "", f"{search.best_outcome.rate:.1f} samples/s: {shlex.join(flags)}", f"./launch/offramp run {shlex.join(words)}"]))
    return int(ExitCode.OK)


def table(search):
    """Lines: what was tried, in order; the best has a mark."""
    rows = [("", *TUNED, "consumers", "samples/s", "held back by")]
    for setting, outcome in search.trials:
        mark = "*" if setting == search.best and outcome.consumers == search.best_outcome.consumers else ""
        rows.append((mark, *(str(setting.get(name) or "-") for name in TUNED), str(outcome.consumers or "-"), "-" if outcome.error else f"{outcome.rate:.1f}",
                     f"(did not run: {outcome.error})" if outcome.error else outcome.limiting or "?"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  ".join([*(cell.rjust(width) for cell, width in zip(row, widths)), row[-1]]) for row in rows]
