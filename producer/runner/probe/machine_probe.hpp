#pragma once

#include <string>

namespace offramp {

// Describes this machine as one JSON object; README.md of this folder lists its keys. Blocks: a second or
// less, while CUDA starts and 64 MiB of shared memory are populated, page-locked, copied into and removed
// again. Errors: none; what cannot be had is said in "gpu_error" and in "pinning"."error".
std::string probe_machine_json();

}  // namespace offramp
