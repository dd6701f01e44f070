#pragma once

#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/shm/run_objects.hpp"

namespace offramp::support {

// Names that are unique on this machine.
inline RunNames own_run(const std::string& what) {
    return {"t" + std::to_string(::getpid()) + "-" + what, RunNames::random_nonce()};
}

// The objects of a run in /dev/shm.
inline std::vector<std::string> objects_of(const RunNames& names) {
    const std::string lock = names.lock().substr(1);
    const std::string prefix = lock.substr(0, lock.size() - 4);
    std::vector<std::string> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/dev/shm"), &::closedir);
    while (const dirent* entry = ::readdir(folder.get()))
        if (std::string(entry->d_name).starts_with(prefix)) found.push_back(entry->d_name);
    return found;
}

// One field of a mapping's entry in /proc/self/smaps: "Rss", "VmFlags".
inline std::string smaps_field(const void* address, const std::string& field) {
    std::ostringstream start;
    start << std::hex << reinterpret_cast<std::uintptr_t>(address) << "-";
    std::ifstream in("/proc/self/smaps");
    bool inside = false;
    for (std::string line; std::getline(in, line);) {
        const bool is_heading = line.find('-') != std::string::npos && line.find(':') > line.find('-');
        if (is_heading) inside = line.starts_with(start.str());
        if (inside && line.starts_with(field + ":")) return line.substr(field.size() + 1) + " ";
    }
    return "(no such mapping)";
}

}  // namespace offramp::support
