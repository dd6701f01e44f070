#include "common/numerics/foreground_score.hpp"

#include <cmath>
#include <cstdio>

namespace offramp {

ForegroundScale ForegroundScale::of(std::string_view scores, double threshold) {
    if (scores != "logit") return {.logit = false, .least = static_cast<float>(threshold)};
    // infinite for 0 and 1
    return {.logit = true, .least = static_cast<float>(std::log(threshold / (1 - threshold)))};
}

std::string ForegroundScale::objection_to(float score) {
    if (std::isnan(score)) return "NaN: in 16 bits, numbers may have become too large";
    char text[96];
    std::snprintf(text, sizeof text, "%g as the foreground's probability, which must be between 0 and 1",
                  static_cast<double>(score));
    return text;
}

}  // namespace offramp
