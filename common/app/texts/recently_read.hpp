#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace offramp {

// A cache of recently read values, by number. Holds as many values as fit into kKeptBytes, and at least two: threads
// that load batches read on both sides of a boundary, in any order. Thread: one at a time. Blocks: in `read`.
template <class Value>
class RecentlyRead {
  public:
    static constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;
    static constexpr std::size_t kLeastKept = 2;

    struct Read {
        Value value;
        std::uint64_t bytes = 0;
    };

    // Calls `read(number)`, which returns a Read, if the value is not cached. If it throws, the cache is unchanged. The
    // reference is valid until the next call.
    template <class ReadOne>
    const Value& of(std::uint64_t number, const ReadOne& read) {
        const auto found = std::ranges::find(kept_, number, &Kept::number);
        if (found != kept_.end()) {
            std::rotate(found, found + 1, kept_.end());
            return kept_.back().read.value;
        }
        kept_.push_back({number, read(number)});
        bytes_ += kept_.back().read.bytes;
        while (kept_.size() > kLeastKept && bytes_ > kKeptBytes) {
            bytes_ -= kept_.front().read.bytes;
            kept_.pop_front();
        }
        return kept_.back().read.value;
    }

  private:
    struct Kept {
        std::uint64_t number = 0;
        Read read;
    };

    std::deque<Kept> kept_;  // the most recent last
    std::uint64_t bytes_ = 0;
};

}  // namespace offramp
