#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace offramp {

// The last read values, by number: as much as fits kKeptBytes, and at least two, the one that ends and the one that
// begins. Threads that load batches ask for neighbours, in any order. Thread: one at a time. Blocks: in `read`.
template <class Value>
class RecentlyRead {
  public:
    static constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;
    static constexpr std::size_t kLeastKept = 2;

    struct Read {
        Value value;
        std::uint64_t bytes = 0;
    };

    // `read(number)` gives a Read of what is not kept; where it throws, all stays as it was. Valid until the next call.
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

    std::deque<Kept> kept_;  // the latest last
    std::uint64_t bytes_ = 0;
};

}  // namespace offramp
