"""
The incident reports of a run's dead letters, and the launcher's additions to them.

RUN_DIR/dead-letters/ contains NAME.safetensors (the payload) and NAME.json (the incident report) for each dead letter.
The producer writes both, once. It cannot know how a consumer ended or what it logged last: the launcher, which reaps
consumers and owns their logs, adds that to the incident report, and the results of retries. Both replace the whole file
by a rename, and never write concurrently.
"""

import collections
import json
import pathlib

from offramp_launch import shared_folder
from offramp_launch.exit_code import InputError, signal_name

FOLDER = "dead-letters"
DEATHS_REMEMBERED = 1000


class IncidentReporter:
    """
    Completes the incident reports of a live run. Thread: the supervisor's. Blocks: on small files. Errors with a report
    never end the run.
    """

    def __init__(self, run_dir):
        self._folder = pathlib.Path(run_dir) / FOLDER
        self._deaths = collections.OrderedDict()  # by pid
        self._completed = {}  # times of complete files, by name

    def note_death(self, child, final_messages):
        self._deaths.pop(child.pid, None)
        self._deaths[child.pid] = {
            "exit": child.status,
            "signal": signal_name(-child.status) if child.status < 0 else None,
            "last_log_lines": [line.strip() for line in final_messages.splitlines()],
        }
        while len(self._deaths) > DEATHS_REMEMBERED:
            self._deaths.popitem(last=False)

    def number_of_reports(self):
        return sum(1 for _ in self._folder.glob("*.json"))

    def complete(self):
        """Call periodically and at the end: a consumer's death and its incident report arrive in either order."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                written = path.stat().st_mtime_ns
                if self._completed.get(path.name) == written:
                    continue
                incident = json.loads(path.read_text())
                if self._add_deaths(incident):
                    write_incident(path, incident)
                if all(known(delivery) for delivery in incident.get("deliveries", [])):
                    self._completed[path.name] = path.stat().st_mtime_ns
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue

    def _add_deaths(self, incident):
        added = False
        for delivery in incident.get("deliveries", []):
            if not known(delivery) and delivery.get("pid") in self._deaths:
                delivery.update(self._deaths[delivery["pid"]])
                added = True
        return added


def known(delivery):
    """Whether the delivery's end is known; only a consumer that died has one."""
    return delivery.get("end") != "died" or delivery.get("exit") is not None


def write_incident(path, incident):
    shared_folder.write(path.parent, path.name, (json.dumps(incident, indent=1) + "\n").encode())


def recovered_among(run_dirs, run_id):
    """Number of this run's samples that retries have done, in each of the folders where they are dead letters."""
    done: set[int] = set()
    left: set[int] = set()
    for run_dir in run_dirs:
        for incident in incidents_of(run_dir).values():
            for sample in incident.get("samples") or [] if incident.get("run_id") == run_id else []:
                (done if sample.get("result") == "done" else left).add(sample.get("item"))
    return len(done - left)


def incidents_of(run_dir):
    """{name: incident report}, in the order of batches."""
    incidents = {}
    for path in (run_dir / FOLDER).glob("*.json"):
        try:
            incident = json.loads(path.read_text())
        except (OSError, ValueError) as problem:
            raise InputError(f"'{path}' cannot be read: {problem}", "") from problem
        incidents[path.stem] = incident
    return dict(sorted(incidents.items(), key=lambda entry: (entry[1].get("batch") or 0, entry[0])))
