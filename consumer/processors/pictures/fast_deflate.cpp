#include "consumer/processors/pictures/fast_deflate.hpp"

#include <isa-l/igzip_lib.h>

#include <array>
#include <cstring>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kLevel = 1;
// header, first block, trailer, and the room that ISA-L requires after its output
constexpr std::size_t kFixedBytes = 4096;

}  // namespace

struct FastDeflate::State {
    isal_zstream stream;
    std::array<std::uint8_t, ISAL_DEF_LVL1_DEFAULT> tables;
};

FastDeflate::FastDeflate() : state_(std::make_unique_for_overwrite<State>()) {}
FastDeflate::~FastDeflate() = default;
FastDeflate::FastDeflate(FastDeflate&&) noexcept = default;
FastDeflate& FastDeflate::operator=(FastDeflate&&) noexcept = default;

// A literal takes at most 9 bits, and a block that would grow is stored. ISA-L also stores a block when the room runs
// short: this room prevents that.
std::size_t FastDeflate::room_for(std::size_t bytes) { return bytes + bytes / 8 + bytes / 64 + kFixedBytes; }

void FastDeflate::begin(std::span<std::byte> room) {
    expect(room.size() <= room_for(kMostBytes), "ISA-L counts in 32 bits");
    room_ = room;
    used_ = 0;
    adler_ = 1;
    is_first_ = true;
    append(std::array<std::uint8_t, 2>{0x78, 0x01});  // deflate, a window of 32 KiB, the fastest level
}

// Writes the first byte as a stored block, and makes it ISA-L's dictionary for the rest. Without a dictionary, ISA-L
// hashes the address of `isal_zstream` for the third byte's place in its table (.write_first_byte in
// igzip_icf_body_h1_gr_bt.asm, up to 2.32 at least). 3 or 4 of 1,000 small masks then get other bytes at another
// address.
void FastDeflate::begin_behind(std::uint8_t first) {
    // not the last block; a length of 1, and its complement
    append(std::array<std::uint8_t, 6>{0, 1, 0, 0xFE, 0xFF, first});
    isal_zstream& stream = state_->stream;
    isal_deflate_init(&stream);
    stream.level = kLevel;
    stream.level_buf = state_->tables.data();
    stream.level_buf_size = ISAL_DEF_LVL1_DEFAULT;
    stream.gzip_flag = IGZIP_DEFLATE;
    expect(isal_deflate_set_dict(&stream, &first, 1) == COMP_OK, "ISA-L takes a dictionary before the stream");
    is_first_ = false;
}

void FastDeflate::add(std::span<const std::uint8_t> piece, bool is_last) {
    expect(!piece.empty() && piece.size() <= kMostBytes, "a piece has bytes, and ISA-L counts in 32 bits");
    adler_ = isal_adler32(adler_, piece.data(), piece.size());
    if (is_first_) {
        begin_behind(piece[0]);
        piece = piece.subspan(1);
    }
    isal_zstream& stream = state_->stream;
    stream.next_in = const_cast<std::uint8_t*>(piece.data());  // ISA-L only reads it
    stream.avail_in = static_cast<std::uint32_t>(piece.size());
    stream.end_of_stream = is_last ? 1 : 0;
    const std::size_t room = room_.size() - used_;
    stream.next_out = reinterpret_cast<std::uint8_t*>(room_.data() + used_);
    stream.avail_out = static_cast<std::uint32_t>(room);
    expect(isal_deflate(&stream) == COMP_OK && stream.avail_in == 0, "ISA-L takes every piece at a level that it has");
    used_ += room - stream.avail_out;
    if (!is_last) return;
    expect(stream.internal_state.state == ZSTATE_END, "the stream has the size of room_for()");
    append(std::array<std::uint8_t, 4>{static_cast<std::uint8_t>(adler_ >> 24U),
                                       static_cast<std::uint8_t>(adler_ >> 16U),
                                       static_cast<std::uint8_t>(adler_ >> 8U), static_cast<std::uint8_t>(adler_)});
}

std::size_t FastDeflate::size() const { return used_; }

void FastDeflate::append(std::span<const std::uint8_t> bytes) {
    expect(bytes.size() <= room_.size() - used_, "the stream has the size of room_for()");
    std::memcpy(room_.data() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
}

}  // namespace offramp
