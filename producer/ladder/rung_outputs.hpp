#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/bounded_queue.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/broker_thread.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/egress/slab_filling.hpp"
#include "producer/ladder/slab_place.hpp"
#include "producer/runner/inference/inference.hpp"

namespace offramp {

// Outputs of a rung: the run's broker hands its slabs to consumers, or the producer processes them itself.
// Owns: the local delivery. Borrows: the broker.
class RungOutputs : public RunOutputs {
  public:
    // One of the two is null.
    struct Delivery {
        BrokerThread* broker = nullptr;
        std::unique_ptr<LocalDelivery> local;
    };
    explicit RungOutputs(Delivery delivery) : delivery_(std::move(delivery)) {}

    BrokerReport report() const override {
        return delivery_.local ? delivery_.local->report() : delivery_.broker->report();
    }
    void abort() override {
        if (delivery_.broker != nullptr) delivery_.broker->abort();
    }
    void join() override { delivery_.local ? delivery_.local->join() : delivery_.broker->join(); }

  protected:
    LocalDelivery& local_delivery() const { return *delivery_.local; }

  private:
    const Delivery delivery_;
};

// Copies on the compute stream and waits for each copy on the model's thread: nothing overlaps.
// Owns: the place, one pair of events. Borrows: device, compute stream, layout, timeline.
class BlockingEgress final : public RungOutputs {
  public:
    BlockingEgress(Delivery delivery, Device& device, Stream& compute, const SlabLayout& layout,
                   DeviceTimeline& timeline, SlabWriter::HeaderFields header_fields, std::unique_ptr<SlabPlace> place);

    bool submit(OutputBatch batch) override;
    void finish() override { place_->finish(); }
    void stop() override { place_->stop(); }
    OutputStats stats() const override { return counters_.stats(); }

  private:
    bool copy_part(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows);

    Stream& compute_;
    const SlabLayout& layout_;
    DeviceTimeline& timeline_;
    const SlabWriter::HeaderFields header_fields_;
    CopyEvents events_;
    std::unique_ptr<SlabPlace> place_;
    OutputCounters counters_;
};

// Copies asynchronously, but on the compute stream. The host runs ahead, and another thread publishes; the next batch's
// computation still waits for the copy. Owns: the completion's thread, events. Borrows: device, compute stream,
// exchange, layout, timeline.
class ComputeStreamEgress final : public RungOutputs {
  public:
    ComputeStreamEgress(BrokerThread& broker, Device& device, Stream& compute, std::shared_ptr<SlabExchange> exchange,
                        const SlabLayout& layout, DeviceTimeline& timeline, SlabWriter::HeaderFields header_fields,
                        std::uint32_t slab_count, std::function<void()> on_failure);
    ~ComputeStreamEgress() override;

    bool submit(OutputBatch batch) override;
    void finish() override { completion_.finish(); }
    void stop() override;
    OutputStats stats() const override { return counters_.stats(); }

  private:
    bool copy_part(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows);

    Stream& compute_;
    std::shared_ptr<SlabExchange> exchange_;
    const SlabLayout& layout_;
    const SlabWriter::HeaderFields header_fields_;
    OutputCounters counters_;
    std::vector<CopyEvents> events_;  // by slab
    SlabCompletion completion_;
};

// Drops each batch on the device once it is computed. This measures computation alone, with the same input and host
// work: the limit of every rung. Owns: a thread that waits for the batches. Borrows: device.
class DroppedOutputs final : public RungOutputs {
  public:
    DroppedOutputs(Delivery delivery, Device& device, std::size_t depth, std::function<void()> on_failure);
    ~DroppedOutputs() override;

    bool submit(OutputBatch batch) override;
    void finish() override;
    void stop() override { computing_.close(); }
    OutputStats stats() const override { return counters_.stats(); }

  private:
    void wait_computed();
    void count(const OutputBatch& batch);

    Device& device_;
    std::function<void()> on_failure_;
    OutputCounters counters_;
    BoundedQueue<OutputBatch> computing_;
    std::exception_ptr failure_;  // written by the thread, read when it is joined
    std::thread thread_;
};

}  // namespace offramp
