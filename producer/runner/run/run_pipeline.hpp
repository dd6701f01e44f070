#pragma once

#include <memory>
#include <mutex>

#include "common/app/settings/run_config.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/runner/inference/compute_turn.hpp"
#include "producer/runner/inference/inference.hpp"
#include "producer/runner/ingest/prefetcher.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/report/run_report.hpp"
#include "producer/runner/run/run_parts.hpp"
#include "producer/runner/run/work_record.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/transforms/output_transformer.hpp"
#include "producer/runner/transforms/score_review.hpp"

namespace offramp {

// The measurements of a run: its steady part, and the limits that delivery is compared with.
//
// Owns: the stats. Borrows: the parts of its run. Thread: the model's; stats from any. Blocks: while it measures.
// Errors: those of the parts.
class RunMeasuring {
  public:
    struct Parts {
        const RunConfig& config;
        const RunLifecycle& lifecycle;
        Device& device;
        Stream& compute;
        Model& model;
        OutputTransformer& transformer;
        Prefetcher& input;
        EgressRun& egress;
        RunOutputs& outputs;
        Inference& inference;
    };
    explicit RunMeasuring(const Parts& parts) : parts_(parts) {}
    RunMeasuring(const RunMeasuring&) = delete;
    RunMeasuring& operator=(const RunMeasuring&) = delete;

    // Call before the first batch, when all slabs are ready.
    void measure_limits_before();
    // Measures again, once the run has warmed up the device.
    void measure_limits_after();
    // Runs the input through. The clock starts when the warm-up has been delivered and the device is idle, and stops
    // with the last delivery.
    void flow();

    MeasuredStats so_far() const;
    // The start of the clock; at_ns is 0 before it starts.
    MeasuredStats from() const;
    Limits limits() const;

  private:
    void wait_until_delivered() const;
    std::unique_ptr<DeviceBuffer> resident_input() const;
    double compute_alone(const DeviceBuffer* input) const;

    const Parts parts_;
    mutable std::mutex mutex_;  // guards the next two
    MeasuredStats from_;
    Limits limits_;
};

// The stages between a run's input and the egress: read-ahead, model, review of rows; with their measurements.
//
// Owns: prefetcher, inference, review, measurements. Borrows: its parts. Thread: flow() the model's; the rest any.
// Blocks: flow(), for the length of the input. Errors: flow() throws the parts' errors.
class RunPipeline {
  public:
    struct Parts {
        const RunConfig& config;
        RunLifecycle& lifecycle;
        Device& device;
        Stream& compute;
        DeviceTimeline& timeline;
        const OpenedModel& model;
        BatchSource& source;
        WorkRecord& record;
        EgressRun& egress;
        RunOutputs& outputs;
        ComputeTurn& turn;
    };
    RunPipeline(const Parts& parts, Inference::Pace pace);
    RunPipeline(const RunPipeline&) = delete;
    RunPipeline& operator=(const RunPipeline&) = delete;

    // Returns when all items read are published. With too many unreadable items the run fails, but computed batches are
    // still delivered.
    void flow();
    // Stops reading input; batches already read continue.
    void end_input() { input_.finish_early(); }
    void stop() { input_.stop(); }
    RunStats stats() const;

  private:
    std::unique_ptr<ScoreReview> make_review();
    void run();
    void compute();
    void finish_egress();

    const Parts parts_;
    Prefetcher input_;
    std::unique_ptr<ScoreReview> review_;  // reviews outputs for the egress; null: not needed
    Inference inference_;
    RunMeasuring measuring_;
};

}  // namespace offramp
