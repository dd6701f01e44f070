#include "consumer/session/release_log.hpp"

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {

std::uint64_t ReleaseLog::add(const SlabTicket& ticket, ReleaseKind kind, std::string why) {
    records_.push_back({ticket, static_cast<std::uint32_t>(kind), 0});
    if (!why.empty()) reasons_.emplace(last_sequence(), std::move(why));
    return last_sequence();
}

std::uint64_t ReleaseLog::next_to_send(TimePoint now) const {
    return first_ < next_ && now >= repeat_at_ ? first_ : next_;
}

std::optional<ReleaseLog::Batch> ReleaseLog::due(TimePoint now) const {
    const std::uint64_t from = next_to_send(now);
    if (from > last_sequence()) return std::nullopt;
    const std::size_t count = std::min<std::size_t>(last_sequence() - from + 1, kMaxTicketsPerMessage);
    const auto begin = records_.begin() + static_cast<std::ptrdiff_t>(from - first_);
    return Batch{from, {begin, begin + static_cast<std::ptrdiff_t>(count)}};
}

void ReleaseLog::mark_sent(const Batch& batch, TimePoint now) {
    expect(!batch.records.empty() && batch.first_sequence >= first_ &&
               batch.first_sequence + batch.records.size() - 1 <= last_sequence(),
           "the batch is one that due() gave");
    // The clock runs for the oldest record: later ones do not set it back, or a steady stream would never
    // repeat a lost one.
    if (batch.first_sequence == first_) repeat_at_ = now + kRepeatEvery;
    next_ = batch.first_sequence + batch.records.size();
    highest_sent_ = std::max(highest_sent_, next_ - 1);
}

bool ReleaseLog::acknowledge(std::uint64_t through_sequence, TimePoint now) {
    if (through_sequence > highest_sent_) return false;
    if (through_sequence < first_) return true;
    records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(through_sequence - first_ + 1));
    first_ = through_sequence + 1;
    reasons_.erase(reasons_.begin(), reasons_.lower_bound(first_));
    next_ = std::max(next_, first_);
    repeat_at_ = now + kRepeatEvery;
    return true;
}

void ReleaseLog::begin_anew() {
    std::map<std::uint64_t, std::string> reasons;
    for (auto& [sequence, why] : reasons_) reasons.emplace(sequence - first_ + 1, std::move(why));
    reasons_ = std::move(reasons);
    first_ = next_ = 1;
    highest_sent_ = 0;
    repeat_at_ = {};
}

std::optional<TimePoint> ReleaseLog::next_due() const {
    if (records_.empty()) return std::nullopt;
    if (next_ <= last_sequence()) return TimePoint{};
    return repeat_at_;
}

}  // namespace offramp
