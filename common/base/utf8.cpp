#include "common/base/utf8.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace offramp {
namespace {

// Accepted lead bytes, with the range of the second byte; further bytes are 80..BF (RFC 3629, section 4).
struct Form {
    unsigned char lead_first, lead_last, second_first, second_last;
    std::size_t bytes;
};
constexpr std::array<Form, 9> kForms{{{0x00, 0x7f, 0x00, 0x00, 1},
                                      {0xc2, 0xdf, 0x80, 0xbf, 2},
                                      {0xe0, 0xe0, 0xa0, 0xbf, 3},
                                      {0xe1, 0xec, 0x80, 0xbf, 3},
                                      {0xed, 0xed, 0x80, 0x9f, 3},
                                      {0xee, 0xef, 0x80, 0xbf, 3},
                                      {0xf0, 0xf0, 0x90, 0xbf, 4},
                                      {0xf1, 0xf3, 0x80, 0xbf, 4},
                                      {0xf4, 0xf4, 0x80, 0x8f, 4}}};

// True for a byte in the middle of a character.
bool is_continued(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

bool within(char byte, unsigned char first, unsigned char last) {
    const auto value = static_cast<unsigned char>(byte);
    return value >= first && value <= last;
}

}  // namespace

std::size_t utf8_character_bytes(std::string_view text) noexcept {
    if (text.empty()) return 0;
    for (const Form& form : kForms) {
        if (!within(text[0], form.lead_first, form.lead_last)) continue;
        if (text.size() < form.bytes) return 0;
        for (std::size_t i = 1; i < form.bytes; ++i) {
            const bool second = i == 1;
            if (!within(text[i], second ? form.second_first : 0x80, second ? form.second_last : 0xbf)) return 0;
        }
        return form.bytes;
    }
    return 0;
}

bool is_printable(std::string_view character) noexcept {
    const auto byte = [character](std::size_t at) { return static_cast<unsigned char>(character[at]); };
    if (character.size() == 1) return byte(0) >= 0x20 && byte(0) != 0x7f;
    if (character.size() == 2) return !(byte(0) == 0xc2 && byte(1) < 0xa0) && character != "\u061c";
    if (character.size() != 3 || byte(0) != 0xe2) return true;
    // U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069
    if (byte(1) == 0x80) return !(byte(2) == 0x8e || byte(2) == 0x8f || (byte(2) >= 0xa8 && byte(2) <= 0xae));
    return !(byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
}

bool is_utf8(std::string_view text) noexcept {
    // Most texts are ASCII: avoid a branch per byte.
    unsigned char all = 0;
    for (const char byte : text) all |= static_cast<unsigned char>(byte);
    if (all < 0x80) return true;
    while (!text.empty()) {
        const std::size_t bytes = utf8_character_bytes(text);
        if (bytes == 0) return false;
        text.remove_prefix(bytes);
    }
    return true;
}

std::string printable(std::string_view text) {
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t bytes = utf8_character_bytes(text.substr(at));
        if (bytes == 0 || !is_printable(text.substr(at, bytes))) {
            for (const char c : text.substr(at, std::max<std::size_t>(bytes, 1))) {
                std::array<char, 5> escape{};
                std::snprintf(escape.data(), escape.size(), "\\x%02x", static_cast<unsigned char>(c));
                shown += escape.data();
            }
        } else {
            shown += text.substr(at, bytes);
        }
        at += std::max<std::size_t>(bytes, 1);
    }
    return shown;
}

std::string printable_lines(std::string_view text) {
    std::string shown;
    while (true) {
        const std::size_t line = text.find('\n');
        shown += printable(text.substr(0, line));
        if (line == std::string_view::npos) return shown;
        shown += '\n';
        text.remove_prefix(line + 1);
    }
}

std::string_view utf8_prefix(std::string_view text, std::size_t most) noexcept {
    if (text.size() <= most) return text;
    constexpr std::size_t kLongestCharacter = 4;
    std::size_t bytes = most;
    while (bytes > 0 && most - bytes < kLongestCharacter && is_continued(text[bytes])) --bytes;
    return text.substr(0, is_continued(text[bytes]) ? most : bytes);
}

std::size_t utf8_characters(std::string_view text) noexcept {
    return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, is_continued));
}

bool is_utf16(std::string_view front) noexcept {
    if (front.starts_with("\xff\xfe") || front.starts_with("\xfe\xff")) return true;
    if (front.size() < 4) return false;
    const auto is_zero = [&](std::size_t at) { return front[at] == '\0'; };
    return is_zero(0) == is_zero(2) && is_zero(1) == is_zero(3) && is_zero(0) != is_zero(1);
}

std::string cut_text(const std::string& text, std::size_t limit) {
    if (text.size() <= limit) return text;
    std::array<char, 18> hash{};
    std::snprintf(hash.data(), hash.size(), "-%016llx",
                  static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
    const std::size_t room = limit - (hash.size() - 1);
    std::size_t kept = 0;
    while (true) {  // whole characters only
        const std::size_t bytes = std::max<std::size_t>(1, utf8_character_bytes(std::string_view(text).substr(kept)));
        if (kept + bytes > room) break;
        kept += bytes;
    }
    return text.substr(0, kept) + hash.data();
}

}  // namespace offramp
