#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/files.hpp"

namespace offramp {

// The lines of a text file, without their ends (LF, CRLF) and without a byte-order mark. A last line needs no end. The
// file is scanned once, and each line is read on demand; it must be unchanged. Owns the open file; twelve bytes per
// line. Thread: any. Blocks: on the disk. Errors: ConfigError (NoInput, BadInput) with the path when it cannot be
// opened or read.
class TextLines {
  public:
    // `longest`: the limit of text(), in bytes, without the line's end.
    explicit TextLines(const std::string& path, std::uint64_t longest = kLongest);

    std::uint64_t size() const { return begins_.size() - 1; }
    // Bytes of a line, including its end.
    std::uint64_t bytes(std::uint64_t number) const { return begins_[number + 1] - begins_[number]; }
    // True if the line is too long for text(), whatever its line end.
    bool is_too_long(std::uint64_t number) const {
        return bytes(number) > longest_ + 2;
    }  // a carriage return and a line feed
    // Errors: UnreadableItem when the line was changed, the file became shorter, or cannot be read any more.
    std::string line(std::uint64_t number) const;
    // Like line(), for a tokenizer. Errors: UnreadableItem also when the line is longer than `longest`, or not UTF-8.
    std::string text(std::uint64_t number) const;

    static constexpr std::uint64_t kLongest = std::uint64_t{1} << 20;  // bytes, without its end

  private:
    RegularFile file_;
    std::uint64_t longest_;
    std::vector<std::uint64_t> begins_;  // start of each line, and the end of the last
    std::vector<std::uint32_t> hashes_;  // hash of each line, including its end
};

// Errors: ConfigError (NoInput, BadInput) if the file has no lines, or cannot be opened or read. Reads only its
// beginning.
void require_lines(const std::string& path);

}  // namespace offramp
