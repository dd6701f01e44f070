#include "producer/runner/run/producer_run.hpp"

#include <utility>

#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"
#include "producer/runner/kernels/gpu_choice.hpp"
#include "producer/runner/run/recovery_checks.hpp"
#include "producer/runner/sources/opened_input.hpp"

namespace offramp {

ProducerRun::ProducerRun(RunConfig config, std::unique_ptr<EgressStrategy> strategy, const EndSignals& signals,
                         std::uint64_t began_ns)
    : config_(std::move(config)),
      strategy_(std::move(strategy)),
      began_ns_(began_ns),
      end_watch_(signals, config_.lifeline_fd, lifecycle_, launcher_,
                 {.work = [this] { beat(); },
                  .interval = std::chrono::milliseconds(static_cast<std::int64_t>(config_.status_seconds * 1e3))}),
      place_({.run_dir = config_.run_dir,
              .run_id = config_.run_id,
              .start = config_.adopt ? RunStart::Recovered : RunStart::Begun,
              .readable_by_group = !config_.consumer_user.empty(),
              .check_recovered = [this](const std::string& run_dir) { require_kept_settings(run_dir, config_); }}),
      device_(open_device_for_kernels(config_.device)) {
    device_->use_on_this_thread();
    const std::string device = device_->info().name;
    if (device_->is_gpu())
        spdlog::info("device: {}", device);
    else
        spdlog::warn("no GPU is used, model and copies run on the CPU ({}){}", device,
                     config_.device == "cpu" ? "" : ": " + find_gpus_for_kernels().obstacle);
    compute_ = device_->make_stream("compute");
    timeline_ = std::make_unique<DeviceTimeline>(*device_, *compute_);
    auto pictures = open_input(config_, [this] { lifecycle_.require_not_stopped(); });  // told before a model is loaded
    open_model();
    lifecycle_.require_not_stopped();
    open_source(std::move(pictures));
    if (!config_.adopt) open_checkpoint({});
    const EgressPlan plan = lay_out_slabs();
    if (config_.when_full == "drop-newest") dropped_ = std::make_unique<DroppedLog>(place_.folder());
    egress_ = std::make_unique<EgressRun>(place_, *device_, *timeline_, egress_options(plan), egress_hooks());
    egress_->open_to_consumers();
    lifecycle_.require_not_stopped();
    start_pipeline(plan.pace);
    lifecycle_.require_not_stopped();
    place_.begin_account();
    report_ = std::make_unique<RunReport>(place_.folder(), facts());
}

RunFacts ProducerRun::facts() const {
    const SlabLayout& layout = egress_->layout();
    const RunProgress* const progress = egress_->progress();
    return {.run_id = config_.run_id,
            .device = device_->info(),
            .model = model_->description(),
            .source = source_->description(),
            .precision = config_.precision,
            .memory_format = config_.memory_format,
            .transform = config_.transform,
            .batch = config_.batch,
            .egress = strategy_->traits().name,
            .random_weights = model_->random_weights(),
            .items = source_->items(),
            .done_before = done_before(),
            .slab_payload_bytes = layout.payload_bytes,
            .samples_per_slab = static_cast<std::uint64_t>(layout.rows),
            .batches_per_slab = layout.batches,
            .slabs = egress_->spans().slab_count,
            .began_ns = progress != nullptr ? progress->began_ns : began_ns_,
            .producers = progress != nullptr ? progress->producers : 1};
}

// Backwards through the parts: nothing may be copied into a slab, or read the broker's memory, when its owner goes.
ProducerRun::~ProducerRun() {
    lifecycle_.end();
    if (input_) input_->stop();
    egress_.reset();
}

ExitCode ProducerRun::execute() {
    place_.make_ours();
    lifecycle_.begin();
    attempt([this] { flow_or_deliver_what_was_read(); });
    if (lifecycle_.is_stopped(StopMode::Halt)) {
        lifecycle_.stop(StopMode::Abandon, "a part failed");  // if nobody said which
        // What is still being copied is published or given back before the totals are closed.
        attempt([this] { egress_->path().finish(); });
    }
    attempt([this] {
        egress_->delivery().join();
        lifecycle_.note_delivery_end();  // of a run without consumers, whose end nobody has told
    });
    attempt([this] {
        if (checkpoint_) checkpoint_->close();
    });
    failpoint("run.joined");
    lifecycle_.end();
    const RunFigures last = figures();
    if (last.measured_from.at_ns != 0)
        record_range("measure_end", 0, last.broker.last_release_ns, last.broker.last_release_ns);
    report_->write_status(last);
    egress_->remove_spilled();  // before the summary: nobody comes after it
    const auto exit = lifecycle_.error() ? std::nullopt : end_of(last);
    report_->write_summary(last, exit);
    failpoint("run.ended");
    if (!exit) std::rethrow_exception(lifecycle_.error());
    return *exit;
}

// Where too many items were unreadable the run fails, but what could be read and was computed is delivered.
void ProducerRun::flow_or_deliver_what_was_read() {
    try {
        flow();
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::BadInput || lifecycle_.is_stopped(StopMode::Abandon)) throw;
        lifecycle_.note(std::current_exception());
        egress_->path().finish();
    }
}

void ProducerRun::flow() {
    egress_->wait_until_first_usable();
    if (config_.adopt) {  // figures of a run that was interrupted mean nothing
        inference_->run(*input_, egress_->path());
        finish_egress();
        return;
    }
    if (config_.measure_limits > 0) measuring_->measure_limits_before();
    if (config_.drain_warmup || config_.profile_batches > 0)
        measuring_->flow();
    else
        inference_->run(*input_, egress_->path());
    finish_egress();
    if (config_.measure_limits > 0 && !lifecycle_.is_stopped(StopMode::Abandon)) measuring_->measure_limits_after();
}

// The last outputs, too, may have been such that too many items were skipped.
void ProducerRun::finish_egress() {
    egress_->path().finish();
    input_->require_good();
}

}  // namespace offramp
