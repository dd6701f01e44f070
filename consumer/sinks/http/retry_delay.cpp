#include "consumer/sinks/http/retry_delay.hpp"

#include <algorithm>

namespace offramp {
namespace {

constexpr std::chrono::milliseconds kFirst{100};
constexpr std::chrono::milliseconds kLongest{5000};
constexpr unsigned kDoublings = 6;  // from the first to past the longest

}  // namespace

std::chrono::milliseconds RetryDelay::next() {
    const auto whole = std::min(kFirst * (1 << tries_), kLongest);
    tries_ = std::min(tries_ + 1, kDoublings);
    return std::chrono::milliseconds(
        std::uniform_int_distribution<std::int64_t>(whole.count() / 2, whole.count())(random_));
}

}  // namespace offramp
