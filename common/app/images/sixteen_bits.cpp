#include "common/app/images/sixteen_bits.hpp"

#include <atomic>
#include <bit>

#include "common/base/log.hpp"

namespace offramp {

std::string warning_about_16_bits(std::uint16_t largest) {
    constexpr int kMostOfDark = 14;
    const int bits = std::bit_width(largest);
    if (bits == 0 || bits > kMostOfDark) return {};
    return "a picture of 16 bits a channel uses " + std::to_string(bits) + " of them, its largest number is " +
           std::to_string(largest) +
           ": 16 bits are scaled by 65535 to 255, so it comes out dark. Stretch it before, for example with "
           "ImageMagick's `-evaluate multiply " +
           std::to_string(1U << static_cast<unsigned>(16 - bits)) + "`. Other such pictures are not named";
}

void warn_of_16_bits(std::uint16_t largest) {
    static std::atomic<bool> was_reported = false;
    if (was_reported) return;
    if (const std::string warning = warning_about_16_bits(largest); !warning.empty() && !was_reported.exchange(true))
        spdlog::warn("{}", warning);
}

}  // namespace offramp
