"""Prints only text to a terminal: untrusted paths, logs and answers must not move its cursor or set colours."""

import re
import sys

from offramp_launch.places import as_typed

# Control characters (C0 except newline and tab, DEL, C1), line separators, direction marks, and bytes that were not
# UTF-8.
NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text):
    """Escapes every unprintable character, and names this command as it is typed. Lines stay lines."""
    return NO_TEXT.sub(lambda found: escape(ord(found[0])), as_typed(text))


def one_line(text):
    """The same for a single value, also escaping line breaks."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def escape(code):
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00  # Python's code for a byte that was not UTF-8
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Guarded:
    """A text stream that makes text printable. Borrows: the stream."""

    def __init__(self, stream):
        self.unguarded = stream

    def write(self, text):
        self.unguarded.write(printable(text))
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def __getattr__(self, name):
        return getattr(self.unguarded, name)


def guard():
    """From here on this process prints only printable text, except on drawn_on()."""
    sys.stdout, sys.stderr = (
        stream if stream is None or isinstance(stream, Guarded) else Guarded(stream)
        for stream in (sys.stdout, sys.stderr)
    )


def drawn_on(stream):
    """The terminal itself, for code that moves its cursor and makes its text printable."""
    return getattr(stream, "unguarded", stream)
