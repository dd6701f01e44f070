#include "producer/cuda/cpu_kernels.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "producer/cuda/bfloat16_bits.hpp"
#include "common/slab/float16_bits.hpp"

namespace offramp {
namespace {

template <class Output>
Output to_output(float value) {
    if constexpr (std::is_same_v<Output, float>)
        return value;
    else
        return bfloat16_bits(std::bit_cast<std::uint32_t>(value));
}

// A pixel has 256 values: three tables hold every result there is.
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

// Bytes, not numbers: elements of any type are moved.
template <std::size_t kElementBytes>
void pack_elements(std::byte* to, const std::byte* from, const StridedCopy& copy) {
    const std::size_t inner = copy.dims - 1;
    const std::int64_t run = copy.shape[inner];
    const std::int64_t step = copy.strides[inner] * static_cast<std::int64_t>(kElementBytes);
    std::array<std::int64_t, kMaxDims> at{};
    std::int64_t offset = 0;
    for (std::uint64_t done = 0; done < copy.elements; done += static_cast<std::uint64_t>(run)) {
        const std::byte* source = from + offset * static_cast<std::int64_t>(kElementBytes);
        if (copy.strides[inner] == 1) {
            std::memcpy(to, source, static_cast<std::size_t>(run) * kElementBytes);
            to += static_cast<std::size_t>(run) * kElementBytes;
        } else {
            for (std::int64_t i = 0; i < run; ++i, source += step, to += kElementBytes)
                std::memcpy(to, source, kElementBytes);
        }
        for (std::size_t d = inner; d-- > 0;) {
            offset += copy.strides[d];
            if (++at[d] < copy.shape[d]) break;
            offset -= copy.shape[d] * copy.strides[d];
            at[d] = 0;
        }
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

void pack_on_cpu(void* to, const void* from, const StridedCopy& copy) {
    auto* const packed = static_cast<std::byte*>(to);
    const auto* const source = static_cast<const std::byte*>(from);
    switch (copy.element_bytes) {
        case 1:
            return pack_elements<1>(packed, source, copy);
        case 2:
            return pack_elements<2>(packed, source, copy);
        case 4:
            return pack_elements<4>(packed, source, copy);
        case 8:
            return pack_elements<8>(packed, source, copy);
        default:
            return pack_elements<16>(packed, source, copy);
    }
}

}  // namespace offramp
