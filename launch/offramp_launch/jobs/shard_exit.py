"""
What a shard ends with, for the engines that start shards: 0, 75 or another code. 75: another try may mend it, on this host or on another; it
goes on where this one ended. Any other: it would end so again. One row for each exit code of a run (exit_code.py).
"""

from offramp_launch.exit_code import ExitCode

TRY_AGAIN = int(ExitCode.SINK_UNAVAILABLE)      # EX_TEMPFAIL

DONE, AGAIN, FINAL = "done", "again", "final"
FATES = {
    ExitCode.OK: DONE,
    ExitCode.DEAD_LETTERS: DONE,               # with dead letters, which the record counts; shard_record.account_of() has the exception
    ExitCode.SINK_UNAVAILABLE: AGAIN,
    ExitCode.DEVICE_BROKEN: AGAIN,
    ExitCode.INTERRUPTED: AGAIN,            # SIGTERM with input left
    ExitCode.PRODUCER_GONE: AGAIN,
    ExitCode.RUN_IN_USE: AGAIN,             # another attempt at the shard, on this host
    ExitCode.NO_SUCH_RUN: AGAIN,
    # Another host may have what this one has not, or this one later: engines count tries.
    ExitCode.SYSTEM: AGAIN,
    ExitCode.CANNOT_WRITE: AGAIN,
    ExitCode.SHARED_MEMORY_FULL: AGAIN,
    ExitCode.DEVICE_OUT_OF_MEMORY: AGAIN,
    ExitCode.NO_INPUT: AGAIN,               # a mount is missing: the job began with this input
    ExitCode.INTERNAL: FINAL,
    ExitCode.USAGE: FINAL,
    ExitCode.BAD_INPUT: FINAL,
    ExitCode.COUNT_MISMATCH: FINAL,
    ExitCode.PROTOCOL: FINAL,
    ExitCode.NOT_PERMITTED: FINAL,
    ExitCode.CONFIG: FINAL,
    ExitCode.DEVICE_UNSUPPORTED: FINAL,
}
FIRST_SIGNAL = 128


def fate_of(code):
    """Of a shard whose run ended with this code. A signal's, and one that is not ours, is of a program that was killed or lost."""
    return FATES.get(code, AGAIN if code > FIRST_SIGNAL else FINAL)


def exit_of(code):
    """What the shard ends with."""
    return {DONE: int(ExitCode.OK), AGAIN: TRY_AGAIN, FINAL: code}[fate_of(code)]


def final_codes():
    """Those that a shard itself ends with when another try would end so, in order. With --strict it ends so with what it dead-lettered."""
    return sorted({int(code) for code, fate in FATES.items() if fate == FINAL} | {int(ExitCode.DEAD_LETTERS)})
