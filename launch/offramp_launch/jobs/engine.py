"""Common parts of `job sbatch` and `job k8s`, which write files for engines that start shards."""

from offramp_launch.arguments import count
from offramp_launch.exit_code import ExitCode, LaunchError

# From an engine's signal that a shard's time is up to its kill: the shard drains.
DRAIN_SECONDS = 120


def refuse_done(job, missing):
    """Errors: LaunchError (NO_INPUT) if no shard is left to start."""
    if not missing:
        raise LaunchError(f"all {job.shards} shards of the job are done", f"Merge their results: ./launch/offramp job merge --job {job.folder}", ExitCode.NO_INPUT)


def gpus_of(job, given, flags):
    """The number of GPUs that a shard requests. `flags`: its own, added to the job's."""
    if "--gpus-per-shard" not in given:
        return 0 if device_of([*job.facts["flags"], *flags]) == "cpu" else 1
    if (wanted := count(given["--gpus-per-shard"], "--gpus-per-shard")) > 1:
        raise LaunchError(f"--gpus-per-shard is {wanted}, and a shard works on one GPU", "Give 1, or 0 for a job on CPUs. More shards can run at the same time (--at-once)", ExitCode.USAGE)
    return wanted


def device_of(flags):
    """The value of the last --device; empty if there is none."""
    words, device = iter(flags), ""
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--device":
            device = value if equals else next(words, "")
    return device


def at_least_one(given, name, otherwise):
    number = count(given.get(name, str(otherwise)), name)
    if number < 1:
        raise LaunchError(f"{name} is 0", "Give a number from 1 on", ExitCode.USAGE)
    return number


def require_one_line(what, text):
    """Errors: LaunchError (USAGE) for text that would break into lines in an engine's file."""
    if not text.isprintable():
        raise LaunchError(f"{what} {text!r} has a character that is not printable", "Remove that character", ExitCode.USAGE)
    return text
