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
#include "producer/egress/egress_path.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/egress/slab_completion.hpp"
#include "producer/egress/slab_filling.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// Takes finished tensors off the device without making it wait: the point of the project.
//
//   submit() ──queue──▶ copy thread: free slab, header, wait for `computed` on the stream, copies, event
//                                        └──queue──▶ completion thread: sleep until the event is done, publish
//
// It has a stream of its own, so that copies run beside the next batch's computation, and one event a slab. A batch of
// more samples than fit a slab is cut between samples; the first part is published while the rest is still being
// copied. Several small batches share a slab, when the layout has room for them; none waits longer than `max_delay` for
// others.
//
// Owns: its stream, events and two threads. Borrows: device, exchange, layout, timeline.
// Blocks: submit() while `queue_depth` batches wait for slabs (back-pressure). Errors: on_failure is called when a
// thread meets one. A batch that is let go without having been copied is held until `computed` is done: nobody may
// still write tensors that their owner frees.
class EgressStream final : public EgressPath {
  public:
    struct Options {
        SlabWriter::HeaderFields header_fields;  // slab and generation are filled in per slab
        std::uint32_t slab_count = 0;
        std::uint32_t batch = 1;      // most samples of a batch
        std::size_t queue_depth = 1;  // batches submitted and not yet being copied
        std::chrono::nanoseconds max_delay{};
        // Return: an output for which no slab is free is dropped, told here on the copy thread, and counted.
        SlabExchange::WhenNone when_none = SlabExchange::WhenNone::Wait;
        std::function<void(std::uint64_t batch, std::span<const RowInfo> rows)> on_dropped;
    };

    EgressStream(Device& device, std::shared_ptr<SlabExchange> exchange, const SlabLayout& layout,
                 DeviceTimeline& timeline, Options options, std::function<void()> on_failure);
    ~EgressStream() override;
    EgressStream(const EgressStream&) = delete;
    EgressStream& operator=(const EgressStream&) = delete;

    bool submit(OutputBatch batch) override;
    // For one who submits alone: false when submit() would still block at `until`.
    bool wait_for_room(TimePoint until) { return submitted_.wait_for_room(until); }
    void finish() override;
    // Takes no more, and does not wait: finish() still has to be called.
    void close() { submitted_.close(); }
    void stop() override;
    OutputStats stats() const override { return counters_.stats(); }

  private:
    void copy_batches();
    bool copy_batch(const std::shared_ptr<OutputBatch>& batch);
    bool copy_part(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows);
    void release(const OutputBatch& batch) noexcept;
    bool drop(const OutputBatch& batch, std::uint32_t first_row, std::uint32_t rows);
    bool send_off();

    Device& device_;
    std::shared_ptr<SlabExchange> exchange_;
    const SlabLayout& layout_;
    const Options options_;
    OutputCounters counters_;
    std::vector<CopyEvents> events_;  // by slab
    std::unique_ptr<Stream> stream_;
    BoundedQueue<OutputBatch, NappingCondition> submitted_;  // submit() is the loop's time
    SlabCompletion completion_;
    std::unique_ptr<SlabFilling> open_;  // the slab that still takes batches
    TimePoint open_until_{};
    OutputBatch::Counts dropped_;  // since the last slab
    std::atomic<bool> stopped_{false};
    std::thread copy_thread_;
};

}  // namespace offramp
