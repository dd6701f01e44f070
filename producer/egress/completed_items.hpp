#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "common/base/item_ranges.hpp"

namespace offramp {

// Items that consumers are done with, or that are given up, until the program takes them to note it. What is not taken
// is held as the ranges that it consists of. Thread: any. Blocks: take().
class CompletedItems {
  public:
    void note(std::span<const ItemRange> items) {
        {
            const std::lock_guard lock(mutex_);
            for (const ItemRange& range : items) items_.add(range);
        }
        more_.notify_all();
    }
    // At most so many ranges, in order; none when there were none within the time. No timeout: never.
    std::vector<ItemRange> take(std::size_t most, std::optional<std::chrono::nanoseconds> timeout) {
        std::unique_lock lock(mutex_);
        const auto ready = [&] { return !items_.empty(); };
        if (!timeout)
            more_.wait(lock, ready);
        else if (*timeout > std::chrono::nanoseconds{})
            more_.wait_for(lock, *timeout, ready);
        return items_.take_first(most);
    }

  private:
    std::mutex mutex_;
    std::condition_variable more_;
    ItemRanges items_;
};

}  // namespace offramp
