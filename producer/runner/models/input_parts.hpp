#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/wire/tensor_spec.hpp"
#include "producer/runner/models/model_metadata.hpp"

namespace offramp {

// One of a model's input arrays, and its place in a sample's row of bytes:
//
//   row:  | features 3x16 float32 | ids 5 int64 |gap| scale uint8 |gap|
//
// Every array and every row begins at a multiple of 16. `tensor` is for a full batch, contiguous, with the row's
// elements: the types that the model takes, except float32 for a model of bfloat16, which files do not have and the
// device converts. Gaps have undefined contents. Units: bytes.
struct InputPart {
    TensorSpec tensor;
    std::size_t offset = 0;
};

inline constexpr std::size_t kPartAlignment = 16;  // the widest read of a GPU

// The layout of the arrays of `inputs` in a row, for a batch of this many rows.
std::vector<InputPart> lay_out_parts(std::span<const InputMetadata> inputs, std::uint32_t batch);

// Size of all parts together, gaps included.
std::size_t part_row_bytes(std::span<const InputPart> parts);

// "features float32 [4, 3, 16], ids int64 [4, 5]"
inline std::string describe_parts(std::span<const InputPart> parts) {
    std::string text;
    for (const InputPart& part : parts) text += (text.empty() ? "" : ", ") + part.tensor.describe();
    return text;
}

// The input of a batch of `rows` samples of this shape, for a model whose input varies.
inline TensorSpec in_shape(const TensorSpec& varying, std::int64_t rows, std::span<const std::int64_t> shape) {
    std::vector<std::int64_t> whole{rows};
    whole.insert(whole.end(), shape.begin(), shape.end());
    return TensorSpec::contiguous(varying.name, varying.dtype, whole);
}

}  // namespace offramp
