#include "common/app/images/tiff_pixels.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/app/images/sixteen_bits.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kPixelsAtOnce = 1024;

// Samples from number `first` on, each `every`-th of `to`.
void unpack(const std::uint8_t* line, unsigned bits, std::size_t first, std::size_t count, std::uint16_t* to,
            std::size_t every) {
    if (bits == 8) {
        for (std::size_t i = 0; i < count; ++i) to[i * every] = line[first + i];
        return;
    }
    if (bits == 16) {
        for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * every, line + (first + i) * 2, 2);
        return;
    }
    const unsigned mask = (1U << bits) - 1;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t bit = (first + i) * bits;
        to[i * every] = static_cast<std::uint16_t>((line[bit / 8] >> (8 - bits - bit % 8)) & mask);
    }
}

std::uint8_t in_8_bits(std::uint32_t value, unsigned bits) {
    if (bits == 8) return static_cast<std::uint8_t>(value);
    if (bits == 16) return in_8_of_16_bits(value);
    return static_cast<std::uint8_t>(value * 255 / ((1U << bits) - 1));
}

// Inks in 8 bits, 0 is none of it: a product of shares of 255 is rounded as PIL's convert("RGB") rounds it.
void rgb_of_inks(const std::array<std::uint8_t, 4>& inks, std::uint8_t* rgb) {
    const unsigned light = 255U - inks[3];
    for (std::size_t c = 0; c < 3; ++c) {
        const unsigned product = inks[c] * light + 128U;
        rgb[c] = static_cast<std::uint8_t>(light - ((product + (product >> 8U)) >> 8U));
    }
}

}  // namespace

TiffColors TiffColors::of_alpha() const {
    expect(alpha.has_value(), "there is an alpha");
    TiffColors gray = *this;
    gray.kind = Kind::Gray;
    gray.first = *alpha;
    gray.multiplied_by.reset();
    return gray;
}

std::vector<std::uint16_t> TiffColors::seen_samples() const {
    std::vector<std::uint16_t> seen;
    for (std::uint32_t sample = 0; sample < colour_samples(); ++sample)
        seen.push_back(static_cast<std::uint16_t>(first + sample));
    if (multiplied_by) seen.push_back(static_cast<std::uint16_t>(*multiplied_by));
    return seen;
}

TiffLines::TiffLines(TiffColors colours) : colours_(std::move(colours)) {
    expect(colours_.kind != TiffColors::Kind::Palette || colours_.palette.size() == (std::size_t{3} << colours_.bits),
           "a palette has a colour for each number");
    expect(colours_.seen_samples().back() < colours_.samples, "samples that are looked at are there");
}

void TiffLines::to_rgb(const std::uint8_t* line, std::uint32_t first, std::uint32_t count, std::uint8_t* rgb) {
    if (colours_.kind == TiffColors::Kind::Rgb && colours_.bits == 8 && !colours_.multiplied_by) {
        const std::uint8_t* from = line + std::size_t{first} * colours_.samples;
        if (colours_.samples == 3) {
            std::memcpy(rgb, from, std::size_t{count} * 3);
            return;
        }
        for (std::uint32_t i = 0; i < count; ++i, from += colours_.samples, rgb += 3) std::memcpy(rgb, from, 3);
        return;
    }
    const std::size_t samples = colours_.samples;
    values_.resize(std::min(count, kPixelsAtOnce) * samples);
    for (std::uint32_t done = 0, some = 0; done < count; done += some, rgb += std::size_t{some} * 3) {
        some = std::min(count - done, kPixelsAtOnce);
        unpack(line, colours_.bits, (std::size_t{first} + done) * samples, some * samples, values_.data(), 1);
        colour(some, colours_.samples, colours_.first, colours_.multiplied_by.value_or(0), rgb);
    }
}

void TiffLines::planes_to_rgb(const std::vector<const std::uint8_t*>& lines, std::uint32_t first, std::uint32_t count,
                              std::uint8_t* rgb) {
    const auto samples = static_cast<std::uint32_t>(lines.size());
    expect(samples == colours_.colour_samples() + (colours_.multiplied_by ? 1 : 0),
           "there is a line for each sample that is looked at");
    values_.resize(std::size_t{std::min(count, kPixelsAtOnce)} * samples);
    for (std::uint32_t done = 0, some = 0; done < count; done += some, rgb += std::size_t{some} * 3) {
        some = std::min(count - done, kPixelsAtOnce);
        for (std::uint32_t sample = 0; sample < samples; ++sample)
            unpack(lines[sample], colours_.bits, std::size_t{first} + done, some, values_.data() + sample, samples);
        colour(some, samples, 0, colours_.colour_samples(), rgb);
    }
}

// `samples` of each pixel are in values_; of them the colours begin at number `first`, and number `alpha` is the one
// that they are multiplied by, if any.
void TiffLines::colour(std::uint32_t count, std::uint32_t samples, std::uint32_t first, std::uint32_t alpha,
                       std::uint8_t* rgb) {
    using Kind = TiffColors::Kind;
    const std::uint32_t largest = (1U << colours_.bits) - 1;
    const auto divided = [largest](std::uint32_t value, std::uint32_t by) {
        return by == 0 ? 0 : std::min(largest, static_cast<std::uint32_t>(std::uint64_t{value} * largest / by));
    };
    const std::uint16_t* pixel = values_.data();
    std::array<std::uint8_t, 4> numbers{};
    for (std::uint32_t i = 0; i < count; ++i, pixel += samples, rgb += 3) {
        if (colours_.kind == Kind::Palette) {
            std::memcpy(rgb, colours_.palette.data() + std::size_t{pixel[0]} * 3, 3);
            continue;
        }
        for (std::uint32_t c = 0; c < colours_.colour_samples(); ++c) {
            std::uint32_t value = pixel[first + c];
            if (colours_.bits == 16) largest_ = std::max(largest_, pixel[first + c]);
            if (colours_.multiplied_by) value = divided(value, pixel[alpha]);
            if (colours_.kind == Kind::GrayInverted) value = largest - value;
            numbers[c] = in_8_bits(value, colours_.bits);
        }
        if (colours_.kind == Kind::Cmyk)
            rgb_of_inks(numbers, rgb);
        else if (colours_.kind == Kind::Rgb)
            std::memcpy(rgb, numbers.data(), 3);
        else
            std::memset(rgb, numbers[0], 3);
    }
}

}  // namespace offramp
