#include "consumer/sinks/sqlite/lock_wait.hpp"

#include <algorithm>

namespace offramp {
namespace {

constexpr int kQuickLooks = 10;
constexpr std::chrono::microseconds kQuick{100};
constexpr std::chrono::microseconds kUsual{1000};

}  // namespace

void LockWait::begin() {
    lasted_ = {};
    last_look_.reset();
    looks_ = 0;
}

std::optional<std::chrono::microseconds> LockWait::next() {
    const TimePoint now = clock_->now();
    if (last_look_) lasted_ += std::min<std::chrono::nanoseconds>(now - *last_look_, kLongestLook);
    last_look_ = now;
    if (lasted_ >= patience_) return std::nullopt;
    return looks_++ < kQuickLooks ? kQuick : kUsual;
}

}  // namespace offramp
