#!/usr/bin/env bash
# Checks what watching and tracing show of a run on a GPU. Results in OUT.
#
#   tests/gpu/watching_checks.sh [BIN [PART...]]
#
# BIN: like gpu_checks.sh, with offramp-producer, offramp-consumer and tests/device_contract_cuda. OUT: a folder, by default
# build/watching-checks. Python's standard library is enough; matplotlib adds a picture of the trace.
# Parts, all by default: contract (the device's timeline), gpu (a run of DeepLabV3 in bf16, watched, traced and starved of consumers), gpus (a run with --gpus).
# They take 5, 70 and 15 s.
# Exit code 1 if any part failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
bin=$(cd "${1:-build/release/bin}" && pwd) || exit 1
shift || true
parts=("$@")
((${#parts[@]})) || parts=(contract gpu gpus)
out=${OUT:-build/watching-checks}
mkdir -p "$out"
out=$(cd "$out" && pwd)
folder=$(mktemp -d)
launcher=
leave() {
    [[ -z $launcher ]] || { kill "$launcher" && timeout 30 tail --pid="$launcher" -f /dev/null; } 2>/dev/null
    rm -rf "$folder"
}
trap leave EXIT
export OFFRAMP_BIN_DIR=$bin OFFRAMP_SKIP_PACKAGES=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
[[ -e build/venv ]] || export OFFRAMP_BUILD_DIR=$folder/build
offramp() { python3 launch/offramp_launch "$@"; }

# part NAME COMMAND...: writes a log and prints a line with the result
failed=0
part() {
    local name=$1 began=$SECONDS result=ok
    shift
    "$@" >"$out/$name.log" 2>&1 || { result="FAILED ($?)"; failed=1; }
    printf '%-14s %-12s %4d s\n' "$name" "$result" $((SECONDS - began))
    tail -n 8 "$out/$name.log" | sed 's/^/    /'
}

contract() { "$bin/tests/device_contract_cuda" --gtest_filter='*imeline*'; }

# holds PATH PYTHON: whether the expression is true for the status document
holds() { python3 -c "import json, sys; d = json.load(open(sys.argv[1])); s = d.get('status', d); sys.exit(not ($2))" "$1" 2>/dev/null; }

# until_holds SECONDS PATH PYTHON
until_holds() {
    local until=$((SECONDS + $1))
    until holds "$2" "$3"; do
        ((SECONDS < until)) && kill -0 "$launcher" 2>/dev/null || { echo "never true: $3"; tail -n 20 "$folder/launcher.log"; return 1; }
        sleep 0.2
    done
}

# scraped RUN NAME: stores the answers for Prometheus and the page
scraped() {
    local at where=$out/$2
    at=$(python3 -c "import json; print('http://%s/' % json.load(open('$1/targets.json'))[0]['targets'][0])") || return
    mkdir -p "$where"
    for path in metrics status.json livez readyz; do
        python3 -c "import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], timeout=5).read())" "$at$path" >"$where/$path" || return
    done
    offramp status --run-dir "$1" >"$where/status.txt"
}

begin() {
    local run=$1
    shift
    offramp run "$@" --run-dir "$run" --output "$run-output" --http 127.0.0.1:0 >"$folder/launcher.log" 2>&1 &
    launcher=$!
}

stop() {
    offramp stop --now --run-dir "$1" >/dev/null
    wait "$launcher"
    launcher=
}

gpu() {
    local run=$folder/gpu
    begin "$run" --device cuda --model deeplabv3-resnet50 --random-weights --precision bf16 --batch 64 --image-size 512 --synthetic-on device --slabs 32 \
        --samples-per-slab 16 --processor checksum --consumers 12 --batches 1000000
    until_holds 120 "$run/status.json" "s['released_samples'] > 4000 and s['gpu_utilization']" || return
    sleep 3
    scraped "$run" running || return
    offramp trace "$run" --seconds 3 --into "$out/trace" || return
    rm -f "$out"/trace/timeline.svg
    gzip -f "$out/trace/trace.json"
    offramp scale 1 --run-dir "$run"
    until_holds 60 "$run/status.json" "s['limiting_stage'] == 'consumers'" || return
    scraped "$run" starved || return
    stop "$run"
    GPU=$(nvidia-smi --query-gpu=name,uuid --format=csv,noheader) python3 - "$out" <<'CHECK'
import json, os, pathlib, sys

sys.path.insert(0, "launch")
from offramp_launch.watching.diagnosis import sentence
out = pathlib.Path(sys.argv[1])
name, uuid = os.environ["GPU"].splitlines()[0].split(", ")
for which in ("running", "starved"):
    document, metrics = json.loads((out / which / "status.json").read_text()), (out / which / "metrics").read_text()
    print(f"{which}: {sentence(document).text} ({sentence(document).why})")
    assert (document["status"]["device"], document["status"]["device_uuid"]) == (name, uuid), (document["status"]["device"], document["status"]["device_uuid"], name, uuid)
    assert f'uuid="{uuid}"' in metrics and f'device="{name}"' in metrics
    assert (out / which / "livez").read_text() and (out / which / "readyz").read_text()
assert sentence(document).text.startswith("The GPU wait"), sentence(document)
CHECK
}

gpus() {
    local run=$folder/gpus
    begin "$run" --gpus 1 --device cuda --model copy --copy-bytes 64MiB --batch 4 --processor checksum --batches 4000000
    until_holds 60 "$run/status.json" "s['released_samples'] > 1000 and s['workers'][0]['state'] == 'at work'" || return
    sleep 2
    scraped "$run" gpus || return
    stop "$run"
    cat "$out/gpus/status.txt"
    grep -q "offramp_run_info{gpu=\"GPU" "$out/gpus/metrics" || { grep offramp_run_info "$out/gpus/metrics"; return 1; }
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for name in "${parts[@]}"; do
    case $name in
        contract | gpu | gpus) part "$name" "$name"; [[ -z $launcher ]] || { kill "$launcher"; wait "$launcher"; launcher=; } ;;
        *) echo "unknown part '$name'" >&2; exit 64 ;;
    esac
done
exit "$failed"
