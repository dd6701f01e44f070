#pragma once

#include <string>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// The words of file formats for an element type; empty where the format has none. tensor_spec's to_string() has the
// word for people.

// .safetensors: "F32", "BF16", "I64", "U8", "BOOL".
std::string safetensors_dtype(DType dtype);

// NumPy's, in little endian: "<f4", "<i8", "|u1", "|b1", "<c8". It has none for bfloat16.
std::string npy_dtype(DType dtype);

}  // namespace offramp
