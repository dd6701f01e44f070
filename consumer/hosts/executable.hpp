#pragma once

#include <offramp_processor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Runs a custom program for `--processor exec:COMMAND`. The program starts once per consumer; it reads each slab as one
// line of JSON and answers in lines of JSON (launch/guide/processors.md). If the program dies, its slab fails, and the
// program is restarted for the next one.
const offramp_processor& executable_processor();
// Whether the program of this processor answered that it takes samples of different shapes.
bool executable_takes_variable(const void* self);

// Finds the file from which memory of this process is mapped, so that another process can map it. Owns: copies of bytes
// that are in no file, and the known mapping, until forget(): the next slab may be another file at the same address.
// Thread: one. Errors: SystemError.
class FilesOfMemory {
  public:
    struct Place {
        std::string path;  // open it for reading
        std::uint64_t offset = 0;
    };
    Place find(std::span<const std::byte> bytes);
    void forget() {
        region_.reset();
        copies_.clear();
    }

  private:
    struct Region {
        std::uintptr_t begin = 0, end = 0;
        std::uint64_t offset = 0;
        std::string path;  // empty: no other process could open it
        bool holds(std::span<const std::byte> bytes) const;
    };
    static std::optional<Region> region_in(std::string_view line);
    static std::optional<Region> region_of(std::span<const std::byte> bytes);
    Place copy(std::span<const std::byte> bytes);

    std::optional<Region> region_;  // contains the last bytes found; usually also the slab's other tensors
    std::vector<UniqueFd> copies_;
};

}  // namespace offramp
