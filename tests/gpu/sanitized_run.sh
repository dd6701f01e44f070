#!/usr/bin/env bash
# Short runs with the producer under a tool of compute-sanitizer, which must find nothing: copies into page-locked slabs, normalised pictures, class maps
# with confidence, cast results. tests/gpu/launched_kernels.py reports the kernels that these runs reach.
#
#   tests/gpu/sanitized_run.sh [BIN [TOOL]]        BIN: build/release/bin; TOOL: memcheck, racecheck, synccheck
set -euo pipefail
bin=${1:-build/release/bin}
tool=${2:-memcheck}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
sanitizer=(compute-sanitizer --tool "$tool" --error-exitcode 99)
[[ $tool == memcheck ]] && sanitizer+=(--leak-check no)

# sanitized NAME FLAG...
sanitized() {
    local name=$1 consumers=()
    shift
    local flags=("$@" --device cuda --run-dir "$folder/$name" --output "$folder/$name-output" --log-level warning --visibility-timeout 600)
    mkdir -m 700 "$folder/$name"
    for _ in 1 2; do
        "$bin/offramp-consumer" "${flags[@]}" &
        consumers+=($!)
    done
    "${sanitizer[@]}" "$bin/offramp-producer" "${flags[@]}" --run-id "sanitized-$$-$name"
    # A consumer that connects after the end waits for another producer.
    kill "${consumers[@]}" 2>/dev/null || true
    wait "${consumers[@]}" || true
    echo "$tool: $name: nothing found"
}

pictures=(--input "$root/launch/demo/images" --batch 2 --image-size 64 --processor checksum --slabs 4 --decode-workers 2)
sanitized copies --model copy --copy-bytes 64MiB --batch 16 --samples-per-slab 4 --batches 24 --slabs 8 --processor checksum
# Under racecheck a batch of DeepLabV3's library kernels takes minutes.
network=(--model deeplabv3-resnet50 --random-weights --deterministic)
[[ $tool == racecheck ]] && network=(--model cutout --deterministic --limit 2)
sanitized cut-out --model cutout --limit 4 "${pictures[@]}"
sanitized class-map "${network[@]}" --transform class-map --confidence "${pictures[@]}"
sanitized contiguous "${network[@]}" --memory-format contiguous --transform low-res --output-dtype fp16 "${pictures[@]}"
sanitized bf16 "${network[@]}" --precision bf16 --transform cast --output-dtype bf16 "${pictures[@]}"
