#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.hpp"
#include "producer/device/cpu_stream.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Time that only a test advances, from any thread.
class StepClock final : public Clock {
  public:
    TimePoint now() const override { return TimePoint(std::chrono::nanoseconds(now_ns_)); }
    void advance(std::chrono::nanoseconds by) { now_ns_ += by.count(); }

  private:
    std::atomic<std::int64_t> now_ns_{1'000'000};
};

// Yields until another thread has reached the required point; the test's time limit ends a wait in vain.
template <typename Reached>
void yield_until(Reached reached) {
    while (!reached()) std::this_thread::yield();
}

template <typename Batch>
std::size_t empty_rows(const Batch& batch) {
    return static_cast<std::size_t>(std::ranges::count_if(batch.rows(), [](const auto& row) { return row.empty; }));
}

// Blocks threads until it is opened.
class Gate {
  public:
    void open() {
        {
            const std::lock_guard lock(mutex_);
            open_ = true;
        }
        changed_.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return open_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
};

// Blocks a stream of the CPU device until it is opened.
class StreamGate {
  public:
    void hold(Stream& stream) { stream.wait_for(event_); }
    void open() { event_.progress()->reach(recording_); }

  private:
    CpuEvent event_{Device::Timing::Off};
    std::uint64_t recording_ = event_.progress()->begin_recording();
};

// A source that the test controls. By default, a row is filled with the item's number as float32.
class FakeSource final : public BatchSource {
  public:
    FakeSource(std::uint64_t items, RowKind row_kind) : items_(items), row_kind_(row_kind) {
        for (std::uint64_t i = 0; i < items; ++i) keys_.push_back("key-" + std::to_string(i));
    }
    std::string description() const override { return "fake"; }
    std::uint64_t items() const override { return items_; }
    RowKind row_kind() const override { return row_kind_; }
    std::span<const std::int64_t> shape(std::uint64_t item) const override {
        return shapes.empty() ? std::span<const std::int64_t>() : shapes[item];
    }
    std::string_view key(std::uint64_t item) const override { return keys_[item]; }
    std::string_view key_of_whole(std::uint64_t item) const override { return whole.empty() ? keys_[item] : whole; }
    std::size_t max_key_bytes() const override { return 24; }
    std::string origin(std::uint64_t item) const override { return "/fake/" + std::to_string(item); }
    void load(std::uint64_t item, std::span<std::byte> row) override {
        ++loads;
        if (unreadable && unreadable(item)) throw UnreadableItem("torn");
        if (on_load)
            on_load(item, row);
        else
            fill(item, row);
    }
    static void fill(std::uint64_t item, std::span<std::byte> row) {
        const auto value = static_cast<float>(item + 1);
        for (std::size_t at = 0; at < row.size(); at += sizeof value)
            std::memcpy(row.data() + at, &value, sizeof value);
    }

    std::function<void(std::uint64_t, std::span<std::byte>)> on_load;
    std::function<bool(std::uint64_t)> unreadable;  // whether an item cannot be read
    std::atomic<std::uint64_t> loads{0};
    std::vector<std::vector<std::int64_t>> shapes;  // of each item, for a model whose input varies
    std::string whole;                              // the whole of all items; empty: items are independent

  private:
    std::uint64_t items_;
    RowKind row_kind_;
    std::vector<std::string> keys_;
};

}  // namespace offramp
