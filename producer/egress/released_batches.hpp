#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>

#include "common/base/clock.hpp"

namespace offramp {

// How many of a run's first batches are let go, for a thread that frees what they held. Batches are let go in any
// order: one that is dropped overtakes those that are still copied. Thread: any. Blocks: wait(), wait_unattended().
class ReleasedBatches {
  public:
    // One more was taken; returns how many are let go. No system call, unless wait_unattended() has seen nothing for
    // long.
    std::uint64_t note_taken() {
        std::unique_lock lock(mutex_);
        ++taken_;
        taken_at_ = kSteadyClock.now();
        const std::uint64_t released = first_;
        lock.unlock();
        another_.notify_all();
        return released;
    }
    // `batch`: counted from 0, each once; let go.
    void note(std::uint64_t batch) {
        {
            const std::lock_guard lock(mutex_);
            beyond_.insert(batch);
            while (beyond_.erase(first_) != 0) ++first_;
        }
        more_.notify_all();
    }
    // How many, when they are more than `seen` or the time is over. No timeout: never.
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

    // For a thread beside a loop that asks by itself, with note_taken(): as long as it goes on this thread is not told
    // of anything, and nobody wakes it. How many are let go, once no batch was taken for `quiet`, when they are more
    // than `seen`; or when one that was taken is not let go within `timeout`. Nothing after end().
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
    // Ends wait_unattended(), now and from now on.
    void end() {
        {
            const std::lock_guard lock(mutex_);
            ended_ = true;
        }
        for (auto* const waited : {&more_, &another_, &at_end_}) waited->notify_all();
    }

  private:
    static constexpr std::chrono::seconds kPatience{2};  // then the thread sleeps until it is woken

    // False: the time is over, and none was taken meanwhile.
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
    std::uint64_t first_ = 0;         // all before it are let go
    std::set<std::uint64_t> beyond_;  // and these behind it
    TimePoint taken_at_{};            // the last of them
    bool ended_ = false;
};

}  // namespace offramp
