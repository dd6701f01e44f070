#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/app/images/picture_place.hpp"
#include "common/base/regular_file.hpp"

namespace offramp {

// A picture's bytes, some at a time and in order, for decoders in C: nothing is thrown through them. Owns the open file
// and a piece of it. Thread: one. Blocks: on the disk.
class FileWindow {
  public:
    // Errors: UnreadableItem: it cannot be opened, is empty, or ends before the picture does.
    explicit FileWindow(const PicturePlace& place);

    std::uint64_t size() const { return end_ - begin_; }  // of the picture
    // Its first bytes, at most so many, wherever reading has come to. Errors: UnreadableItem.
    std::vector<std::byte> front(std::uint64_t most) const;
    // The next piece; empty at the end, or where the file cannot be read: then problem() has the reason.
    std::span<const std::byte> next_piece() noexcept;
    const std::string& problem() const { return problem_; }

  private:
    RegularFile file_;
    std::uint64_t begin_ = 0, next_ = 0, end_ = 0;
    std::vector<std::byte> piece_;
    std::string problem_;
};

}  // namespace offramp
