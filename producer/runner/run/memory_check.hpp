#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// What the kernel tells of memory, in bytes.
struct MachineMemory {
    std::uint64_t total = 0;      // with swap
    std::uint64_t available = 0;  // with free swap
    std::uint64_t own = 0;        // resident in this process; pages that it shares with others do not count

    // All 0 where the kernel does not tell. The arguments are for tests.
    static MachineMemory read(const std::string& machine = "/proc/meminfo",
                              const std::string& process = "/proc/self/status");
};

// Before a run's slabs are made, and behind its model's first batch, which stays in this process: whether the machine
// has memory for both. What a control group or /dev/shm allows is asked by who makes slabs. Warns where other programs
// would have to give some back. Errors: Error (System) with the sizes, where the machine is too small.
void require_memory(const MachineMemory& memory, std::uint32_t slabs, std::uint64_t slab_bytes, std::uint32_t batch);

}  // namespace offramp
