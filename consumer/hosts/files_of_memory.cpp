#include "consumer/hosts/files_of_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/error.hpp"
#include "common/base/whole_file.hpp"

namespace offramp {

FilesOfMemory::Place FilesOfMemory::find(std::span<const std::byte> bytes) {
    const Region* region = region_of(bytes);
    if (region == nullptr) {  // mapped since
        read_regions();
        region = region_of(bytes);
    }
    if (region == nullptr || region->path.empty() || !std::filesystem::exists(region->path)) return copy(bytes);
    return {region->path, region->offset + (reinterpret_cast<std::uintptr_t>(bytes.data()) - region->begin)};
}

const FilesOfMemory::Region* FilesOfMemory::region_of(std::span<const std::byte> bytes) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    const auto found = std::ranges::find_if(
        regions_, [&](const Region& region) { return region.begin <= begin && begin + bytes.size() <= region.end; });
    return found == regions_.end() ? nullptr : &*found;
}

// proc(5): "begin-end perms offset dev inode   path"
void FilesOfMemory::read_regions() {
    regions_.clear();
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        Region region;
        char dash = 0;
        std::string permissions, device, inode;
        std::istringstream fields(line);
        fields >> std::hex >> region.begin >> dash >> region.end >> permissions >> region.offset >> device >> inode >>
            std::ws;
        std::getline(fields, region.path);
        if (!region.path.starts_with('/')) region.path.clear();
        regions_.push_back(std::move(region));
    }
    if (regions_.empty()) throw SystemError("reading /proc/self/maps", errno, "Is /proc mounted?");
}

FilesOfMemory::Place FilesOfMemory::copy(std::span<const std::byte> bytes) {
    UniqueFd memory(::memfd_create("offramp-slab", MFD_CLOEXEC));
    if (!memory) throw SystemError("making memory for a slab's copy", errno);
    write_all(memory.get(), bytes, [](int problem) { return SystemError("copying a slab", problem); });
    std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory.get());
    copies_.push_back(std::move(memory));
    return {std::move(path), 0};
}

}  // namespace offramp
