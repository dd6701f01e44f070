"""What the files for engines that start shards (`job sbatch`, `job k8s`) have in common."""

from offramp_launch.arguments import count
from offramp_launch.exit_code import ExitCode, LaunchError

# From an engine's word that a shard's time is up to its death: it finishes what it has begun.
DRAIN_SECONDS = 120


def refuse_done(job, missing):
    """Errors: LaunchError (NO_INPUT) where nothing is left to be started."""
    if not missing:
        raise LaunchError(f"all {job.shards} shards of the job are done", f"Put their results together: ./launch/offramp job merge --job {job.folder}", ExitCode.NO_INPUT)


def gpus_of(job, given, flags):
    """How many of them a shard asks for. `flags`: its own, beside those of the job."""
    if "--gpus-per-shard" not in given:
        return 0 if device_of([*job.facts["flags"], *flags]) == "cpu" else 1
    if (wanted := count(given["--gpus-per-shard"], "--gpus-per-shard")) > 1:
        raise LaunchError(f"--gpus-per-shard is {wanted}, and a shard works on one GPU", "Give 1, or 0 for a job on CPUs, and start more shards at once", ExitCode.USAGE)
    return wanted


def device_of(flags):
    """That of the last --device; nothing where none is given."""
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
    """Errors: LaunchError (USAGE) for what would become lines of its own in a file that an engine reads."""
    if not text.isprintable():
        raise LaunchError(f"{what} {text!r} has a character that is not printable", "Give one without", ExitCode.USAGE)
    return text
