"""
The incident reports of a run's dead letters, and the launcher's part of them.

RUN_DIR/dead-letters/ holds for each set-aside slab NAME.safetensors (the payload) and NAME.json (the incident report). The producer writes both,
once. It cannot know how a consumer ended or what it last said: the launcher, which reaps consumers and owns their logs, adds that to
the incident report, and what retries came to. Both replace the whole file by a rename, and never write at the same time.
"""

import collections
import json
import pathlib

from offramp_launch import shared_folder
from offramp_launch.exit_code import ExitCode, LaunchError, signal_name

FOLDER = "dead-letters"
DEATHS_REMEMBERED = 1000


class IncidentReporter:
    """Completes the incident reports of a live run. Thread: the supervisor's. Blocks: on small files. Trouble with one never ends the run."""

    def __init__(self, run_dir):
        self._folder = pathlib.Path(run_dir) / FOLDER
        self._deaths = collections.OrderedDict()   # by pid
        self._told = {}                            # file's time, by name: nothing is missing in it

    def note_death(self, child, final_messages):
        self._deaths.pop(child.pid, None)
        self._deaths[child.pid] = {"exit": child.status, "signal": signal_name(-child.status) if child.status < 0 else None,
                                   "last_log_lines": [line.strip() for line in final_messages.splitlines()]}
        while len(self._deaths) > DEATHS_REMEMBERED:
            self._deaths.popitem(last=False)

    def complete(self):
        """Call it now and then, and at the end: a consumer's end and the incident report of what it died of come in either order."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                written = path.stat().st_mtime_ns
                if self._told.get(path.name) == written:
                    continue
                incident = json.loads(path.read_text())
                if self._add_deaths(incident):
                    write_incident(path, incident)
                if all(known(delivery) for delivery in incident.get("deliveries", [])):
                    self._told[path.name] = path.stat().st_mtime_ns
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
    """Consumers that did not die have no end to tell."""
    return delivery.get("end") != "died" or delivery.get("exit") is not None


def write_incident(path, incident):
    shared_folder.write(path.parent, path.name, (json.dumps(incident, indent=1) + "\n").encode())


def incidents_of(run_dir):
    """{name: incident report}, in the order of batches."""
    incidents = {}
    for path in (run_dir / FOLDER).glob("*.json"):
        try:
            incident = json.loads(path.read_text())
        except (OSError, ValueError) as problem:
            raise LaunchError(f"'{path}' cannot be read ({problem})", "", ExitCode.BAD_INPUT) from problem
        incidents[path.stem] = incident
    return dict(sorted(incidents.items(), key=lambda entry: (entry[1].get("batch") or 0, entry[0])))
