"""A pipe whose other end the parent process holds: when the parent ends in any way, this command ends immediately."""

import os
import signal
import stat
import threading

from offramp_launch import interrupts
from offramp_launch.arguments import count
from offramp_launch.exit_code import UsageError

FLAG = "--lifeline-fd"


def hold(text):
    """
    Watches the flag's descriptor on a thread. The programs of a run have separate lifelines, which end with this
    process. SIGKILL is safe, since every step of a run survives it, and nothing here can delay it. Errors: LaunchError
    (USAGE).
    """
    lifeline = count(text, FLAG)
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(lifeline).st_mode)
    except (OSError, OverflowError):
        is_pipe = False
    if not is_pipe:
        raise UsageError(
            f"{FLAG} is {lifeline}, which is not a pipe inherited by this command",
            f"Leave {FLAG} to programs that start this command",
        )
    os.set_inheritable(lifeline, False)
    # the main thread handles them, from the new thread's start on
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {*interrupts.CTRL_C, *interrupts.LIKE_CTRL_C})
    try:
        threading.Thread(target=watch, args=(lifeline,), name="lifeline", daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def watch(lifeline):
    while os.read(lifeline, 1):
        continue
    os.kill(os.getpid(), signal.SIGKILL)
