"""Starts a program of a run, and records when and how it ends."""

import os
import signal
import subprocess
import time

from offramp_launch.supervision import control_groups
from offramp_launch.exit_code import cannot_be_started, signal_name
from offramp_launch.supervision.log_follower import last_error, size_of, warnings_in

LOG_END_BYTES = 16384  # at the end of a log, searched for the last error


class Child:
    """
    A started program, in its own process group and session, so that a terminal's Ctrl-C reaches the launcher only.
    Owns: its pidfd, which is readable once it has ended and can never mean another process. Errors: LaunchError where
    it cannot be started.
    """

    def __init__(self, name, argv, log_path, inherited, stdin=subprocess.DEVNULL, **identity):
        """`identity`: user and groups to run as, in subprocess's arguments; default: the launcher's."""
        self.name = name
        self.started = time.monotonic()
        self.status: int | None = None
        self.cpu_seconds = 0.0
        self.log_path = log_path
        self.log_begin = size_of(log_path)
        self._memory_kills = control_groups.memory_kills()
        self.ended_for_memory = ""  # why, where the kernel killed it for lack of memory
        self.peak_bytes = 0  # peak memory
        try:
            with open_log(log_path) as log:
                self._process = subprocess.Popen(
                    argv,
                    stdin=stdin,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=inherited,
                    start_new_session=True,
                    **identity,
                )
            self.pid = self._process.pid
            self.pidfd = self._open_pidfd()
        except OSError as problem:
            raise cannot_be_started(argv[0], problem) from problem

    def _open_pidfd(self):
        """Opens its pidfd. Errors: OSError, after killing the process."""
        try:
            return os.pidfd_open(self.pid)
        except OSError:
            self._process.kill()
            self._process.wait()
            raise

    def reap(self):
        """Call once, when the pidfd is readable."""
        _, status, usage = os.wait4(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds, self.peak_bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        os.close(self.pidfd)
        self.ended_with(self._process.returncode)

    def ended_with(self, status):
        """Call again with the real status where the process passed on that of another program."""
        self.status = status
        if status == -signal.SIGKILL:
            self.ended_for_memory = control_groups.memory_kills_since(self._memory_kills)

    def signal(self, number):
        if self.status is None:
            signal.pidfd_send_signal(self.pidfd, number)

    def lived_seconds(self):
        return time.monotonic() - self.started

    def final_messages(self, lines=12):
        """The end of its log since this start."""
        return "\n".join("    " + line for line in self._written().splitlines()[-lines:]) or "    (it wrote nothing)"

    def reason(self):
        """Why it ended: its last error, else the last line of its log; None where it wrote nothing."""
        text = self._written()
        return last_error(text) or next((line.strip() for line in reversed(text.splitlines()) if line.strip()), None)

    def warnings(self):
        """All its warnings since this start."""
        try:
            with open(self.log_path, "rb") as log:
                log.seek(self.log_begin)
                return list(warnings_in(line.decode(errors="replace").rstrip("\n") for line in log))
        except OSError:
            return []

    def reported_error(self):
        return last_error(self._written()) is not None

    def _written(self):
        try:
            with open(self.log_path, "rb") as log:
                log.seek(max(self.log_begin, size_of(self.log_path) - LOG_END_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def ending(self):
        """How it ended, as text."""
        if self.status is None:
            return "still runs"
        if self.status >= 0:
            return f"ended with exit code {self.status}"
        return f"was killed by {signal_name(-self.status)}" + (
            f" ({self.ended_for_memory})" if self.ended_for_memory else ""
        )


def open_log(path):
    """The log for appending; /dev/null where it cannot be opened (full disk, moved folder): results may be written."""
    try:
        return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "ab")
    except OSError:
        return open(os.devnull, "ab")
