#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "common/base/bounded_queue.hpp"
#include "producer/egress/slab_filling.hpp"

namespace offramp {

// Publishes slabs in the order in which their copies were submitted, each once its event is done. Its thread
// ("egress-done") waits for events on behalf of all others. Owns: its thread, and the fillings handed over. Borrows:
// device, exchange, counters, timeline. Thread: hand_over() and finish() from one; fail() from any. Blocks: hand_over()
// while `capacity` copies are in flight; finish() until all are published. Errors: the thread's failure is thrown by
// finish(); on_failure is called when it happens.
class SlabCompletion {
  public:
    SlabCompletion(Device& device, std::shared_ptr<SlabExchange> exchange, OutputCounters& counters,
                   DeviceTimeline& timeline, std::size_t capacity, std::function<void()> on_failure);
    ~SlabCompletion();
    SlabCompletion(const SlabCompletion&) = delete;
    SlabCompletion& operator=(const SlabCompletion&) = delete;

    // Takes a closed filling. False after a failure: it was not taken.
    bool hand_over(std::unique_ptr<SlabFilling> filling) { return in_flight_.push(std::move(filling)); }
    // Nothing more will come; publishes what is in flight.
    void close() { in_flight_.close(); }
    void finish();
    // Reports a failure elsewhere in the path: it becomes the egress path's, if it is the first.
    void fail(std::exception_ptr failure);
    void rethrow_failure();

  private:
    void publish_completed();

    Device& device_;
    std::shared_ptr<SlabExchange> exchange_;
    OutputCounters& counters_;
    DeviceTimeline& timeline_;
    std::function<void()> on_failure_;
    BoundedQueue<std::unique_ptr<SlabFilling>> in_flight_;
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    std::thread thread_;
};

}  // namespace offramp
