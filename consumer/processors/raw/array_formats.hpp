#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// The header of the numbers of one sample in NumPy's format, version 1.0: a multiple of 64 bytes, so that a mapped
// file's array is aligned. `processor`: the caller, for errors. Errors: ConfigError for a type that NumPy does not
// have.
std::string npy_header(const TensorSpec& spec, std::string_view processor);

// The numbers themselves. NumPy has no bfloat16: such numbers become the float32 of the same value.
// Owns its scratch memory. Thread: one.
class NpyNumbers {
  public:
    // Row-major elements as the format has them; the same bytes, or valid until the next call.
    std::span<const std::byte> of(DType dtype, std::span<const std::byte> elements);

  private:
    std::vector<std::byte> floats_;
};

// Appends row-major elements as one flat JSON array, "[0.5,1,null]": each number the shortest text that reads back as
// the same value in its own type; null for what JSON has no number for (infinities, NaN); true and false of bool.
// `processor`: who asks, for errors. Errors: ConfigError for a type that is not a number of 8 to 64 bits.
void append_json_array(std::string& text, const TensorSpec& spec, std::span<const std::byte> elements,
                       std::string_view processor);

}  // namespace offramp
