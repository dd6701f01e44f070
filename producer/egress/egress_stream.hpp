#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.hpp"
#include "common/base/clock.hpp"
#include "common/base/napping_condition.hpp"
#include "common/wire/slab_layout.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/egress/slab_filling.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// Copies finished tensors off the device while the model's thread goes on.
//
//   submit() ──queue──▶ copy thread: free slab, header, wait for `computed` on the stream, copies, event
//                                        └──queue──▶ completion thread: sleep until the event is done, publish
//
// Its own stream lets copies run beside the next batch's computation; each slab has one event. A batch with more
// samples than a slab is cut between samples: the first part is published while the rest is still being copied. Several
// small batches share a slab if the layout has room; none waits longer than `max_delay`. Samples that differ in shape
// fill each slab up.
//
// Owns: its stream, events and two threads. Borrows: device, exchange, layout, timeline.
// Blocks: submit() while `queue_depth` batches, or 16 MiB of them, wait for slabs (back-pressure). Thread: submit() and
// finish() from the model's; stop() and stats() from any. Errors: the next submit() or finish() throws a failure.
// on_failure is called when a thread fails. A batch that is dropped before its copy is held until `computed` is done:
// its tensors must not be freed while the device still writes them.
class EgressStream {
  public:
    struct Options {
        SlabWriter::HeaderFields header_fields;  // slab and generation are filled in per slab
        std::uint32_t slab_count = 0;
        std::uint32_t batch = 1;      // usual samples of a batch
        std::size_t queue_depth = 1;  // most batches submitted and not yet being copied
        // a small batch waits this long for others to share its slab
        std::chrono::nanoseconds max_delay = std::chrono::milliseconds(2);
        // Return: an output without a free slab is dropped, reported here on the copy thread, and counted. DropOldest:
        // the broker drops a waiting one.
        SlabExchange::WhenNone when_none = SlabExchange::WhenNone::Wait;
        std::function<void(std::uint64_t batch, std::span<const RowInfo> rows)> on_dropped;
    };

    EgressStream(Device& device, std::shared_ptr<SlabExchange> exchange, const SlabLayout& layout,
                 DeviceTimeline& timeline, Options options, std::function<void()> on_failure);
    ~EgressStream();
    EgressStream(const EgressStream&) = delete;
    EgressStream& operator=(const EgressStream&) = delete;

    // False after stop(): the batch was not taken.
    bool submit(OutputBatch batch);
    // For a single submitting thread. False if submit() would still block at `until`.
    bool wait_for_room(TimePoint until) { return submitted_.wait_for_room(until); }
    // Waits until everything is published.
    void finish();
    // Takes no more batches and does not wait. finish() is still required.
    void close() { submitted_.close(); }
    // Abandons batches whose copies have not begun. Waits for copies under way: their slabs cannot be freed earlier.
    void stop();
    const Options& options() const { return options_; }
    OutputStats stats() const { return counters_.stats(); }

  private:
    void copy_batches();
    bool copy_batch(const std::shared_ptr<OutputBatch>& batch);
    std::uint32_t copy_part(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows);
    bool drop(const OutputBatch& batch, std::uint32_t first_row, std::uint32_t rows);
    bool send_off();

    Device& device_;
    std::shared_ptr<SlabExchange> exchange_;
    const SlabLayout& layout_;
    const Options options_;
    OutputCounters counters_;
    std::vector<CopyEvents> events_;  // by slab
    std::unique_ptr<Stream> stream_;
    BoundedQueue<OutputBatch, NappingCondition> submitted_;  // its wait is part of the loop's time
    SlabCompletion completion_;
    std::unique_ptr<SlabFilling> open_;  // the slab that still has room
    TimePoint open_until_{};
    OutputBatch::Counts dropped_;  // since the last slab
    std::atomic<bool> stopped_{false};
    std::thread copy_thread_;
};

}  // namespace offramp
