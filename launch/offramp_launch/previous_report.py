"""What an earlier run told of itself in a run directory. It stays until the run that has the directory now has really begun."""

import contextlib
import os

from offramp_launch import shared_folder

ACCOUNT = ("status.json", "producer-summary.json", "summary.json", "dropped.jsonl")
# Of its launcher, which go with it: what it counted, and who died.
METRICS, LOGBOOK = "metrics.prom", "launcher.json"
# Either is written by a producer that nothing refuses any more, which also removes what is there of the account.
PRODUCER_FILES = ("status.json", "producer-summary.json")
# Of a run that was refused, or stopped, before it began, where an earlier one's account stands.
NOT_BEGUN = "not-begun.json"


class PreviousReport:
    """
    Knows the files of an earlier run's account by what they were when the directory was taken: each is told of anew by a rename.
    Thread: one. Blocks: on the disk.
    """

    def __init__(self, folder, account=ACCOUNT):
        self._folder = folder
        self._found = {name: stamp for name in account if (stamp := stamp_of(folder / name))}
        self._kept_back = {}
        self.on_begun = lambda: None      # what else gives way then

    stands = property(lambda self: bool(self._found), doc="Whether this run has not begun, as far as was seen, and has an earlier one's account before it.")

    def holds(self, name):
        """Whether the file that has the name is the earlier run's."""
        return name in self._found and stamp_of(self._folder / name) == self._found[name]

    def look(self):
        """Gives way once this run has begun. Call it now and then, and at the end."""
        if self._found and (any(self._is_reported(name) for name in PRODUCER_FILES) or not any(map(self.holds, ACCOUNT))):
            self._give_way()

    def put(self, name, text):
        """Writes a file of this run's settings, where those of the earlier one stand once this run has begun. Errors: OSError, when at once."""
        if self._found:
            self._kept_back[name] = text
        else:
            shared_folder.write(self._folder, name, text.encode())      # whoever looks meanwhile finds all of it or nothing

    def _is_reported(self, name):
        return stamp_of(self._folder / name) not in (None, self._found.get(name))

    def _give_way(self):
        left = [name for name in ACCOUNT if self.holds(name)]
        self._found = {}
        for name in (*left, METRICS, LOGBOOK, NOT_BEGUN):
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()
        for name, text in self._kept_back.items():
            with contextlib.suppress(OSError):      # what has no room for them is told by whoever writes the results
                self.put(name, text)
        self.on_begun()


def stamp_of(path):
    """None where it is not there."""
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns
