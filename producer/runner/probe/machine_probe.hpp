#pragma once

#include <string>

namespace offramp {

// Describes this machine as one JSON object:
//
//   {"device": {"kind", "name", "driver_version", "runtime_version", "compute", "pcie_generation", "pcie_width",
//               "pci_address", "numa_node", "total_bytes", "free_bytes"},
//    "gpu_error": why no GPU is used, or null,
//    "pinning": {"registered", "gigabytes_per_second", "error": why nothing was measured, or null},
//    "jpeg_decoder": {"name": of the GPU's (--decode gpu), or null, "error": why there is none, or null},
//    "shm": {"total", "free"}, "cores", "memlock_bytes": null when unlimited, "numa_nodes"}
//
// Versions are CUDA's numbers (13000 is 13.0). PCIe generation and width are 0 when unknown; an idle GPU reports a
// lower generation. Blocks: a second or less, while CUDA starts and 64 MiB of shared memory are populated, page-locked,
// copied into and removed again. Errors: none; "gpu_error" and "pinning"."error" report what failed.
std::string probe_machine_json();

}  // namespace offramp
