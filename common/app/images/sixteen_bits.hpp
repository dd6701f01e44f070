#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// 16 bits in 8, to the nearest, as libpng scales: 65535 becomes 255.
constexpr std::uint8_t in_8_of_16_bits(std::uint32_t number) {
    return static_cast<std::uint8_t>((number * 255 + 32895) >> 16U);
}

// The warning for a picture of 16 bits a channel whose largest number is `largest`: cameras and microscopes write 10,
// 12 or 14 bits into 16, which come out dark. Empty where it uses more, or is black.
std::string warning_about_16_bits(std::uint16_t largest);
// Logs it, for the first such picture of the process. Thread: any.
void warn_of_16_bits(std::uint16_t largest);

}  // namespace offramp
