#include "producer/runner/sources/normal_noise.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "common/numerics/float16_bits.hpp"

namespace offramp {
namespace {

constexpr std::size_t kQuantiles = 65536;
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

// SplitMix64's output function (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

double portable_log(double x) {
    int exponent = 0;
    const double mantissa = std::frexp(x, &exponent);  // [0.5, 1)
    const double t = (mantissa - 1) / (mantissa + 1);
    double power = t, sum = 0;
    for (int n = 1; n < 60; n += 2, power *= t * t) sum += power / n;
    return exponent * 0.69314718055994530942 + 2 * sum;
}

template <std::size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) {
    double value = 0;
    for (const double c : coefficients) value = value * x + c;
    return value;
}

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

// P. J. Acklam's rational approximation.
double normal_quantile(double p) {
    constexpr std::array<double, 6> kA{-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                                       1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
    constexpr std::array<double, 6> kB{-5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
                                       6.680131188771972e+01,  -1.328068155288572e+01, 1.0};
    constexpr std::array<double, 6> kC{-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                                       -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
    constexpr std::array<double, 5> kD{7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                                       3.754408661907416e+00, 1.0};
    constexpr double kTail = 0.02425;
    if (p > 0.5) return -normal_quantile(1 - p);
    if (p >= kTail) {
        const double q = p - 0.5;
        return polynomial(kA, q * q) * q / polynomial(kB, q * q);
    }
    const double q = std::sqrt(-2 * portable_log(p));
    return polynomial(kC, q) / polynomial(kD, q);
}

// The seed is mixed once more than a stream's number, so that the two cannot be exchanged.
NormalNoise::NormalNoise(std::uint64_t seed) : seed_(mix(mix(seed + kGolden))), quantiles_(kQuantiles) {
    for (std::size_t i = 0; i < kQuantiles; ++i)
        quantiles_[i] = static_cast<float>(normal_quantile((static_cast<double>(i) + 0.5) / kQuantiles));
}

void NormalNoise::fill(std::uint64_t stream, std::span<float> values) const {
    std::uint64_t counter = mix(seed_ ^ mix(stream + kGolden));
    const float* const quantiles = quantiles_.data();
    float* to = values.data();
    for (std::size_t left = values.size() / 4; left > 0; --left, to += 4) {
        const std::uint64_t bits = mix(counter += kGolden);
        to[0] = quantiles[bits & 0xffff];
        to[1] = quantiles[(bits >> 16) & 0xffff];
        to[2] = quantiles[(bits >> 32) & 0xffff];
        to[3] = quantiles[bits >> 48];
    }
    std::uint64_t bits = mix(counter + kGolden);
    for (float* const end = values.data() + values.size(); to != end; ++to, bits >>= 16) *to = quantiles[bits & 0xffff];
}

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
