#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace offramp {

// The length in bytes of the first UTF-8 character of `text`; 0 if it is not well-formed (RFC 3629: no overlong form,
// no surrogate).
std::size_t utf8_character_bytes(std::string_view text) noexcept;

// True if one character (delimited by utf8_character_bytes()) is safe on a terminal: not a control character (C0, DEL,
// C1), a line or paragraph separator, or a change of text direction.
bool is_printable(std::string_view character) noexcept;

// The text with \xNN for all bytes that are not printable UTF-8: safe for a log line and for JSON.
std::string printable(std::string_view text);

// The same, but keeps line breaks.
std::string printable_lines(std::string_view text);

// The first `most` bytes of the text at most. Does not split a character; text that is not UTF-8 is cut anywhere.
std::string_view utf8_prefix(std::string_view text, std::size_t most) noexcept;

// The number of characters (Unicode code points) of a well-formed UTF-8 text.
std::size_t utf8_characters(std::string_view text) noexcept;

// True if the whole text is well-formed UTF-8.
bool is_utf8(std::string_view text) noexcept;

// True if a file with this beginning is UTF-16: it has a byte-order mark, or a zero byte in each of its first two
// letters.
bool is_utf16(std::string_view front) noexcept;
inline constexpr const char* kFromUtf16 = "Convert the file to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW_FILE";

// The text. If it exceeds `limit` bytes: its beginning and a hash of the whole, at most `limit` bytes, so that
// different texts stay different. Cuts between characters. `limit` must be at least 17. Thread: any.
std::string cut_text(const std::string& text, std::size_t limit);

}  // namespace offramp
