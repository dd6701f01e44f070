"""Follows a program's log and extracts its warnings and errors."""

import json
import os
import pathlib
import re

# "12:00:00.000 warning offramp-consumer[17] text", as common/base/log writes it
TEXT_LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ (?P<level>\w+) +\S+\[\d+\] (?P<message>.*)$")
# Before logging has started: "offramp-producer: text"
PLAIN_LINE = re.compile(r"^offramp-\w+: (?P<message>.*)$")
COMMAND_ERROR = "offramp: "
TRACEBACK = "Traceback (most recent call last):"
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
WORTH_SHOWING = ("warning", "error", "critical")
ERRORS = ("error", "critical")
LONGEST_READ = 1 << 20
LONGEST_LINE = 1 << 16  # kept of an unfinished line


class LogFollower:
    """Borrows: a file that another process appends to; it may not exist yet."""

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
        """(level, message) of each new warning or error; of a Python traceback only its exception's first line."""
        # `before`: the text in front of a traceback; `is_open`: its exception is still to come
        found, before, is_open = [], None, False
        for line in self.new_lines():
            if begun := record(line):
                before = None
                if begun[0] in WORTH_SHOWING:
                    found.append(begun)
                    before = begun[1].removesuffix(TRACEBACK) if begun[1].endswith(TRACEBACK) else None
                    is_open = before is not None
            elif before is not None and line.startswith(CHAINED):
                is_open = True
            elif is_open and before is not None and line[:1].strip() and line != TRACEBACK:
                found[-1], is_open = (found[-1][0], before + line), False
        return found


def severity(line):
    found = record(line)
    return found if found and found[0] in WORTH_SHOWING else None


def warnings_in(lines):
    """The messages of the warnings among the lines."""
    return (message for level, message in filter(None, map(severity, lines)) if level == "warning")


def record(line):
    """(level, message) of a line that begins a log record; else None."""
    if line.startswith("{"):
        try:
            entry = json.loads(line)
            return entry["level"], entry["message"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
    if match := TEXT_LINE.match(line):
        return match["level"], match["message"]
    return None


def printed_by_command(path):
    """(the errors that an offramp command printed, all its lines); both empty where the file cannot be read."""
    try:
        lines = pathlib.Path(path).read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return [line.removeprefix(COMMAND_ERROR) for line in lines if line.startswith(COMMAND_ERROR)], lines


def last_error(text):
    """The last error in `text`, with the lines that belong to it; None where it has none."""
    found, in_error = None, False
    for line in text.splitlines():
        if begun := record(line):
            in_error = begun[0] in ERRORS
            found = begun[1] if in_error else found
        elif plain := PLAIN_LINE.match(line):
            found, in_error = plain["message"], True
        elif in_error and line.strip():
            found = f"{found}\n{line.rstrip()}"
    return found


class LogRelay:
    """Shows a program's new warnings, at most SHOWN of them. Borrows: the display."""

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
                self._display.note(f"{self._name}: further warnings are in {self._path}")


def size_of(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
