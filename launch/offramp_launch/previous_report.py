"""The reports of an earlier run in a run directory. They stay until the run that holds the directory now has really begun."""

import contextlib
import os

from offramp_launch import shared_folder

REPORT_FILES = ("status.json", "producer-summary.json", "summary.json", "dropped.jsonl")
# Files of its launcher, removed with the report: metrics and deaths.
METRICS, LOGBOOK = "metrics.prom", "launcher.json"
# A producer writes one of them once nothing can refuse it; it also removes the rest of the old report.
PRODUCER_FILES = ("status.json", "producer-summary.json")
# Summary of a run that was refused or stopped before it began, while an earlier report remains.
NOT_BEGUN = "not-begun.json"


class PreviousReport:
    """
    Recognizes the files of an earlier run's report by inode and time, since every new report is renamed into place.
    Thread: one. Blocks: on the disk.
    """

    def __init__(self, folder, files=REPORT_FILES):
        self._folder = folder
        self._found = {name: stamp for name in files if (stamp := stamp_of(folder / name))}
        self._kept_back = {}
        self.on_begun = lambda: None  # called when the old report is removed

    stands = property(
        lambda self: bool(self._found),
        doc="Whether an earlier run's report is kept, since this run was not seen to begin.",
    )

    def holds(self, name):
        """Whether the file of this name is the earlier run's."""
        return name in self._found and stamp_of(self._folder / name) == self._found[name]

    def look(self):
        """Removes the old report once this run has begun. Call it periodically and at the end."""
        if self._found and (
            any(self._is_reported(name) for name in PRODUCER_FILES) or not any(map(self.holds, REPORT_FILES))
        ):
            self._give_way()

    def put(self, name, text):
        """Writes a file of this run's settings; while the old report remains, only once this run has begun. Errors: OSError when it writes immediately."""
        if self._found:
            self._kept_back[name] = text
        else:
            shared_folder.write(self._folder, name, text.encode())  # atomic for concurrent readers

    def _is_reported(self, name):
        return stamp_of(self._folder / name) not in (None, self._found.get(name))

    def _give_way(self):
        left = [name for name in REPORT_FILES if self.holds(name)]
        self._found = {}
        for name in (*left, METRICS, LOGBOOK, NOT_BEGUN):
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()
        for name, text in self._kept_back.items():
            with contextlib.suppress(OSError):  # writing the results reports a full disk
                self.put(name, text)
        self.on_begun()


def stamp_of(path):
    """(inode, time); None where the file does not exist."""
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns
