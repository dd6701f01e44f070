#include "consumer/processors/pictures/fast_deflate.hpp"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <array>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kLevel = 1;
constexpr std::size_t kLeastRoom = std::size_t{64} << 10U;
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30U;  // ISA-L counts in 32 bits

}  // namespace

struct FastDeflate::State {
    isal_zstream stream;
    std::array<std::uint8_t, ISAL_DEF_LVL1_DEFAULT> tables;
};

FastDeflate::FastDeflate() : state_(std::make_unique_for_overwrite<State>()) {}
FastDeflate::~FastDeflate() = default;
FastDeflate::FastDeflate(FastDeflate&&) noexcept = default;
FastDeflate& FastDeflate::operator=(FastDeflate&&) noexcept = default;

void FastDeflate::begin() {
    isal_zstream& stream = state_->stream;
    isal_deflate_init(&stream);
    stream.level = kLevel;
    stream.level_buf = state_->tables.data();
    stream.level_buf_size = ISAL_DEF_LVL1_DEFAULT;
    stream.gzip_flag = IGZIP_ZLIB;
    used_ = 0;
}

void FastDeflate::add(std::span<const std::uint8_t> piece) {
    while (!piece.empty()) {
        const std::size_t now = std::min(piece.size(), kMostAtOnce);
        deflate(piece.first(now), false);
        piece = piece.subspan(now);
    }
}

std::span<const std::byte> FastDeflate::end() {
    deflate({}, true);
    return std::span(room_).first(used_);
}

void FastDeflate::deflate(std::span<const std::uint8_t> piece, bool is_last) {
    isal_zstream& stream = state_->stream;
    stream.next_in = const_cast<std::uint8_t*>(piece.data());  // it is only read
    stream.avail_in = static_cast<std::uint32_t>(piece.size());
    stream.end_of_stream = is_last ? 1 : 0;
    do {
        if (room_.size() - used_ < kLeastRoom) room_.resize(std::max(2 * room_.size(), 4 * kLeastRoom));
        const std::size_t room = std::min(room_.size() - used_, kMostAtOnce);
        stream.next_out = reinterpret_cast<std::uint8_t*>(room_.data() + used_);
        stream.avail_out = static_cast<std::uint32_t>(room);
        expect(isal_deflate(&stream) == COMP_OK, "ISA-L takes every piece at a level that it has");
        used_ += room - stream.avail_out;
    } while (stream.avail_out == 0);
}

}  // namespace offramp
