#pragma once

#include <memory>

#include "common/settings/run_config.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/runner/inference/compute_turn.hpp"
#include "producer/runner/inference/inference.hpp"
#include "producer/runner/ingest/prefetcher.hpp"
#include "producer/runner/report/run_stats.hpp"
#include "producer/runner/run/run_measuring.hpp"
#include "producer/runner/run/run_parts.hpp"
#include "producer/runner/run/work_record.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/transforms/score_review.hpp"

namespace offramp {

// What a run's input flows through on its way to the egress: it is read ahead, the model runs, rows are reviewed; and
// what is measured on the way.
//
// Owns: prefetcher, inference, review, measurements. Borrows: its parts. Thread: flow() the model's; the rest any.
// Blocks: flow(), for the length of the input. Errors: what a part met, from flow().
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
        ComputeTurn& turn;
    };
    RunPipeline(const Parts& parts, Inference::Pace pace);
    RunPipeline(const RunPipeline&) = delete;
    RunPipeline& operator=(const RunPipeline&) = delete;

    // Until everything is published that was read. Where too many items were unreadable the run fails, but what could
    // be read and was computed is delivered.
    void flow();
    // No more input is read; what was read flows on.
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
    std::unique_ptr<ScoreReview> review_;  // of what the egress takes; null: none is needed
    Inference inference_;
    RunMeasuring measuring_;
};

}  // namespace offramp
