#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// The kernel's figures of memory, in bytes.
struct MachineMemory {
    std::uint64_t total = 0;      // with swap
    std::uint64_t available = 0;  // with free swap
    std::uint64_t own = 0;        // resident in this process, without pages shared with others

    // All 0 if the kernel does not report them. The arguments are for tests.
    static MachineMemory read(const std::string& machine = "/proc/meminfo",
                              const std::string& process = "/proc/self/status");
};

// Checks that the machine has memory for a run's slabs and its model. Call it before the slabs are made and after the
// model's first batch, which stays in this process. The makers of slabs check the limits of control groups and
// /dev/shm. Warns if other programs would have to release memory. Errors: Error (System) with the sizes, if the machine
// is too small.
void require_memory(const MachineMemory& memory, std::uint32_t slabs, std::uint64_t slab_bytes, std::uint32_t batch);

}  // namespace offramp
