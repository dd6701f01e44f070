#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

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

}  // namespace offramp
