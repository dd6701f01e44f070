"""Output streams that never end a command or change its exit code: without a reader, on a full disk, closed (`>&-`)."""

import errno
import os
import sys

NAMES = ("stdin", "stdout", "stderr")


def open_closed_ones():
    """Opens closed standard descriptors, so that a file opened later does not become standard output."""
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
            setattr(
                sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", errors="replace", closefd=False)
            )


class LastingStream:
    """Borrows: the stream. Discards all output after the first failure, which is `lost`."""

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
            # Also discards the buffer; otherwise Python would try again at exit, and exit with 120.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name):
        return getattr(self._stream, name)


def make_lasting():
    """Call once, before anything is written or opened."""
    open_closed_ones()
    for name in NAMES[1:]:
        setattr(sys, name, LastingStream(getattr(sys, name)))


def lost_stream():
    """Why standard output could not be written, as text; None where it could, or where its reader closed it."""
    sys.stdout.flush()
    lost = getattr(sys.stdout, "lost", None)
    return None if lost is None or lost.errno == errno.EPIPE else lost.strerror
