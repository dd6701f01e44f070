#include "producer/runner/models/input_parts.hpp"

#include "common/wire/slab_layout.hpp"

namespace offramp {

std::vector<InputPart> lay_out_parts(std::span<const InputMetadata> inputs, std::uint32_t batch) {
    std::vector<InputPart> parts;
    for (const InputMetadata& input : inputs) {
        std::vector<std::int64_t> shape{batch};
        shape.insert(shape.end(), input.shape.begin(), input.shape.end());
        const std::size_t offset = part_row_bytes(parts);
        const DType in_the_row = input.dtype == kBFloat16 ? kFloat32 : input.dtype;
        parts.push_back({.tensor = TensorSpec::contiguous(input.name, in_the_row, shape), .offset = offset});
    }
    return parts;
}

std::size_t part_row_bytes(std::span<const InputPart> parts) {
    return parts.empty() ? 0 : round_up(parts.back().offset + parts.back().tensor.row_bytes(), kPartAlignment);
}

}  // namespace offramp
