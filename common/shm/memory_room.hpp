#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace offramp {

// The free bytes of a place, and the file that states them.
struct MemoryRoom {
    std::uint64_t free_bytes = 0;
    std::string source;
};

// The tightest memory limit above this process, over both cgroup versions: limit - usage + page cache of
// files, which the kernel drops before it refuses anyone. (Pages of /dev/shm are not among those: they are
// counted as anonymous memory.) Nothing when no limit is set or none can be read. The arguments are for
// tests, which bring a tree of their own.
std::optional<MemoryRoom> cgroup_memory_room(const std::string& cgroup_mount = "/sys/fs/cgroup",
                                             const std::string& membership_file = "/proc/self/cgroup");

// The free space in /dev/shm. Errors: SystemError if there is no such file system.
MemoryRoom shared_memory_room();

}  // namespace offramp
