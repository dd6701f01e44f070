#include "producer/device/host_memory.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <utility>

namespace offramp {

std::string byte_count(std::size_t bytes) {
    std::string text = std::to_string(bytes) + " bytes";
    static constexpr std::array<std::pair<const char*, int>, 3> kUnits{{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}}};
    for (const auto& [unit, shift] : kUnits) {
        if (bytes < (std::size_t{10} << 10) || (bytes >> shift) == 0) continue;
        std::array<char, 48> rounded{};
        std::snprintf(rounded.data(), rounded.size(), " (%.2f %s)",
                      static_cast<double>(bytes) / static_cast<double>(std::size_t{1} << shift), unit);
        return text + rounded.data();
    }
    return text;
}

std::size_t total_host_memory() {
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page_bytes = ::sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) return 0;
    return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
}

std::size_t free_host_memory() {
    std::ifstream meminfo("/proc/meminfo");
    for (std::string key; meminfo >> key;) {
        std::size_t kibibytes = 0;
        if (key == "MemAvailable:" && meminfo >> kibibytes) return kibibytes << 10;
        meminfo.ignore(256, '\n');
    }
    return 0;
}

}  // namespace offramp
