#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "producer/runner/models/input_parts.hpp"
#include "producer/runner/sources/normal_noise.hpp"

namespace offramp {

// Fills one row of arrays: floats with the noise's numbers, one sequence through all of them; integers and bools, which
// may be indices, with zeros, which are valid in every table. Thread: any.
void fill_synthetic_row(const NormalNoise& noise, std::uint64_t item, std::span<const InputPart> parts,
                        std::span<std::byte> row);

}  // namespace offramp
