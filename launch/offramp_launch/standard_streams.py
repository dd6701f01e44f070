"""
Standard output and error that end no command: a reader that is gone, a full disk or a descriptor that was closed (`>&-`) is no reason
for a run to stop, or to end with another code than its own.
"""

import errno
import os
import sys

NAMES = ("stdin", "stdout", "stderr")


def open_closed_ones():
    """A file that is opened later must not become standard output by taking its number."""
    for number, name in enumerate(NAMES):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", errors="replace", closefd=False))


class LastingStream:
    """Borrows the stream. After the first failure what is written goes nowhere; `lost` is that failure."""

    def __init__(self, stream):
        self._stream = stream
        self.lost = None

    def write(self, text):
        self._try(lambda: self._stream.write(text))
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        self._try(self._stream.flush)

    def _try(self, act):
        try:
            act()
        except OSError as problem:
            self.lost = self.lost or problem
            # What waits in the buffer goes there, too; else Python would try once more at its end, and end with 120.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name):
        return getattr(self._stream, name)


def make_lasting():
    """Call it once, before anything is written or opened."""
    open_closed_ones()
    for name in NAMES[1:]:
        setattr(sys, name, LastingStream(getattr(sys, name)))


def lost_stream():
    """Why standard output could not be written, in words; nothing where all was, or where its reader only wanted no more."""
    sys.stdout.flush()
    lost = getattr(sys.stdout, "lost", None)
    return None if lost is None or lost.errno == errno.EPIPE else lost.strerror
