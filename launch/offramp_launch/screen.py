"""What reaches a terminal: text. Paths, logs, names and answers come from elsewhere, and none of them may move its cursor or its colours."""

import re
import sys

# Control characters (C0 but newline and tab, DEL, C1), line separators, turns of direction, and bytes that were not UTF-8.
NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

IN_TEXTS = "./launch/offramp"       # as messages name this command


def printable(text):
    """The text with every character that is none escaped. Lines stay lines."""
    return NO_TEXT.sub(lambda found: escape(ord(found[0])), text)


def one_line(text):
    """The same for a single value: one of several lines would look like several."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def escape(code):
    if 0xdc80 <= code <= 0xdcff:
        code -= 0xdc00      # as Python keeps a byte that was not UTF-8
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Guarded:
    """A text stream to which only printable text is written, in which this command has the name by which it is called. Borrows: the stream."""

    def __init__(self, stream, command=IN_TEXTS):
        self.unguarded = stream
        self._command = command

    def write(self, text):
        self.unguarded.write(printable(text).replace(IN_TEXTS, self._command))
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def __getattr__(self, name):
        return getattr(self.unguarded, name)


def guard(command=IN_TEXTS):
    """From here on all that this process prints is printable; for what draws there is drawn_on(). `command`: what to type for this one."""
    sys.stdout, sys.stderr = (stream if stream is None or isinstance(stream, Guarded) else Guarded(stream, command) for stream in (sys.stdout, sys.stderr))


def drawn_on(stream):
    """The terminal itself, for who moves its cursor and makes its own text printable."""
    return getattr(stream, "unguarded", stream)
