#include "common/app/images/sixteen_bits.hpp"

#include <atomic>
#include <bit>

#include "common/base/log.hpp"

namespace offramp {

std::string warning_about_16_bits(std::uint16_t largest) {
    constexpr int kMostOfDark = 14;
    const int bits = std::bit_width(largest);
    if (bits == 0 || bits > kMostOfDark) return {};
    return "a picture with 16 bits per channel uses only " + std::to_string(bits) + " of them (its largest value is " +
           std::to_string(largest) +
           "): 65535 becomes 255, so the picture comes out dark. Stretch its values first, for example with "
           "ImageMagick's `-evaluate multiply " +
           std::to_string(1U << static_cast<unsigned>(16 - bits)) + "`. Further pictures like it are not reported";
}

void warn_of_16_bits(std::uint16_t largest) {
    static std::atomic<bool> was_reported = false;
    if (was_reported) return;
    if (const std::string warning = warning_about_16_bits(largest); !warning.empty() && !was_reported.exchange(true))
        spdlog::warn("{}", warning);
}

}  // namespace offramp
