"""A shard's exit code, for engines: 0; 75, if another try continues, here or on another host; or a final one."""

from offramp_launch.exit_code import ExitCode

TRY_AGAIN = int(ExitCode.SINK_UNAVAILABLE)  # EX_TEMPFAIL

DONE, AGAIN, FINAL = "done", "again", "final"
# With dead letters the shard's record counts them; shard_record.outcome_of() has the exception.
OF_DONE = (ExitCode.OK, ExitCode.DEAD_LETTERS)
OF_AGAIN = (
    ExitCode.SINK_UNAVAILABLE,
    ExitCode.DEVICE_BROKEN,
    ExitCode.PRODUCER_GONE,
    ExitCode.NO_SUCH_RUN,
    ExitCode.INTERRUPTED,  # SIGTERM with input left
    ExitCode.RUN_IN_USE,  # another attempt at the shard, on this host
    # Another host may have what this one lacks, or this one may have it later. Engines limit the number of tries.
    ExitCode.SYSTEM,
    ExitCode.CANNOT_WRITE,
    ExitCode.SHARED_MEMORY_FULL,
    ExitCode.DEVICE_OUT_OF_MEMORY,
    ExitCode.NO_INPUT,  # a mount is missing: the job began with this input
)
FATES = {code: DONE if code in OF_DONE else AGAIN if code in OF_AGAIN else FINAL for code in ExitCode}
FIRST_SIGNAL = 128


def fate_of(code):
    """The fate of a shard whose run ended with this code. Above FIRST_SIGNAL: a program was killed or lost."""
    return FATES.get(code, AGAIN if code > FIRST_SIGNAL else FINAL)


def exit_of(code):
    """The shard's exit code for its run's."""
    return {DONE: int(ExitCode.OK), AGAIN: TRY_AGAIN, FINAL: code}[fate_of(code)]


def final_codes():
    """A shard's permanent exit codes, ascending. DEAD_LETTERS is one of them with --strict."""
    return sorted({int(code) for code, fate in FATES.items() if fate == FINAL} | {int(ExitCode.DEAD_LETTERS)})
