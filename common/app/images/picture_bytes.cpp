#include "common/app/images/picture_bytes.hpp"

#include <algorithm>
#include <memory>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/regular_file.hpp"

namespace offramp {

PictureBytes picture_bytes(std::span<const std::byte> file) {
    return {.read_at =
                [file](std::uint64_t offset, std::span<std::byte> to) {
                    const std::size_t from = static_cast<std::size_t>(std::min<std::uint64_t>(offset, file.size()));
                    const std::size_t bytes = std::min(to.size(), file.size() - from);
                    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(from), bytes, to.begin());
                    return bytes;
                },
            .size = file.size()};
}

PictureBytes picture_bytes(const PicturePlace& place) {
    const auto file = or_unreadable([&] { return std::make_shared<const RegularFile>(place.path); });
    const std::uint64_t begin = place.offset, size = bytes_at(place, file->size());
    return {.read_at =
                [file, begin, size](std::uint64_t offset, std::span<std::byte> to) {
                    const std::uint64_t left = size - std::min(offset, size);
                    return file->read_at(begin + offset,
                                         to.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, to.size()))));
                },
            .size = size};
}

}  // namespace offramp
