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

// The location of a picture's bytes: a whole file (a path alone), or a part of a file.
struct PicturePlace {
    PicturePlace(std::string whole_file) : path(std::move(whole_file)) {}
    PicturePlace(std::string in_file, std::uint64_t from, std::uint64_t count)
        : path(std::move(in_file)), offset(from), bytes(count) {}

    std::string path;
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> bytes;  // empty: to the end of the file
};

// Random access to a picture's bytes.
struct PictureBytes {
    // Fills `to` from `offset` on, up to the end. Returns the number of bytes read. May throw.
    using ReadAt = std::function<std::size_t(std::uint64_t offset, std::span<std::byte> to)>;

    ReadAt read_at;
    std::uint64_t size = 0;
};

PictureBytes picture_bytes(std::span<const std::byte> file);  // borrows the bytes
// Owns the open file. Errors: UnreadableItem: it cannot be opened, is empty, or ends before the picture does.
PictureBytes picture_bytes(const PicturePlace& place);

// Reads a picture's bytes in order, piece by piece, for decoders in C: next_piece() does not throw. Owns the open file
// and one piece. Thread: one. Blocks: on the disk.
class FileWindow {
  public:
    // Errors: UnreadableItem: it cannot be opened, is empty, or ends before the picture does.
    explicit FileWindow(const PicturePlace& place);

    std::uint64_t size() const { return end_ - begin_; }  // of the picture
    // The picture's first bytes, at most `most`, independent of the reading position. Errors: UnreadableItem.
    std::vector<std::byte> front(std::uint64_t most) const;
    // The next piece; empty at the end, or if the file cannot be read. In the latter case problem() has the reason.
    std::span<const std::byte> next_piece() noexcept;
    const std::string& problem() const { return problem_; }

  private:
    RegularFile file_;
    std::uint64_t begin_ = 0, next_ = 0, end_ = 0;
    std::vector<std::byte> piece_;
    std::string problem_;
};

}  // namespace offramp
