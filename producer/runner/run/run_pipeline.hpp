#pragma once

#include <memory>

#include "common/app/settings/run_config.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/runner/inference/compute_turn.hpp"
#include "producer/runner/inference/inference.hpp"
#include "producer/runner/inference/run_outputs.hpp"
#include "producer/runner/ingest/prefetcher.hpp"
#include "producer/runner/report/run_stats.hpp"
#include "producer/runner/run/run_measuring.hpp"
#include "producer/runner/run/run_parts.hpp"
#include "producer/runner/run/work_record.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/transforms/score_review.hpp"

namespace offramp {

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
    // Stops reading input; batches already read go on.
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
