#include "consumer/hosts/files_of_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/base/whole_file.hpp"

namespace offramp {

FilesOfMemory::Place FilesOfMemory::find(std::span<const std::byte> bytes) {
    if (!region_ || !region_->holds(bytes)) region_ = region_of(bytes);
    if (!region_ || region_->path.empty() || !std::filesystem::exists(region_->path)) return copy(bytes);
    return {region_->path, region_->offset + (reinterpret_cast<std::uintptr_t>(bytes.data()) - region_->begin)};
}

bool FilesOfMemory::Region::holds(std::span<const std::byte> bytes) const {
    const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
    return begin <= first && first + bytes.size() <= end;
}

// proc(5): "begin-end perms offset dev inode   path"
std::optional<FilesOfMemory::Region> FilesOfMemory::region_in(std::string_view line) {
    Region region;
    const char* at = line.data();
    const char* const line_end = at + line.size();
    const auto number = [&](auto& value, char behind) {
        const auto [end, problem] = std::from_chars(at, line_end, value, 16);
        if (problem != std::errc() || end == line_end || *end != behind) return false;
        at = end + 1;
        return true;
    };
    if (!number(region.begin, '-') || !number(region.end, ' ')) return std::nullopt;
    const auto word = [&] {
        at = std::find_if(at, line_end, [](char c) { return c != ' '; });
        const char* const begin = at;
        at = std::find(at, line_end, ' ');
        return std::string_view(begin, at);
    };
    word();  // permissions
    at = std::min(at + 1, line_end);
    if (!number(region.offset, ' ')) return std::nullopt;
    word(), word();  // device, inode
    at = std::find_if(at, line_end, [](char c) { return c != ' '; });
    if (at != line_end && *at == '/') region.path.assign(at, line_end);
    return region;
}

// Read for each slab: no further than to the region, and by hand.
std::optional<FilesOfMemory::Region> FilesOfMemory::region_of(std::span<const std::byte> bytes) {
    const UniqueFd maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    if (!maps) throw SystemError("reading /proc/self/maps", errno, "Is /proc mounted?");
    std::string text;
    std::array<char, 16384> piece;
    while (true) {
        const ssize_t got = ::read(maps.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SystemError("reading /proc/self/maps", errno);
        if (got == 0) return std::nullopt;
        text.append(piece.data(), static_cast<std::size_t>(got));
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
            if (auto region = region_in(std::string_view(text).substr(begin, end - begin));
                region && region->holds(bytes))
                return region;
        text.erase(0, begin);
    }
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
