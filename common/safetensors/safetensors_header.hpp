#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace offramp {

// A tensor that is about to be written: row-major, its bytes follow those of the one before it.
struct TensorEntry {
    std::string name;   // unique within the file
    std::string dtype;  // the format's word: "F32", "BF16", ...
    std::vector<std::int64_t> shape;
    std::uint64_t bytes = 0;
};

// Where the tensors' bytes begin in a file with such a header: a multiple of this, so that a mapped file's first tensor
// is aligned.
inline constexpr std::size_t kSafetensorsAlignment = 512;

// The front of a .safetensors file, up to the tensors' bytes: length, JSON, blanks up to kSafetensorsAlignment.
// Text that is not UTF-8 is mended (U+FFFD), as JSON can hold no other.
std::string safetensors_header(std::span<const TensorEntry> tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace offramp
