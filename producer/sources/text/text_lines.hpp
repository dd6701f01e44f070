#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mapped_file.hpp"

namespace offramp {

// The lines of a text file, without their ends (LF, CRLF) and without a byte-order mark. A last line needs no end. Owns the mapping.
// Thread: any. Blocks: on the disk. Errors: SystemError with the path.
class TextLines {
  public:
    explicit TextLines(const std::string& path);

    std::uint64_t size() const { return begins_.size() - 1; }
    std::string_view line(std::uint64_t number) const;

  private:
    MappedFile file_;
    std::string_view text_;
    std::vector<std::uint64_t> begins_;     // of each line, and the end of the last
};

}  // namespace offramp
