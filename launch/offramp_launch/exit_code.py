"""The exit codes of every program, as in common/base/error_kind.hpp and common/app/settings/exit_code.hpp."""

import contextlib
import enum
import errno
import signal

from offramp_launch.places import as_typed


class ExitCode(enum.IntEnum):
    OK = 0
    INTERNAL = 1
    USAGE = 64
    BAD_INPUT = 65
    NO_INPUT = 66
    NO_SUCH_RUN = 69
    COUNT_MISMATCH = 70
    SYSTEM = 71
    CANNOT_WRITE = 73
    SINK_UNAVAILABLE = 75
    PROTOCOL = 76
    NOT_PERMITTED = 77
    CONFIG = 78
    SHARED_MEMORY_FULL = 80
    DEVICE_OUT_OF_MEMORY = 81
    DEVICE_BROKEN = 82
    DEVICE_UNSUPPORTED = 83
    DEAD_LETTERS = 84
    RUN_IN_USE = 85
    PRODUCER_GONE = 86
    INTERRUPTED = 130


def codes(names):
    return frozenset(ExitCode[name] for name in names.split())


# A consumer that ends with one of these would end the same way again: the run is stopped instead of restarting it.
FATAL_FOR_A_CONSUMER = codes("USAGE BAD_INPUT CANNOT_WRITE PROTOCOL NOT_PERMITTED CONFIG")

# Errors of a file system that is full or cannot be written.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)

# Remedies for exhausted resources of a machine or user.
REMEDIES = {
    errno.EAGAIN: "Raise the limit of processes (ulimit -u), or of the container or unit (pids.max, TasksMax=)",
    errno.EMFILE: "Raise the limit of open files (ulimit -n, LimitNOFILE= of a systemd unit)",
    errno.ENFILE: "Raise the limit of open files of the machine (sysctl fs.file-max)",
    errno.ENOMEM: "Memory is short: give the container or machine more, or start fewer programs",
}


def way_to_write(problem, otherwise):
    """The remedy for a file that could not be written: common/base/scarcity.hpp."""
    if problem.errno == errno.EFBIG:
        return "A limit on the size of files is reached: raise it (ulimit -f, LimitFSIZE= of a systemd unit)"
    return otherwise


class LaunchError(Exception):
    """An error with its message (including the value), its fix and its exit code."""

    CODE = ExitCode.SYSTEM

    def __init__(self, what, fix="", code=None):
        super().__init__(what)
        self.what, self.fix, self.code = what, fix, self.CODE if code is None else code

    def __str__(self):
        return f"{self.what}\n    {self.fix}" if self.fix else self.what

    def in_one_line(self):
        return in_one_line(str(self))


class UsageError(LaunchError):
    """The command line, or a setting, cannot be accepted."""

    CODE = ExitCode.USAGE


class InputError(LaunchError):
    """A file or its content cannot be used."""

    CODE = ExitCode.BAD_INPUT


class NotFoundError(LaunchError):
    """A file or folder that is needed does not exist, or holds nothing."""

    CODE = ExitCode.NO_INPUT


class WriteError(LaunchError):
    """A file or folder cannot be written or removed."""

    CODE = ExitCode.CANNOT_WRITE


@contextlib.contextmanager
def write_errors(what, fix):
    """Turns an OSError into a WriteError. `what`: such as "--output X cannot be written"."""
    try:
        yield
    except OSError as problem:
        raise WriteError(f"{what}: {problem.strerror}", fix) from problem


def cannot_be_started(program, problem, otherwise="./launch/offramp setup builds it"):
    """The LaunchError for an OSError at a program's start. `otherwise`: the remedy, unless a resource is exhausted."""
    return LaunchError(
        f"'{program}' cannot be started ({problem.strerror})", REMEDIES.get(problem.errno, otherwise), ExitCode.SYSTEM
    )


def in_one_line(text):
    """For reports: a reason and its remedy as sentences of one line, with this command's name for any folder."""
    joined = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        joined += (" " if joined.endswith(tuple(".,:;!?")) else ". ") * bool(joined) + line
    return as_typed(joined, anywhere=True)


def shell_code(status):
    """The exit code that a shell gives for a process's status: unchanged, or 128 plus the signal."""
    return status if status >= 0 else 128 - status


# A shell's exit codes for killed programs. Without SIGINT and SIGTERM, which ask a program to end, so that it may use
# these codes itself.
SHELL_STATUS = {
    shell_code(-number): -number
    for number in (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV)
}


def status_behind_a_shell(status):
    """The status of a program, from that of the shell or script that waited for it."""
    return SHELL_STATUS.get(status, status)


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def code_of_command(command, status, fix=""):
    """The exit code of a command's process, which printed its error. Errors: LaunchError where a signal killed it."""
    if status < 0:
        raise LaunchError(
            f"{command} was killed by {signal_name(-status)}",
            "SIGKILL usually means lack of memory; after another signal PYTHONFAULTHANDLER=1 shows the code location"
            + fix,
            shell_code(status),
        )
    return status
