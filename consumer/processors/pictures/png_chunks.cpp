#include "consumer/processors/pictures/png_chunks.hpp"

#include <isa-l/crc.h>

#include <array>
#include <cstring>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kTypeBytes = 4, kLengthBytes = 4, kSumBytes = 4;
constexpr std::array<std::uint8_t, PngChunks::kSignatureBytes> kSignature = {0x89, 'P',  'N',  'G',
                                                                             '\r', '\n', 0x1A, '\n'};

}  // namespace

PngChunks::PngChunks(std::span<std::byte> room) : room_(room), used_(kSignature.size()) {
    expect(room.size() >= kSignature.size(), "there is room for the file");
    std::memcpy(room.data(), kSignature.data(), kSignature.size());
}

void PngChunks::add(std::string_view type, std::span<const std::uint8_t> data) {
    const auto to = begin(type);
    expect(data.size() <= to.size(), "there is room for the file");
    if (!data.empty()) std::memcpy(to.data(), data.data(), data.size());
    end(data.size());
}

std::span<std::byte> PngChunks::begin(std::string_view type) {
    expect(type.size() == kTypeBytes && room_.size() - used_ >= kChunkBytes, "there is room for the file");
    std::memcpy(room_.data() + used_ + kLengthBytes, type.data(), kTypeBytes);
    const auto behind = room_.subspan(used_ + kLengthBytes + kTypeBytes);
    return behind.first(behind.size() - kSumBytes);
}

void PngChunks::end(std::size_t data_bytes) {
    const std::size_t summed = used_ + kLengthBytes;
    put(used_, static_cast<std::uint32_t>(data_bytes));
    put(summed + kTypeBytes + data_bytes,
        crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(room_.data() + summed), kTypeBytes + data_bytes));
    used_ += kChunkBytes + data_bytes;
}

void PngChunks::put(std::size_t at, std::uint32_t number) {
    for (std::size_t i = 0; i < 4; ++i) room_[at + i] = static_cast<std::byte>(number >> (24U - 8U * i));
}

}  // namespace offramp
