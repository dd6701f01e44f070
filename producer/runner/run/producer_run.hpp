#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "common/base/item_ranges.hpp"
#include "common/program/end_signals.hpp"
#include "common/settings/run_config.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/egress/run_place.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/inference/inference.hpp"
#include "producer/runner/ingest/prefetcher.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/report/dropped_log.hpp"
#include "producer/runner/report/run_report.hpp"
#include "producer/runner/run/egress_plan.hpp"
#include "producer/runner/run/egress_strategy.hpp"
#include "producer/runner/run/end_watch.hpp"
#include "producer/runner/run/launcher_loss.hpp"
#include "producer/runner/run/run_measuring.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/transforms/output_transformer.hpp"
#include "producer/runner/transforms/score_review.hpp"

namespace offramp {

// One run of the producer: builds the parts in the order in which they need one another, lets the input flow through
// them to its end, and tears them down backwards. The first error of any part ends the run.
//
// Owns: every part. Borrows: signals. Thread: main's, which becomes the model's thread. Blocks: execute() for the whole
// run. Errors: the constructor and execute() throw what a part threw; a summary is written in any case once the parts
// are there.
class ProducerRun final : private StoppableRun {
  public:
    // `config` is resolved (defaults.hpp).
    // `strategy`: taken over; one that survives its producer where `config.adopt` is set.
    // `began_ns`: CLOCK_MONOTONIC when the program started.
    ProducerRun(RunConfig config, std::unique_ptr<EgressStrategy> strategy, const EndSignals& signals,
                std::uint64_t began_ns);
    ~ProducerRun() override;

    ExitCode execute();

  private:
    void open_model();
    void tell_of_chosen_processor() const;
    void open_source(std::shared_ptr<PictureList> pictures);
    void open_checkpoint(const Predecessor& predecessor);
    EgressPlan lay_out_slabs() const;
    EgressRunOptions egress_options(const EgressPlan& plan) const;
    EgressRunHooks egress_hooks();
    void describe_run(RunProgress& progress) const;
    void go_on_with_checkpoint(const RunProgress& progress, const Predecessor& predecessor);
    void start_pipeline(Inference::Pace pace);
    std::unique_ptr<ScoreReview> make_review();
    RunFacts facts() const;
    void flow();
    void finish_egress();
    static void log_stop(StopMode mode, const std::string& why);
    void end_input() override;
    void stop_outputs() override;
    void send_consumers_away() override;
    void fail(std::exception_ptr error);
    void leave_to_successor(std::exception_ptr error);
    void attempt(const std::function<void()>& step);
    void flow_or_deliver_what_was_read();
    void beat();
    RunFigures figures() const;
    ExitCode outcome(const RunFigures& figures) const;
    std::optional<ExitCode> end_of(const RunFigures& figures);
    std::uint64_t done_before() const { return checkpoint_ ? checkpoint_->items_before() : 0; }
    ItemRanges done_earlier() const;

    const RunConfig config_;
    const std::unique_ptr<EgressStrategy> strategy_;
    const std::uint64_t began_ns_;

    // Other threads may use the lifecycle at any time: it is made first, and goes last.
    RunLifecycle lifecycle_{*this, log_stop};
    LauncherLoss launcher_{lifecycle_};
    EndWatch end_watch_;

    RunPlace place_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> compute_;
    std::unique_ptr<DeviceTimeline> timeline_;
    std::unique_ptr<Model> model_;
    std::unique_ptr<OutputTransformer> transformer_;
    std::unique_ptr<BatchSource> source_;
    std::unique_ptr<RunCheckpoint> checkpoint_;  // null: nothing of this run is kept
    std::uint64_t sourced_before_ = 0;           // items that earlier producers read for this run
    std::unique_ptr<DroppedLog> dropped_;        // null: the run does not drop
    std::unique_ptr<EgressRun> egress_;
    std::unique_ptr<Prefetcher> input_;
    std::unique_ptr<ScoreReview> review_;  // of what the egress takes; null: none is needed
    std::unique_ptr<Inference> inference_;
    std::unique_ptr<RunMeasuring> measuring_;
    std::unique_ptr<RunReport> report_;  // the beat's; behind the lifecycle's end, the run's own thread's
};

}  // namespace offramp
