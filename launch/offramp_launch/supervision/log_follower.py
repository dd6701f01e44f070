"""Reads what a program adds to its log, and picks the warnings and errors out of it."""

import json
import os
import pathlib
import re

# "12:00:00.000 warning offramp-consumer[17] text", as common/base/log writes it
TEXT_LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ (?P<level>\w+) +\S+\[\d+\] (?P<message>.*)$")
# Before logging has been started: "offramp-producer: text"
PLAIN_LINE = re.compile(r"^offramp-\w+: (?P<message>.*)$")
COMMAND_ERROR = "offramp: "
WORTH_SHOWING = ("warning", "error", "critical")
ERRORS = ("error", "critical")
LONGEST_READ = 1 << 20
LONGEST_LINE = 1 << 16      # kept of one that is not finished


class LogFollower:
    """Borrows: a file that another process appends to; it need not be there yet."""

    def __init__(self, path, offset=0):
        self._path = path
        self._offset = offset
        self._partial = b""

    def new_lines(self):
        try:
            with open(self._path, "rb") as log:
                log.seek(self._offset)
                added = log.read(LONGEST_READ)
        except OSError:
            return []
        self._offset += len(added)
        *lines, self._partial = (self._partial[-LONGEST_LINE:] + added).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def new_warnings(self):
        """(level, message) of each new line that is worth showing."""
        return [found for found in map(severity, self.new_lines()) if found]


def severity(line):
    found = record(line)
    return found if found and found[0] in WORTH_SHOWING else None


def warnings_in(lines):
    """The messages of the warnings among them."""
    return (message for level, message in filter(None, map(severity, lines)) if level == "warning")


def record(line):
    """(level, message) of a line that begins a record of a log; else nothing."""
    if line.startswith("{"):
        try:
            entry = json.loads(line)
            return entry["level"], entry["message"]
        except (ValueError, KeyError, TypeError):
            return None
    if match := TEXT_LINE.match(line):
        return match["level"], match["message"]
    return None


def printed_by_command(path):
    """(the errors that a command of ours told, all its lines) of what it printed; both empty where that cannot be read."""
    try:
        lines = pathlib.Path(path).read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return [line.removeprefix(COMMAND_ERROR) for line in lines if line.startswith(COMMAND_ERROR)], lines


def last_error(text):
    """The last error that a program told in `text`, with the lines that belong to it; nothing where it told none."""
    found, at_it = None, False
    for line in text.splitlines():
        if begun := record(line):
            at_it = begun[0] in ERRORS
            found = begun[1] if at_it else found
        elif plain := PLAIN_LINE.match(line):
            found, at_it = plain["message"], True
        elif at_it and line.strip():
            found = f"{found}\n{line.rstrip()}"
    return found


class LogRelay:
    """Shows a program's warnings from here on, not too many of them. Borrows: the display."""

    SHOWN = 20

    def __init__(self, name, path, display):
        self._name, self._path, self._display = name, path, display
        self._follower = LogFollower(path, size_of(path))
        self._shown = 0

    def relay(self):
        for level, message in self._follower.new_warnings():
            self._shown += 1
            if self._shown <= self.SHOWN:
                self._display.note(f"{self._name}: {level}: {message}")
            elif self._shown == self.SHOWN + 1:
                self._display.note(f"{self._name}: further warnings stand in {self._path}")


def size_of(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
