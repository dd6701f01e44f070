#pragma once

#include <string>
#include <string_view>

// The meaning of the single channel of a network [N, 1, H, W]: the probability that a pixel is foreground, or its
// logit. The device, the CPU backend and the consumers use it, so that all select the same pixels.
namespace offramp {

struct ForegroundScale {
    bool logit = false;  // scores are log(p / (1 - p)) instead of the probability p
    float least = 0.5F;  // the minimum score of a foreground pixel

    // `scores`: "logit", or a probability for any other word, including "auto". `threshold`: the minimum probability of
    // a foreground pixel.
    static ForegroundScale of(std::string_view scores, double threshold);

    // Rounding and resizing in a network's last steps can exceed the range of probabilities a little.
    static constexpr float kSlack = 0.01F;

    // True if the score is possible for such a network. False for a NaN.
    constexpr bool allows(float score) const {
        return logit ? score == score : score >= -kSlack && score <= 1.0F + kSlack;
    }

    // The problem with an invalid score, to follow "holds".
    static std::string objection_to(float score);
};

}  // namespace offramp
