#include "common/app/images/file_window.hpp"

#include <algorithm>
#include <exception>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/unreadable_item.hpp"

namespace offramp {
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
