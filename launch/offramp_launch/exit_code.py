"""The exit codes of every program: common/base/error_kind.hpp and common/app/settings/exit_code.hpp, mirrored (a test compares them)."""

import enum
import errno
import signal


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


# A consumer that ends with one of these would end the same way again: the run is stopped instead of restarting it.
FATAL_FOR_A_CONSUMER = frozenset({
    ExitCode.USAGE, ExitCode.BAD_INPUT, ExitCode.CANNOT_WRITE, ExitCode.PROTOCOL, ExitCode.NOT_PERMITTED, ExitCode.CONFIG,
})


# Of a file system that takes no more, or never did.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


# Of a machine, or of who may use no more of it.
WANTING = {
    errno.EAGAIN: "Raise the limit of processes (ulimit -u), or of the container or unit (pids.max, TasksMax=)",
    errno.EMFILE: "Raise the limit of open files (ulimit -n, LimitNOFILE= of a systemd unit)", errno.ENFILE: "Raise the limit of open files of the machine (sysctl fs.file-max)",
    errno.ENOMEM: "Memory is short: give the container or machine more, or start fewer programs",
}


def way_to_write(problem, otherwise):
    """What a user can do where a file could not be written: common/base/way_to_write.hpp."""
    if problem.errno == errno.EFBIG:
        return "A limit on the size of files is reached: raise it (ulimit -f, LimitFSIZE= of a systemd unit)"
    return otherwise


class LaunchError(Exception):
    """What was wrong, with the value; how to put it right; and the exit code that says so."""

    def __init__(self, what, fix="", code=ExitCode.SYSTEM):
        super().__init__(what)
        self.what = what
        self.fix = fix
        self.code = code

    def __str__(self):
        return f"{self.what}\n    {self.fix}" if self.fix else self.what

    def in_one_line(self):
        return in_one_line(str(self))


def cannot_be_started(program, problem, otherwise="./launch/offramp setup builds it"):
    """The LaunchError for an OSError at a program's start. `otherwise`: the remedy, but where it is the machine that has no more."""
    return LaunchError(f"'{program}' cannot be started ({problem.strerror})", WANTING.get(problem.errno, otherwise), ExitCode.SYSTEM)


def in_one_line(text):
    """Lines as sentences of one line: what is kept of a reason and its remedy is looked for, cut and compared by line."""
    told = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        told += (" " if told.endswith(tuple(".,:;!?")) else ". ") * bool(told) + line
    return told


def shell_code(status):
    """The exit code that a shell would give for a process's status: its own, or 128 and the signal."""
    return status if status >= 0 else 128 - status


# A shell that waits for a program says so of a death of it. Other codes beyond 128 it may mean: by SIGINT and SIGTERM a program is asked to end.
SHELL_STATUS = {shell_code(-number): -number for number in
                   (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV)}


def status_behind_a_shell(status):
    """Of the program that a shell, or a script, has waited for."""
    return SHELL_STATUS.get(status, status)


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def code_of_command(command, status, fix=""):
    """The exit code of a command's own process, which has said what was wrong, unless a signal took its word. Errors: LaunchError says so then."""
    if status < 0:
        raise LaunchError(f"{command} was killed by {signal_name(-status)}",
                          "SIGKILL is mostly for want of memory; after another signal PYTHONFAULTHANDLER=1 shows where it was" + fix, shell_code(status))
    return status
