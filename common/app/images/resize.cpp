#include "common/app/images/resize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr int kWeightBits = 22;  // 32 minus a pixel's 8 minus 2 spare bits, like PIL
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);
constexpr std::size_t kKeptScratchBytes = std::size_t{16} << 20;

std::uint8_t to_byte(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

std::int32_t fixed_point(double weight) {
    return static_cast<std::int32_t>(weight * (1 << kWeightBits) + (weight < 0 ? -0.5 : 0.5));
}

// The weight of a pixel at this distance from the output pixel's centre, in pixels of the smaller picture.
double weight_at(Interpolation interpolation, double distance) {
    constexpr double kA = -0.5;
    if (interpolation == Interpolation::Bilinear) return distance < 1.0 ? 1.0 - distance : 0.0;
    if (distance < 1.0) return ((kA + 2.0) * distance - (kA + 3.0)) * distance * distance + 1.0;
    return distance < 2.0 ? (((distance - 5.0) * distance + 8.0) * distance - 4.0) * kA : 0.0;
}

// sums += row * weight, in a form that the compiler vectorizes; below, the last step.
[[gnu::always_inline]] inline void add_row_inline(std::int32_t* sums, const std::uint8_t* row, std::int32_t weight,
                                                  std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) sums[i] += row[i] * weight;
}
[[gnu::always_inline]] inline void store_row_inline(std::uint8_t* to, const std::int32_t* sums, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = to_byte(sums[i]);
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
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double widening = std::max(scale, 1.0);
    const double reach = (interpolation == Interpolation::Bicubic ? 2.0 : 1.0) * widening;  // the filter's half width
    stride = static_cast<std::uint32_t>(std::ceil(reach)) * 2 + 1;
    taps.resize(count);
    weights.assign(std::size_t{stride} * count, 0);
    std::vector<double> exact(stride);
    for (std::uint32_t i = 0; i < count; ++i) {
        const double center = (static_cast<double>(first_pixel + i) + 0.5) * scale;
        const int first = std::max(static_cast<int>(center - reach + 0.5), 0);
        const int end = std::min(static_cast<int>(center + reach + 0.5), static_cast<int>(from));
        double total = 0;
        for (int k = first; k < end; ++k) {
            const double weight = weight_at(interpolation, std::abs((k - center + 0.5) * (1.0 / widening)));
            exact[static_cast<std::size_t>(k - first)] = weight;
            total += weight;
        }
        taps[i] = {.first = static_cast<std::uint32_t>(first), .count = static_cast<std::uint32_t>(end - first)};
        for (std::uint32_t k = 0; k < taps[i].count; ++k)
            weights[std::size_t{i} * stride + k] = fixed_point(total == 0 ? exact[k] : exact[k] / total);
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
                sums.fill(kHalf);
                const std::uint8_t* pixel = source + std::size_t{taps.first} * kChannels;
                for (std::uint32_t k = 0; k < taps.count; ++k, pixel += kChannels)
                    for (std::size_t c = 0; c < kChannels; ++c) sums[c] += pixel[c] * weight[k];
                for (std::size_t c = 0; c < kChannels; ++c) *out++ = to_byte(sums[c]);
                weight += horizontal_.stride;
            }
        }
        rows = target;
    }
    if (!vertical) return;
    for (std::uint32_t y = 0; y < to_size.height; ++y) {
        const Taps taps = vertical_.taps[y];
        sums_.assign(to_row, kHalf);
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
