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
    bool columns = false;  // an id and further columns stand beside each vector
    bool chunks = false;   // it is of a part of a text
    std::string_view model;

    bool operator==(const VectorKind&) const = default;
    std::size_t vector_bytes() const { return std::size_t{dimensions} * (halves ? 2 : 4); }
    // "384 float32 numbers, normalized, of model 'encoder', with ids and columns, of chunks"
    std::string describe() const;
};

// One sample's vector. Borrows its texts and bytes.
struct VectorRow {
    std::uint64_t item = 0;
    VectorKind kind;
    std::string_view key, output;
    std::span<const std::byte> vector;                      // little endian, kind.vector_bytes()
    std::string_view id, columns;                           // kind.columns; the columns are the text of a JSON object
    std::uint64_t chunk = 0, start_char = 0, end_char = 0;  // kind.chunks
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
// The row that `rows` begins with, and how many bytes it takes; 0: damaged, `row` is not touched.
std::size_t first_row(std::string_view rows, VectorRow& row);

}  // namespace offramp
