#include "common/app/images/picture_bytes.hpp"

#include <algorithm>
#include <exception>
#include <memory>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/files.hpp"

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

namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10U;

}  // namespace

FileWindow::FileWindow(const PicturePlace& place)
    : file_(or_unreadable([&] { return RegularFile(place.path); })),
      begin_(place.offset),
      next_(place.offset),
      end_(place.offset + bytes_at(place, file_.size())) {}

std::vector<std::byte> FileWindow::front(std::uint64_t most) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(most, size())));
    bytes.resize(or_unreadable([&] { return file_.read_at(begin_, bytes); }));
    return bytes;
}

std::span<const std::byte> FileWindow::next_piece() noexcept {
    try {
        piece_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, end_ - next_)));
        piece_.resize(file_.read_at(next_, piece_));
    } catch (const std::exception& failure) {
        problem_ = failure.what();
        piece_.clear();
    }
    next_ += piece_.size();
    return piece_;
}

}  // namespace offramp
