#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/blocked_time.hpp"
#include "common/base/clock.hpp"
#include "common/base/error.hpp"

namespace offramp {

// Connects two stages. A full queue blocks push() (back-pressure). A queue is full when it has as many values as its
// capacity, or values of its weight limit. The queue counts the blocked time of pop().
// Borrows the clock. Thread: any number on either side. Blocks: push() while full, pop() while empty. `Filled`: the
// condition that pop() waits on. With a NappingCondition (napping_condition.hpp), push() wakes pop() if the queue is
// full, or if pop() has waited for long.
template <typename T, class Filled = std::condition_variable>
class BoundedQueue {
  public:
    using Weigh = std::function<std::size_t(const T&)>;

    explicit BoundedQueue(std::size_t capacity, const Clock& clock = kSteadyClock)
        : BoundedQueue(capacity, 1, nullptr, clock) {}
    // `weigh`: of a value, the same each time; null: 0.
    BoundedQueue(std::size_t capacity, std::size_t weight_limit, Weigh weigh, const Clock& clock = kSteadyClock)
        : clock_(clock), capacity_(capacity), weight_limit_(weight_limit), weigh_(std::move(weigh)) {
        expect(capacity > 0 && weight_limit > 0, "a queue has room for one");
    }
    BoundedQueue(const BoundedQueue&) = delete;
    BoundedQueue& operator=(const BoundedQueue&) = delete;

    // Returns false, and leaves the value as it is, if the queue is closed.
    bool push(T&& value) {
        std::unique_lock lock(mutex_);
        if (!closed_or_room()) has_value_.notify_all();
        wait_booked(has_room_, lock, push_blocked_, clock_, [this] { return closed_or_room(); });
        if (closed_) return false;
        weight_ += weight_of(value);
        values_.push_back(std::move(value));
        lock.unlock();
        has_value_.notify_one();
        return true;
    }

    // Returns true when push() would not block (if no other thread pushes), and false at `until`.
    bool wait_for_room(TimePoint until) {
        std::unique_lock lock(mutex_);
        if (!closed_or_room()) has_value_.notify_all();
        return wait_booked_until(has_room_, lock, until, push_blocked_, clock_, [this] { return closed_or_room(); });
    }

    // Returns values in the order of push(); nothing once the queue is closed and empty.
    std::optional<T> pop() {
        std::unique_lock lock(mutex_);
        wait_booked(has_value_, lock, pop_blocked_, clock_, [this] { return closed_or_value(); });
        return take(lock);
    }

    // The same, but also returns nothing at `until`.
    std::optional<T> pop_until(TimePoint until) {
        std::unique_lock lock(mutex_);
        wait_booked_until(has_value_, lock, until, pop_blocked_, clock_, [this] { return closed_or_value(); });
        return take(lock);
    }

    // The same without waiting: also returns nothing if the queue is empty.
    std::optional<T> try_pop() {
        std::unique_lock lock(mutex_);
        return take(lock);
    }

    // Stops push(); values in the queue can still be taken. Wakes all waiting threads. May be called again.
    void close() {
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
        }
        has_room_.notify_all();
        has_value_.notify_all();
    }

    // Closes the queue and drops its values.
    void abandon() {
        close();
        std::deque<T> dropped;  // destroyed outside the lock: a value's destructor may do anything
        const std::lock_guard lock(mutex_);
        dropped.swap(values_);
        weight_ = 0;
    }

    std::size_t capacity() const { return capacity_; }
    std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return values_.size();
    }
    // True if the queue is closed and empty: no value will follow.
    bool drained() const {
        const std::lock_guard lock(mutex_);
        return closed_ && values_.empty();
    }
    bool closed() const {
        const std::lock_guard lock(mutex_);
        return closed_;
    }
    double pop_blocked_seconds() const {
        const std::lock_guard lock(mutex_);
        return pop_blocked_.seconds(clock_.now());
    }
    // The number of threads that are blocked now.
    std::int64_t waiting_to_push() const {
        const std::lock_guard lock(mutex_);
        return push_blocked_.waiting();
    }
    std::int64_t waiting_to_pop() const {
        const std::lock_guard lock(mutex_);
        return pop_blocked_.waiting();
    }

  private:
    bool closed_or_room() const { return closed_ || (values_.size() < capacity_ && weight_ < weight_limit_); }
    std::size_t weight_of(const T& value) const { return weigh_ ? weigh_(value) : 0; }
    bool closed_or_value() const { return closed_ || !values_.empty(); }
    std::optional<T> take(std::unique_lock<std::mutex>& lock) {
        if (values_.empty()) return std::nullopt;
        std::optional<T> value(std::move(values_.front()));
        values_.pop_front();
        weight_ -= weight_of(*value);
        lock.unlock();
        has_room_.notify_one();
        return value;
    }

    const Clock& clock_;
    const std::size_t capacity_, weight_limit_;
    const Weigh weigh_;
    mutable std::mutex mutex_;
    std::condition_variable has_room_;
    Filled has_value_;
    std::deque<T> values_;
    std::size_t weight_ = 0;  // of values_
    bool closed_ = false;
    BlockedTime push_blocked_, pop_blocked_;
};

}  // namespace offramp
