#include "consumer/processors/pictures/png_bytes.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/error.hpp"

namespace offramp {
namespace {

std::uint8_t between(std::uint8_t one, std::uint8_t other) {
    return static_cast<std::uint8_t>(one > other ? one - other : other - one);
}

// PNG's predictor in byte arithmetic only, which packs the most values into a vector. If left and above are on the same
// side of the corner, the corner's distance is |left - corner| + |above - corner|, which is never the least. Otherwise
// it is their difference.
[[gnu::always_inline]] inline std::uint8_t predicted(std::uint8_t left, std::uint8_t above, std::uint8_t corner) {
    const std::uint8_t to_left = between(above, corner), to_above = between(left, corner);
    const std::uint8_t to_corner = (left > corner) == (above > corner) ? 255 : between(to_left, to_above);
    const std::uint8_t next = to_above <= to_corner ? above : corner;
    return to_left <= std::min(to_above, to_corner) ? left : next;
}

[[gnu::always_inline]] inline void subtract_inline(const std::uint8_t* __restrict row,
                                                   const std::uint8_t* __restrict above,
                                                   std::uint8_t* __restrict filtered, std::size_t row_bytes,
                                                   std::size_t pixel_bytes) {
    for (std::size_t i = pixel_bytes; i < row_bytes; ++i)
        filtered[i] =
            static_cast<std::uint8_t>(row[i] - predicted(row[i - pixel_bytes], above[i], above[i - pixel_bytes]));
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void subtract_avx2(const std::uint8_t* row, const std::uint8_t* above, std::uint8_t* filtered,
                                           std::size_t row_bytes, std::size_t pixel_bytes) {
    subtract_inline(row, above, filtered, row_bytes, pixel_bytes);
}
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#endif

void subtract(const std::uint8_t* row, const std::uint8_t* above, std::uint8_t* filtered, std::size_t row_bytes,
              std::size_t pixel_bytes) {
#if defined(__x86_64__)
    if (has_avx2()) return subtract_avx2(row, above, filtered, row_bytes, pixel_bytes);
#endif
    subtract_inline(row, above, filtered, row_bytes, pixel_bytes);
}

constexpr std::size_t kTypeBytes = 4, kLengthBytes = 4, kSumBytes = 4;
constexpr std::array<std::uint8_t, PngChunks::kSignatureBytes> kSignature = {0x89, 'P',  'N',  'G',
                                                                             '\r', '\n', 0x1A, '\n'};

}  // namespace

void copy_rows(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::uint8_t* filtered) {
    for (std::size_t at = 0; at < rows.size(); at += row_bytes, filtered += row_bytes + 1) {
        filtered[0] = 0;
        std::memcpy(filtered + 1, rows.data() + at, row_bytes);
    }
}

void subtract_paeth(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::size_t pixel_bytes,
                    const std::uint8_t* above, std::uint8_t* filtered) {
    for (std::size_t at = 0; at < rows.size(); at += row_bytes, filtered += row_bytes + 1) {
        const std::uint8_t* row = rows.data() + at;
        filtered[0] = 4;
        std::uint8_t* to = filtered + 1;
        if (above == nullptr) {  // the row above is all 0, so the predictor is the left neighbour
            std::memcpy(to, row, std::min(pixel_bytes, row_bytes));
            for (std::size_t i = pixel_bytes; i < row_bytes; ++i)
                to[i] = static_cast<std::uint8_t>(row[i] - row[i - pixel_bytes]);
        } else {  // the first pixel has no left neighbour, so the predictor is the one above
            for (std::size_t i = 0; i < std::min(pixel_bytes, row_bytes); ++i)
                to[i] = static_cast<std::uint8_t>(row[i] - above[i]);
            subtract(row, above, to, row_bytes, pixel_bytes);
        }
        above = row;
    }
}

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
