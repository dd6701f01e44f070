#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.hpp"

namespace offramp {

// The place of a picture's bytes: a whole file, which a path alone means, or a part of one.
struct PicturePlace {
    PicturePlace(std::string whole_file) : path(std::move(whole_file)) {}
    PicturePlace(std::string in_file, std::uint64_t from, std::uint64_t count)
        : path(std::move(in_file)), offset(from), bytes(count) {}

    std::string path;
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> bytes;  // none: to the file's end
};

// A picture file's bytes, from anywhere in it.
struct PictureBytes {
    // Fills `to` from `offset` on, as far as the file goes; how much was there. May throw.
    using ReadAt = std::function<std::size_t(std::uint64_t offset, std::span<std::byte> to)>;

    ReadAt read_at;
    std::uint64_t size = 0;
};

PictureBytes picture_bytes(std::span<const std::byte> file);  // borrows it
// Owns the open file. Errors: UnreadableItem: it cannot be opened, is empty, or ends before the picture does.
PictureBytes picture_bytes(const PicturePlace& place);

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
