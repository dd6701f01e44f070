#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "common/app/program/own_process.hpp"
#include "common/app/settings/exit_code.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/tracing/live_trace.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/run_directory_lock.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/runner/inference/compute_turn.hpp"
#include "producer/runner/report/run_report.hpp"
#include "producer/runner/run/egress_strategy.hpp"
#include "producer/runner/run/run_ending.hpp"
#include "producer/runner/run/run_parts.hpp"
#include "producer/runner/run/run_pipeline.hpp"
#include "producer/runner/run/work_record.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// One run of the producer: builds the parts in order of dependency, moves the input through them to its end, and
// destroys them in reverse. The first error of any part ends the run.
//
// Owns: every part. Borrows: signals. Thread: main's, which becomes the model's thread. Blocks: execute() for the whole
// run. Errors: the constructor and execute() throw the parts' errors; once the parts exist, a summary is always
// written.
class ProducerRun final : private StoppableRun, private RunListener {
  public:
    // `config` is resolved (defaults.hpp).
    // `strategy`: owned; must survive its producer if `config.recover` is set.
    // `began_ns`: CLOCK_MONOTONIC when the program started.
    ProducerRun(RunConfig config, std::unique_ptr<EgressStrategy> strategy, const EndSignals& signals,
                std::uint64_t began_ns);
    ~ProducerRun() override;

    ExitCode execute();

  private:
    void on_begin(RunProgress& progress) override;
    void check_input(const RunProgress& progress) override;
    void check_kept(const RunProgress& progress, const Predecessor& predecessor) override;
    void on_pool_failure(std::exception_ptr error) override;
    void on_broker_failure() override;
    void on_stream_failure() override;
    void on_delivery_end() override;
    RunFacts facts() const;
    void end_input() override;
    void stop_outputs() override;
    void dismiss_consumers() override;
    void attempt(const std::function<void()>& step);
    void fail(std::exception_ptr error);
    void leave_to_successor(std::exception_ptr error);
    std::optional<ExitCode> end_of(const RunStats& last);
    void beat();
    void look_at_trace();

    const RunConfig config_;
    const std::unique_ptr<EgressStrategy> strategy_;
    const std::uint64_t began_ns_;

    // Other threads may use the lifecycle at any time: it is created first and destroyed last.
    RunLifecycle lifecycle_;
    LauncherLoss launcher_{lifecycle_};
    EndWatch end_watch_;

    RunDirectoryLock place_;
    ComputeTurn turn_;  // fails before a model is loaded, if the file cannot be locked
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> compute_;
    std::unique_ptr<Stream> clock_stream_;  // for the timeline
    std::unique_ptr<DeviceTimeline> timeline_;
    OpenedModel model_;
    std::unique_ptr<BatchSource> source_;
    std::unique_ptr<WorkRecord> record_;
    std::unique_ptr<EgressRun> egress_;
    std::unique_ptr<RunOutputs> outputs_;
    std::unique_ptr<RunPipeline> pipeline_;
    std::unique_ptr<LiveTrace> trace_;
    std::unique_ptr<RunReport> report_;  // used by the beat; after the lifecycle's end, by the run's own thread
};

}  // namespace offramp
