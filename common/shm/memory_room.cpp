#include "common/shm/memory_room.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <limits>
#include <string_view>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// The number that a control file holds; nothing for "max", for what is not a number and for a file that is not
// there.
std::optional<std::uint64_t> read_number(const std::string& file) {
    std::ifstream in(file);
    std::string word;
    if (!(in >> word)) return std::nullopt;
    std::uint64_t value = 0;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (problem != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    return value;
}

std::uint64_t file_cache_bytes(const std::string& stat_file, std::string_view prefix) {
    std::ifstream in(stat_file);
    std::string key;
    std::uint64_t value = 0;
    std::uint64_t sum = 0;
    while (in >> key >> value) {
        if (key == std::string(prefix) + "active_file" || key == std::string(prefix) + "inactive_file") sum += value;
    }
    return sum;
}

struct CgroupFiles {
    const char* limit;
    const char* usage;
    const char* stat_prefix;
};
constexpr CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};
constexpr CgroupFiles kVersion2{"memory.max", "memory.current", ""};
// Version 1 represents "no limit" by the largest number of whole pages.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

// A container may see only its own subtree as the mount while the membership names the host's path; so every
// ancestor is looked at, down to the mount itself, and what does not exist is passed over.
void look_along(const std::string& mount, std::string path, const CgroupFiles& files,
                std::optional<MemoryRoom>& tightest) {
    while (true) {
        const std::string folder = mount + (path == "/" ? "" : path);
        const auto limit = read_number(folder + "/" + files.limit);
        const auto usage = read_number(folder + "/" + files.usage);
        if (limit && usage && *limit < kNoLimit) {
            const std::uint64_t cache = file_cache_bytes(folder + "/memory.stat", files.stat_prefix);
            const std::uint64_t needed = *usage - std::min(*usage, cache);
            const std::uint64_t room = *limit - std::min(*limit, needed);
            if (!tightest || room < tightest->free_bytes) tightest = MemoryRoom{room, folder + "/" + files.limit};
        }
        if (path.empty() || path == "/") return;
        const auto slash = path.rfind('/');
        path.resize(slash == std::string::npos ? 0 : slash);
    }
}

}  // namespace

std::optional<MemoryRoom> cgroup_memory_room(const std::string& cgroup_mount, const std::string& membership_file) {
    std::optional<MemoryRoom> tightest;
    std::ifstream in(membership_file);
    std::string line;
    while (std::getline(in, line)) {  // "hierarchy:controllers:path"
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const std::string path = line.substr(second + 1);
        if (controllers == ",,") look_along(cgroup_mount, path, kVersion2, tightest);
        if (controllers.find(",memory,") != std::string::npos)
            look_along(cgroup_mount + "/memory", path, kVersion1, tightest);
    }
    return tightest;
}

MemoryRoom shared_memory_room() {
    struct statvfs shm = {};
    if (::statvfs("/dev/shm", &shm) != 0)
        throw SystemError("asking for the free space of /dev/shm", errno,
                          "POSIX shared memory needs a tmpfs mounted there: mount -t tmpfs tmpfs /dev/shm");
    // A tmpfs without a size limit reports no blocks at all.
    const std::uint64_t free_bytes =
        shm.f_blocks == 0 ? std::numeric_limits<std::uint64_t>::max() : std::uint64_t{shm.f_bavail} * shm.f_frsize;
    return {free_bytes, "/dev/shm"};
}

}  // namespace offramp
