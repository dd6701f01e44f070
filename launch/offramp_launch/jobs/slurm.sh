#!/bin/bash
# @shards shards of @id, each a task of this array: `sbatch FILE`. Flags of sbatch go before the others: `sbatch --account=A FILE`.
#SBATCH --job-name=@id
#SBATCH --array=@array
#SBATCH --output=@log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@@@drain
@requests
task="${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"

# SIGTERM comes near the time limit, or from outside: the shard drains and ends with @again.
trap 'signaled=yes; kill -TERM "$shard" 2>/dev/null' TERM
@command --index "$SLURM_ARRAY_TASK_ID" &
shard=$!
signaled=yes
while [ "$signaled" ]; do   # a signal ends `wait`, too
    signaled=
    wait "$shard"
    code=$?
done
trap '' TERM

# After @again, or a kill, another try continues from here. Any other code is permanent.
if [ "$code" -ne @again ] && [ "$code" -le @first_signal ]; then
    exit "$code"
fi
if [ "${SLURM_RESTART_COUNT:-0}" -ge @restarts ]; then
    echo "offramp: task $task ended with $code after @restarts requeues; fix the cause and submit it again" >&2
    exit "$code"
fi
# Requeue only a running task: one that was cancelled, or that Slurm itself requeues, must stay as it is.
if [ "$(squeue --noheader --job "$task" --format %T)" = RUNNING ]; then
    scontrol requeue "$task" || exit "$code"
    exit 0
fi
exit "$code"
