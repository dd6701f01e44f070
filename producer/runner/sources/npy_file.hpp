#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/error.hpp"
#include "common/base/regular_file.hpp"
#include "producer/runner/sources/npy_header.hpp"

namespace offramp {

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

// "[3, 16]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace offramp
