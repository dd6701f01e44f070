"""Starts a program of a run, and knows when and how it ended."""

import os
import signal
import subprocess
import time

from offramp_launch.supervision import memory_kills
from offramp_launch.exit_code import cannot_be_started, signal_name
from offramp_launch.supervision.log_follower import last_error, size_of, warnings_in

LOG_END_BYTES = 16384   # of a log, in which its last words are looked for


class Child:
    """
    A started program, in its own process group and session, so that a terminal's Ctrl-C reaches the launcher only.
    Owns: its pidfd, which is readable once it has ended and can never mean another process. Errors: LaunchError where it cannot be started.
    """

    def __init__(self, name, argv, log_path, inherited, stdin=subprocess.DEVNULL, **identity):
        """`identity`: the user and groups that it runs as, as subprocess wants them; the launcher's without."""
        self.name = name
        self.started = time.monotonic()
        self.status = None
        self.cpu_seconds = 0.0
        self.log_path = log_path
        self.log_begin = size_of(log_path)
        self._memory_kills = memory_kills.count()
        self.ended_for_memory = ""      # why, where the kernel ended it for want of memory
        self.peak_bytes = 0     # of its memory
        try:
            with open_log(log_path) as log:
                self._process = subprocess.Popen(
                    argv, stdin=stdin, stdout=log, stderr=subprocess.STDOUT, pass_fds=inherited,
                    start_new_session=True, **identity)
            self.pid = self._process.pid
            self.pidfd = self._opened()
        except OSError as problem:
            raise cannot_be_started(argv[0], problem) from problem

    def _opened(self):
        """Errors: OSError; then it is gone again."""
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
        """Call it once more where the status is in truth another program's, which this one has waited for."""
        self.status = status
        if status == -signal.SIGKILL:
            self.ended_for_memory = self.memory_kills()

    def memory_kills(self):
        """Of this process or another since it began, in words; empty where there were none."""
        return memory_kills.kills_since(self._memory_kills)

    def signal(self, number):
        if self.status is None:
            signal.pidfd_send_signal(self.pidfd, number)

    def lived_seconds(self):
        return time.monotonic() - self.started

    def final_messages(self, lines=12):
        """The end of what it wrote in this life."""
        return "\n".join("    " + line for line in self._written().splitlines()[-lines:]) or "    (it wrote nothing)"

    def reason(self):
        """Why it ended, in the words of its last error; where it told none, in the last line that it wrote; nothing where it wrote nothing."""
        text = self._written()
        return last_error(text) or next((line.strip() for line in reversed(text.splitlines()) if line.strip()), None)

    def warnings(self):
        """What it warned of in this life, however much it wrote behind it."""
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
        """How it ended, in words."""
        if self.status >= 0:
            return f"ended with exit code {self.status}"
        return f"was killed by {signal_name(-self.status)}" + (f" ({self.ended_for_memory})" if self.ended_for_memory else "")


def open_log(path):
    """Where none can be had, as the disk is full or the folder was moved away, a program runs without: its results may lie elsewhere."""
    try:
        return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "ab")
    except OSError:
        return open(os.devnull, "ab")
