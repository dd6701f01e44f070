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

// Runs a custom program for `--processor exec:COMMAND`: started once per consumer, it gets each slab in one
// line of JSON and answers in lines of JSON (launch/guide/processors.md). A program that dies fails its slab, and is
// started again for the next one.
const offramp_processor& executable_processor();

// Finds the file that memory of this process is mapped from, so that another process can map it.
// Owns: copies of what is in no file, until forget(): what is mapped where is known until then, too, and memory of the
// next slab may be another file's at the same address. Thread: one. Errors: SystemError.
class FilesOfMemory {
  public:
    struct Place {
        std::string path;  // to be opened for reading
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
        std::string path;  // empty: in no file that others could open
        bool holds(std::span<const std::byte> bytes) const;
    };
    static std::optional<Region> region_in(std::string_view line);
    static std::optional<Region> region_of(std::span<const std::byte> bytes);
    Place copy(std::span<const std::byte> bytes);

    std::optional<Region> region_;  // that the last bytes lay in: a slab's other tensors are there, too
    std::vector<UniqueFd> copies_;
};

}  // namespace offramp
