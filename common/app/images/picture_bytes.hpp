#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/app/images/picture_place.hpp"

namespace offramp {

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

}  // namespace offramp
