"""
What tracing a live run costs it: windows of one run that are traced and not, by turns.

    tests/bench/trace_cost.py [--pairs 20] [--seconds 1] [--json FILE] [-- FLAGS OF A RUN]

Without flags the run is one of messages alone. Of each trace there are two windows: the time in which all programs record, and the whole, from before the
request until what they recorded is written; behind it a window without. Ratios are those of rates, and of the CPU time that producer and consumers took for a
sample; medians with 95 % intervals.
"""

import argparse
import json
import os
import time

from live_windows import about, figures, keep, live_run, told

LEAD_SECONDS = 0.6      # programs at work look four times a second
MOST_WRITING_SECONDS = 20


def ask(run, seconds):
    """
    As launch/offramp_launch/tracing/request.py does, but without its patience with programs that do not answer, for which another trace would have to wait.
    Returns the request, with the folder of the answers and how many there will be.
    """
    begin = time.monotonic_ns() + int(LEAD_SECONDS * 1e9)
    asked = {"id": f"cost-{begin}", "from_ns": begin, "until_ns": begin + int(seconds * 1e9)}
    folder, new = run.folder / f"trace-{asked['id']}", run.folder / "trace-request.json.new"
    folder.mkdir(mode=0o700)
    new.write_text(json.dumps(asked) + "\n")
    os.replace(new, run.folder / "trace-request.json")
    return {**asked, "folder": folder, "programs": 1 + len(run.page()["consumers"])}


def sleep_until(moment_ns):
    time.sleep(max(0, moment_ns - time.monotonic_ns()) / 1e9)


def answers(asked):
    return list(asked["folder"].glob("*.jsonl"))


def wait_until_written(asked):
    """All its programs' files, which appear by rename when they are whole."""
    deadline = time.monotonic() + MOST_WRITING_SECONDS
    while len(answers(asked)) < asked["programs"]:
        assert time.monotonic() < deadline, f"{len(answers(asked))} of {asked['programs']} programs were traced"
        time.sleep(0.01)


def window(run, seconds):
    begin = run.next_page()
    time.sleep(seconds)
    return figures(begin, run.next_page())


def measure(run, pairs, seconds):
    """([(recording, whole, quiet)], the bytes of the largest answer)"""
    found, largest = [], 0
    for _ in range(pairs):
        before = run.next_page()
        asked = ask(run, seconds)
        sleep_until(asked["from_ns"])
        recording = figures(run.next_page(), until_page_behind(run, asked["until_ns"]))
        wait_until_written(asked)
        whole = figures(before, run.next_page())
        largest = max([largest, *(path.stat().st_size for path in answers(asked))])
        (run.folder / "trace-request.json").unlink()
        found.append((recording, whole, window(run, seconds)))
    return found, largest


def until_page_behind(run, moment_ns):
    """The first that is told after it."""
    sleep_until(moment_ns)
    return run.next_page()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, default=24)
    arguments.add_argument("--seconds", type=float, default=1)
    arguments.add_argument("--json", help="a file for what was measured")
    arguments.add_argument("flags", nargs="*")
    given = arguments.parse_args()
    measured_on = about()
    print(f"{measured_on}; {given.pairs} pairs; run {' '.join(given.flags) or 'of messages alone'}", flush=True)
    with live_run(given.flags) as run:
        pairs, largest = measure(run, given.pairs, given.seconds)
    result = {**measured_on, "flags": given.flags, "samples_per_second": told("samples a second without", [quiet[0] for *_, quiet in pairs]),
              "rate": told("samples a second, recording over not", [recording[0] / quiet[0] for recording, _, quiet in pairs]),
              "cpu": told("samples for a CPU second, recording over not", [quiet[1] / recording[1] for recording, _, quiet in pairs]),
              "rate_of_the_whole": told("samples a second, from request to files over not", [whole[0] / quiet[0] for _, whole, quiet in pairs]), "largest_file_bytes": largest}
    keep(given.json, result)


if __name__ == "__main__":
    main()
