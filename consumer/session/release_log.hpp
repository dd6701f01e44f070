#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "common/wire/messages.hpp"

namespace offramp {

// Numbers a session's releases from 1 and keeps each until it is acknowledged. Go-back-N: what was never sent is due
// immediately; when the oldest unacknowledged one has been sent and not been answered for `repeat_every`, everything
// from it on is due again. A release that is lost, or whose acknowledgement is lost, is therefore taken exactly once
// and in order.
//
// Pure: no sockets; time is handed in. Thread: one. Blocks: never.
class ReleaseLog {
  public:
    static constexpr std::chrono::milliseconds kRepeatEvery{100};

    // Records that belong into one message.
    struct Batch {
        std::uint64_t first_sequence = 0;
        std::vector<ReleaseRecord> records;
    };

    // Returns the release's number. `why`: of one that failed, for people.
    std::uint64_t add(const SlabTicket& ticket, ReleaseKind kind, std::string why = {});

    // The due releases, at most kMaxTicketsPerMessage records; nothing if none is due.
    std::optional<Batch> due(TimePoint now) const;
    // A batch from due() was handed to the channel.
    void mark_sent(const Batch& batch, TimePoint now);

    // Forgets all releases up to this number. False, and nothing changed, for a number that was never given.
    bool acknowledge(std::uint64_t through_sequence, TimePoint now);

    // Numbers what is unacknowledged from 1 again, as never sent: a new producer has seen none of it.
    void begin_anew();
    // Why those failed that did, by number.
    const std::map<std::uint64_t, std::string>& reasons() const { return reasons_; }
    // The unacknowledged releases, oldest first.
    const std::deque<ReleaseRecord>& records() const { return records_; }

    // When due() will give something without a further add(); nothing while nothing is unacknowledged.
    std::optional<TimePoint> next_due() const;

    std::size_t unacknowledged() const { return records_.size(); }
    // Whether some release was never handed to the channel.
    bool has_unsent() const { return highest_sent_ < last_sequence(); }
    std::uint64_t unsent() const { return last_sequence() - highest_sent_; }
    std::uint64_t last_sequence() const { return first_ + records_.size() - 1; }

  private:
    std::uint64_t next_to_send(TimePoint now) const;

    std::deque<ReleaseRecord> records_;             // numbers first_, first_ + 1, ...
    std::map<std::uint64_t, std::string> reasons_;  // of some of them
    std::uint64_t first_ = 1;
    std::uint64_t next_ = 1;  // sent up to here since the last going back
    std::uint64_t highest_sent_ = 0;
    TimePoint repeat_at_{};  // means something while first_ < next_
};

}  // namespace offramp
