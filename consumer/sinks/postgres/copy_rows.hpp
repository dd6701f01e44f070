#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// Rows in the binary format of PostgreSQL's COPY. All numbers are big endian:
//
//   "PGCOPY\n\377\r\n\0"   flags (int32) 0   size of the header's extension (int32) 0
//   each row: number of fields (int16), then for each field its size (int32; -1: NULL) and bytes
//   end: -1 (int16)
//
// A jsonb is the version of its form, 1 (one byte), and then the text. A pgvector is the count of its numbers (int16),
// 0 (int16), then its numbers: float32 in `vector`, float16 in `halfvec`. Owns its memory and reuses it. Thread: one.
class CopyRows {
  public:
    CopyRows() { clear(); }

    void clear();
    bool empty() const { return rows_ == 0; }

    void begin_row(std::int16_t fields);
    void text(std::string_view text);
    void number(std::int64_t number);
    void json(std::string_view text);
    void null();
    // `numbers`: little endian, `bytes_each` 4 or 2. If a number is infinite or NaN, which pgvector rejects, adds NULL
    // and returns false.
    bool vector(std::span<const std::byte> numbers, std::size_t bytes_each);
    // Adds the end and returns all bytes, which are valid until clear(). Call clear() next.
    std::span<const std::byte> finished();

  private:
    void put(std::uint64_t value, std::size_t bytes);
    void put(std::string_view text);

    std::vector<std::byte> bytes_;
    std::size_t rows_ = 0;
};

// A text in the form that PostgreSQL can store. In a text that is not UTF-8, or has a NUL or a "\x", each byte that
// cannot be stored becomes \xHH, and so does '\'. Different texts stay different.
std::string postgres_text(std::string_view text);

// JSON in the form that PostgreSQL's jsonb can store: a NUL in a string, which JSON writes as \u0000 and jsonb refuses,
// becomes the text \x00. `json` must be well-formed.
std::string postgres_json(std::string_view json);

}  // namespace offramp
