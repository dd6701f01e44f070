#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "common/base/clock.hpp"

namespace offramp {

// Durations of a thread's naps on a NappingCondition. A nap costs the thread 10 to 40 µs on a virtual machine.
struct Naps {
    static constexpr std::chrono::nanoseconds kShortest = std::chrono::microseconds(50);
    static constexpr std::chrono::nanoseconds kUsual = std::chrono::microseconds(400);
    static constexpr int kShare = 128;  // longest nap as a fraction of the wait so far, if that exceeds kUsual
    static constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(2);
    // The longest nap before a notification is expected.
    static constexpr std::chrono::nanoseconds kLongestBefore = std::chrono::milliseconds(5);
    static constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(2);  // after that it sleeps
};

// A condition variable for one waiting thread and notifiers that must not block. Waking a thread is a system call,
// which takes the caller 100 µs on a virtual machine whose core is halted. So the waiting thread naps and checks the
// condition itself. It expects a notification after nearly as long as its recent waits, and checks often from then on:
// a steady loop costs it a few naps per step. Only a thread that has waited for long sleeps, at no cost, and must be
// woken.
//
// Thread: any; the mutex guards the condition. Blocks: the waits. A notification may be seen one nap late.
template <class Lengths = Naps>
class BasicNappingCondition {
  public:
    template <class Ready>
    void wait(std::unique_lock<std::mutex>& lock, Ready ready) {
        const TimePoint began = begin();
        if (!nap_until(lock, began, TimePoint::max(), ready)) asleep_.wait(lock, ready);
        note_waited(began);
    }
    template <class Ready>
    bool wait_until(std::unique_lock<std::mutex>& lock, TimePoint until, Ready ready) {
        const TimePoint began = begin();
        const bool notified = nap_until(lock, began, until, ready) || asleep_.wait_until(lock, until, ready);
        if (notified) note_waited(began);
        return notified;
    }
    // Makes a system call only if the thread sleeps.
    void notify_one() {
        if (notified_ns_.load(std::memory_order_relaxed) == 0) notified_ns_.store(now_ns(), std::memory_order_relaxed);
        asleep_.notify_one();
    }
    // Also ends naps.
    void notify_all() {
        napping_.notify_all();
        asleep_.notify_all();
    }

  private:
    // Returns false if `ready` does not hold when it is time to sleep, or `until` has passed.
    template <class Ready>
    bool nap_until(std::unique_lock<std::mutex>& lock, TimePoint began, TimePoint until, Ready ready) {
        const TimePoint end = std::min(until, began + Lengths::kPatience);
        for (TimePoint now = began; !ready(); now = kSteadyClock.now()) {
            if (now >= end) return false;
            napping_.wait_until(lock, std::min(end, now + nap_after(now - began)));
        }
        return true;
    }
    std::chrono::nanoseconds nap_after(std::chrono::nanoseconds waited) const {
        const auto expected = *std::ranges::min_element(waits_) * 15 / 16;
        if (waited < expected) return std::min(expected - waited, Lengths::kLongestBefore);
        const auto most = std::clamp(waited / Lengths::kShare, Lengths::kUsual, Lengths::kLongest);
        return std::clamp(waited - expected, Lengths::kShortest, most);
    }
    TimePoint begin() {
        notified_ns_.store(0, std::memory_order_relaxed);
        return kSteadyClock.now();
    }
    // Counts until the first notification, not until the thread saw it. Otherwise a nap would make the next one longer.
    void note_waited(TimePoint began) {
        const std::uint64_t notified = notified_ns_.load(std::memory_order_relaxed);
        const std::uint64_t from = to_ns(began), to = notified == 0 ? now_ns() : std::max(notified, from);
        waits_[next_++ % waits_.size()] = std::chrono::nanoseconds(to - from);
    }

    std::condition_variable napping_, asleep_;
    std::atomic<std::uint64_t> notified_ns_{0};        // when notify_one() was first called in this wait
    std::array<std::chrono::nanoseconds, 4> waits_{};  // the most recent waits
    std::size_t next_ = 0;
};
using NappingCondition = BasicNappingCondition<>;

}  // namespace offramp
