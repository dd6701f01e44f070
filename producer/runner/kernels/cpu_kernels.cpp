#include "producer/runner/kernels/kernel_plans.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "common/numerics/float16_bits.hpp"

namespace offramp {
namespace {

template <class Output>
Output to_output(float value) {
    if constexpr (std::is_same_v<Output, float>)
        return value;
    else
        return bfloat16_bits(std::bit_cast<std::uint32_t>(value));
}

// A pixel has 256 values: three tables hold all results.
template <class Output>
using Tables = std::array<std::array<Output, 256>, 3>;

template <class Output>
Tables<Output> make_tables(const NormalizePlan& plan) {
    Tables<Output> tables{};
    for (std::size_t channel = 0; channel < 3; ++channel) {
        for (std::size_t pixel = 0; pixel < 256; ++pixel) {
            const float scaled = static_cast<float>(pixel) / 255.0F;
            const float centred = scaled - plan.mean[channel];
            tables[channel][pixel] = to_output<Output>(centred / plan.std[channel]);
        }
    }
    return tables;
}

template <class Output>
void normalize_to(Output* to, const std::uint8_t* pixels, const NormalizePlan& plan) {
    const Tables<Output> tables = make_tables<Output>(plan);
    const auto per_row = static_cast<std::size_t>(plan.pixels_per_row);
    const auto rows = static_cast<std::size_t>(plan.rows);
    if (plan.order == NormalizePlan::Order::ChannelsLast) {
        for (std::size_t i = 0; i < rows * per_row; ++i)
            for (std::size_t channel = 0; channel < 3; ++channel)
                to[3 * i + channel] = tables[channel][pixels[3 * i + channel]];
        return;
    }
    for (std::size_t row = 0; row < rows; ++row) {
        const std::uint8_t* const source = pixels + row * per_row * 3;
        Output* const planes = to + row * per_row * 3;
        for (std::size_t i = 0; i < per_row; ++i)
            for (std::size_t channel = 0; channel < 3; ++channel)
                planes[channel * per_row + i] = tables[channel][source[3 * i + channel]];
    }
}

}  // namespace

void normalize_on_cpu(void* to, const std::uint8_t* pixels, const NormalizePlan& plan) {
    if (plan.output == NormalizePlan::Output::Float32)
        normalize_to(static_cast<float*>(to), pixels, plan);
    else
        normalize_to(static_cast<std::uint16_t*>(to), pixels, plan);
}

void cast_on_cpu(void* to, DType type, const void* from, std::size_t elements) {
    auto* const bits = static_cast<std::uint16_t*>(to);
    const auto* const values = static_cast<const float*>(from);
    const auto round = type == kFloat16 ? float16_bits : bfloat16_bits;
    for (std::size_t i = 0; i < elements; ++i) bits[i] = round(std::bit_cast<std::uint32_t>(values[i]));
}

void make_pixels_on_cpu(std::uint8_t* pixels, float* outliers, const kernels::PictureNumbers& input) {
    const auto number_at = [&](std::int64_t i) {
        if (input.dtype == kFloat32) return static_cast<const float*>(input.numbers)[i];
        const std::uint16_t bits = static_cast<const std::uint16_t*>(input.numbers)[i];
        return input.dtype == kFloat16 ? float_of_float16(bits) : float_of_bfloat16(bits);
    };
    std::fill_n(outliers, input.rows, 0.0F);
    for (std::int64_t i = 0; i < input.rows * input.per_row; ++i) {
        const float number = number_at(i);
        const float share = input.range.share_of(number);
        if (PixelRange::has_pixel(share))
            pixels[i] = PixelRange::pixel_of(share);
        else
            outliers[i / input.per_row] = number;
    }
}

}  // namespace offramp
