"""
Retries dead letters sample by sample: a sample that fails alone stays a dead letter, the others get their results.

A run does so at its end for batches on which the processor failed without killing its consumers. `dead-letters retry`
does so for any dead letter, in programs that are restarted when a sample kills them.
"""

import contextlib
import json
import os
import pathlib
import re
import signal

from offramp_launch.exit_code import ExitCode, signal_name
from offramp_launch.incidents import FOLDER, incidents_of, write_incident

MOST_DEATHS = 64  # of programs for one payload: one bad sample of 256 costs nine
STOPPED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FRUITLESS = 3  # after so many payloads in a row without a good sample, the processor fails at everything: stop
CODE_LOCATION = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)
NOT_THE_USERS = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python3|/offramp/_\w+\.py$|^<")


def process_samples(folder, name, incident, command, run):
    """
    Processes a payload until each of its samples is done or has failed alone, and records each result in the
    `incident`. `command`: a consumer's. run(command) returns a program's exit status. Returns the last status. Errors:
    those of run(); OSError.
    """
    report = pathlib.Path(folder, f"{name}.tried")
    report.unlink(missing_ok=True)
    deaths: list[str] = []
    tried = 0
    try:
        while len(deaths) < MOST_DEATHS:
            status = run(
                [command[0], "retry-samples", str(report), os.path.join(folder, incident["payload"]), *command[1:]]
            )
            lines = report.read_text().splitlines() if report.exists() else []
            before, tried = tried, sum('"trying"' in line for line in lines)
            # A program that was stopped, or died before its first sample, proves nothing about a sample.
            if status >= 0 or -status in STOPPED_BY or tried == before:
                break
            deaths.append(f"the consumer was killed by {signal_name(-status)}")
        note_outcomes(incident, lines, deaths)
        return status
    finally:
        report.unlink(missing_ok=True)


def note_outcomes(incident, lines, deaths):
    """`lines`: the report (consumer/worker/consumer_program.hpp). `deaths`: why the program died, in order."""
    samples, deaths = incident.get("samples") or [], iter(deaths)
    open_part: list[int] | None = None  # what the program was trying

    def record_part(part, result, why=None):
        for sample in samples[part[0] : part[1]]:
            if sample.get("empty"):
                continue
            sample["result"] = result
            if why is None:
                sample.pop("why", None)
            else:
                sample["why"] = why

    def close(part: list[int]) -> None:
        why = next(deaths, None)  # None: the part did not kill its program
        if why is not None and part[1] - part[0] == 1:
            record_part(part, "failed", why)

    for line in lines:
        with contextlib.suppress(ValueError):  # a truncated last line
            entry = json.loads(line)
            if "trying" in entry:
                if open_part is not None:
                    close(open_part)
                open_part = entry["trying"]
                continue
            open_part = None
            if "done" in entry:
                record_part(entry["done"], "done")
            elif entry["failed"][1] - entry["failed"][0] == 1:
                record_part(entry["failed"], "failed", entry.get("why"))
    if open_part is not None:
        close(open_part)


def retry_failed(run_dir, run_id, command, run):
    """
    Processes this run's dead letters again, halved until only single samples fail, where the processor failed and its
    consumers survived. `command`: a consumer's, with the run's flags. run(command) returns a program's exit status.
    Returns Recovered. Errors: those of run().
    """
    recovered, fruitless = Recovered(), 0
    for name, incident in incidents_of(run_dir).items():
        if (
            incident.get("run_id") != run_id
            or not incident.get("payload")
            or not failed_alone(incident)
            or len(incident.get("samples") or []) < 2
        ):
            continue
        status = process_samples(run_dir / FOLDER, name, incident, command, run)
        write_incident(run_dir / FOLDER / f"{name}.json", incident)
        recovered.take(str(run_dir / FOLDER / incident["payload"]), incident)
        done = any(sample.get("result") == "done" for sample in incident["samples"])
        fruitless = 0 if done else fruitless + 1
        if fruitless == FRUITLESS or status not in (0, None):
            break
    return recovered


def done_in(incident):
    """Number of samples that a retry has done."""
    return sum(sample.get("result") == "done" for sample in incident["samples"])


def left_of(incident):
    """The samples without results."""
    return [
        sample for sample in incident.get("samples") or [] if not sample.get("empty") and sample.get("result") != "done"
    ]


def failed_alone(incident):
    """
    Whether its consumers survived: the processor raised an error or rejected the batch. A batch that killed or hung
    them might do so again.
    """
    counted = [delivery for delivery in incident.get("deliveries") or [] if delivery.get("counted")]
    return bool(counted) and all(delivery.get("end") in ("failed", "rejected") for delivery in counted)


class Recovered:
    """The result of retrying a run's dead letters."""

    def __init__(self):
        self.samples = 0
        self.incidents = {}  # by payload

    def take(self, payload, incident):
        self.incidents[payload] = incident
        self.samples += done_in(incident)

    def add(self, other):
        self.samples += other.samples
        self.incidents.update(other.incidents)

    def correct(self, summary, code):
        """Counts recovered samples as done in the summary, and keeps others' reasons. Returns the new exit code."""
        if not self.incidents:
            return code
        samples = summary.get("samples")
        if isinstance(samples, dict):
            samples["dead_letters"] = max((samples.get("dead_letters") or 0) - self.samples, 0)
            samples["released"] = (samples.get("released") or 0) + self.samples
            samples["recovered"] = self.samples
        for group in summary.get("groups") or []:
            # A payload's path is GROUP'S_FOLDER/dead-letters/NAME.safetensors.
            of_group = [
                each
                for payload, each in self.incidents.items()
                if pathlib.Path(payload).parent.parent.name == group.get("name")
            ]
            done = sum(map(done_in, of_group))
            group["dead_lettered_samples"] = max((group.get("dead_lettered_samples") or 0) - done, 0)
            group["released_samples"] = (group.get("released_samples") or 0) + done
        kept = []
        for slab in summary.get("dead_letters") or []:
            incident = self.incidents.get(slab.get("payload"))
            left = left_of(incident) if incident else None
            if left:
                slab.update(samples=len(left), reason=reason_of(incident))
            if left != []:
                kept.append(slab)
        if "dead_letters" in summary:
            summary["dead_letters"] = kept
        is_left = any(left_of(incident) for incident in self.incidents.values())
        is_whole = samples and not samples["dead_letters"] and not is_left
        return int(ExitCode.OK) if code == ExitCode.DEAD_LETTERS and is_whole else code


def retry_outcome(incident, ended, output):
    """(a message, the exit code); DEAD_LETTERS where samples failed alone."""
    left = left_of(incident)
    if not left:
        return f"done; output in {output}", ended
    done = len(incident.get("samples") or []) - len(left)
    reason = f": {reason_of(incident)}" if any(sample.get("why") for sample in left) else ""
    how = f" with exit {ended}" if ended else ""
    words = f"{len(left)} {'sample' if len(left) == 1 else 'samples'} failed again{how}{reason}"
    return words + (f"; {done} done, output in {output}" if done else ""), ended or int(ExitCode.DEAD_LETTERS)


def reason_of(incident):
    """Why it failed, in one line: its first failed sample, or all, with the error and its code location."""
    first = next((sample for sample in left_of(incident) if sample.get("why")), None)
    if first is not None:
        return f"sample '{first.get('key')}' failed: {error_in(first['why'])}"
    why = next((delivery["why"] for delivery in reversed(incident.get("deliveries") or []) if delivery.get("why")), "")
    place = place_in(why)
    return f"{samples_of(incident)}{incident.get('reason')}" + (f" ({place})" if place else "")


def samples_of(incident):
    """Its samples without results: "samples 'a' to 'd': "; "" if there are none."""
    keys = [f"'{sample['key']}'" for sample in left_of(incident) if sample.get("key")]
    return "" if not keys else f"sample {keys[0]}: " if len(keys) == 1 else f"samples {keys[0]} to {keys[-1]}: "


def error_in(why):
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    place = place_in(why)
    return (lines[-1] if lines else "no reason") + (f" ({place})" if place else "")


def place_in(why):
    """The innermost line of the user's code in a traceback, else the innermost: "post.py:4"."""
    places = CODE_LOCATION.findall(why)
    path, line = next(
        (place for place in reversed(places) if not NOT_THE_USERS.search(place[0])), places[-1] if places else ("", "")
    )
    return f"{os.path.basename(path)}:{line}" if path else ""
