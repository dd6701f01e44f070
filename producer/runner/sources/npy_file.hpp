#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The header of a .npy file (NumPy's format, versions 1.0 to 3.0).
struct NpyHeader {
    std::string descr;  // "<f4", "|u1", ...
    bool fortran_order = false;
    std::vector<std::int64_t> shape;  // no dimension is negative
    std::size_t bytes = 0;            // size of the header: the numbers follow it
};

// The largest size of a header.
inline constexpr std::size_t kMostNpyHeaderBytes = std::size_t{64} << 10;

// Reads the header at the front of a file. Errors: ConfigError (BadInput) with the fault, for a message that names the
// file.
NpyHeader read_npy_header(std::span<const std::byte> front);

// An array in a .npy file, [rows, ...], read by rows. Rows are read, not mapped: as fast from the page cache, and a
// file that shrinks is an error, not a SIGBUS. Owns the open file. Thread: any, and several concurrently, once settle()
// was called. Blocks: on the disk. Units: bytes. Errors: ConfigError (NoInput, BadInput) names the file.
class NpyFile {
  public:
    enum class Items { Rows, Whole };  // Whole: the whole array is one row
    // Errors: no file, no array, no rows, or rows that are not contiguous.
    explicit NpyFile(std::string path, Items items = Items::Rows);

    const std::string& path() const { return path_; }
    const NpyHeader& header() const { return header_; }
    std::uint64_t rows() const { return rows_; }
    std::span<const std::int64_t> row_shape() const { return std::span(header_.shape).subspan(1); }
    std::size_t row_bytes() const { return row_bytes_; }
    bool is_one_item() const { return items_ == Items::Whole; }
    // "<f4 [100, 3, 16]"
    std::string describe() const;
    [[noreturn]] void refuse(const std::string& why, const std::string& hint,
                             ErrorKind code = ErrorKind::BadInput) const;

    // Sets the size of a row, once its shape is known to be correct: a header may claim anything. Errors: rows without
    // elements, or the file holds fewer.
    void settle(std::size_t element_bytes);

    // A hash of type and shape; for some rows also of their first bytes, since arrays have no names to distinguish
    // them.
    std::uint64_t note_hash(std::uint64_t row) const;
    // Fills `to` from byte `from` of a row. Errors: UnreadableItem.
    void read(std::uint64_t row, std::size_t from, std::span<std::byte> to) const;

  private:
    std::size_t read_some(std::uint64_t offset, std::span<std::byte> to) const;

    std::string path_;
    RegularFile file_;
    NpyHeader header_;  // with Items::Whole, one more dimension in front
    Items items_;
    std::uint64_t rows_ = 0;
    std::size_t row_bytes_ = 0;
    std::uint64_t note_ = 0;
};

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

    // Errors: ConfigError (BadInput): other elements.
    static Element element_of(const NpyFile& file);
    static std::size_t bytes_of(Element element) {
        return element == Element::Float32 ? 4 : element == Element::Float16 ? 2 : 1;
    }

    std::size_t from_bytes() const { return bytes_of(from); }
    std::size_t to_bytes() const { return to == RowKind::Pixels ? 1 : 4; }
};

// Stages a row of a file after settle() (NpyFile). Errors: UnreadableItem.
void stage_row(const NpyFile& file, std::uint64_t item, const NpyRowLayout& layout, std::span<std::byte> row);

}  // namespace offramp
