#pragma once

#include <cstddef>
#include <string_view>

namespace offramp {

// Bytes of the well-formed UTF-8 character (RFC 3629: no overlong form, no surrogate) that `text` begins
// with; 0 for none.
std::size_t utf8_character_bytes(std::string_view text) noexcept;

// True when the whole text is well-formed UTF-8.
bool is_utf8(std::string_view text) noexcept;

}  // namespace offramp
