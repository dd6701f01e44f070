#include "common/app/images/resize.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kKeptScratchBytes = std::size_t{16} << 20;

// sums += row * weight, in a form that the compiler vectorizes; below, the last step.
[[gnu::always_inline]] inline void add_row_inline(std::int32_t* sums, const std::uint8_t* row, std::int32_t weight,
                                                  std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) sums[i] += row[i] * weight;
}
[[gnu::always_inline]] inline void store_row_inline(std::uint8_t* to, const std::int32_t* sums, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = pixel_of_sum(sums[i]);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void add_row_avx2(std::int32_t* sums, const std::uint8_t* row, std::int32_t weight,
                                          std::size_t bytes) {
    add_row_inline(sums, row, weight, bytes);
}
[[gnu::target("avx2")]] void store_row_avx2(std::uint8_t* to, const std::int32_t* sums, std::size_t bytes) {
    store_row_inline(to, sums, bytes);
}
// Baseline x86-64 has no 32-bit vector multiplication. Integers: the bits are the same either way.
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#endif

void add_row(std::int32_t* sums, const std::uint8_t* row, std::int32_t weight, std::size_t bytes) {
#if defined(__x86_64__)
    if (has_avx2()) return add_row_avx2(sums, row, weight, bytes);
#endif
    add_row_inline(sums, row, weight, bytes);
}

void store_row(std::uint8_t* to, const std::int32_t* sums, std::size_t bytes) {
#if defined(__x86_64__)
    if (has_avx2()) return store_row_avx2(to, sums, bytes);
#endif
    store_row_inline(to, sums, bytes);
}

}  // namespace

void Resizer::Filter::prepare(Interpolation interpolation, std::uint32_t from, std::uint64_t to,
                              std::uint64_t first_pixel, std::uint32_t count) {
    const PictureFilter filter(interpolation, from, to);
    stride = filter.most_taps();
    taps.resize(count);
    weights.assign(std::size_t{stride} * count, 0);
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint64_t pixel = first_pixel + i;
        const std::uint32_t first = filter.first_of(pixel);
        taps[i] = {.first = first, .count = filter.end_of(pixel) - first};
        filter.weights(pixel, weights.data() + std::size_t{i} * stride);
    }
}

template <std::size_t kChannels>
void Resizer::resize_channels(const std::uint8_t* from, ImageSize from_size, const ResizedPart& part, std::uint8_t* to,
                              ImageSize to_size, Interpolation interpolation) {
    const bool narrow = from_size.width != part.width || to_size.width != part.width;
    const bool vertical = from_size.height != part.height || to_size.height != part.height;
    const std::size_t to_row = std::size_t{to_size.width} * kChannels;
    if (!narrow && !vertical) {
        std::memcpy(to, from, to_row * to_size.height);
        return;
    }
    // The rows of the image that are needed.
    std::uint32_t first_row = 0;
    std::uint32_t row_count = from_size.height;
    if (vertical) {
        vertical_.prepare(interpolation, from_size.height, part.height, part.top, to_size.height);
        first_row = vertical_.taps.front().first;
        row_count = vertical_.taps.back().first + vertical_.taps.back().count - first_row;
    }
    const std::size_t from_row = std::size_t{from_size.width} * kChannels;
    const std::uint8_t* rows = from + first_row * from_row;
    if (narrow) {
        horizontal_.prepare(interpolation, from_size.width, part.width, part.left, to_size.width);
        std::uint8_t* target = to;
        if (vertical) {
            if (between_.size() < to_row * row_count) between_.resize(to_row * row_count);
            target = between_.data();
        }
        for (std::uint32_t y = 0; y < row_count; ++y) {
            const std::uint8_t* const source = rows + y * from_row;
            std::uint8_t* out = target + y * to_row;
            const std::int32_t* weight = horizontal_.weights.data();
            for (const Taps& taps : horizontal_.taps) {
                std::array<std::int32_t, kChannels> sums;
                sums.fill(kHalfOfSum);
                const std::uint8_t* pixel = source + std::size_t{taps.first} * kChannels;
                for (std::uint32_t k = 0; k < taps.count; ++k, pixel += kChannels)
                    for (std::size_t c = 0; c < kChannels; ++c) sums[c] += pixel[c] * weight[k];
                for (std::size_t c = 0; c < kChannels; ++c) *out++ = pixel_of_sum(sums[c]);
                weight += horizontal_.stride;
            }
        }
        rows = target;
    }
    if (!vertical) return;
    for (std::uint32_t y = 0; y < to_size.height; ++y) {
        const Taps taps = vertical_.taps[y];
        sums_.assign(to_row, kHalfOfSum);
        for (std::uint32_t k = 0; k < taps.count; ++k)
            add_row(sums_.data(), rows + (taps.first - first_row + k) * to_row,
                    vertical_.weights[std::size_t{y} * vertical_.stride + k], to_row);
        store_row(to + y * to_row, sums_.data(), to_row);
    }
}

void Resizer::resize(const std::uint8_t* from, ImageSize from_size, std::uint8_t* to, ImageSize to_size) {
    resize_part(from, from_size, {.width = to_size.width, .height = to_size.height}, to, to_size);
}

void Resizer::resize_part(const std::uint8_t* from, ImageSize from_size, const ResizedPart& part, std::uint8_t* to,
                          ImageSize to_size, Interpolation interpolation) {
    resize_channels<3>(from, from_size, part, to, to_size, interpolation);
}

void Resizer::resize_channels_of(std::size_t channels, const std::uint8_t* from, ImageSize from_size, std::uint8_t* to,
                                 ImageSize to_size, Interpolation interpolation) {
    const ResizedPart all{.width = to_size.width, .height = to_size.height};
    if (channels == 1) return resize_channels<1>(from, from_size, all, to, to_size, interpolation);
    if (channels == 3) return resize_channels<3>(from, from_size, all, to, to_size, interpolation);
    expect(channels == 4, "an image has 1, 3 or 4 channels");
    resize_channels<4>(from, from_size, all, to, to_size, interpolation);
}

void Resizer::resize_plane(const std::uint8_t* from, ImageSize from_size, std::uint8_t* to, ImageSize to_size) {
    resize_channels<1>(from, from_size, {.width = to_size.width, .height = to_size.height}, to, to_size,
                       Interpolation::Bilinear);
}

void Resizer::trim() {
    if (between_.capacity() > kKeptScratchBytes) between_ = {};
}

}  // namespace offramp
