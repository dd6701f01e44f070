#pragma once

#include <string>
#include <string_view>

// The meaning of the one channel of a network [N, 1, H, W]: how sure it is that a pixel is foreground, as a probability
// or a logit. Used by the device, the CPU backend and the consumers, so that all find the same pixels.
namespace offramp {

struct ForegroundScale {
    bool logit = false;  // scores are log(p / (1 - p)) of the probability p, not p itself
    float least = 0.5F;  // the score from which a pixel is foreground

    // `scores`: "logit"; any other word, "auto" too, is a probability; `threshold`: the probability from which a pixel
    // is foreground.
    static ForegroundScale of(std::string_view scores, double threshold);

    // Rounding in a network's last steps, and resizing there, leave the range of probabilities a little.
    static constexpr float kSlack = 0.01F;

    // Whether a network that gives such scores can have given this one. Never a NaN.
    constexpr bool allows(float score) const {
        return logit ? score == score : score >= -kSlack && score <= 1.0F + kSlack;
    }

    // The problem with an invalid score, to follow "holds".
    static std::string objection_to(float score);
};

}  // namespace offramp
