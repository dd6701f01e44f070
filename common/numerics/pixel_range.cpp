#include "common/numerics/pixel_range.hpp"

#include <cmath>
#include <cstdio>

namespace offramp {

PixelRange PixelRange::named(std::string_view text) {
    if (text == "-1:1") return {.black = -1, .white = 1};
    if (text == "0:255") return {.black = 0, .white = 255};
    return {};
}

std::string PixelRange::objection_to(float number) const {
    if (std::isnan(number)) return "NaN";
    char text[160];
    std::snprintf(text, sizeof text, "%g, far outside of black and white, which are %g and %g",
                  static_cast<double>(number), static_cast<double>(black), static_cast<double>(white));
    return text;
}

}  // namespace offramp
