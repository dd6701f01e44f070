#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>

namespace offramp {

// How many of a run's first batches are let go, for a thread that frees what they held. Batches are let go in any
// order: one that is dropped overtakes those that are still copied. Thread: any. Blocks: wait().
class ReleasedBatches {
  public:
    // `batch`: counted from 0, each once.
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

  private:
    std::mutex mutex_;
    std::condition_variable more_;
    std::uint64_t first_ = 0;         // all before it are let go
    std::set<std::uint64_t> beyond_;  // and these behind it
};

}  // namespace offramp
