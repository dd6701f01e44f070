#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// The NumPy header (format 1.0) of one sample. Its size is a multiple of 64 bytes, so that the array of a mapped file
// is aligned. `processor`: the caller, for errors. Errors: ConfigError for a type that NumPy does not have.
std::string npy_header(const TensorSpec& spec, std::string_view processor);

// Converts elements for NumPy, which has no bfloat16: these become float32 of the same value. Owns its scratch memory.
// Thread: one.
class NpyNumbers {
  public:
    // The row-major elements as the format stores them: `elements` itself, or a copy that is valid until the next call.
    std::span<const std::byte> of(DType dtype, std::span<const std::byte> elements);

  private:
    std::vector<std::byte> floats_;
};

// Appends row-major elements as one flat JSON array, "[0.5,1,null]". Each number is the shortest text that reads back
// as the same value in its own type. Infinities and NaN become null; bool becomes true and false. `processor`: the
// caller, for errors. Errors: ConfigError for a type that is not a number of 8 to 64 bits.
void append_json_array(std::string& text, const TensorSpec& spec, std::span<const std::byte> elements,
                       std::string_view processor);

}  // namespace offramp
