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

// Completed or failed items, kept as ranges until the program takes them. Thread: any. Blocks: take().
class CompletedItems {
  public:
    void note(std::span<const ItemRange> items) {
        {
            const std::lock_guard lock(mutex_);
            for (const ItemRange& range : items) items_.add(range);
        }
        more_.notify_all();
    }
    // Returns at most `most` ranges, in order; none if none came in time. No timeout: waits without limit.
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
