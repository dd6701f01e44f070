#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/slab/slab_layout.hpp"
#include "common/slab/slab_view.hpp"
#include "producer/cuda/device.hpp"
#include "producer/pipeline/bounded_queue.hpp"
#include "producer/pipeline/output_batch.hpp"
#include "producer/slab/slab_exchange.hpp"

namespace offramp {

// Takes finished tensors off the device without making it wait: the point of the project.
//
//   submit() ──queue──▶ copy thread: free slab, header, wait for `computed` on the stream, copies, event
//                                        └──queue──▶ completion thread: sleep until the event is done, publish
//
// It has a stream of its own, so that copies run beside the next batch's computation, and one event a slab. A batch of more
// samples than fit a slab is cut between samples; the first part is published while the rest is still being copied.
//
// Owns: its stream, events and two threads. Borrows: device, exchange, layout.
// Thread: submit() and finish() from one thread at a time; stop() and the figures from any.
// Blocks: submit() while `queue_depth` batches wait for slabs (back-pressure); finish() until everything is published.
// Errors: what a thread met is thrown by the next submit() or by finish(); on_failure is called when it happens.
class EgressStream {
 public:
    struct Options {
        SlabWriter::Stamp stamp;               // slab and generation are filled in per slab
        std::uint32_t slab_count = 0;
        std::uint32_t batch = 1;               // most samples of a batch
        std::size_t queue_depth = 1;           // batches submitted and not yet being copied
    };

    EgressStream(Device& device, std::shared_ptr<SlabExchange> exchange, const SlabLayout& layout, Options options,
                 std::function<void()> on_failure);
    ~EgressStream();
    EgressStream(const EgressStream&) = delete;
    EgressStream& operator=(const EgressStream&) = delete;

    // False after stop(): the batch was not taken.
    bool submit(OutputBatch batch);
    void finish();
    // Abandons what is not being copied yet; copies under way are waited for, since their slabs are not ours to give back before.
    void stop();

    // What was submitted, and of it what will never be published: only after stop().
    struct Dropped {
        std::uint64_t batches = 0, samples = 0;
    };
    Dropped dropped() const;
    std::uint64_t batches_published() const { return batches_published_; }
    double copy_seconds() const;               // device time of the copies, from event pairs
    std::uint64_t bytes_copied() const { return bytes_copied_; }

 private:
    // One slab whose copy has been submitted.
    struct InFlight {
        FillLease lease;
        Event* copied;
        Event* began;
        PublishedSlab published;
        std::shared_ptr<OutputBatch> batch;    // keeps the tensors alive
    };
    struct SlabEvents {
        std::unique_ptr<Event> began, copied;
    };

    void copy_batches();
    bool copy_batch(const std::shared_ptr<OutputBatch>& batch);
    InFlight copy_part(FillLease lease, const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row,
                       std::uint32_t rows);
    void publish_completed();
    void fail();

    Device& device_;
    std::shared_ptr<SlabExchange> exchange_;
    const SlabLayout& layout_;
    Options options_;
    std::function<void()> on_failure_;
    std::vector<SlabEvents> events_;           // by slab
    BoundedQueue<OutputBatch> submitted_;
    BoundedQueue<InFlight> in_flight_;
    std::unique_ptr<Stream> stream_;           // goes before what its copies write into and read from: it finishes them
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    std::atomic<bool> stopped_{false};
    std::atomic<std::uint64_t> batches_submitted_{0}, samples_submitted_{0};
    std::atomic<std::uint64_t> batches_published_{0}, samples_published_{0};
    std::atomic<std::uint64_t> bytes_copied_{0};
    std::atomic<std::uint64_t> copy_ns_{0};
    std::thread copy_thread_;
    std::thread completion_thread_;
};

}  // namespace offramp
