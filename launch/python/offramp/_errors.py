"""What goes wrong, a class for each of the library's codes, with the library's own sentence and remedy."""

from __future__ import annotations


class Error(Exception):
    """The base of all; `code` is one of offramp_code, or 1 where none fits."""

    code = 1


class Internal(Error):
    """A fault of ours."""


class Timeout(Error, TimeoutError):
    """Not yet: it may be called again."""

    code = 2


class WrongProcess(Error):
    """The object was made by another process, before a fork."""

    code = 3


class CallbackFailed(Error):
    """A consumer's own function failed."""

    code = 4


class Failed(Error):
    """Raise it in a consumer's function when a slab failed, in words of one's own: what any other exception does, but the loop goes on."""

    code = 5


class Reject(Error):
    """Raise it in a consumer's function when no consumer will do better: the slab is dead-lettered immediately, with these words."""

    code = 6


class BadArgument(Error, ValueError):
    """An argument is wrong, or it is too late for the call."""

    code = 64


class NoSuchRun(Error):
    """There is no run in this directory, or it takes no more consumers."""

    code = 69


class SystemFailure(Error):
    """The system refused something: memory, descriptors, files."""

    code = 71


class CannotWrite(Error):
    """A file or folder cannot be written."""

    code = 73


class Retry(Error):
    """Raise it in a consumer's function whose sink is away: the slab goes back, and nothing is counted against it."""

    code = 75


class Protocol(Error):
    """The other side is of another build, or its bytes are damaged."""

    code = 76


class NotPermitted(Error):
    """The other side belongs to another user."""

    code = 77


class SharedMemoryFull(Error, MemoryError):
    """/dev/shm has no room for the slabs."""

    code = 80


class DeviceOutOfMemory(Error, MemoryError):
    """The device has no memory left."""

    code = 81


class DeviceBroken(Error):
    """The device's context is lost: end the process."""

    code = 82


class DeviceUnsupported(Error):
    """There is no such device here, or its driver is too old."""

    code = 83


class RunInUse(Error):
    """Another producer has this run directory."""

    code = 85


class ProducerGone(Error):
    """The producer died, and no other took over."""

    code = 86


class Stopped(Error):
    """The run takes no more."""

    code = 130


class ConsumersFailed(Error):
    """The consumers that an Egress started gave up, or not all samples are done; `code` is the exit code of their command (launch/guide/reference/exit-codes.md)."""

    def __init__(self, text: str, code: int = 1):
        super().__init__(text)
        self.code = code


class TensorChanged(Error, RuntimeError):
    """A tensor was written to, freed or resized after submit() and before it was copied: consumers may get something else than was submitted."""


class TurnOver(Error, RuntimeError):
    """A slab was used after its turn: its memory holds something else by now."""


class ViewKept(Error, RuntimeError):
    """A consumer's function kept a view of its slab. The slab is not accepted."""


class LibraryNotFound(Error, ImportError):
    """libofframp.so.1 is not there, or is another version's."""


class KeptViewWarning(RuntimeWarning):
    """A loop kept a view of a slab beyond its turn: the view shows whatever lies there now."""


class ForgottenWarning(RuntimeWarning):
    """An Egress was neither drained nor closed: what consumers had not done is lost."""


_BY_CODE = {kind.code: kind for kind in Error.__subclasses__() if "code" in vars(kind)}


def error_of(code: int, text: str) -> Error:
    """The exception for a code of the library's."""
    return _BY_CODE.get(code, Internal)(text)
