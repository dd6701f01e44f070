#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace offramp {

// The common properties of all vectors of one file.
struct VectorKind {
    std::uint32_t dimensions = 0;
    bool halves = false;  // float16 instead of float32
    bool normalized = false;
    bool columns = false;  // each vector has an id and further columns
    bool chunks = false;   // each vector belongs to a part of a text
    std::string_view model;

    bool operator==(const VectorKind&) const = default;
    std::size_t vector_bytes() const { return std::size_t{dimensions} * (halves ? 2 : 4); }
    // "384 float32 numbers, normalized, of 'encoder', with ids and columns, of chunks"
    std::string describe() const;
};

// One sample's vector. Borrows its texts and bytes.
struct VectorRow {
    std::uint64_t item = 0;
    VectorKind kind;
    std::string_view key, output;
    std::span<const std::byte> vector;  // little endian, kind.vector_bytes()
    // set with kind.columns; `columns` is the text of a JSON object
    std::string_view id, columns;
    std::uint64_t chunk = 0, start_char = 0, end_char = 0;  // set with kind.chunks
};

// A row as bytes, one after another, in segments:
//
//     u32 bytes of all | u32 dimensions | u64 item | u32 flags: 1 halves, 2 normalized, 4 columns, 8 chunks | u32 bytes
//     of key, of output, of model | with columns: u32 bytes of id, of columns | with chunks: u64 chunk, start, end |
//     key | output | model | id | columns | vector
//
// little endian, without gaps. A file of them is never read by another version: it lives from a run's start to its end
// or resumption.
void append_row(std::string& rows, const VectorRow& row);
// Reads the first row of `rows`, and returns how many bytes it takes. Returns 0 for a damaged row, and leaves `row`
// unchanged.
std::size_t first_row(std::string_view rows, VectorRow& row);

}  // namespace offramp
