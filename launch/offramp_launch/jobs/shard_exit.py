"""
A shard's exit code, for the engines that start shards: 0, 75 or another. 75: another try may succeed, on this host or another, and continues
where this one ended. Any other code is permanent. One row per exit code of a run (exit_code.py).
"""

from offramp_launch.exit_code import ExitCode

TRY_AGAIN = int(ExitCode.SINK_UNAVAILABLE)      # EX_TEMPFAIL

DONE, AGAIN, FINAL = "done", "again", "final"
FATES = {
    ExitCode.OK: DONE,
    ExitCode.DEAD_LETTERS: DONE,               # the record counts the dead letters; shard_record.outcome_of() has the exception
    ExitCode.SINK_UNAVAILABLE: AGAIN,
    ExitCode.DEVICE_BROKEN: AGAIN,
    ExitCode.INTERRUPTED: AGAIN,            # SIGTERM with input left
    ExitCode.PRODUCER_GONE: AGAIN,
    ExitCode.RUN_IN_USE: AGAIN,             # another attempt at the shard, on this host
    ExitCode.NO_SUCH_RUN: AGAIN,
    # Another host may have what this one lacks, or this one may have it later. Engines limit the number of tries.
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
    """The fate of a shard whose run ended with this code. Codes above FIRST_SIGNAL mean that a program was killed or lost."""
    return FATES.get(code, AGAIN if code > FIRST_SIGNAL else FINAL)


def exit_of(code):
    """The shard's exit code for its run's."""
    return {DONE: int(ExitCode.OK), AGAIN: TRY_AGAIN, FINAL: code}[fate_of(code)]


def final_codes():
    """A shard's permanent exit codes, ascending. DEAD_LETTERS is one of them with --strict."""
    return sorted({int(code) for code, fate in FATES.items() if fate == FINAL} | {int(ExitCode.DEAD_LETTERS)})
