#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/npy_file.hpp"

namespace offramp {

// The conversion of an array's row to a staged row: element types and places. Pure.
struct NpyRowLayout {
    enum class Element { Float32, Float16, UInt8 };
    Element from = Element::Float32;
    RowKind to = RowKind::Float32;
    std::vector<std::int64_t> shape;    // of the array's row
    std::vector<std::int64_t> strides;  // in staged elements; empty: unchanged

    // For a model's single input. Errors: ConfigError: the model takes none, or other elements (Usage); the array has
    // others, or rows of another shape (BadInput).
    static NpyRowLayout of(const NpyFile& file, const TensorSpec& input, const std::string& model,
                           bool model_takes_images);

    std::size_t from_bytes() const { return from == Element::Float32 ? 4 : from == Element::Float16 ? 2 : 1; }
    std::size_t to_bytes() const { return to == RowKind::Pixels ? 1 : 4; }
};

// Stages a row of a file after settle() (NpyFile). Errors: UnreadableItem.
void stage_row(const NpyFile& file, std::uint64_t item, const NpyRowLayout& layout, std::span<std::byte> row);

}  // namespace offramp
