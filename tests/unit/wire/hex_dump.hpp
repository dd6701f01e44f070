#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace offramp {

// "0000: 4f 46 ..." with 16 bytes a line, without lines of only zeros: the bytes of a layout in a form for
// diffs.
inline std::string hex_dump(std::span<const std::byte> bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const auto digit = [](std::size_t value) { return kDigits[value & 15]; };
    std::string text;
    for (std::size_t start = 0; start < bytes.size(); start += 16) {
        std::string line;
        bool zeros = true;
        for (std::size_t i = start; i < bytes.size() && i < start + 16; ++i) {
            const auto value = std::to_integer<std::size_t>(bytes[i]);
            line += {' ', digit(value >> 4), digit(value)};
            zeros = zeros && value == 0;
        }
        if (!zeros)
            text +=
                std::string{digit(start >> 12), digit(start >> 8), digit(start >> 4), digit(start), ':'} + line + "\n";
    }
    return text;
}

template <class Struct>
std::string hex_dump_of(const Struct& value) {
    return hex_dump(std::as_bytes(std::span(&value, 1)));
}

}  // namespace offramp
