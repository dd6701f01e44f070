#!/usr/bin/env bash
# A short run of the real programs with the producer under compute-sanitizer's memcheck, which must find nothing.
#
#   tests/gpu/sanitized_run.sh [BIN] [PRODUCER FLAGS...]
set -euo pipefail
bin=${1:-build/release/bin}
shift || true
flags=("$@")
((${#flags[@]})) || flags=(--model copy --copy-bytes 64MiB --batch 16 --samples-per-slab 4 --batches 24 --slabs 8 --processor checksum)
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in 1 2; do
    "$bin/offramp-consumer" "${flags[@]}" --run-dir "$folder/run" --log-level warning &
done
compute-sanitizer --tool memcheck --leak-check no --error-exitcode 99 \
    "$bin/offramp-producer" "${flags[@]}" --run-dir "$folder/run" --run-id sanitized --log-level warning
wait
