#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/blocked_time.hpp"
#include "common/base/clock.hpp"
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

}  // namespace offramp
