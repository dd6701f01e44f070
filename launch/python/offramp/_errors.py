"""One exception class for each of the library's error codes. The text is the library's message and remedy."""

from __future__ import annotations


class Error(Exception):
    """The base of all; `code` is one of offramp_code, or 1 if none fits."""

    code = 1


class Internal(Error):
    """A bug in Offramp."""


class Timeout(Error, TimeoutError):
    """The operation did not finish in time; call it again."""

    code = 2


class WrongProcess(Error):
    """The object was made before a fork, by another process."""

    code = 3


class CallbackFailed(Error):
    """A consumer's own function failed."""

    code = 4


class Failed(Error):
    """
    Raise it in a consumer's function to count a failure against the slab, with your message, and continue with the next
    slab.
    """

    code = 5


class Reject(Error):
    """
    Raise it in a consumer's function if a retry cannot help: the slab becomes a dead letter immediately, with your
    message.
    """

    code = 6


class BadArgument(Error, ValueError, TypeError):
    """An argument has a wrong value or type, or the call comes too late."""

    code = 64


class NoSuchTensor(BadArgument, KeyError):
    """A slab has no tensor of this name."""

    __str__ = Exception.__str__  # KeyError shows its text in quotes


class NoSuchRun(Error):
    """There is no run in this directory, or it accepts no more consumers."""

    code = 69


class SystemFailure(Error):
    """The operating system refused a resource: memory, descriptors, files."""

    code = 71


class CannotWrite(Error):
    """A file or folder cannot be written."""

    code = 73


class Retry(Error):
    """Raise it in a consumer's function whose sink is unavailable: the slab is returned without counting a failure."""

    code = 75


class Protocol(Error):
    """The peer is another build of Offramp, or its data is corrupt."""

    code = 76


class NotPermitted(Error):
    """The peer belongs to another user."""

    code = 77


class SharedMemoryFull(Error, MemoryError):
    """/dev/shm has no room for the slabs."""

    code = 80


class DeviceOutOfMemory(Error, MemoryError):
    """The device has no memory left."""

    code = 81


class DeviceBroken(Error):
    """The device context is lost. Restart the process."""

    code = 82


class DeviceUnsupported(Error):
    """This device does not exist, or its driver is too old."""

    code = 83


class RunInUse(Error):
    """Another producer uses this run directory."""

    code = 85


class ProducerGone(Error):
    """The producer died, and no other producer recovered its run."""

    code = 86


class Stopped(Error):
    """The run was stopped and accepts no more batches."""

    code = 130


class ConsumersFailed(Error):
    """Consumers failed, or not all samples are done; `code` is an exit code (launch/guide/reference/exit-codes.md)."""

    def __init__(self, text: str, code: int = 1):
        super().__init__(text)
        self.code = code


class TensorChanged(Error, RuntimeError):
    """
    A tensor was written to, freed or resized after submit() and before it was copied, so consumers may read wrong data.
    """


class TurnOver(Error, RuntimeError):
    """A slab was used after its turn, when its memory may hold other data."""


class ViewKept(Error, RuntimeError):
    """A consumer's function kept a view of its slab. A failure is counted against the slab."""


class LibraryNotFound(Error, ImportError):
    """libofframp.so, or a library that the called function needs, is missing or has another version."""


class KeptViewWarning(RuntimeWarning):
    """A loop kept a view of a slab after its turn; the view may show other data."""


class ForgottenWarning(RuntimeWarning):
    """An Egress was neither drained nor closed, so unfinished work was abandoned."""


_BY_CODE = {kind.code: kind for kind in Error.__subclasses__() if "code" in vars(kind)}


def error_of(code: int, text: str) -> Error:
    """Returns the exception for an error code of the library."""
    return _BY_CODE.get(code, Internal)(text)
