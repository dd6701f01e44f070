#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// Rows in the binary format of PostgreSQL's COPY, all numbers big endian:
//
//   "PGCOPY\n\377\r\n\0"   flags (int32) 0   bytes of the header's extension (int32) 0
//   a row: fields (int16), then of each its bytes (int32; -1: NULL) and these
//   end: -1 (int16)
//
// A jsonb is 1 (one byte), the version of its form, and then the text. A pgvector is its numbers (int16), 0 (int16),
// then float32 each in `vector`, float16 each in `halfvec`. Owns its memory, which is kept from one use to the next.
// Thread: one.
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
    // `numbers`: little endian, `bytes_each` 4 or 2. False, and NULL is put, when one is infinite or no number, which
    // pgvector does not hold.
    bool vector(std::span<const std::byte> numbers, std::size_t bytes_each);
    // Puts the end; what follows is clear(). Valid until then.
    std::span<const std::byte> finished();

  private:
    void put(std::uint64_t value, std::size_t bytes);
    void put(std::string_view text);

    std::vector<std::byte> bytes_;
    std::size_t rows_ = 0;
};

// A text as PostgreSQL holds it. In a text that is not UTF-8, or has a NUL or a "\x", bytes that cannot be stored
// become \xHH, and so does '\': two texts never become one.
std::string postgres_text(std::string_view text);

// JSON as PostgreSQL's jsonb holds it: a NUL in a string, which JSON writes \u0000 and jsonb refuses, is the text \x00.
// `json` is well-formed.
std::string postgres_json(std::string_view json);

}  // namespace offramp
