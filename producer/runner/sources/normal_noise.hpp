#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "producer/runner/models/input_parts.hpp"

namespace offramp {

// Makes N(0, 1) numbers that depend only on (seed, stream): the same bits on every machine and in every order of calls.
// A counter is hashed (SplitMix64); every 16 bits of the hash choose one of 65,536 normal quantiles. So there is no
// tail beyond 4.3 standard deviations, and one core makes two billion numbers a second. Owns the table of quantiles,
// 256 KiB. Thread: any.
class NormalNoise {
  public:
    explicit NormalNoise(std::uint64_t seed);
    void fill(std::uint64_t stream, std::span<float> values) const;

  private:
    std::uint64_t seed_;
    std::vector<float> quantiles_;
};

// The quantile: a standard normal number is below x with probability p, 0 < p < 1; relative error under 2e-9. Computed
// only from the basic operations and the square root, which round alike everywhere, unlike a C library's logarithm.
double normal_quantile(double p);

// Fills one row of arrays: floats with the noise's numbers, one sequence through all of them; integers and bools, which
// may be indices, with zeros, which are valid in every table. Thread: any.
void fill_synthetic_row(const NormalNoise& noise, std::uint64_t item, std::span<const InputPart> parts,
                        std::span<std::byte> row);

}  // namespace offramp
