#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace offramp {

// A histogram of durations with fixed bounds: 1, 2.5 and 5 times each power of ten from 100 µs to 100 s. A duration
// belongs to the first bound that it does not exceed, as in Prometheus (`le`). Durations beyond all bounds belong to
// the last bucket. A value of 170 bytes. Thread: its owner's. Errors: none.
class DurationHistogram {
  public:
    static constexpr std::array<std::uint64_t, 19> kBoundsNs{
        100'000,       250'000,        500'000,        1'000'000,      2'500'000,      5'000'000,     10'000'000,
        25'000'000,    50'000'000,     100'000'000,    250'000'000,    500'000'000,    1'000'000'000, 2'500'000'000,
        5'000'000'000, 10'000'000'000, 25'000'000'000, 50'000'000'000, 100'000'000'000};

    // `times`: the number of events with this duration.
    void add(std::uint64_t duration_ns, std::uint64_t times = 1) {
        const auto bound = std::ranges::lower_bound(kBoundsNs, duration_ns);
        counts_[static_cast<std::size_t>(bound - kBoundsNs.begin())] += times;
        sum_ns_ += duration_ns * times;
    }
    DurationHistogram& operator+=(const DurationHistogram& more) {
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += more.counts_[i];
        sum_ns_ += more.sum_ns_;
        return *this;
    }
    // One count per bound, and one beyond all bounds; not cumulative.
    const std::array<std::uint64_t, kBoundsNs.size() + 1>& counts() const { return counts_; }
    double seconds() const { return static_cast<double>(sum_ns_) / 1e9; }

  private:
    std::array<std::uint64_t, kBoundsNs.size() + 1> counts_{};
    std::uint64_t sum_ns_ = 0;
};

}  // namespace offramp
