#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// Appends row-major elements as one flat JSON array, "[0.5,1,null]": each number the shortest text that reads back as
// the same value in its own type; null for what JSON has no number for (infinities, NaN); true and false of bool.
// `processor`: who asks, for errors. Errors: ConfigError for a type that is not a number of 8 to 64 bits.
void append_json_array(std::string& text, const TensorSpec& spec, std::span<const std::byte> elements,
                       std::string_view processor);

}  // namespace offramp
