"""The command `tune`: short trials find batch, slabs, decode workers and consumers for a model, input and machine."""

import contextlib
import dataclasses
import json
import math
import os
import shlex
import sys
import time

from offramp_launch import arguments, interrupts, settings
from offramp_launch.commanded_run import folder_for_results, refuse_flags
from offramp_launch.demo import shipped_model_flags, wants_demo
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.supervision.scaling import bounds_given, cores_of_this_machine, most_of_this_machine
from offramp_launch.supervision.autoscaler import WELL_USED, Bounds
from offramp_launch.tuning.search import GAIN, TUNED, Search
from offramp_launch.tuning.trial import Trials
from offramp_launch.watching import address

SECONDS = 120
LEAST_SECONDS = 10
REPORT_SECONDS = 1  # of the total, reserved for the end of the last trial and the report
SHORTER = 0.7  # share of the longest trial's time: with less left, no trial starts
MANY_BATCHES = "1000000"
FOUND_ANEW = (*(f"--{name}" for name in TUNED), "--consumers")
OF_ONE_RUN = ("--run-dir", "--output")
REFUSED = {
    "--gpus": "it tunes one producer. Give --device cuda:N, then pass the result to a run with --gpus",
    "--shards": "it tunes one producer",
    "--producer": "your own program chooses its batches and slabs itself",
    "--on": "it tunes this machine",
    "--group": "it tunes one number of consumers. Tune with --processor A,B",
    "--strategy": "`ladder` measures the rungs",
    "--sink": "trials would write to that database",
    "--http-url": "trials would post their results there",
    "--trace-dir": "every trial would write the same files",
    "--consumer-user": "that user may not enter the folders of trials, which only you can read",
}


def start(places, argv):
    own, flags = arguments.take_values(argv, ("--seconds",))
    as_json, flags = arguments.take_switch(flags, "--json")
    seconds = arguments.count(own["--seconds"], "--seconds") if "--seconds" in own else SECONDS
    if seconds < LEAST_SECONDS:
        raise UsageError(f"--seconds {seconds} is too short for a trial", f"Give {LEAST_SECONDS} or more")
    deadline = time.monotonic() + seconds
    typed = flags
    flags = address.take(flags)[1]  # trials have no HTTP server
    flags = arguments.without_switches(arguments.hide_query(flags, os.environ), ("--resume", "--overwrite"))
    refuse_flags("tune", REFUSED, flags, {})
    flags, config = parse_flags(places, flags)
    fixed = [name for name in TUNED if arguments.setting_given(name, flags)] + (
        ["decode-workers"] if config["source"] == "synthetic" else []
    )
    bounds = bounds_of_trials(config, flags)
    most = {"decode-workers": max(4, 2 * cores_of_this_machine())}
    search = Search({name: config.get(name) or 0 for name in TUNED}, fixed, most)
    interrupts.handle_all_signals()
    os.environ.update(OFFRAMP_RESUME="false", OFFRAMP_OVERWRITE="false")
    notes = sys.stderr if as_json else sys.stdout
    # Ctrl-C: the results so far count
    with (
        contextlib.suppress(KeyboardInterrupt),
        contextlib.ExitStack() as at_the_end,
    ):
        with interrupts.deferred():
            flags = arguments.without_values(flags, (*FOUND_ANEW, *OF_ONE_RUN))
            trials = Trials(places, flags, config, folder_for_results(config, places))
            at_the_end.callback(trials.close)
        consumers = bounds.within(settings.default_consumers(config))

        def note(line):
            print(f"[tune] {line}", file=notes, flush=True)

        try_out(search, trials, bounds, consumers, deadline - REPORT_SECONDS, note)
    return report(search, typed, as_json)


def parse_flags(places, flags):
    """(the flags of each trial, their settings). Errors: LaunchError, if trials would be refused."""
    config = settings.resolve_run(places, flags)[1]
    refuse_flags("tune", REFUSED, flags, config)
    if wants_demo(flags, config):
        raise UsageError("tune needs an input", "Give --input, --model and the other flags of your run")
    if config["source"] == "synthetic":
        flags = [*arguments.without_values(flags, ("--batches",)), "--batches", MANY_BATCHES]
    flags = [*flags, *shipped_model_flags(flags, config)]
    return flags, settings.resolve_run(places, flags)[1]


def bounds_of_trials(config, flags):
    """The bounds of consumers; a given number is fixed. Errors: LaunchError (USAGE) for an invalid number."""
    if bounds := bounds_given(flags):
        return bounds
    given = arguments.setting_given("consumers", flags)
    if given and not given.strip("0"):  # the programs would choose a number themselves
        raise UsageError(
            "--consumers 0: the outputs need at least one consumer", "Give 1 or more, MIN..MAX, or leave it out"
        )
    return Bounds(config["consumers"], config["consumers"]) if given else Bounds(1, most_of_this_machine())


def try_out(search, trials, bounds, consumers, deadline, note):
    """Runs trials until no setting gains, or the time is over."""
    longest = 0.0

    def measure(setting, number):
        nonlocal longest
        if time.monotonic() + SHORTER * longest > deadline:
            return None
        began = time.monotonic()
        outcome = trials.measure(setting, number, bounds, deadline)
        longest = max(longest, time.monotonic() - began)
        return outcome

    def note_outcome(setting, outcome):
        note(
            line_of(setting if setting.get("slabs") or outcome.error else {**setting, "slabs": outcome.slabs}, outcome)
        )

    while setting := search.next():
        outcome = measure(setting, consumers)
        if outcome is None:
            break
        search.note(outcome)
        note_outcome(setting, outcome)
        consumers = search.best_outcome.consumers or consumers
    best = search.best_outcome
    enough = max(1, math.ceil(best.busy / WELL_USED))
    if search.best and best.busy and enough < best.consumers:
        outcome = measure(search.best, enough)
        if outcome and not outcome.error:
            search.trials.append((search.best, outcome))
            note_outcome(search.best, outcome)
            if outcome.consumers < best.consumers and outcome.rate >= best.rate * (1 - GAIN):
                search.best_outcome = dataclasses.replace(outcome, rate=max(best.rate, outcome.rate))


def line_of(setting, outcome):
    names = ", ".join(f"{name} {value}" for name, value in setting.items() if value)
    if outcome.error:
        return f"{names}: did not run: {outcome.error}"
    return f"{names}: {outcome.rate:.1f} samples/s with {outcome.consumers} consumers, held back by {outcome.limiting or 'an unknown stage'}"


def report(search, typed, as_json):
    """Prints the results. Errors: LaunchError, if no trial ran."""
    if search.best is None:
        errors = [outcome for _, outcome in search.trials if outcome.error]
        if errors:
            raise LaunchError(f"no trial ran: {errors[0].error}", "", errors[0].code or ExitCode.SYSTEM)
        raise LaunchError(
            "the time limit passed before any trial was measured",
            f"Give more: --seconds {2 * SECONDS}",
            ExitCode.INTERRUPTED,
        )
    found = {**search.best, "consumers": search.best_outcome.consumers}
    flags = arguments.words_of({f"--{name}": value or None for name, value in found.items()})
    words = [*arguments.without_values(arguments.to_type_again(typed), FOUND_ANEW), *flags]
    if as_json:
        whole = {
            "tried": [{**setting, **dataclasses.asdict(outcome)} for setting, outcome in search.trials],
            "best": {**search.best, **dataclasses.asdict(search.best_outcome)},
            "flags": flags,
            "command": ["run", *arguments.shown(words)],
        }
        print(json.dumps(whole, indent=2))
        return int(ExitCode.OK)
    best = f"{search.best_outcome.rate:.1f} samples/s: {shlex.join(flags)}"
    print("\n".join(["", *table(search), "", best, f"./launch/offramp run {shlex.join(words)}"]))
    return int(ExitCode.OK)


def table(search):
    """Lines: the trials in order; `*` marks the best."""
    rows: list[tuple[str, ...]] = [("", *TUNED, "consumers", "samples/s", "held back by")]
    for setting, outcome in search.trials:
        mark = "*" if setting == search.best and outcome.consumers == search.best_outcome.consumers else ""
        tuned = (str(setting.get(name) or "-") for name in TUNED)
        rate = "-" if outcome.error else f"{outcome.rate:.1f}"
        why = f"(did not run: {outcome.error})" if outcome.error else outcome.limiting or "?"
        rows.append((mark, *tuned, str(outcome.consumers or "-"), rate, why))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  ".join([*(cell.rjust(width) for cell, width in zip(row, widths)), row[-1]]) for row in rows]
