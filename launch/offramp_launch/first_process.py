"""
In a container the command is the first process. The kernel gives it every orphaned process, and delivers only the
signals that it handles. There the command continues as a child; the first process forwards signals, reaps children, and
exits with the command's code.
"""

import contextlib
import os
import signal

FIRST = 1
FORWARDED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
KILLED = 128


def run_as_first_process():
    """Returns in the process of the command. Call before starting processes or threads."""
    if os.getpid() != FIRST:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD, signal.SIGTTOU})
    command = os.fork()
    if command:
        os._exit(supervise(command))
    # In its own process group, the command gets a terminal's Ctrl-C once, not also the forwarded one.
    os.setpgid(0, 0)
    with contextlib.suppress(OSError):
        os.tcsetpgrp(0, os.getpid())
    # launch/offramp blocks SIGTERM for the first process
    signal.pthread_sigmask(signal.SIG_SETMASK, before.difference({signal.SIGTERM}))


def supervise(command):
    """Waits for the command. Returns its exit code."""
    while True:
        number = signal.sigwait(FORWARDED | {signal.SIGCHLD})
        if number != signal.SIGCHLD:
            os.kill(command, number)
        elif (ended := reap_children()).get(command) is not None:
            code = ended[command]
            return code if code >= 0 else KILLED - code


def reap_children():
    """Exit statuses of ended children, by process id."""
    ended = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    return ended
