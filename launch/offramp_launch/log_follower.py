"""Reads what a program adds to its log, and picks the warnings and errors out of it."""

import json
import re

# "12:00:00.000 warning offramp-consumer[17] text", as common/base/log writes it
TEXT_LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ (?P<level>\w+) +\S+\[\d+\] (?P<message>.*)$")
WORTH_SHOWING = ("warning", "error", "critical")
LONGEST_READ = 1 << 20


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
        *lines, self._partial = (self._partial + added).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def new_warnings(self):
        """(level, message) of each new line that is worth showing."""
        return [found for found in map(severity, self.new_lines()) if found]


def severity(line):
    if line.startswith("{"):
        try:
            entry = json.loads(line)
            level, message = entry["level"], entry["message"]
        except (ValueError, KeyError, TypeError):
            return None
    elif match := TEXT_LINE.match(line):
        level, message = match["level"], match["message"]
    else:
        return None
    return (level, message) if level in WORTH_SHOWING else None


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
        return path.stat().st_size
    except OSError:
        return 0
