#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/end_signals.hpp"
#include "common/settings/run_config.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/broker_thread.hpp"
#include "producer/broker/run_records.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/egress_path.hpp"
#include "producer/egress/run_directory.hpp"
#include "producer/pool/heartbeats_copy.hpp"
#include "producer/pool/slab_exchange.hpp"
#include "producer/pool/slab_pool.hpp"
#include "producer/recovery/predecessor.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/inference/inference.hpp"
#include "producer/runner/ingest/prefetcher.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/report/dropped_log.hpp"
#include "producer/runner/report/run_report.hpp"
#include "producer/runner/run/egress_plan.hpp"
#include "producer/runner/run/egress_strategy.hpp"
#include "producer/runner/run/end_watch.hpp"
#include "producer/runner/run/run_lifecycle.hpp"
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
    void open_source();
    void open_checkpoint();
    void lay_out_slabs();
    void make_memory();
    void recover_memory();
    void make_pool();
    void start_delivery();
    std::unique_ptr<Delivery> start_broker();
    std::shared_ptr<DeadLetterWriter> make_dead_letter_writer();
    std::shared_ptr<SpillStore> make_spill() const;
    void start_pipeline();
    std::unique_ptr<ScoreReview> make_review();
    std::shared_ptr<void> pin_span(std::span<std::byte> span);
    void prove_pinning(std::span<std::byte> span);
    void flow();
    void flow_measured();
    void finish_egress();
    void wait_until_delivered() const;
    MeasuredFigures figures_so_far() const;
    std::unique_ptr<DeviceBuffer> input_for_limits();
    void measure_limits_before();
    void measure_limits_after();
    void refuse_slabs() override;
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
    std::function<void(const PublishedSlab&)> completion_noter();

    const RunConfig config_;
    const std::unique_ptr<EgressStrategy> strategy_;
    const EgressTraits& traits_;  // its own
    const std::uint64_t began_ns_;

    // What other threads may touch at any time goes last, and comes first.
    RunLifecycle lifecycle_{*this};
    mutable std::mutex mutex_;         // guards the next four
    MeasuredFigures before_measured_;  // at_ns 0: nothing is measured yet
    PinningProof pinning_;
    bool pinning_proved_ = false;
    Limits limits_;
    std::shared_ptr<SlabExchange> exchange_;
    EndWatch end_watch_;

    RunDirectory directory_;
    Endpoint endpoint_;
    // Goes after the lock: whoever leaves a run last removes what carries its name.
    struct LastSweep {
        const RunNames& names;
        std::atomic<bool> armed;  // not while a run is taken over: who fails at that leaves it as it was
        ~LastSweep() {
            if (armed) sweep_run(names);
        }
    } last_sweep_{endpoint_.names, !config_.adopt};
    RunLock run_lock_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> compute_;
    std::unique_ptr<DeviceTimeline> timeline_;
    std::unique_ptr<Model> model_;
    std::unique_ptr<OutputTransformer> transformer_;
    std::shared_ptr<PictureList> pictures_;  // until the source has them
    std::unique_ptr<BatchSource> source_;
    std::unique_ptr<RunCheckpoint> checkpoint_;  // null: nothing of this run is kept
    EgressPlan plan_;
    SteadyClock clock_;
    PidfdWatch watch_;
    std::unique_ptr<RunRecords> records_;         // records and pool: of strategies that have them
    std::unique_ptr<HeartbeatsCopy> heartbeats_;  // for the broker
    std::unique_ptr<SlabPool> pool_;
    Predecessor predecessor_;
    std::uint64_t sourced_before_ = 0;     // items that earlier producers read for this run
    std::shared_ptr<SpillStore> spill_;    // null: the run does not spill
    std::unique_ptr<DroppedLog> dropped_;  // null: the run does not drop
    std::unique_ptr<Delivery> delivery_;
    std::unique_ptr<Prefetcher> input_;
    std::unique_ptr<ScoreReview> review_;  // of what the egress takes; null: none is needed
    std::unique_ptr<EgressPath> egress_;
    std::unique_ptr<Inference> inference_;
    std::unique_ptr<RunReport> report_;  // written by the beat, then, when the parts are retired, by the end
};

}  // namespace offramp
