#include "producer/runner/sources/synthetic_row.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "common/numerics/float16_bits.hpp"

namespace offramp {
namespace {

bool is_float(const InputPart& part) { return part.tensor.dtype.code == kFloat32.code; }

std::size_t numbers_of(const InputPart& part) { return part.tensor.row_bytes() / part.tensor.dtype.bytes(); }

template <class Number>
std::byte* put(Number number, std::byte* to) {
    std::memcpy(to, &number, sizeof number);
    return to + sizeof number;
}

void fill(DType dtype, std::span<const float> values, std::byte* to) {
    for (const float value : values) {
        if (dtype.bits == 64)
            to = put(static_cast<double>(value), to);
        else if (dtype.bits == 16)
            to = put(float16_bits(std::bit_cast<std::uint32_t>(value)), to);
        else
            to = put(value, to);
    }
}

}  // namespace

void fill_synthetic_row(const NormalNoise& noise, std::uint64_t item, std::span<const InputPart> parts,
                        std::span<std::byte> row) {
    std::ranges::fill(row, std::byte{0});
    std::size_t floats = 0;
    for (const InputPart& part : parts) floats += is_float(part) ? numbers_of(part) : 0;
    std::vector<float> values(floats);
    noise.fill(item, values);
    std::span<const float> left(values);
    for (const InputPart& part : parts) {
        if (!is_float(part)) continue;
        fill(part.tensor.dtype, left.first(numbers_of(part)), row.data() + part.offset);
        left = left.subspan(numbers_of(part));
    }
}

}  // namespace offramp
