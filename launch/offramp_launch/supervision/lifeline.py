"""A pipe whose other end whoever started this command holds: when that is gone, however it ended, so is this command, at once."""

import os
import signal
import stat
import threading

from offramp_launch import interrupts
from offramp_launch.arguments import count
from offramp_launch.exit_code import ExitCode, LaunchError

FLAG = "--lifeline-fd"


def hold(text):
    """
    Watches the descriptor that the flag names, on a thread. The programs of a run have lifelines of their own, which end with this process; SIGKILL
    is what every step of a run is made for, and nothing here can keep it waiting. Errors: LaunchError (USAGE).
    """
    lifeline = count(text, FLAG)
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(lifeline).st_mode)
    except (OSError, OverflowError):
        is_pipe = False
    if not is_pipe:
        raise LaunchError(f"{FLAG} is {lifeline}, which is not a pipe that was handed to this command", "Leave it to programs that start this command", ExitCode.USAGE)
    os.set_inheritable(lifeline, False)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {*interrupts.CTRL_C, *interrupts.LIKE_CTRL_C})    # they are the main thread's, from the thread's start on
    try:
        threading.Thread(target=watch, args=(lifeline,), name="lifeline", daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def watch(lifeline):
    while os.read(lifeline, 1):
        continue
    os.kill(os.getpid(), signal.SIGKILL)
