#include "common/slab/foreground_score.hpp"

#include <cmath>
#include <cstdio>
#include <string>

#include "common/base/error.hpp"

namespace offramp {

ForegroundScale ForegroundScale::of(std::string_view scores, double threshold) {
    if (scores != "logit") return {.logit = false, .least = static_cast<float>(threshold)};
    return {.logit = true, .least = static_cast<float>(std::log(threshold / (1 - threshold)))};   // of 0 and 1 the infinities
}

void ForegroundScale::refuse(float score, std::string_view output, std::string_view item) const {
    char value[32];
    std::snprintf(value, sizeof value, "%g", static_cast<double>(score));
    const bool number = !std::isnan(score);
    const std::string found = "output " + std::string(output) + " of the item '" + std::string(item) + "' holds " +
                              (number ? value : "NaN, which is not a number");
    if (!number)
        throw ConfigError(found + ": its one channel says nothing about the foreground there",
                          "Leave the item out of the input, or mend the network (with 16 bits, numbers may have become too large)");
    throw ConfigError(found + ": read as the foreground's probability, which lies between 0 and 1, it means nothing",
                      "If the network gives logits, give --scores logit (or write scores = \"logit\" into the notes beside the model)");
}

}  // namespace offramp
