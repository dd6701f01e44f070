#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/durations.hpp"
#include "common/base/error.hpp"

namespace offramp {

// Joins two stages. A full queue blocks the one that pushes: back-pressure, and the time spent so is counted
// on either side. Borrows the clock. Thread: any number on either side. Blocks: push() while full, pop()
// while empty. `Filled`: what pop() waits on; with a NappingCondition push() wakes it when it is full, or when pop()
// has waited for long.
template <typename T, class Filled = std::condition_variable>
class BoundedQueue {
  public:
    explicit BoundedQueue(std::size_t capacity, const Clock& clock = kSteadyClock)
        : clock_(clock), capacity_(capacity) {
        expect(capacity > 0, "a queue has room for one");
    }
    BoundedQueue(const BoundedQueue&) = delete;
    BoundedQueue& operator=(const BoundedQueue&) = delete;

    // False: the queue is closed, and the value is dropped.
    bool push(T value) {
        std::unique_lock lock(mutex_);
        if (!closed_or_room()) has_value_.notify_all();
        wait_booked(has_room_, lock, push_blocked_, clock_, [this] { return closed_or_room(); });
        if (closed_) return false;
        values_.push_back(std::move(value));
        lock.unlock();
        has_value_.notify_one();
        return true;
    }

    // True when a push() would not block, while no other thread pushes; false when `until` has passed before.
    bool wait_for_room(TimePoint until) {
        std::unique_lock lock(mutex_);
        if (!closed_or_room()) has_value_.notify_all();
        return wait_booked_until(has_room_, lock, until, push_blocked_, clock_, [this] { return closed_or_room(); });
    }

    // In the order of push(). Nothing: the queue is closed, and everything in it was taken.
    std::optional<T> pop() {
        std::unique_lock lock(mutex_);
        wait_booked(has_value_, lock, pop_blocked_, clock_, [this] { return closed_or_value(); });
        return take(lock);
    }

    // The same, waiting until `until` at most; nothing also when it has passed.
    std::optional<T> pop_until(TimePoint until) {
        std::unique_lock lock(mutex_);
        wait_booked_until(has_value_, lock, until, pop_blocked_, clock_, [this] { return closed_or_value(); });
        return take(lock);
    }

    // The same without waiting; nothing also when the queue is merely empty.
    std::optional<T> try_pop() {
        std::unique_lock lock(mutex_);
        return take(lock);
    }

    // Ends pushing; what is in the queue can still be taken. Wakes everyone. May be called again.
    void close() {
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
        }
        has_room_.notify_all();
        has_value_.notify_all();
    }

    // Closes and drops what is in the queue.
    void abandon() {
        close();
        std::deque<T> dropped;  // destroyed outside the lock: a value's destructor may do anything
        const std::lock_guard lock(mutex_);
        dropped.swap(values_);
    }

    std::size_t capacity() const { return capacity_; }
    std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return values_.size();
    }
    // Closed, and everything in it was taken: nothing will come any more.
    bool drained() const {
        const std::lock_guard lock(mutex_);
        return closed_ && values_.empty();
    }
    bool closed() const {
        const std::lock_guard lock(mutex_);
        return closed_;
    }
    double push_blocked_seconds() const {
        const std::lock_guard lock(mutex_);
        return push_blocked_.seconds(clock_.now());
    }
    double pop_blocked_seconds() const {
        const std::lock_guard lock(mutex_);
        return pop_blocked_.seconds(clock_.now());
    }
    // Threads that are blocked at this moment.
    std::int64_t waiting_to_push() const {
        const std::lock_guard lock(mutex_);
        return push_blocked_.waiting();
    }
    std::int64_t waiting_to_pop() const {
        const std::lock_guard lock(mutex_);
        return pop_blocked_.waiting();
    }

  private:
    bool closed_or_room() const { return closed_ || values_.size() < capacity_; }
    bool closed_or_value() const { return closed_ || !values_.empty(); }
    std::optional<T> take(std::unique_lock<std::mutex>& lock) {
        if (values_.empty()) return std::nullopt;
        std::optional<T> value(std::move(values_.front()));
        values_.pop_front();
        lock.unlock();
        has_room_.notify_one();
        return value;
    }

    const Clock& clock_;
    const std::size_t capacity_;
    mutable std::mutex mutex_;
    std::condition_variable has_room_;
    Filled has_value_;
    std::deque<T> values_;
    bool closed_ = false;
    BlockedTime push_blocked_, pop_blocked_;
};

// How long a thread naps that waits on a NappingCondition. A nap costs it 10 to 40 µs on a virtual machine.
struct Naps {
    static constexpr std::chrono::nanoseconds kShortest = std::chrono::microseconds(50);
    static constexpr std::chrono::nanoseconds kUsual = std::chrono::microseconds(400);
    static constexpr int kShare = 128;  // of its whole wait, where that is more
    static constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(2);
    // Before anything is expected.
    static constexpr std::chrono::nanoseconds kLongestBefore = std::chrono::milliseconds(5);
    static constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(2);  // then it sleeps
};

// A condition variable for one thread that waits, and others that must not block when they notify it. It naps, and
// looks by itself: to wake a thread is a system call, which on a virtual machine whose core is halted takes the caller
// 100 µs. It expects something when it has waited nearly as long as it had to lately, and looks often from then on, so
// that a steady loop costs it a few naps a step. Only a thread without news for long sleeps, and is woken then; it
// costs nothing.
//
// Thread: any; what is waited for is guarded by the mutex. Blocks: the waits. A notification may be seen later
// by a nap.
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
    // Makes a system call only when a thread sleeps.
    void notify_one() {
        if (notified_ns_.load(std::memory_order_relaxed) == 0) notified_ns_.store(now_ns(), std::memory_order_relaxed);
        asleep_.notify_one();
    }
    // Ends naps too.
    void notify_all() {
        napping_.notify_all();
        asleep_.notify_all();
    }

  private:
    // False: it is not ready, and it is time to sleep, or `until` has passed.
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
    // Until it was notified first, not until it saw that: else a nap would make the next one longer.
    void note_waited(TimePoint began) {
        const std::uint64_t notified = notified_ns_.load(std::memory_order_relaxed);
        const std::uint64_t from = to_ns(began), to = notified == 0 ? now_ns() : std::max(notified, from);
        waits_[next_++ % waits_.size()] = std::chrono::nanoseconds(to - from);
    }

    std::condition_variable napping_, asleep_;
    std::atomic<std::uint64_t> notified_ns_{0};        // when notify_one() was first called in this wait
    std::array<std::chrono::nanoseconds, 4> waits_{};  // the last ones
    std::size_t next_ = 0;
};
using NappingCondition = BasicNappingCondition<>;

}  // namespace offramp
