#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/base/clock.hpp"
#include "common/base/items.hpp"

namespace offramp {

// Counts how many of a run's first batches are released, for a thread that frees what they held. Batches are released
// in any order: a dropped batch overtakes those that are still copied. Thread: any. Blocks: wait(), wait_unattended().
class ReleasedBatches {
  public:
    // One more batch was taken; returns how many are released. Makes no system call, unless wait_unattended() has seen
    // no batch for long.
    std::uint64_t note_taken() {
        std::unique_lock lock(mutex_);
        ++taken_;
        taken_at_ = kSteadyClock.now();
        const std::uint64_t released = first_;
        lock.unlock();
        another_.notify_all();
        return released;
    }
    // Marks a batch as released. `batch`: counted from 0, each once.
    void note(std::uint64_t batch) {
        {
            const std::lock_guard lock(mutex_);
            beyond_.insert(batch);
            while (beyond_.erase(first_) != 0) ++first_;
        }
        more_.notify_all();
    }
    // How many are released, once more than `seen` or after the timeout. No timeout: no limit.
    std::uint64_t wait(std::uint64_t seen, std::optional<std::chrono::nanoseconds> timeout) {
        std::unique_lock lock(mutex_);
        const auto ready = [&] { return first_ > seen; };
        if (timeout && *timeout <= std::chrono::nanoseconds{}) return first_;
        if (timeout)
            more_.wait_for(lock, *timeout, ready);
        else
            more_.wait(lock, ready);
        return first_;
    }

    // For a thread beside a loop that polls with note_taken(). While the loop is active, this thread stays asleep. It
    // returns how many batches are released in two cases: none was taken for `quiet` and more than `seen` are released;
    // or a batch that was taken is not released within `timeout`. Nothing after end().
    std::optional<std::uint64_t> wait_unattended(std::uint64_t seen, std::chrono::nanoseconds quiet,
                                                 std::optional<std::chrono::nanoseconds> timeout) {
        std::unique_lock lock(mutex_);
        while (!ended_) {
            const TimePoint now = kSteadyClock.now();
            if (now < taken_at_ + quiet) {
                at_end_.wait_until(lock, taken_at_ + quiet);
            } else if (first_ > seen) {
                return first_;
            } else if (first_ < taken_) {
                if (!wait_for_more(lock, seen, timeout)) return first_;
            } else if (now < taken_at_ + kPatience) {
                at_end_.wait_for(lock, quiet);
            } else {
                another_.wait(lock, [&] { return ended_ || first_ > seen || first_ < taken_; });
            }
        }
        return std::nullopt;
    }
    // Ends wait_unattended(), now and in future.
    void end() {
        {
            const std::lock_guard lock(mutex_);
            ended_ = true;
        }
        for (auto* const waited : {&more_, &another_, &at_end_}) waited->notify_all();
    }

  private:
    static constexpr std::chrono::seconds kPatience{2};  // after this, the thread sleeps until it is woken

    // False: the time ran out, and no batch was taken meanwhile.
    bool wait_for_more(std::unique_lock<std::mutex>& lock, std::uint64_t seen,
                       std::optional<std::chrono::nanoseconds> timeout) {
        const auto changed = [&, before = taken_] { return ended_ || first_ > seen || taken_ != before; };
        if (timeout) return more_.wait_for(lock, *timeout, changed);
        more_.wait(lock, changed);
        return true;
    }

    std::mutex mutex_;
    std::condition_variable more_, another_, at_end_;
    std::uint64_t taken_ = 0;
    std::uint64_t first_ = 0;         // all batches before it are released
    std::set<std::uint64_t> beyond_;  // batches after it that are released
    TimePoint taken_at_{};            // when the last batch was taken
    bool ended_ = false;
};

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
