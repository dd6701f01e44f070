#!/usr/bin/env bash
# Runs all tests that need a GPU, on a machine with PyTorch, torchvision and CUDA's tools. Prints a line per part; logs in OUT.
#
#   tests/gpu/gpu_checks.sh [BIN [PART...]]
#
# BIN has offramp-producer, offramp-ladder, offramp-consumer and share/, and in tests/ device_contract_cuda, kernels_contract_cuda, egress_order_cuda, graph_replay_cuda, picture_decoder_cuda, picture_encoder_cuda, libofframp_nvtx_recorder.so and libofframp_failing_cuda.so;
# libofframp_models.so is in BIN/../lib. BIN is build/release/bin or a copy from another machine (there also with BIN/lib, for the tests).
# OUT: a folder, by default build/gpu-checks.
# SITE: for the part `python`, a folder with the installed wheel, or empty if python3 finds it anyway, as in a venv. Without SITE that part uses the package of
# the sources with BIN/../lib/libofframp.so.
# Parts, all by default: contract profiler golden failures one-channel shapes pictures python memcheck racecheck synccheck kernels. `kernels` checks the
# kernels that the three parts before it launched, as far as they are named, too.
# Exit code 1 if any part failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
bin=$(cd "${1:-build/release/bin}" && pwd) || exit 1
shift || true
parts=("$@")
((${#parts[@]})) || parts=(contract profiler golden failures one-channel shapes pictures python memcheck racecheck synccheck kernels)
out=${OUT:-build/gpu-checks}
mkdir -p "$out"
out=$(cd "$out" && pwd)
recorded=$(mktemp -d)
trap 'rm -rf "$recorded"' EXIT
recorder=$bin/tests/libofframp_nvtx_recorder.so
export OFFRAMP_TEST_BIN=$bin OFFRAMP_TEST_DEVICE=cuda PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
failed=0

# part NAME COMMAND...: writes a log and prints a line with the result and the log's figures
part() {
    local name=$1 began=$SECONDS result=ok
    shift
    "$@" >"$out/$name.log" 2>&1 || { result="FAILED ($?)"; failed=1; }
    printf '%-12s %-12s %4d s   %s\n' "$name" "$result" $((SECONDS - began)) "$(grep -E "$shown" "$out/$name.log" | tail -n "$lines" | paste -sd'|')"
}

contract() { "$bin/tests/device_contract_cuda" && "$bin/tests/kernels_contract_cuda" && "$bin/tests/egress_order_cuda" && "$bin/tests/graph_replay_cuda"; }

one_channel() { (cd tests/system && python3 -m unittest -v test_one_channel); }

# Pictures that the GPU decodes or encodes.
pictures() { "$bin/tests/picture_decoder_cuda" && "$bin/tests/picture_encoder_cuda" && python3 -m unittest -v tests.system.test_gpu_decode tests.system.test_pictures_out; }

# Items in their own shapes, and a vector per token; bin also has offramp-consumer-faulty in tests/.
shapes() { python3 -m unittest -v tests.system.test_own_shapes tests.system.test_text_tokens; }

# The Python package: tensors on the GPU, held and released, in as many small parts as in egress_order_cuda; and the CPU tests of outputs.
python_package() {
    local package=(PYTHONPATH="$PWD/launch/python:$PWD" OFFRAMP_LIBRARY="$bin/../lib/libofframp.so")
    [[ -z ${SITE+set} ]] || package=(PYTHONPATH="${SITE:+$(cd "$SITE" && pwd):}$PWD")
    (cd tests/python && env "${package[@]}" OFFRAMP_TEST_PARTS=100000 python3 -m unittest -v test_torch test_shapes test_holding test_egress test_arrays test_consumer test_cupy test_reduce)
}

# Excludes tests that die on purpose, exhaust memory or provoke CUDA errors, because the tools report exactly these.
under() {
    local tool=$1 contract
    local flags=(--tool "$tool" --error-exitcode 99)
    [[ $tool == memcheck ]] && flags+=(--leak-check no)
    for contract in device_contract_cuda kernels_contract_cuda; do
        compute-sanitizer "${flags[@]}" "$bin/tests/$contract" --gtest_filter='-*DeathTest*:*MemoryRunsOut*:CallersProcess.*' || return
    done
    compute-sanitizer "${flags[@]}" "$bin/tests/picture_decoder_cuda" --gtest_filter='*LikeTheCpus*:*ToTheBit*:*LargeBatches*' || return
    tests/gpu/sanitized_run.sh "$bin" "$tool"
}

recorded_under() {
    mkdir -p "$recorded/$1"
    LD_PRELOAD=$recorder NVTX_RECORDER_DIR=$recorded/$1 under "$1"
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for name in "${parts[@]}"; do
    shown='^\[  (PASSED|FAILED)  |^(Ran|OK|FAILED)|items: ours|ERROR SUMMARY|RACECHECK SUMMARY|nothing found|kernels were launched|never launched|outputs allocated' lines=3
    case $name in
        contract) part contract contract ;;
        profiler) part profiler python3 -m unittest -v tests.system.test_nvtx ;;
        golden) lines=10 part golden python3 -m unittest -v tests.gpu.test_golden ;;
        failures) part failures python3 -m unittest -v tests.gpu.test_failing_calls ;;
        one-channel) part one-channel one_channel ;;
        shapes) part shapes shapes ;;
        pictures) part pictures pictures ;;
        python) part python python_package ;;
        memcheck | racecheck | synccheck) lines=8 part "$name" recorded_under "$name" ;;
        kernels) lines=8 part kernels python3 tests/gpu/launched_kernels.py "$recorded" "$bin/offramp-producer" "$bin/tests/kernels_contract_cuda" ;;
        *) echo "unknown part '$name'" >&2; exit 64 ;;
    esac
done
exit "$failed"
