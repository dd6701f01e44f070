"""`job sbatch`: a script that runs a job as a Slurm array. Each task is one shard, and is requeued if another try may succeed."""

import re
import shlex

from offramp_launch.arguments import count
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.jobs.engine import DRAIN_SECONDS, at_least_one, gpus_of, refuse_done, require_one_line
from offramp_launch.jobs.merge import as_ranges
from offramp_launch.jobs.shard_exit import FIRST_SIGNAL, TRY_AGAIN

FLAGS = ("--time", "--partition", "--gpus-per-shard", "--cpus", "--at-once", "--restarts")
RESTARTS = 10

SCRIPT = r"""#!/bin/bash
# {shards} shards of {id}, each a task of this array: `sbatch FILE`. Flags of sbatch go before the others: `sbatch --account=A FILE`.
{directives}

task="${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"

# SIGTERM comes near the time limit, or from outside: the shard drains and ends with {again}.
trap 'signaled=yes; kill -TERM "$shard" 2>/dev/null' TERM
{command} --index "$SLURM_ARRAY_TASK_ID" &
shard=$!
signaled=yes
while [ "$signaled" ]; do   # a signal ends `wait`, too
    signaled=
    wait "$shard"
    code=$?
done
trap '' TERM

# After {again}, or a kill, another try continues from here. Any other code is permanent.
if [ "$code" -ne {again} ] && [ "$code" -le {first_signal} ]; then
    exit "$code"
fi
if [ "${{SLURM_RESTART_COUNT:-0}}" -ge {restarts} ]; then
    echo "offramp: task $task ended with $code after {restarts} requeues; fix the cause and submit it again" >&2
    exit "$code"
fi
# Requeue only a running task: one that was cancelled, or that Slurm itself requeues, must stay as it is.
if [ "$(squeue --noheader --job "$task" --format %T)" = RUNNING ]; then
    scontrol requeue "$task" || exit "$code"
    exit 0
fi
exit "$code"
"""


def script(job, command, given, flags):
    """`command`: the program for a shard. `given`: values of FLAGS. `flags`: of each shard's run. Errors: LaunchError."""
    records = job.records()
    missing = [index for index in range(job.shards) if index not in records]
    refuse_done(job, missing)
    command = shlex.join([command, "shard", "--job", require_one_line("the job's folder", str(job.folder)), *flags])
    return SCRIPT.format(shards=len(missing), id=job.id, directives="\n".join(f"#SBATCH {line}" for line in directives(job, missing, given, flags)),
                         command=command, again=TRY_AGAIN, first_signal=FIRST_SIGNAL, restarts=count(given.get("--restarts", str(RESTARTS)), "--restarts"))


def directives(job, missing, given, flags):
    """The script's flags for sbatch."""
    at_once = f"%{at_least_one(given, '--at-once', 1)}" if "--at-once" in given else ""
    yield f"--job-name={job.id}"
    yield f"--array={as_ranges(missing)}{at_once}"
    yield f"--output={quoted(str(job.folder).replace('%', '%%') + '/slurm-%a.log')}"
    yield "--open-mode=append"
    yield "--requeue"
    yield f"--signal=B:TERM@{DRAIN_SECONDS}"
    if gpus := gpus_of(job, given, flags):
        yield f"--gres=gpu:{gpus}"
    if "--cpus" in given:
        yield f"--cpus-per-task={at_least_one(given, '--cpus', 1)}"
    if "--time" in given:
        yield f"--time={time_of(given['--time'])}"
    if "--partition" in given:
        yield f"--partition={word_of('--partition', given['--partition'])}"


def quoted(text):
    """Quoted for sbatch's parser."""
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def time_of(text):
    """Errors: LaunchError (USAGE) for text that Slurm would refuse."""
    if not re.fullmatch(r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}", text, re.ASCII):
        raise LaunchError(f"--time is '{text}', which is not a Slurm time", "Give minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS: 90, 4:00:00, 1-12", ExitCode.USAGE)
    return text


def word_of(name, text):
    if not re.fullmatch(r"[\w.,+-]+", text):
        raise LaunchError(f"{name} is '{text}', which is not a list of names", f"Give {name} in sbatch's form: names separated by commas", ExitCode.USAGE)
    return text
