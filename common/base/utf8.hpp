#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace offramp {

// Bytes of the well-formed UTF-8 character (RFC 3629: no overlong form, no surrogate) that `text` begins
// with; 0 for none.
std::size_t utf8_character_bytes(std::string_view text) noexcept;

// Whether one character (as utf8_character_bytes() delimits it) is text to a terminal: no control character (C0, DEL,
// C1), no line or paragraph separator, nothing that turns the direction of what follows.
bool is_printable(std::string_view character) noexcept;

// The text with everything that is not printable UTF-8 written as \xNN: fit for a log line and for JSON.
std::string printable(std::string_view text);

// The same, but lines stay lines.
std::string printable_lines(std::string_view text);

// At most `most` bytes of the text, cut in front of a character that would not be whole; what is not UTF-8 is cut
// anywhere.
std::string_view utf8_prefix(std::string_view text, std::size_t most) noexcept;

// Characters (Unicode code points) of a text that is well-formed UTF-8.
std::size_t utf8_characters(std::string_view text) noexcept;

// True when the whole text is well-formed UTF-8.
bool is_utf8(std::string_view text) noexcept;

// True when a file that begins so is UTF-16: it has a byte-order mark, or a zero in one byte of each of its first two
// letters.
bool is_utf16(std::string_view front) noexcept;
inline constexpr const char* kFromUtf16 = "Convert the file to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW_FILE";

// The text, or, where it has more than `limit` bytes, its beginning and a hash of the whole, together at most `limit`:
// two texts that differ stay apart. Cut between characters; `limit` is at least 17. Thread: any.
std::string cut_text(const std::string& text, std::size_t limit);

}  // namespace offramp
